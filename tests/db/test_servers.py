"""Everything in the schema works on the older PostgreSQL versions too (those that this machine has)."""

from __future__ import annotations

import importlib
import json
import pkgutil
from datetime import UTC, datetime
from typing import Any

import asyncpg

import aiosched.db
from aiosched.db.server.admin import info, reset
from aiosched.db.server.connection import DatabaseConnection
from aiosched.db.server.engine import Database
from aiosched.db.server.migrate import migrate
from aiosched.db.server.schema_version import HEAD


async def test_an_older_server_is_migrated_and_used(older_dsn: str) -> None:
    assert await migrate(older_dsn) is None

    async with await Database.open(older_dsn) as db:
        told = await info(db)
        async with db.transaction() as conn:
            await add_run(conn)
            rows = await conn.fetch(NAMED)

    assert told.revision == HEAD
    assert told.server_version.split(".")[0] in ("15", "16", "17")
    assert [tuple(row) for row in rows] == EXPECTED


async def test_an_older_server_is_reset(older_dsn: str) -> None:
    await reset(older_dsn, confirm=older_dsn.rpartition("/")[2])

    async with await Database.open(older_dsn) as db:
        assert (await info(db)).revision == HEAD


async def test_every_named_statement_is_understood_by_every_server(older_db: Database) -> None:
    wrong = {}
    async with older_db.acquire() as conn:
        for name, statement in named_statements().items():
            try:
                await conn.prepare(statement)
            except asyncpg.PostgresError as error:
                wrong[name] = str(error)

    assert wrong == {}


def named_statements() -> dict[str, str]:
    """Every constant of the db room that is one complete statement, by module and name."""
    found = {}
    for module in pkgutil.iter_modules(aiosched.db.__path__):
        if not module.ispkg:
            constants = vars(importlib.import_module(f"aiosched.db.{module.name}")).items()
            found.update({f"{module.name}.{name}": value for name, value in constants if _is_statement(value)})
    return found


def _is_statement(value: object) -> bool:
    starts = ("SELECT ", "INSERT ", "UPDATE ", "DELETE ", "WITH ")
    return isinstance(value, str) and " ".join(value.split()).startswith(starts) and "{" not in value


async def test_task_instances_are_shown_by_name(db: Database) -> None:
    async with db.transaction() as conn:
        await add_run(conn)
        rows = await conn.fetch(NAMED)

    assert [tuple(row) for row in rows] == EXPECTED


async def test_the_names_of_a_run_are_unpacked_once_and_its_instances_found_by_key(db: Database) -> None:
    async with db.transaction() as conn:
        await add_run(conn)
        await conn.execute("SET LOCAL enable_seqscan = off")
        plan = json.loads(
            await conn.fetchval(
                "EXPLAIN (ANALYZE, FORMAT json)"
                " SELECT * FROM task_instance_named WHERE dag_id = 'sales' AND run_id = 'manual__1'"
            )
        )

    nodes = list(walk(plan[0]["Plan"]))
    assert "pk_task_instance" in {node.get("Index Name") for node in nodes}
    assert [node["Actual Loops"] for node in nodes if node["Node Type"] == "Function Scan"] == [1]


NAMED = """
    SELECT dag_id, run_id, task_id, map_index, state, try_number, operator, pool, run_state
      FROM task_instance_named ORDER BY task_index, map_index
"""

EXPECTED = [
    ("sales", "manual__1", "extract", -1, "success", 1, "PythonOperator", "default_pool", "running"),
    ("sales", "manual__1", "load", 0, None, 0, "PythonOperator", "etl", "running"),
    ("sales", "manual__1", "load", 1, "queued", 2, "PythonOperator", "etl", "running"),
    ("sales", "manual__1", None, -1, "removed", 0, None, "default_pool", "running"),
]


async def add_run(conn: DatabaseConnection) -> None:
    """A run of two tasks, one of them mapped, and an instance of a task that its version does not have."""
    spec = {
        "dag_id": "sales",
        "tasks": [
            {"task_id": "extract", "operator": "PythonOperator"},
            {"task_id": "load", "operator": "PythonOperator", "pool": "etl"},
        ],
    }
    version = await conn.fetchval(
        "INSERT INTO dag_version (dag_id, number, content_hash, spec) VALUES ('sales', 1, 'x', $1) RETURNING id",
        json.dumps(spec),
    )
    run = await conn.fetchval(
        "INSERT INTO dag_run (dag_id, run_id, partition, version_id, run_type, triggered_by, state, run_after)"
        " VALUES ('sales', 'manual__1', 0, $1, 'manual', 'cli', 'running', $2) RETURNING id",
        version,
        datetime(2026, 1, 1, tzinfo=UTC),
    )
    await conn.copy_records_to_table(
        "task_instance",
        records=[
            (run, 0, -1, "success", 1),
            (run, 1, 0, None, 0),
            (run, 1, 1, "queued", 2),
            (run, 2, -1, "removed", 0),
        ],
        columns=["run_id", "task_index", "map_index", "state", "try_number"],
    )


def walk(node: dict[str, Any]) -> list[dict[str, Any]]:
    return [node, *(inner for child in node.get("Plans", []) for inner in walk(child))]
