"""Keys, and texts that are stored encrypted."""
