"""Users of the web server, and their tokens. Makes no decisions.

Elsewhere: who comes from an identity provider (identities.py), and the user `local` (local_logins.py).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import asyncpg

from aiosched.core.access.grants import RoleGrant
from aiosched.core.audit.kinds import AuditKind
from aiosched.db.access.grants import HELD_RIGHTS, HeldRights, held_rights
from aiosched.db.audit.entries import record
from aiosched.db.names.existing import Existing, IfExists, IfUnchanged, check_existing, etag_of
from aiosched.db.server.connection import DatabaseConnection
from aiosched.db.server.engine import Database
from aiosched.errors import NotFound, Refused, did_you_mean

LOGIN_LABEL: Final = "airflow api"  # of tokens that stand for a login by password (POST /auth/token)
NAME_PATTERN: Final = r"^[A-Za-z0-9][A-Za-z0-9_.@+-]{0,99}$"


@dataclass(frozen=True, slots=True)
class StoredUser:
    """A user. `role` holds everywhere (`none`: only `grants` do); `kind` is person, service or local.

    `has_password` is false for a user who logs in with OIDC; `issuer` is the identity provider then.
    """

    name: str
    role: str
    kind: str
    is_disabled: bool
    has_password: bool
    issuer: str | None
    created_at: datetime
    grants: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()

    @property
    def etag(self) -> str:
        """The version of what administrators say of the user."""
        return etag_of(self.created_at, self.role, self.is_disabled, self.grants)


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
    read_only: bool
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
    read_only: bool


_USER: Final = (
    f"u.name, {HELD_RIGHTS}, u.kind, u.is_disabled, u.password IS NOT NULL AS has_password, u.issuer, u.created_at"
)
LIST_USERS: Final = f"SELECT {_USER} FROM web_user AS u WHERE u.name > $1 ORDER BY u.name LIMIT $2"
READ_USER: Final = f"SELECT {_USER} FROM web_user AS u WHERE u.name = $1"
LOCK_USER: Final = f"{READ_USER} FOR UPDATE OF u"
CREATE_USER: Final = f"""
    INSERT INTO web_user AS u (name, role, password, kind) VALUES ($1, $2, $3, $4) RETURNING {_USER}
"""
CHANGE_USER: Final = f"""
    UPDATE web_user AS u
       SET role = coalesce($2, role), is_disabled = coalesce($3, is_disabled), password = coalesce($4, password),
           sessions_void = sessions_void + 1
     WHERE name = $1 RETURNING {_USER}
"""
# Of the user's own session, which goes on. Index: the primary key.
KEEP_SESSION: Final = """
    UPDATE web_session AS s SET void = u.sessions_void FROM web_user AS u
     WHERE s.id = $2 AND s.user_id = u.id AND u.name = $1
"""
READ_LOGIN: Final = f"SELECT u.name, {HELD_RIGHTS}, u.password, u.is_disabled FROM web_user AS u WHERE u.name = $1"
IS_ADMIN: Final = "SELECT role = 'admin' AND kind = 'person' AND NOT is_disabled FROM web_user WHERE name = $1"
KIND: Final = "SELECT kind FROM web_user WHERE name = $1"
# Only a person can log in and help others.
OTHER_ADMINS: Final = """
    SELECT count(*) FROM web_user WHERE role = 'admin' AND kind = 'person' AND NOT is_disabled AND name <> $1
"""

_TOKEN: Final = "id, owner, label, role, read_only, created_at, expires_at, last_used_at, grants"
LIST_TOKENS: Final = f"""
    SELECT {_TOKEN} FROM api_token WHERE ($1::text IS NULL OR owner = $1) AND id > $2 ORDER BY id LIMIT $3
"""
CREATE_TOKEN: Final = f"""
    INSERT INTO api_token (owner, label, token_hash, role, expires_at, grants, read_only)
    VALUES ($1, $2, $3, $4, $5, $6, $7) RETURNING {_TOKEN}
"""
# last_used_at has a resolution of one minute, so that a busy program does not cause a write with every request.
USE_TOKEN: Final = f"""
    SELECT t.id, t.owner, t.role AS own_role, t.grants AS limits, t.read_only, {HELD_RIGHTS},
           t.last_used_at < now() - interval '1 minute' IS NOT FALSE AS touch
      FROM api_token AS t JOIN web_user AS u ON u.name = t.owner
     WHERE t.token_hash = $1 AND NOT u.is_disabled AND (t.expires_at IS NULL OR t.expires_at > now())
       AND (u.kind <> 'local' OR $3)
       AND (u.kind <> 'person' OR u.password IS NOT NULL OR u.last_login_at > now() - make_interval(secs => $2))
"""
# $2: only those of logins. $4: the one that stays, if any.
END_TOKENS: Final = """
    DELETE FROM api_token WHERE owner = $1 AND (NOT $2::boolean OR label = $3) AND id IS DISTINCT FROM $4 RETURNING 1
"""
TOUCH_TOKEN: Final = "UPDATE api_token SET last_used_at = now() WHERE id = $1"


async def list_users(db: Database, *, after: str = "", limit: int = 1000) -> list[StoredUser]:
    """Users by name, starting after `after`."""
    return [_user(row) for row in await db.fetch(LIST_USERS, after, limit)]


async def create_user(db: Database, name: str, role: str, password: str | None, *, kind: str = "person") -> StoredUser:
    """Add a user; `password` is a hash. Raises Refused if the name is taken."""
    try:
        async with db.transaction() as conn:
            made = _user(await conn.fetchrow(CREATE_USER, name, role, password, kind))
            await record(conn, AuditKind.USER_CREATED, name, role=role, account=kind)
    except asyncpg.UniqueViolationError:
        raise Refused(f"The user {name!r} already exists.") from None
    return made


async def change_user(
    db: Database,
    name: str,
    *,
    role: str | None = None,
    is_disabled: bool | None = None,
    password: str | None = None,
    keep_tokens: bool = False,
    session: int | None = None,
    existing: Existing = IfExists.OVERWRITE,
) -> StoredUser:
    """Change the values that are not None, and end the user's sessions and tokens of logins (LOGIN_LABEL).

    A new password ends all tokens of the user; not with `keep_tokens`, and if the user sets it, in `session`: that
    session goes on then.

    Raises NotFound; Refused for the last administrator, and for a password of an account that nobody logs in to;
    ChangedMeanwhile as `existing` says.
    """
    async with db.transaction() as conn:
        await _check_version(conn, name, existing)
        if password is not None and (kind := await conn.fetchval(KIND, name)) not in (None, "person"):
            raise Refused(f"{name!r} is a {kind} account, which has no password: create a token for it.")
        if (role is not None and role != "admin") or is_disabled:
            await _keep_an_admin(conn, name)
        row = await conn.fetchrow(CHANGE_USER, name, role, is_disabled, password)
        if row is not None and role is not None:
            await record(conn, AuditKind.USER_ROLE, name, role=role)
        if row is not None and is_disabled is not None:
            await record(conn, AuditKind.USER_DISABLED if is_disabled else AuditKind.USER_ENABLED, name)
        if row is not None:
            is_of_all = password is not None and not keep_tokens and session is None
            ended = await end_tokens(conn, name, only_logins=not is_of_all)
        if row is not None and password is not None:
            if session is not None and role is None and is_disabled is None:
                await conn.execute(KEEP_SESSION, name, session)
            await record(conn, AuditKind.USER_PASSWORD, name, tokens_ended=ended)
    if row is None:
        raise await _unknown(db, name)
    return _user(row)


async def _check_version(conn: DatabaseConnection, name: str, existing: Existing) -> None:
    if isinstance(existing, IfUnchanged):
        known = [_user(row) for row in await conn.fetch(LOCK_USER, name)]
        await check_existing(conn, existing, "user", [name], {user.name: user.etag for user in known})


async def end_tokens(conn: DatabaseConnection, name: str, *, only_logins: bool, but: int | None = None) -> int:
    """Remove the tokens of a user, or those of logins, `but` this one; returns how many there were."""
    return len(await conn.fetch(END_TOKENS, name, only_logins, LOGIN_LABEL, but))


async def delete_user(db: Database, name: str, *, existing: Existing = IfExists.OVERWRITE) -> None:
    """Remove a user and their tokens. Raises NotFound, Refused for the last administrator, and ChangedMeanwhile."""
    async with db.transaction() as conn:
        await _check_version(conn, name, existing)
        await _keep_an_admin(conn, name)
        gone = await conn.fetchval("DELETE FROM web_user WHERE name = $1 RETURNING 1", name)
        if gone is not None:
            await record(conn, AuditKind.USER_DELETED, name)
    if gone is None:
        raise await _unknown(db, name)


async def read_login(db: Database, name: str) -> Login | None:
    """The data that a user's login is checked against; None for an unknown user."""
    row = await db.fetchrow(READ_LOGIN, name)
    return None if row is None else login_of(row)


async def read_user(db: Database, name: str) -> StoredUser:
    """One user. Raises NotFound."""
    row = await db.fetchrow(READ_USER, name)
    if row is None:
        raise await _unknown(db, name)
    return _user(row)


async def count_people(db: Database) -> int:
    """The number of users who can log in."""
    return int(await db.fetchval("SELECT count(*) FROM web_user WHERE kind = 'person'"))


async def list_tokens(db: Database, owner: str | None, *, after: int = 0, limit: int = 1000) -> list[StoredToken]:
    """Tokens of one user, or of all, oldest first."""
    return [_token(row) for row in await db.fetch(LIST_TOKENS, owner, after, limit)]


async def create_token(
    db: Database,
    owner: str,
    label: str,
    token_hash: str,
    role: str,
    expires_at: datetime | None,
    grants: Collection[RoleGrant] | None = None,
    *,
    read_only: bool = False,
) -> StoredToken:
    """Store the hash of a new token. Raises NotFound for an unknown owner."""
    limits = None if grants is None else list(map(str, grants))
    values = owner, label, token_hash, role, expires_at, limits, read_only
    try:
        async with db.transaction() as conn:
            made = _token(await conn.fetchrow(CREATE_TOKEN, *values))
            what = {"role": role, "grants": limits, "read_only": read_only}
            await record(conn, AuditKind.TOKEN_CREATED, str(made.id), owner=owner, label=label, scope=what)
    except asyncpg.ForeignKeyViolationError:
        raise await _unknown(db, owner) from None
    return made


async def delete_token(db: Database, token: int, owner: str | None) -> None:
    """Revoke a token of `owner` (None: of any user). Raises NotFound."""
    async with db.transaction() as conn:
        query = "DELETE FROM api_token WHERE id = $1 AND ($2::text IS NULL OR owner = $2) RETURNING owner"
        of_user = await conn.fetchval(query, token, owner)
        if of_user is None:
            raise NotFound(f"There is no token {token}.")
        await record(conn, AuditKind.TOKEN_DELETED, str(token), owner=of_user)


async def use_token(
    db: Database, token_hash: str, *, days_without_login: float, local: bool = False
) -> TokenOwner | None:
    """The owner of a token; None if it is unknown or expired, or its owner is disabled.

    The owner's groups at an identity provider are known from a login: a person without a password has no tokens if the
    last one was more than `days_without_login` ago. `local`: whether the user `local` counts at this server.
    """
    async with db.acquire() as conn:
        row = await conn.fetchrow(USE_TOKEN, token_hash, days_without_login * 86_400, local)
        if row is None:
            return None
        if row["touch"]:
            await conn.execute(TOUCH_TOKEN, row["id"])
    limits = None if row["limits"] is None else tuple(filter(None, row["limits"]))
    return TokenOwner(row["id"], row["owner"], held_rights(row), row["own_role"], limits, row["read_only"])


def _user(row: Any) -> StoredUser:
    values = dict(row)
    held = held_rights(row)
    return StoredUser(**values | {"role": held.role, "grants": held.grants, "groups": held.groups})


def login_of(row: Any) -> Login:
    """A row of READ_LOGIN."""
    return Login(row["name"], held_rights(row), row["password"], row["is_disabled"])


def _token(row: Any) -> StoredToken:
    grants = row["grants"]
    return StoredToken(**dict(row) | {"grants": None if grants is None else tuple(filter(None, grants))})


async def _keep_an_admin(conn: DatabaseConnection, name: str) -> None:
    await conn.execute("LOCK TABLE web_user IN SHARE ROW EXCLUSIVE MODE")
    is_admin = await conn.fetchval(IS_ADMIN, name)
    if is_admin and not await conn.fetchval(OTHER_ADMINS, name):
        raise Refused(f"{name!r} is the last administrator: make another user an administrator first.")


async def _unknown(db: Database, name: str) -> NotFound:
    names = [user.name for user in await list_users(db)]
    return NotFound(f"There is no user {name!r}.{did_you_mean(name, names)}")
