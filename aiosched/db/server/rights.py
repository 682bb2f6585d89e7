"""The privileges that a role needs to migrate, and the SQL that grants them.

Since PostgreSQL 15 only the owner of a database can create tables in its schema `public`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from aiosched.db.server.dsn import address_of
from aiosched.errors import DatabaseError

if TYPE_CHECKING:
    from aiosched.db.server.connection import DatabaseConnection

# Names are quoted where necessary. The schema is the one in which tables are created: the first in the search path that
# exists and is usable, else the first that exists, else NULL; `wanted` is the first name in the search path.
RIGHTS: Final = """
    WITH entry AS (
        SELECT position, CASE name WHEN '$user' THEN current_user::text ELSE name END AS name, name = '$user' AS is_own
          FROM (SELECT position, replace(btrim(btrim(part), '"'), '""', '"') AS name
                  FROM unnest(string_to_array(current_setting('search_path'), ','))
                       WITH ORDINALITY AS part (part, position)) AS parts
    ), target AS (
        SELECT n.oid, n.nspname, has_schema_privilege(n.oid, 'USAGE') AS can_use
          FROM entry JOIN pg_namespace AS n ON n.nspname = entry.name
         ORDER BY has_schema_privilege(n.oid, 'USAGE') DESC, position LIMIT 1
    )
    SELECT quote_ident(current_user) AS role, quote_ident(current_database()) AS database,
           (SELECT quote_ident(nspname) FROM target) AS schema,
           (SELECT quote_ident(name) FROM entry WHERE name <> '' ORDER BY is_own, position LIMIT 1) AS wanted,
           coalesce((SELECT can_use FROM target), false) AS can_use,
           coalesce((SELECT has_schema_privilege(oid, 'CREATE') FROM target), false) AS can_create,
           ARRAY(SELECT c.oid::regclass::text
                   FROM pg_class AS c JOIN target ON target.oid = c.relnamespace
                  WHERE c.relname = ANY ($1::text[]) AND c.relkind IN ('r', 'v')
                    AND NOT pg_has_role(current_user, c.relowner, 'USAGE')
                  ORDER BY 1) AS not_owned
"""


@dataclass(frozen=True, slots=True)
class Rights:
    """The privileges of a connection's role in the schema of aiosched's tables. All names are quoted for SQL."""

    role: str
    database: str
    schema: str | None  # None: no schema of the search path exists
    wanted: str | None  # the first schema of the search path
    can_use: bool
    can_create: bool
    not_owned: Sequence[str] = ()  # aiosched tables owned by other roles


async def read_rights(conn: DatabaseConnection, tables: Collection[str]) -> Rights:
    """The privileges of the role of `conn`; `tables` are those of aiosched."""
    row: Any = await conn.fetchrow(RIGHTS, list(tables))
    return Rights(**{**row, "not_owned": tuple(row["not_owned"])})


def missing_grants(rights: Rights) -> list[str]:
    """The statements that allow the role to migrate, for the database owner to run; none if it already can."""
    if rights.schema is None:
        schema = rights.wanted or "aiosched"
        path = f"ALTER ROLE {rights.role} IN DATABASE {rights.database} SET search_path = {schema};"
        return [f"CREATE SCHEMA {schema} AUTHORIZATION {rights.role};", *([] if rights.wanted else [path])]
    lacks = [name for name, has in (("USAGE", rights.can_use), ("CREATE", rights.can_create)) if not has]
    grants = [f"GRANT {', '.join(lacks)} ON SCHEMA {rights.schema} TO {rights.role};"] if lacks else []
    return grants + [f"ALTER TABLE {table} OWNER TO {rights.role};" for table in rights.not_owned]


def grants_of_use(rights: Rights, tables: Collection[str]) -> list[str]:
    """The statements that let the role use tables that another role created in its schema."""
    schema = rights.schema or rights.wanted
    names = ", ".join(f"{schema}.{table}" for table in tables)
    return [
        f"GRANT USAGE ON SCHEMA {schema} TO {rights.role};",
        f"GRANT SELECT, INSERT, UPDATE, DELETE ON {names} TO {rights.role};",
    ]


def refuse_without(rights: Rights, dsn: str) -> None:
    """Raise DatabaseError with the statements to run if the role cannot migrate."""
    grants = missing_grants(rights)
    if not grants:
        return
    lines = "".join(f"    {grant}\n" for grant in grants)
    raise DatabaseError(
        f"The role {rights.role} may not change the schema of database {rights.database} at {address_of(dsn)}. "
        f"Let the owner of the database run this, then migrate again:\n{lines}"
        "Or let the owner run what `aiosched db migrate --sql` prints."
    )
