"""The tables of the web server: users, grants, sessions, failed logins, tokens of programs, the key that signs."""

from __future__ import annotations

from typing import Final

from sqlalchemy import (
    ARRAY,
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    ForeignKey,
    Identity,
    Index,
    Integer,
    LargeBinary,
    SmallInteger,
    Table,
    Text,
    UniqueConstraint,
    func,
    text,
)

from aiosched.db.schema.columns import created_at, identity, instant, metadata, one_of

ROLES: Final = ("viewer", "operator", "editor", "admin")

# Users who can log in to the web server.
web_user = Table(
    "web_user",
    metadata,
    Column("name", Text, primary_key=True),
    Column("role", Text, nullable=False),  # everywhere; none: only what is granted, see user_grant
    Column("password", Text),  # scrypt, see aiosched.web.auth.passwords; NULL: logs in through OIDC
    Column("is_disabled", Boolean, nullable=False, server_default=text("false")),
    Column("sessions_void", Integer, nullable=False, server_default=text("0")),  # incremented to end all sessions
    # No namesake of a deleted user gets its id.
    Column("id", BigInteger, Identity(always=True), nullable=False, unique=True),
    instant("last_login_at", nullable=False, server_default=func.now()),
    Column("groups", ARRAY(Text), nullable=False, server_default=text("'{}'")),  # at the identity provider
    created_at(),
    CheckConstraint(one_of("role", ("none", *ROLES)), name="role"),
)

# A role of a user for some DAGs: those with a tag, of a folder or of a team, or whose ids match a glob (core/access).
user_grant = Table(
    "user_grant",
    metadata,
    identity(),
    Column("user_id", BigInteger, ForeignKey("web_user.id", ondelete="CASCADE"), nullable=False),
    Column("role", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("from_provider", Boolean, nullable=False),  # replaced at each login
    created_at(),
    UniqueConstraint("user_id", "kind", "name", "from_provider"),
)

# A session of a user in a browser. Only the hash of its cookie is stored. `void`: see web_user.sessions_void.
web_session = Table(
    "web_session",
    metadata,
    identity(),
    Column("user_id", BigInteger, ForeignKey("web_user.id", ondelete="CASCADE"), nullable=False),
    Column("token_hash", Text, nullable=False, unique=True),
    Column("void", Integer, nullable=False),
    Column("address", Text, nullable=False),
    Column("agent", Text, nullable=False),
    instant("last_used_at", nullable=False, server_default=func.now()),
    instant("expires_at", nullable=False),
    created_at(),
    Index(None, "user_id"),
    Index(None, "expires_at"),
)

# How often logins have failed, by hashes of who tried from where; no attempt before `until`.
login_failure = Table(
    "login_failure",
    metadata,
    Column("key", Text, primary_key=True),
    Column("failures", Integer, nullable=False),
    instant("last_at", nullable=False),
    instant("until", nullable=False),
    Index(None, "last_at"),
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
    Column("grants", ARRAY(Text)),  # of what its owner may do, only this; NULL: all of it
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
