"""Read-only queries for people and running tasks."""
