"""Keys, and encrypted texts."""
