"""Connections to a database, its schema and backups, and a PostgreSQL of our own."""
