"""Database connections, schema, and the embedded PostgreSQL."""
