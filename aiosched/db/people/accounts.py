"""Users of the web server, their tokens, and the key that signs their sessions. Makes no decisions."""

from __future__ import annotations

import secrets
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import asyncpg

from aiosched.core.access.grants import RoleGrant
from aiosched.db.people.grants import HELD_RIGHTS, HeldRights, held_rights, replace_provider_grants
from aiosched.db.server.engine import Database
from aiosched.errors import NotFound, Refused, did_you_mean

NAME_PATTERN: Final = r"^[A-Za-z0-9][A-Za-z0-9_.@+-]{0,99}$"


@dataclass(frozen=True, slots=True)
class StoredUser:
    """A user. `role` holds everywhere (`none`: only `grants` do). Without `has_password`: by OIDC."""

    name: str
    role: str
    is_disabled: bool
    has_password: bool
    created_at: datetime
    grants: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Login:
    """The data that a login is checked against."""

    name: str
    held: HeldRights
    password: str | None
    is_disabled: bool


@dataclass(frozen=True, slots=True)
class StoredToken:
    """A program's token, without the token itself: at most `role`, and only what one of `grants` covers (None: all)."""

    id: int
    owner: str
    label: str
    role: str
    created_at: datetime
    expires_at: datetime | None
    last_used_at: datetime | None
    grants: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class TokenOwner:
    """The owner of a token and what that user may do, and the token's own role and limits (None: none)."""

    id: int
    owner: str
    held: HeldRights
    role: str
    limits: tuple[str, ...] | None


_USER: Final = f"u.name, {HELD_RIGHTS}, u.is_disabled, u.password IS NOT NULL AS has_password, u.created_at"
LIST_USERS: Final = f"SELECT {_USER} FROM web_user AS u WHERE name > $1 ORDER BY name LIMIT $2"
GET_USER: Final = f"SELECT {_USER} FROM web_user AS u WHERE u.name = $1"
CREATE_USER: Final = f"INSERT INTO web_user AS u (name, role, password) VALUES ($1, $2, $3) RETURNING {_USER}"
CHANGE_USER: Final = f"""
    UPDATE web_user AS u
       SET role = coalesce($2, role), is_disabled = coalesce($3, is_disabled), password = coalesce($4, password),
           sessions_void = sessions_void + 1
     WHERE name = $1 RETURNING {_USER}
"""
READ_LOGIN: Final = f"SELECT u.name, {HELD_RIGHTS}, u.password, u.is_disabled FROM web_user AS u WHERE u.name = $1"
OTHER_ADMINS: Final = "SELECT count(*) FROM web_user WHERE role = 'admin' AND NOT is_disabled AND name <> $1"

_TOKEN: Final = "id, owner, label, role, created_at, expires_at, last_used_at, grants"
LIST_TOKENS: Final = f"""
    SELECT {_TOKEN} FROM api_token WHERE ($1::text IS NULL OR owner = $1) AND id > $2 ORDER BY id LIMIT $3
"""
CREATE_TOKEN: Final = f"""
    INSERT INTO api_token (owner, label, token_hash, role, expires_at, grants) VALUES ($1, $2, $3, $4, $5, $6)
    RETURNING {_TOKEN}
"""
# last_used_at has a resolution of one minute, so that a busy program does not cause a write with every request.
USE_TOKEN: Final = f"""
    SELECT t.id, t.owner, t.role AS own_role, t.grants AS limits, {HELD_RIGHTS},
           t.last_used_at < now() - interval '1 minute' IS NOT FALSE AS touch
      FROM api_token AS t JOIN web_user AS u ON u.name = t.owner
     WHERE t.token_hash = $1 AND NOT u.is_disabled AND (t.expires_at IS NULL OR t.expires_at > now())
       AND (u.password IS NOT NULL OR u.last_login_at > now() - make_interval(secs => $2))
"""
TOUCH_TOKEN: Final = "UPDATE api_token SET last_used_at = now() WHERE id = $1"
# Guard: a user with a password is a different account.
ADMIT: Final = """
    INSERT INTO web_user (name, role, groups) VALUES ($1, $2, $3)
    ON CONFLICT (name) DO UPDATE
       SET role = excluded.role, groups = excluded.groups,
           sessions_void = web_user.sessions_void + (web_user.role <> excluded.role)::int
     WHERE web_user.password IS NULL
    RETURNING id
"""
MAKE_KEY: Final = "INSERT INTO web_key (id, key) VALUES (1, $1) ON CONFLICT DO NOTHING"


async def list_users(db: Database, *, after: str = "", limit: int = 1000) -> list[StoredUser]:
    """Users by name, starting after `after`."""
    async with db.acquire() as conn:
        return [_user(row) for row in await conn.fetch(LIST_USERS, after, limit)]


async def create_user(db: Database, name: str, role: str, password: str | None) -> StoredUser:
    """Add a user; `password` is a hash. Raises Refused if the name is taken."""
    async with db.acquire() as conn:
        try:
            return _user(await conn.fetchrow(CREATE_USER, name, role, password))
        except asyncpg.UniqueViolationError:
            raise Refused(f"The user {name!r} already exists.") from None


async def change_user(
    db: Database,
    name: str,
    *,
    role: str | None = None,
    is_disabled: bool | None = None,
    password: str | None = None,
) -> StoredUser:
    """Change the values that are not None, and end the user's sessions.

    Raises NotFound; Refused for the last administrator.
    """
    async with db.transaction() as conn:
        if (role is not None and role != "admin") or is_disabled:
            await _keep_an_admin(conn, name)
        row = await conn.fetchrow(CHANGE_USER, name, role, is_disabled, password)
    if row is None:
        raise await _unknown(db, name)
    return _user(row)


async def delete_user(db: Database, name: str) -> None:
    """Remove a user and their tokens. Raises NotFound; Refused for the last administrator."""
    async with db.transaction() as conn:
        await _keep_an_admin(conn, name)
        gone = await conn.fetchval("DELETE FROM web_user WHERE name = $1 RETURNING 1", name)
    if gone is None:
        raise await _unknown(db, name)


async def admit(
    db: Database, name: str, role: str, grants: Collection[RoleGrant] = (), groups: Collection[str] = ()
) -> Login:
    """Create or update the row of a user authenticated by a provider, with that role, these grants and groups.

    Raises Refused for the name of a local user.
    """
    async with db.transaction() as conn:
        user = await conn.fetchval(ADMIT, name, role, sorted(groups))
        if user is None:
            raise Refused(f"{name!r} is a local user with a password: log in with it, or rename one of the two users.")
        await replace_provider_grants(conn, user, grants)
        return _login(await conn.fetchrow(READ_LOGIN, name))


async def read_login(db: Database, name: str) -> Login | None:
    """The data that a user's login is checked against; None for an unknown user."""
    async with db.acquire() as conn:
        row = await conn.fetchrow(READ_LOGIN, name)
    return None if row is None else _login(row)


async def get_user(db: Database, name: str) -> StoredUser:
    """One user. Raises NotFound."""
    async with db.acquire() as conn:
        row = await conn.fetchrow(GET_USER, name)
    if row is None:
        raise await _unknown(db, name)
    return _user(row)


async def count_users(db: Database) -> int:
    """The number of users."""
    async with db.acquire() as conn:
        return int(await conn.fetchval("SELECT count(*) FROM web_user"))


async def list_tokens(db: Database, owner: str | None, *, after: int = 0, limit: int = 1000) -> list[StoredToken]:
    """Tokens of one user, or of all, oldest first."""
    async with db.acquire() as conn:
        return [_token(row) for row in await conn.fetch(LIST_TOKENS, owner, after, limit)]


async def create_token(
    db: Database,
    owner: str,
    label: str,
    token_hash: str,
    role: str,
    expires_at: datetime | None,
    grants: Collection[RoleGrant] | None = None,
) -> StoredToken:
    """Store the hash of a new token. Raises NotFound for an unknown owner."""
    async with db.acquire() as conn:
        try:
            limits = None if grants is None else list(map(str, grants))
            return _token(await conn.fetchrow(CREATE_TOKEN, owner, label, token_hash, role, expires_at, limits))
        except asyncpg.ForeignKeyViolationError:
            raise await _unknown(db, owner) from None


async def delete_token(db: Database, token: int, owner: str | None) -> None:
    """Revoke a token of `owner` (None: of any user). Raises NotFound."""
    async with db.acquire() as conn:
        query = "DELETE FROM api_token WHERE id = $1 AND ($2::text IS NULL OR owner = $2) RETURNING 1"
        if await conn.fetchval(query, token, owner) is None:
            raise NotFound(f"There is no token {token}.")


async def use_token(db: Database, token_hash: str, *, days_without_login: float) -> TokenOwner | None:
    """The owner of a token; None if it is unknown or expired, or its owner is disabled.

    The owner's groups at an identity provider are known from a login: a user without a password has no tokens if the
    last one was more than `days_without_login` ago.
    """
    async with db.acquire() as conn:
        row = await conn.fetchrow(USE_TOKEN, token_hash, days_without_login * 86_400)
        if row is None:
            return None
        if row["touch"]:
            await conn.execute(TOUCH_TOKEN, row["id"])
    limits = None if row["limits"] is None else tuple(filter(None, row["limits"]))
    return TokenOwner(row["id"], row["owner"], held_rights(row), row["own_role"], limits)


async def signing_key(db: Database) -> bytes:
    """The key that signs sessions; the first call creates it."""
    async with db.acquire() as conn:
        while (key := await conn.fetchval("SELECT key FROM web_key")) is None:
            await conn.execute(MAKE_KEY, secrets.token_bytes(32))
    return bytes(key)


def _user(row: Any) -> StoredUser:
    values = dict(row)
    held = held_rights(row)
    return StoredUser(**values | {"role": held.role, "grants": held.grants, "groups": held.groups})


def _login(row: Any) -> Login:
    return Login(row["name"], held_rights(row), row["password"], row["is_disabled"])


def _token(row: Any) -> StoredToken:
    grants = row["grants"]
    return StoredToken(**dict(row) | {"grants": None if grants is None else tuple(filter(None, grants))})


async def _keep_an_admin(conn: Any, name: str) -> None:
    await conn.execute("LOCK TABLE web_user IN SHARE ROW EXCLUSIVE MODE")
    is_admin = await conn.fetchval("SELECT role = 'admin' AND NOT is_disabled FROM web_user WHERE name = $1", name)
    if is_admin and not await conn.fetchval(OTHER_ADMINS, name):
        raise Refused(f"{name!r} is the last administrator: make another user an administrator first.")


async def _unknown(db: Database, name: str) -> NotFound:
    names = [user.name for user in await list_users(db)]
    return NotFound(f"There is no user {name!r}.{did_you_mean(name, names)}")
