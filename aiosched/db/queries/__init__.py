"""What people and running tasks read. Read only."""
