"""What `why` reads costs what is unfinished, not what ever was."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from aiosched.core.values.ids import partition_of
from aiosched.db.queries import why
from aiosched.db.server.engine import Database
from aiosched.db.statements.runs import in_rows
from tests.cli.records import add_dag

ALL = list(range(64))
_HISTORY = (
    """
    INSERT INTO dag_run (dag_id, run_id, partition, version_id, run_type, triggered_by, state, run_after, start_date,
                         end_date)
    SELECT d.dag_id, 'r' || n, d.partition, d.version_id, 'manual', 'test',
           CASE WHEN n > 8995 THEN 'running' ELSE 'success' END, now(), now(), now()
      FROM dag AS d CROSS JOIN generate_series(1, 9000) AS n
    """,
    """
    INSERT INTO task_instance (run_id, task_index, map_index, state, start_date, end_date)
    SELECT id, i, -1, CASE WHEN state = 'running' THEN (ARRAY['running', 'scheduled'])[i + 1] ELSE 'success' END,
           now(), now()
      FROM dag_run CROSS JOIN generate_series(0, 1) AS i
    """,
    "ANALYZE",
)
STATEMENTS: dict[str, tuple[str, tuple[Any, ...]]] = {
    "unfinished": (why.UNFINISHED_OF_DAG, (in_rows([partition_of("sales")]), "sales", 2000)),
    "active": (why.ACTIVE_OF_DAG, (partition_of("sales"), "sales", ["running", "queued"])),
    "waiting": (why.CONTENDERS, (ALL, True, 2000, 2001, None, ["scheduled"])),
    "holding": (why.CONTENDERS, (ALL, False, 2000, 2001, None, ["running", "queued", "deferred"])),
    "of a DAG": (why.CONTENDERS, (ALL, False, 2000, 2001, "sales", ["running", "queued", "deferred"])),
    "running": (why.RUNNING_RUNS, (ALL, 2001)),
    "latest runs": (why.LATEST_RUNS, (["sales"], 10)),
    "medians": (why.MEDIANS, ([0] * 10, list(range(1, 11)), [0] * 10)),
    "newest run": (why.LATEST_RUN, ("sales",)),
    "a usual run": (why.USUAL_RUN, ("sales",)),
}


@pytest.fixture
async def history(db: Database) -> Database:
    """Eighteen thousand runs of two DAGs, ten of them unfinished."""
    for dag_id in ("sales", "other"):
        await add_dag(db, dag_id)
    async with db.acquire() as conn:
        for statement in _HISTORY:
            await conn.execute(statement)
    return db


async def test_no_statement_reads_the_history(history: Database) -> None:
    scanned: list[str] = []
    async with history.acquire() as conn:
        for name, (query, arguments) in STATEMENTS.items():
            (plan,) = await conn.fetchrow(f"EXPLAIN (FORMAT json) {query}", *arguments)
            scanned += [f"{name}: {table}" for table in _scans(json.loads(plan)[0]["Plan"])]

        assert scanned == []


async def test_the_limits_say_so_where_they_cut(history: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    async with history.acquire() as conn:
        assert len(await why.waiting_instances(conn) or ()) == 10
        assert len(await why.holding_instances(conn)) == 10
        monkeypatch.setattr(why, "MOST_INSTANCES", 9)

        assert await why.waiting_instances(conn) is None
        assert len(await why.holding_instances(conn)) == 10, "one more than the limit says that there are others"
        assert len(await why.holding_instances(conn, "sales")) == 5
        assert not await why.more_run_than_are_read(conn)
        monkeypatch.setattr(why, "MOST_RUNS", 9)
        assert await why.more_run_than_are_read(conn)
        monkeypatch.setattr(why, "MOST_RUNS", 10)
        await conn.execute("UPDATE dag SET is_paused = true WHERE dag_id = 'other'")
        assert len(await why.waiting_instances(conn) or ()) == 5


def _scans(plan: dict[str, Any]) -> Iterator[str]:
    if plan["Node Type"] == "Seq Scan" and plan["Relation Name"] in ("dag_run", "task_instance"):
        yield f"{plan['Relation Name']} {plan.get('Filter', '')}"
    for part in plan.get("Plans", ()):
        yield from _scans(part)
