"""People whom an identity provider has authenticated: found by issuer and subject, never by name. Makes no decisions.

The name of a user is a label, from the first login.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from aiosched.core.access.grants import RoleGrant
from aiosched.core.audit.actor import actor
from aiosched.core.audit.kinds import AuditKind
from aiosched.core.values.commands import command_line
from aiosched.db.access.grants import replace_provider_grants
from aiosched.db.audit.entries import record
from aiosched.db.people.accounts import READ_LOGIN, Login, login_of
from aiosched.db.server.engine import Database
from aiosched.errors import NumbersInUse, Refused


@dataclass(frozen=True, slots=True)
class ProvidedRights:
    """What the provider's groups give: a role everywhere (`none`: none), and grants."""

    role: str
    grants: tuple[RoleGrant, ...] = ()
    groups: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class ProvidedIdentity:
    """Who somebody is at an identity provider: `subject` is unique at its `issuer`, and never given to others."""

    issuer: str
    subject: str


# The row that KNOWN changes.
ROLE_BEFORE: Final = "SELECT role FROM web_user WHERE password IS NULL AND issuer = $1 AND subject = $2 FOR UPDATE"
_ROLE: Final = "role = $3, groups = $5, sessions_void = sessions_void + (role <> $3)::int"
# Guard: a user with a password is a different account.
KNOWN: Final = f"""
    UPDATE web_user SET {_ROLE} WHERE issuer = $1 AND subject = $2 AND password IS NULL AND $4::text IS NOT NULL
    RETURNING name, id
"""
COME: Final = """
    INSERT INTO web_user (name, role, issuer, subject, groups) VALUES ($4, $3, $1, $2, $5) ON CONFLICT DO NOTHING
    RETURNING name, id
"""


async def admit(db: Database, identity: ProvidedIdentity, name: str, rights: ProvidedRights) -> Login:
    """Create or update the row of a person with that identity, who has these rights now.

    `name` is used if the person is new here. Raises Refused if it belongs to somebody else.
    """
    role, values = rights.role, (identity.issuer, identity.subject, rights.role, name, sorted(rights.groups))
    by = replace(actor(), who="identity provider")
    for _ in range(2):  # another login of the same person may have created the row meanwhile
        async with db.transaction() as conn:
            before = await conn.fetchval(ROLE_BEFORE, identity.issuer, identity.subject)
            row = await conn.fetchrow(KNOWN, *values)
            if row is not None and before != role:
                await record(conn, AuditKind.USER_ROLE, row["name"], by=by, role=role)
            if row is None and (row := await conn.fetchrow(COME, *values)) is not None:
                await record(conn, AuditKind.USER_CREATED, name, by=by, role=role)
            if row is not None:
                await replace_provider_grants(conn, row["id"], rights.grants)
                return login_of(await conn.fetchrow(READ_LOGIN, row["name"]))
    if (other := await db.fetchrow(READ_LOGIN, name)) is None:
        raise NumbersInUse("The user was not stored: the database issued a number for it that is in use.")
    if other["password"] is not None:
        raise Refused(f"{name!r} is a local user with a password: log in with it, or rename one of the two users.")
    raise Refused(
        f"The name {name!r} belongs to somebody else here: another user of the identity provider, a user of another "
        f"provider, or a service account. An administrator can delete that one: {command_line('users delete', name)}"
    )
