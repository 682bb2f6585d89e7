"""The tables of the web server: users, grants, sessions, failed logins, tokens, the keys that sign."""

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
# A person logs in; a service account only has tokens; `local` is whoever may use a server at a loopback address.
KINDS: Final = ("person", "service", "local")

# Users of the web server.
web_user = Table(
    "web_user",
    metadata,
    Column("name", Text, primary_key=True),
    Column("role", Text, nullable=False),  # everywhere; none: only what is granted, see user_grant
    Column("password", Text),  # scrypt, see aiosched.web.auth.passwords; NULL: has none
    Column("is_disabled", Boolean, nullable=False, server_default=text("false")),
    Column("sessions_void", Integer, nullable=False, server_default=text("0")),  # incremented to end all sessions
    # No namesake of a deleted user gets its id.
    Column("id", BigInteger, Identity(always=True), nullable=False, unique=True),
    instant("last_login_at", nullable=False, server_default=func.now()),
    Column("kind", Text, nullable=False, server_default="person"),
    # Who it is at an identity provider. An issuer without a subject: only the name was known when that was stored.
    Column("issuer", Text),
    Column("subject", Text),
    Column("groups", ARRAY(Text), nullable=False, server_default=text("'{}'")),  # at the identity provider
    created_at(),
    CheckConstraint(one_of("role", ("none", *ROLES)), name="role"),
    CheckConstraint(one_of("kind", KINDS), name="kind"),
    UniqueConstraint("issuer", "subject"),
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
    Column("read_only", Boolean, nullable=False, server_default=text("false")),  # only requests that change nothing
    Column("grants", ARRAY(Text)),  # of what its owner may do, only this; NULL: all of it
    instant("expires_at"),
    instant("last_used_at"),
    created_at(),
    CheckConstraint(one_of("role", ROLES), name="role"),
    Index(None, "owner"),
)

# One-time tokens that log in at a loopback address. Only their hashes are stored.
login_link = Table(
    "login_link",
    metadata,
    Column("token_hash", Text, primary_key=True),
    instant("expires_at", nullable=False),
    created_at(),
)

# The keys that sign, shared by all web servers and schedulers: the newest one that signs already does.
web_key = Table(
    "web_key",
    metadata,
    Column("id", SmallInteger, primary_key=True, autoincrement=False),
    Column("key", LargeBinary, nullable=False),
    instant("signs_from", nullable=False, server_default=func.now()),
)
