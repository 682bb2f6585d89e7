"""Statements that create runs, read them back and look at the past."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from aiosched.core.graph.spec import DagSpec, TaskSpec
from aiosched.core.run.board import Run
from aiosched.core.timetables.base import DataInterval, NextRun
from aiosched.core.values.ids import partition_of
from aiosched.core.values.messages import XComRef
from aiosched.core.values.states import RunState, TaskState
from aiosched.db.server.connection import DatabaseConnection
from aiosched.db.server.engine import Database
from aiosched.db.statements import runs
from aiosched.db.upkeep.dag_deletion import delete_dag
from aiosched.errors import StaleRows
from aiosched.parsing.store import register_specs

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


async def add_dag(conn: DatabaseConnection, dag_id: str = "d", *tasks: str) -> runs.DagRow:
    specs = tuple(TaskSpec(task_id=t, operator="X") for t in tasks or ("a", "b"))
    await register_specs(conn, [DagSpec(dag_id=dag_id, tasks=specs)], now=NOON)
    return next(row for row in await runs.load_dags(conn, [partition_of(dag_id)]) if row.dag_id == dag_id)


def new_run(dag: runs.DagRow, run_id: str, **values: Any) -> runs.NewRun:
    logical = values.get("logical_date")
    run = Run(
        key=0,
        dag_id=dag.dag_id,
        run_id=run_id,
        version_id=dag.version_id,
        run_type="scheduled",
        state=RunState.RUNNING,
        interval_start=logical,
        interval_end=None if logical is None else logical + HOUR,
        run_after=NOON,
        queued_at=NOON,
        start_date=NOON,
        conf={"k": 1},
    )
    return runs.NewRun(dataclasses.replace(run, **values), dag.partition, "timetable", 1)


async def test_dags_are_read_by_partition_with_their_newest_version(db: Database) -> None:
    async with db.transaction() as conn:
        dag = await add_dag(conn)
        assert await runs.load_dags(conn, [(dag.partition + 1) % 64]) == []

        versions, unreadable = await runs.load_versions(conn, [dag.version_id])

    assert (dag.file, dag.is_paused, dag.is_stale, dag.has_import_errors) == (None, False, False, False)
    assert (versions[dag.version_id].number, unreadable) == (1, [])
    assert [task.task_id for task in versions[dag.version_id].spec.tasks] == ["a", "b"]


async def test_a_run_comes_back_as_it_was_stored(db: Database) -> None:
    async with db.transaction() as conn:
        dag = await add_dag(conn)
        keys = await runs.insert_runs(conn, [new_run(dag, "r", logical_date=NOON)])
        await runs.copy_instances(conn, [(keys["d", "r"], 0, -1, 2), (keys["d", "r"], 1, -1, 0)])

        (run,) = await runs.load_unfinished_runs(conn, [dag.partition])
        instances = (await runs.load_instances(conn, [run.key]))[run.key]

    assert (run.key, run.dag_id, run.run_id, run.state) == (keys["d", "r"], "d", "r", RunState.RUNNING)
    assert (run.logical_date, run.interval_start, run.interval_end) == (NOON, NOON, NOON + HOUR)
    assert (run.conf, run.stored_state) == ({"k": 1}, RunState.RUNNING)
    assert [(i.task, i.map_index, i.state, i.try_number, i.max_tries) for i in instances] == [
        (0, -1, TaskState.NONE, 0, 2),
        (1, -1, TaskState.NONE, 0, 0),
    ]


@pytest.mark.parametrize("same", [{"run_id": "r"}, {"logical_date": NOON}])
async def test_a_run_that_exists_is_left_alone_and_the_others_are_created(db: Database, same: dict[str, Any]) -> None:
    async with db.transaction() as conn:
        dag = await add_dag(conn)
        await runs.insert_runs(conn, [new_run(dag, "r", logical_date=NOON)])
        values = {"run_id": "other", "logical_date": NOON + HOUR, **same}

        keys = await runs.insert_runs(
            conn, [new_run(dag, **values), new_run(dag, "third", logical_date=NOON + 2 * HOUR)]
        )

        assert list(keys) == [("d", "third")]


async def test_a_version_that_was_replaced_meanwhile_makes_the_caller_read_again(db: Database) -> None:
    async with db.acquire() as conn:
        dag = await add_dag(conn)

        with pytest.raises(StaleRows, match="version was replaced"):
            await runs.insert_runs(conn, [new_run(dag, "r", version_id=dag.version_id + 1)])


async def test_finished_runs_are_not_loaded_and_the_others_oldest_first(db: Database) -> None:
    async with db.transaction() as conn:
        dag = await add_dag(conn)
        states = {"one": "running", "two": "success", "three": "queued", "four": "failed"}
        await runs.insert_runs(conn, [new_run(dag, run_id, state=state) for run_id, state in states.items()])

        assert [run.run_id for run in await runs.load_unfinished_runs(conn, range(64))] == ["one", "three"]


async def test_next_runs_are_shown_and_taken_away(db: Database) -> None:
    query = """SELECT next_dagrun, next_dagrun_data_interval_start, next_dagrun_data_interval_end,
                      next_dagrun_create_after FROM dag"""
    async with db.transaction() as conn:
        await add_dag(conn)
        interval = DataInterval(NOON, NOON + HOUR)

        await runs.set_next_runs(conn, [("d", NextRun(run_after=NOON + HOUR, interval=interval))])
        assert tuple(await conn.fetchrow(query)) == (NOON, NOON, NOON + HOUR, NOON + HOUR)
        await runs.set_next_runs(conn, [("d", None)])

        assert tuple(await conn.fetchrow(query)) == (None, None, None, None)


async def test_a_queued_run_is_failed_with_its_instances_and_a_running_one_is_not(db: Database) -> None:
    async with db.transaction() as conn:
        dag = await add_dag(conn)
        keys = await runs.insert_runs(conn, [new_run(dag, "waits", state="queued"), new_run(dag, "runs")])
        await runs.copy_instances(conn, [(key, 0, -1, 0) for key in keys.values()])

        for key in keys.values():
            await runs.fail_queued_run(conn, key, NOON, "cancelled")

        rows = await conn.fetch(
            "SELECT r.run_id, r.state, r.reason, ti.state FROM dag_run r JOIN task_instance ti ON ti.run_id = r.id"
            " ORDER BY 1"
        )
    assert list(map(tuple, rows)) == [("runs", "running", None, None), ("waits", "failed", "cancelled", "skipped")]


async def test_a_run_is_found_by_its_id_or_its_date(db: Database) -> None:
    async with db.transaction() as conn:
        dag = await add_dag(conn)
        await runs.insert_runs(conn, [new_run(dag, "r", logical_date=NOON)])

        by_id = await runs.find_run(conn, "d", run_id="r")
        by_date = await runs.find_run(conn, "d", logical_date=NOON)

        assert by_id is not None
        assert by_date is not None
        assert by_id.key == by_date.key
        assert await runs.find_run(conn, "d", run_id="x") is None


async def test_unfinished_runs_are_found_by_their_own_index(db: Database) -> None:
    async with db.transaction() as conn:
        dag = await add_dag(conn)
        await runs.insert_runs(conn, [new_run(dag, f"r{n}", state="success") for n in range(2000)])
        await runs.insert_runs(conn, [new_run(dag, "live")])
        await conn.execute("ANALYZE dag_run")

        plan = "\n".join(
            row[0] for row in await conn.fetch(f"EXPLAIN {runs.UNFINISHED_IDS}", [dag.partition], [], None)
        )

    assert "ix_dag_run_unfinished" in plan


# -- values -----------------------------------------------------------------------------------


async def add_value(
    conn: DatabaseConnection, run: int, task: int, value: str, *, map_index: int = -1, key: str = "k"
) -> None:
    await conn.execute("INSERT INTO xcom VALUES ($1, $2, $3, $4, $5::json)", run, task, map_index, key, value)


async def test_values_come_in_the_order_of_the_references_and_of_their_indexes(db: Database) -> None:
    async with db.transaction() as conn:
        dag = await add_dag(conn)
        ((_, run),) = (await runs.insert_runs(conn, [new_run(dag, "r")])).items()
        for map_index in (2, 0, 1):
            await add_value(conn, run, 0, str(map_index), map_index=map_index)
        await add_value(conn, run, 1, '"single"')

        found = await runs.get_xcoms(
            conn,
            run,
            [(1, XComRef("b", "k")), (0, XComRef("a", "k")), (0, XComRef("a", "k", 1)), (0, XComRef("a", "other"))],
        )

        assert found == [[(-1, '"single"')], [(0, "0"), (1, "1"), (2, "2")], [(1, "1")], []]
        assert await runs.version_of_run(conn, run) == dag.version_id
        assert await runs.version_of_run(conn, run + 1) is None


async def test_a_deleted_dag_leaves_no_row(db: Database) -> None:
    async with db.transaction() as conn:
        for dag_id in ("d", "other"):
            dag = await add_dag(conn, dag_id)
            keys = await runs.insert_runs(conn, [new_run(dag, "r")])
            await runs.copy_instances(conn, [(key, 0, -1, 0) for key in keys.values()])
            await add_value(conn, keys[dag_id, "r"], 0, "1")

        await delete_dag(conn, "d")

        for table in ("dag", "dag_version", "dag_run", "task_instance", "xcom"):
            assert await conn.fetchval(f"SELECT count(*) FROM {table}") == 1
