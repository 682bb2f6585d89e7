"""The user `local`, who uses a server at a loopback address, and its one-time tokens. Makes no decisions.

A token logs in once, within a day. Who can read the database, or the terminal of `aiosched serve`, can have one.
"""

from __future__ import annotations

import hashlib
from typing import Final

from aiosched.core.audit.kinds import AuditKind
from aiosched.db.audit.entries import record
from aiosched.db.people.accounts import KIND
from aiosched.db.server.engine import Database
from aiosched.errors import Refused

LOCAL: Final = "local"
LINK_SECONDS: Final = 24 * 3600.0
SESSION_SECONDS: Final = 30 * 24 * 3600.0

MADE_AT: Final = "SELECT created_at FROM web_user WHERE name = $1"
MAKE_LOCAL: Final = """
    INSERT INTO web_user (name, role, kind) VALUES ($1, 'admin', 'local') ON CONFLICT (name) DO NOTHING RETURNING role
"""
# What is over is removed here, so that nothing else has to.
MAKE_LINK: Final = """
    WITH over AS (DELETE FROM login_link WHERE expires_at <= now())
    INSERT INTO login_link (token_hash, expires_at) VALUES ($1, now() + make_interval(secs => $2))
"""
USE_LINK: Final = "DELETE FROM login_link WHERE token_hash = $1 RETURNING expires_at > now()"


async def make_local_user(db: Database) -> None:
    """Create the user `local` if there is none. Raises Refused if somebody else has the name."""
    async with db.transaction() as conn:
        if role := await conn.fetchval(MAKE_LOCAL, LOCAL):
            await record(conn, AuditKind.USER_CREATED, LOCAL, role=role, account=LOCAL)
        kind = await conn.fetchval(KIND, LOCAL)
    if kind != LOCAL:
        raise Refused(
            f"Without web.auth this server calls its user {LOCAL!r}, and there is a {kind} of that name. Delete it "
            f"(aiosched users delete {LOCAL}), or set web.auth to 'password', or web.loopback_login to 'none'."
        )


async def mark_of(db: Database) -> str:
    """Tells this database from others of the machine, whose cookies a browser sends, too."""
    await make_local_user(db)
    made_at = await db.fetchval(MADE_AT, LOCAL)
    return hashlib.sha256(str(made_at).encode()).hexdigest()[:8]


async def make_link(db: Database, token_hash: str) -> None:
    """Store the hash of a one-time token."""
    async with db.transaction() as conn:
        await conn.execute(MAKE_LINK, token_hash, LINK_SECONDS)
        await record(conn, AuditKind.LINK_CREATED, LOCAL)


async def use_link(db: Database, token_hash: str) -> bool:
    """Whether the one-time token logs in; it never does again."""
    return bool(await db.fetchval(USE_LINK, token_hash))
