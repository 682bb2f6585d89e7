"""Alembic makes or migrates a schema, or writes down the SQL for manual execution: one transaction for psql."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any, Final

from alembic import command

from aiosched.db.schema.schema import metadata
from aiosched.db.server.rights import Rights, grants_of_use
from aiosched.db.server.schema_version import HEAD, MIGRATION_LOCK, REVISIONS, migrations_config

_LOCKING: Final = "-- All tables at once. If this times out, a transaction uses one of them: run the script again."

# The script fits only the schema that it was generated for; an empty database is recognized by a table that must not
# exist yet.
_SAME: Final = """DO $$
BEGIN
    IF (SELECT version_num FROM alembic_version) <> '{found}' THEN
        RAISE EXCEPTION 'this script is for schema {found}: make it again with aiosched db migrate --sql';
    END IF;
END
$$;
"""


def run_alembic(found: str | None, *, sql: bool = False, **options: Any) -> None:
    """Migrate the schema from `found` to `HEAD`; if there is none, make it as `HEAD` has it.

    `sql`: only write down how. `options` are those of Alembic's `Config`.
    """
    config, first = migrations_config(**options), REVISIONS[0]
    if found is None:
        command.upgrade(config, f"base:{first}" if sql else first, sql=sql)
        command.stamp(config, f"{first}:{HEAD}" if sql else HEAD, sql=sql)
    else:
        command.upgrade(config, f"{found}:{HEAD}" if sql else HEAD, sql=sql)


def outstanding_sql(
    found: str | None, rights: Rights, locks: Sequence[str] = (), *, default_pool_slots: int | None = None
) -> str:
    """SQL that migrates the schema from `found` (None: no schema) to `HEAD`; empty if it is current.

    Whichever role runs it, the tables are created in the schema of the role in `rights`, and that role is granted their
    use. `locks`: the statements that lock the present tables.
    """
    if found == HEAD:
        return ""
    output = io.StringIO()
    run_alembic(found, sql=True, output_buffer=output)
    tables = [*metadata.tables, "alembic_version", "task_instance_named"]
    schema = rights.schema or rights.wanted
    parts = [
        f"-- aiosched: schema {found or 'none'} to {HEAD}. Run it unchanged with psql, as the owner of the database.",
        "BEGIN;",
        "" if rights.schema else f"CREATE SCHEMA {schema} AUTHORIZATION {rights.role};",
        f"SET LOCAL search_path = {schema};",
        "SET LOCAL timezone = 'UTC';",
        f"SELECT pg_advisory_xact_lock({MIGRATION_LOCK});  -- no other process migrates at the same time",
        _SAME.format(found=found) if found else "",
        _LOCKING if locks else "",
        *(f"{lock};" for lock in locks),
        output.getvalue(),
        f"UPDATE pool SET slots = {default_pool_slots} WHERE name = 'default_pool';"
        if found is None and default_pool_slots is not None
        else "",
        *grants_of_use(rights, tables),
        "COMMIT;",
    ]
    return "\n".join(part for part in parts if part) + "\n"
