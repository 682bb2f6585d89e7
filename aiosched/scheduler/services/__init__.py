"""What running tasks ask of their scheduler."""
