"""What follows a commit, and other due work: callbacks, deadlines, SLAs, triggers, notifications, retention."""
