"""Worker processes: where they come from, what they run, and what they say to their scheduler."""
