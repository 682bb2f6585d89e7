"""Sessions of users of the web server: a row for each, found by the hash of its cookie. Makes no decisions.

A session ends when its row is removed, at its end, after it was not used for too long, when its user is disabled, and
when all sessions of its user were ended since it began (`web_user.sessions_void`).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final, NamedTuple

from aiosched.core.audit.actor import Actor
from aiosched.core.audit.kinds import AuditKind
from aiosched.db.access.grants import HELD_RIGHTS, HeldRights, held_rights
from aiosched.db.audit.entries import record
from aiosched.db.people.accounts import end_tokens
from aiosched.db.server.engine import Database
from aiosched.errors import NotFound


@dataclass(frozen=True, slots=True)
class SessionOwner:
    """Whose session it is, with what the user may do now."""

    id: int
    name: str
    held: HeldRights


@dataclass(frozen=True, slots=True)
class StoredSession:
    """A session, without its secret. `agent` is what the browser calls itself."""

    id: int
    user: str
    created_at: datetime
    last_used_at: datetime
    expires_at: datetime
    address: str
    agent: str


class Caller(NamedTuple):
    """The session or the token of who asks."""

    session: int | None = None
    token: int | None = None


class EndedLogins(NamedTuple):
    """How many were ended; `tokens`: those of logins by password (POST /auth/token)."""

    sessions: int
    tokens: int


# What is over is removed here, so that nothing else has to. Guard: a user who was disabled or deleted meanwhile, and an
# account that only has tokens.
START_SESSION: Final = """
    WITH over AS (DELETE FROM web_session WHERE expires_at <= now()),
         come AS (UPDATE web_user SET last_login_at = now() WHERE name = $1 AND NOT is_disabled AND kind <> 'service'
                  RETURNING id, sessions_void)
    INSERT INTO web_session (user_id, token_hash, void, expires_at, address, agent)
    SELECT id, $2, sessions_void, now() + make_interval(secs => $3), $4, $5 FROM come
    RETURNING id
"""
# last_used_at has a resolution of one minute, so that a page does not cause a write with every request.
FIND_SESSION: Final = f"""
    SELECT s.id, u.name, {HELD_RIGHTS}, s.last_used_at < now() - interval '1 minute' AS touch
      FROM web_session AS s JOIN web_user AS u ON u.id = s.user_id
     WHERE s.token_hash = $1 AND NOT u.is_disabled AND u.sessions_void = s.void AND s.expires_at > now()
       AND s.last_used_at > now() - make_interval(secs => $2) AND (u.kind <> 'local' OR $3)
"""
TOUCH_SESSION: Final = "UPDATE web_session SET last_used_at = now() WHERE id = $1"
LIST_SESSIONS: Final = """
    SELECT s.id, u.name AS user, s.created_at, s.last_used_at, s.expires_at, s.address, s.agent
      FROM web_session AS s JOIN web_user AS u ON u.id = s.user_id
     WHERE u.name = $1 AND s.id > $2 AND NOT u.is_disabled AND u.sessions_void = s.void AND s.expires_at > now()
       AND s.last_used_at > now() - make_interval(secs => $3)
     ORDER BY s.id LIMIT $4
"""
END_SESSION: Final = """
    DELETE FROM web_session AS s USING web_user AS u
     WHERE s.id = $1 AND u.id = s.user_id AND ($2::text IS NULL OR u.name = $2) RETURNING u.name
"""
END_SESSIONS: Final = """
    DELETE FROM web_session AS s USING web_user AS u
     WHERE u.name = $1 AND u.id = s.user_id AND s.id IS DISTINCT FROM $2 RETURNING 1
"""


async def start_session(
    db: Database, name: str, token_hash: str, *, seconds: float, address: str, agent: str
) -> int | None:
    """Store a session that lasts so long; its id, or None if the user is disabled or gone."""
    async with db.transaction() as conn:
        found: int | None = await conn.fetchval(START_SESSION, name, token_hash, seconds, address, agent)
        if found is not None:
            await record(conn, AuditKind.LOGIN, name, by=Actor(f"api:{name}", address, session=found), agent=agent)
    return found


async def find_session(
    db: Database, token_hash: str, *, idle_seconds: float, local: bool = False
) -> SessionOwner | None:
    """The owner of a session that is not over; None without one. `local`: whether the user `local` counts."""
    async with db.acquire() as conn:
        row = await conn.fetchrow(FIND_SESSION, token_hash, idle_seconds, local)
        if row is None:
            return None
        if row["touch"]:
            await conn.execute(TOUCH_SESSION, row["id"])
    return SessionOwner(row["id"], row["name"], held_rights(row))


async def list_sessions(
    db: Database, user: str, *, idle_seconds: float, after: int = 0, limit: int = 1000
) -> list[StoredSession]:
    """The sessions of a user that are not over, oldest first."""
    rows = await db.fetch(LIST_SESSIONS, user, after, idle_seconds, limit)
    return [StoredSession(**dict(row)) for row in rows]


async def end_session(
    db: Database, session: int, user: str | None, *, kind: AuditKind = AuditKind.SESSION_ENDED
) -> None:
    """End a session of `user` (None: of anybody). Raises NotFound."""
    async with db.transaction() as conn:
        owner = await conn.fetchval(END_SESSION, session, user)
        if owner is None:
            raise NotFound(f"There is no session {session}.")
        await record(conn, kind, owner, session=session)


async def end_sessions(db: Database, user: str, *, but: Caller | None = None) -> EndedLogins:
    """End all sessions of a user, and the tokens that stand for a login by password, but those of the caller.

    Tokens for programs stay.
    """
    session, token = but or Caller()
    async with db.transaction() as conn:
        ended = len(await conn.fetch(END_SESSIONS, user, session))
        tokens = await end_tokens(conn, user, only_logins=True, but=token)
        await record(conn, AuditKind.SESSION_ENDED, user, ended=ended, tokens_ended=tokens)
    return EndedLogins(ended, tokens)
