"""The tables, as SQLAlchemy metadata."""
