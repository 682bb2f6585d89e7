"""What follows a commit, and what is due beside it: callbacks, deadlines, SLAs, triggers, news, old history."""
