"""Grants of users: a role for some DAGs. Makes no decisions; what grants mean is in core/access."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Final

from aiosched.core.access.grants import RoleGrant
from aiosched.core.audit.kinds import AuditKind
from aiosched.core.values.commands import command_line
from aiosched.db.audit.entries import record
from aiosched.db.server.connection import DatabaseConnection
from aiosched.db.server.engine import Database
from aiosched.errors import NotFound, did_you_mean


@dataclass(frozen=True, slots=True)
class HeldRights:
    """What a user may do: the role everywhere (`none`: none), grants as text, and groups at the identity provider."""

    role: str
    grants: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()


# Of web_user AS u. Index: uq_user_grant_user_id_kind_name_from_provider.
HELD_RIGHTS: Final = """u.role, u.groups,
           ARRAY(SELECT g.role || '@' || g.kind || ':' || g.name FROM user_grant AS g WHERE g.user_id = u.id
                  ORDER BY g.kind, g.name, g.from_provider) AS grants"""
USER_ID: Final = "SELECT id FROM web_user WHERE name = $1"
# Users do not wait for the next look at their session: the grant counts at once where sessions are not remembered.
ADD_GRANT: Final = """
    INSERT INTO user_grant (user_id, role, kind, name, from_provider) VALUES ($1, $2, $3, $4, $5)
    ON CONFLICT (user_id, kind, name, from_provider) DO UPDATE SET role = excluded.role
"""
REMOVE_GRANT: Final = """
    DELETE FROM user_grant WHERE user_id = $1 AND kind = $2 AND name = $3 AND NOT from_provider RETURNING role
"""
REMOVE_PROVIDER_GRANTS: Final = "DELETE FROM user_grant WHERE user_id = $1 AND from_provider"


def held_rights(row: Any) -> HeldRights:
    """The columns of HELD_RIGHTS in a row."""
    return HeldRights(row["role"], tuple(filter(None, row["grants"])), tuple(filter(None, row["groups"])))


async def add_grant(db: Database, user: str, grant: RoleGrant) -> None:
    """Give a user a role for some DAGs; one that the user has for the same ones is replaced. Raises NotFound."""
    async with db.transaction() as conn:
        await _store(conn, await _id_of(conn, user), grant, from_provider=False)
        await record(conn, AuditKind.GRANT_CREATED, user, grant=str(grant))


async def remove_grant(db: Database, user: str, grant: RoleGrant) -> None:
    """Take a grant away, whatever its role. Raises NotFound for one that the user does not have."""
    async with db.transaction() as conn:
        key = await _id_of(conn, user)
        if await conn.fetchval(REMOVE_GRANT, key, grant.kind.value, grant.name) is None:
            see = command_line("users grants", user)
            raise NotFound(f"{user} has no grant for {grant.kind} {grant.name!r}; see `{see}`.")
        await record(conn, AuditKind.GRANT_DELETED, user, grant=str(grant))


async def replace_provider_grants(conn: DatabaseConnection, user: int, grants: Collection[RoleGrant]) -> None:
    """Store the grants that the groups of a user give, instead of those of the last login."""
    await conn.execute(REMOVE_PROVIDER_GRANTS, user)
    for grant in grants:
        await _store(conn, user, grant, from_provider=True)


async def _store(conn: DatabaseConnection, user: int, grant: RoleGrant, *, from_provider: bool) -> None:
    await conn.execute(ADD_GRANT, user, grant.role.word, grant.kind.value, grant.name, from_provider)


async def _id_of(conn: DatabaseConnection, user: str) -> int:
    key: int | None = await conn.fetchval(USER_ID, user)
    if key is None:
        names = [row["name"] for row in await conn.fetch("SELECT name FROM web_user")]
        raise NotFound(f"There is no user {user!r}.{did_you_mean(user, names)}")
    return key
