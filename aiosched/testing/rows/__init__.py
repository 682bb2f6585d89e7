"""The rows of a `World`, in place of database tables."""
