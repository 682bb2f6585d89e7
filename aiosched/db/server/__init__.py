"""Database connections, schema, backups, and the embedded PostgreSQL."""
