"""Assets as authors write them, and their events."""
