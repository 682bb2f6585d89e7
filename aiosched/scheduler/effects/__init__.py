"""What follows a commit, and parts of the loops for timed work: deadlines, SLAs, triggers, messages of alerts."""
