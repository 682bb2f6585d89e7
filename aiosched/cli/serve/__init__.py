"""`aiosched serve`: the process, its output, and how it stops."""
