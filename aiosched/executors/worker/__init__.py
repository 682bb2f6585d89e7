"""Worker processes: how they are forked, what they run, and their messages to the scheduler."""
