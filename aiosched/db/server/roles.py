"""The least-privilege roles of the database: one for schedulers, one for web servers; `aiosched db roles` makes them.

The tables belong to a third role, the one that migrates. Neither of the two can change the schema, and a web server can
change no state of a run: what users ask for is a row of `request`, which a scheduler reads.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from aiosched.db.schema.schema import metadata
from aiosched.db.schema.tables import FUNCTION_GRANTS, GRANTS
from aiosched.db.server.connection import DatabaseConnection
from aiosched.db.server.failures import explained
from aiosched.db.server.rights import read_rights
from aiosched.db.server.schema_version import HEAD, out_of_date, read_revision
from aiosched.db.server.silence import connect_for
from aiosched.errors import Refused


class Purpose(StrEnum):
    """What a role is for."""

    SCHEDULER = "scheduler"
    WEB = "web"


# The names, if no others are given.
USUAL: Final = MappingProxyType({purpose: f"aiosched_{purpose}" for purpose in Purpose})

Privileges = Mapping[str, Sequence[str]]  # by table

_ALL: Final = ("SELECT", "INSERT", "UPDATE", "DELETE")
_READ: Final = ("SELECT",)
_OTHERS: Final = ("alembic_version", "task_instance_named")  # beside the tables of the metadata; read only

# People log in to web servers only. Both kinds sign with the keys of `web_key`: cookies, and tokens of attempts.
_SCHEDULER: Final[Privileges] = MappingProxyType(
    {
        **GRANTS,
        "api_token": (),
        "fleet": _READ,
        "login_failure": (),
        "login_link": (),
        "user_grant": (),
        "web_session": (),
        "web_user": (),
        "web_key": ("SELECT", "INSERT"),
        "team": _READ,
        "team_folder": _READ,
    }
)

# What else a web server writes than requests: accounts, secrets, pools, notes and answers of users; and, for workers on
# engines, reports of attempts and what tasks store.
_WEB: Final[Privileges] = MappingProxyType(
    {
        **GRANTS,
        "api_token": _ALL,
        "asset_check": _ALL,
        "asset_state": _ALL,
        "request": ("SELECT", "INSERT", "UPDATE"),
        "connection": _ALL,
        "dag": ("SELECT", "UPDATE (team)"),
        "engine_attempt": _ALL,
        "human_input": _ALL,
        "login_failure": _ALL,
        "login_link": _ALL,
        "pool": _ALL,
        "task_note": _ALL,
        "task_report": ("SELECT", "INSERT"),
        "task_state": _ALL,
        "team": _ALL,
        "team_folder": _ALL,
        "user_grant": _ALL,
        "variable": _ALL,
        "web_key": ("SELECT", "INSERT"),
        "web_session": _ALL,
        "web_user": _ALL,
    }
)

ROLES: Final = "SELECT rolname, rolsuper FROM pg_roles WHERE rolname = ANY ($1::text[])"
QUOTE: Final = "SELECT quote_ident($1)"


@dataclass(frozen=True, slots=True)
class RoleScript:
    """The statements that make the roles of `names` what they should be, and the names that exist already."""

    statements: Sequence[str]
    existing: Sequence[str]


def privileges_of(purpose: Purpose) -> dict[str, tuple[str, ...]]:
    """The privileges on each table, also on those for which there are none."""
    chosen, others = (_SCHEDULER, _ALL) if purpose is Purpose.SCHEDULER else (_WEB, _READ)
    tables = {table: tuple(chosen.get(table, others)) for table in metadata.tables}
    return tables | dict.fromkeys(_OTHERS, _READ)


async def script(dsn: str, names: Mapping[Purpose, str]) -> RoleScript:
    """What would make the roles, for the owner of the database to run; changes nothing.

    Raises SchemaOutOfDate, Refused for a role that cannot be limited, and the errors of a connection.
    """
    with explained(dsn):
        conn = await connect_for("roles", dsn)
        try:
            return await _script(conn, dsn, names)
        finally:
            await conn.close()


async def apply(dsn: str, names: Mapping[Purpose, str]) -> RoleScript:
    """Make the roles in one transaction; returns what was done. Raises as `script`."""
    with explained(dsn):
        conn = await connect_for("roles", dsn)
        try:
            async with conn.transaction():
                done = await _script(conn, dsn, names)
                for statement in done.statements:
                    await conn.execute(statement)
            return done
        finally:
            await conn.close()


async def _script(conn: DatabaseConnection, dsn: str, names: Mapping[Purpose, str]) -> RoleScript:
    if (found := await read_revision(conn)) != HEAD:
        raise out_of_date(found)
    if len({*names.values()}) < len(names):
        raise Refused("Schedulers and web servers need different roles: give two names.")
    rights = await read_rights(conn, [*metadata.tables, *_OTHERS])
    known = {row["rolname"]: row["rolsuper"] for row in await conn.fetch(ROLES, list(names.values()))}
    for name in names.values():
        if known.get(name):
            raise Refused(f"The role {name} is a superuser, whom no grant limits: choose another name.")
    schema = rights.schema or "public"
    quoted = {name: str(await conn.fetchval(QUOTE, name)) for name in names.values()}
    if rights.role in quoted.values():
        raise Refused(
            f"The role {rights.role} is the one that asks, and owns the tables or may become their owner: "
            "connect as the role that migrates (--dsn), or choose another name."
        )
    statements = []
    for purpose, name in names.items():
        role = quoted[name]
        statements += [] if name in known else [f"CREATE ROLE {role} LOGIN"]
        statements += _statements(role, schema, rights.database, privileges_of(purpose))
    return RoleScript(statements, [name for name in names.values() if name in known])


def _statements(role: str, schema: str, database: str, privileges: Privileges) -> list[str]:
    by_kind: dict[tuple[str, ...], list[str]] = {}
    for table, kinds in privileges.items():
        by_kind.setdefault(tuple(kinds), []).append(table)
    return [
        f"GRANT CONNECT ON DATABASE {database} TO {role}",
        f"GRANT USAGE ON SCHEMA {schema} TO {role}",
        *([] if schema == "public" else [f"ALTER ROLE {role} IN DATABASE {database} SET search_path = {schema}"]),
        f"REVOKE ALL ON {_named(privileges, schema)} FROM {role}",
        *(
            f"GRANT {', '.join(kinds)} ON {_named(tables, schema)} TO {role}"
            for kinds, tables in sorted(by_kind.items())
            if kinds
        ),
        *(
            f"GRANT {', '.join(kinds)} ON FUNCTION {schema}.{function} TO {role}"
            for function, kinds in FUNCTION_GRANTS.items()
        ),
    ]


def _named(tables: Iterable[str], schema: str) -> str:
    return ", ".join(f"{schema}.{table}" for table in sorted(tables))
