"""What benchmarks find when they begin: nothing limits, a history is as one that grew, no old record is there."""

from __future__ import annotations

import os
from pathlib import Path

import asyncpg
import pytest

from aiosched.core.graph.spec import DEFAULT_POOL
from benchmarks import record
from benchmarks.history import history_of
from benchmarks.run import postgres
from benchmarks.shapes import SHAPES
from benchmarks.stage import stage, unlimited


@pytest.mark.slow
async def test_a_stage_is_durable_and_its_default_pool_limits_nothing() -> None:
    """On a server of its own, as benchmarks have it: that takes some seconds."""
    async with stage() as at:
        slots = await at.conn.fetchval("SELECT slots FROM pool WHERE name = $1", DEFAULT_POOL)
        parallelism = unlimited(at.folders).core.parallelism
        server = await postgres(at.conn)

    assert "fsync=on synchronous_commit=on" in server
    assert slots >= parallelism
    assert slots >= max(shape.total for shape in SHAPES.values())


async def test_new_task_instances_are_not_strewn_over_the_pages_of_a_history(dsn: str) -> None:
    conn = await asyncpg.connect(dsn)
    await history_of(2_000)(conn, SHAPES["chain-200"])
    pages = await conn.fetchval("SELECT pg_relation_size('task_instance') / current_setting('block_size')::int")

    new = await conn.fetchval(
        "WITH new AS (INSERT INTO task_instance (run_id, task_index, map_index)"
        " SELECT (SELECT max(id) FROM dag_run), 100 + n, -1 FROM generate_series(1, 100) AS n RETURNING ctid)"
        " SELECT min((ctid::text::point)[0]) FROM new"
    )
    options = await conn.fetchval("SELECT reloptions FROM pg_class WHERE oid = 'task_instance'::regclass")
    await conn.close()

    assert new >= pages - 1
    assert options == ["fillfactor=25"]


def test_forgotten_records_are_gone_and_closed(tmp_path: Path) -> None:
    folder = tmp_path / "records"
    folder.mkdir()
    inside, outside = (os.open(path, os.O_WRONLY | os.O_CREAT) for path in (folder / "1", tmp_path / "1"))

    record.forget(folder)

    assert record.read(folder) == []
    assert not Path(f"/proc/self/fd/{inside}").exists()
    os.close(outside)
