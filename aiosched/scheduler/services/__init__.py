"""Services that running tasks call on their scheduler."""
