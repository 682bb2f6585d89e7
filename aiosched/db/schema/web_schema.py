"""The tables of the web server: users, tokens of programs, the session key."""

from __future__ import annotations

from typing import Final

from sqlalchemy import (
    Boolean,
    CheckConstraint,
    Column,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    SmallInteger,
    Table,
    Text,
    text,
)

from aiosched.db.schema.columns import created_at, identity, instant, metadata, one_of

ROLES: Final = ("viewer", "operator", "admin")

# Users who can log in to the web server.
web_user = Table(
    "web_user",
    metadata,
    Column("name", Text, primary_key=True),
    Column("role", Text, nullable=False),
    Column("password", Text),  # scrypt, see aiosched.web.auth.passwords; NULL: logs in through OIDC
    Column("is_disabled", Boolean, nullable=False, server_default=text("false")),
    Column("sessions_void", Integer, nullable=False, server_default=text("0")),  # incremented to end all sessions
    created_at(),
    CheckConstraint(one_of("role", ROLES), name="role"),
)

# Tokens of programs. Only their hashes are stored.
api_token = Table(
    "api_token",
    metadata,
    identity(),
    Column("owner", Text, ForeignKey("web_user.name", ondelete="CASCADE"), nullable=False),
    Column("label", Text, nullable=False),
    Column("token_hash", Text, nullable=False, unique=True),
    Column("role", Text, nullable=False),  # at most its owner's role
    instant("expires_at"),
    instant("last_used_at"),
    created_at(),
    CheckConstraint(one_of("role", ROLES), name="role"),
    Index(None, "owner"),
)

# The key that signs sessions, shared by all web servers: one row.
web_key = Table(
    "web_key",
    metadata,
    Column("id", SmallInteger, primary_key=True, autoincrement=False),
    Column("key", LargeBinary, nullable=False),
    CheckConstraint("id = 1", name="id"),
)
