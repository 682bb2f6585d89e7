"""`aiosched serve`: the process, what it shows, how it ends."""
