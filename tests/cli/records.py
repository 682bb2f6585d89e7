"""Small builders of rows, for tests of what people read."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

from aiosched.core.graph.spec import DagSpec, GroupSpec, RunKeySpec, TaskSpec, content_hash, encode_spec
from aiosched.core.timetables import AnyTimetable, NullTimetable
from aiosched.core.values.ids import partition_of
from aiosched.db.server.engine import Database

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)

FIGURES = '{"executor": {"local": {"open": 8, "open_async": 100}}, "parallelism": 32, "in_flight": 4}'

SALES = (
    TaskSpec(task_id="extract", operator="PythonOperator", retries=1),
    TaskSpec(task_id="load", operator="PythonOperator", upstream=("extract",), pool="etl", pool_slots=2),
)


async def add_dag(
    db: Database,
    dag_id: str,
    *,
    tasks: tuple[TaskSpec, ...] = SALES,
    groups: tuple[GroupSpec, ...] = (),
    timezone: str = "UTC",
    timetable: AnyTimetable | None = None,
    sources: dict[str, str] | None = None,
    run_key: RunKeySpec | None = None,
    **columns: Any,
) -> int:
    """A DAG with one version, whose key is returned. `columns` go into its `dag` row.

    `sources`: the digests of what its file imports, by path.
    """
    timetable = timetable or NullTimetable()
    spec = DagSpec(dag_id=dag_id, tasks=tasks, groups=groups, timezone=timezone, timetable=timetable, run_key=run_key)
    document = encode_spec(spec)
    async with db.transaction() as conn:
        version: int = await conn.fetchval(
            "INSERT INTO dag_version (dag_id, number, content_hash, spec, sources) VALUES ($1, 1, $2, $3, $4) "
            "RETURNING id",
            dag_id,
            content_hash(document),
            document.decode(),
            None if sources is None else json.dumps(sources),
        )
        row = {"dag_id": dag_id, "partition": partition_of(dag_id), "version_id": version, "file": f"{dag_id}.py"}
        await insert(conn, "dag", row | columns)
    return version


async def add_run(db: Database, dag_id: str, version: int, run_id: str, **columns: Any) -> int:
    """A run; running since noon unless `columns` say otherwise. Returns its key."""
    row = {
        "dag_id": dag_id,
        "run_id": run_id,
        "partition": partition_of(dag_id),
        "version_id": version,
        "run_type": "manual",
        "triggered_by": "test",
        "state": "running",
        "run_after": NOON,
        "start_date": NOON,
    }
    async with db.acquire() as conn:
        return int(await insert(conn, "dag_run", row | columns, returning="id"))


async def add_task(db: Database, run: int, index: int, state: str | None, **columns: Any) -> None:
    """A task instance."""
    row = {"run_id": run, "task_index": index, "map_index": -1, "state": state}
    async with db.acquire() as conn:
        await insert(conn, "task_instance", row | columns)


async def add_file(db: Database, file: str, **columns: Any) -> None:
    """A DAG file that was parsed at noon."""
    async with db.acquire() as conn:
        await insert(conn, "dag_file", {"file": file, "partition": partition_of(file), "parsed_at": NOON} | columns)


async def quarantine(db: Database, dag_id: str, **columns: Any) -> None:
    """Put a DAG into quarantine at noon, for 15 seconds."""
    row = {
        "dag_id": dag_id,
        "failures": 1,
        "since": NOON,
        "retry_at": NOON + timedelta(seconds=15),
        "place": "the evaluation",
        "error": "KeyError: 7",
        "traceback": "Traceback (most recent call last):\n  in evaluate\nKeyError: 7\n",
        "version": "1",
    }
    async with db.acquire() as conn:
        await insert(conn, "dag_quarantine", row | columns)


async def add_scheduler(db: Database, name: str, *, lease: float = 15.0, locked: Any = None) -> int:
    """A scheduler's row; alive while the connection `locked` lives, if one is given."""
    from aiosched.db.statements.ownership import register

    arguments: dict[str, Any] = {"hostname": "here", "pid": 1, "version": "1", "executor": "local", "slots": 8}
    if locked is not None:
        return await register(locked, name=name, lease=lease, **arguments)
    async with db.acquire() as conn:
        expires = datetime.now(UTC) + timedelta(seconds=lease)
        row = arguments | {"name": name, "lease_expires_at": expires}
        return int(await insert(conn, "scheduler", row, returning="incarnation"))


async def own(db: Database, *dag_ids: str, figures: str | None = FIGURES) -> int:
    """A scheduler whose lease is fresh owns these DAGs."""
    from aiosched.db.statements.ownership import register

    async with db.acquire() as conn:
        number = await register(
            conn, name="one", hostname="here", pid=1, version="1", executor="local", slots=8, lease=600.0
        )
        await conn.execute(
            "UPDATE scheduler SET figures = $2::json, renewed_at = '2020-01-01' WHERE incarnation = $1", number, figures
        )
        for dag_id in dag_ids:
            await conn.execute(
                "UPDATE partition_lease SET incarnation = $1 WHERE partition = $2", number, partition_of(dag_id)
            )
    return number


async def insert(conn: Any, table: str, row: dict[str, Any], *, returning: str | None = None) -> Any:
    values = [json.dumps(value) if isinstance(value, dict) else value for value in row.values()]
    marks = ", ".join(f"${number}" for number in range(1, len(row) + 1))
    statement = f"INSERT INTO {table} ({', '.join(row)}) VALUES ({marks})"
    return await conn.fetchval(f"{statement} RETURNING {returning}" if returning else statement, *values)
