"""What one scheduler holds in memory of the rows that it owns, and what of it is decided but not stored yet."""
