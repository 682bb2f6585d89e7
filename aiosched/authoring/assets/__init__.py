"""Assets and their events."""
