"""The rows and the fields that matter. Source: the semantics reference, sections 1.1 to 1.3.

Ours are narrower where docs/architecture.md, "The tables", says so: what belongs to a DAG's definition
stands in its version (`spec`), what can be known from other rows is not stored twice.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import pytest

from aiosched.clock import FakeClock
from aiosched.core.graph.instances import Run
from aiosched.core.graph.spec import DagSpec, TaskSpec
from aiosched.core.run.board import Instance
from aiosched.core.values.states import RunState, RunType, TaskState
from aiosched.db.schema import schema
from aiosched.db.server.engine import Database
from aiosched.parsing.store import register_specs
from tests.scheduler.harness import NEW_YEAR, dag, running, task

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)

# A row of a table: where it stands with us. "-": nowhere, for the reason given.
DAG_ROW = {
    "is_paused": "dag.is_paused",
    "is_stale": "dag.is_stale",
    "has_import_errors": "dag.has_import_errors",
    "max_active_runs": "dag.max_active_runs",
    "max_active_tasks": "dag.max_active_tasks",
    "max_consecutive_failed_dag_runs": "spec.max_consecutive_failed_dag_runs",
    "has_task_concurrency_limits": "-",  # the tasks that have limits are counted, no others
    "next_dagrun": "dag.next_dagrun",
    "next_dagrun_data_interval_start": "dag.next_dagrun_data_interval_start",
    "next_dagrun_data_interval_end": "dag.next_dagrun_data_interval_end",
    "next_dagrun_create_after": "dag.next_dagrun_create_after",
    "exceeds_max_non_backfill": "-",  # the owner knows how many runs are active
    "last_parsed_time": "dag.last_parsed_at",
    "fail_fast": "spec.fail_fast",
    "timetable_*": "spec.timetable",
    "asset_expression": "spec.timetable",
    "summary of the schedule": "dag.schedule",
}
RUN_ROW = {
    "dag_id": "dag_run.dag_id",
    "run_id": "dag_run.run_id",
    "logical_date": "dag_run.logical_date",
    "data_interval_start": "dag_run.data_interval_start",
    "data_interval_end": "dag_run.data_interval_end",
    "run_after": "dag_run.run_after",
    "run_type": "dag_run.run_type",
    "triggered_by": "dag_run.triggered_by",
    "state": "dag_run.state",
    "queued_at": "dag_run.queued_at",
    "start_date": "dag_run.start_date",
    "end_date": "dag_run.end_date",
    "last_scheduling_decision": "-",  # runs with news are looked at, at once: nobody waits for a turn
    "clear_number": "dag_run.clear_number",
    "backfill_id": "dag_run.backfill_id",
    "conf": "dag_run.conf",
    "creating_job_id": "dag_run.created_by",
    "scheduled_by_job_id": "partition_lease.incarnation",
    "pinned version": "dag_run.version_id",
}
TASK_INSTANCE_ROW = {
    "identity": "task_instance.run_id task_instance.task_index task_instance.map_index",
    "map_index": "task_instance.map_index",
    "try_number": "task_instance.try_number",
    "max_tries": "task_instance.max_tries",
    "state": "task_instance.state",
    "pool, pool_slots, queue, priority_weight, executor": "task.pool task.pool_slots task.queue task.priority_weight",
    "scheduled_dttm": "task_instance.scheduled_at",
    "queued_dttm": "task_instance.queued_at",
    "start_date": "task_instance.start_date",
    "end_date": "task_instance.end_date",
    "queued_by_job_id": "task_instance.queued_by",
    "external_executor_id": "-",  # an attempt is known by its key: run, task, map index, try
    "last_heartbeat_at": "-",  # a scheduler knows of its processes at once
    "trigger_id": "deferred_trigger.run_id",
    "trigger_timeout": "deferred_trigger.timeout_at",
    "next_method": "deferred_trigger.next_method",
    "next_kwargs": "deferred_trigger.next_kwargs",
    "retry_delay_override": "task_instance.next_at",
    "retry_reason": "task_try.reason",
}
OTHERS = {
    "TI history": "task_try.try_number",
    "task reschedule": "task_instance.next_at",
    "XCom, task map": "xcom.value",
    "pool": "pool.slots",
    "job": "scheduler.incarnation",
    "trigger": "deferred_trigger.classpath",
    "asset": "asset.name",
    "asset event": "asset_event.timestamp",
    "asset queue": "asset_queue.newest_at",
    "backfill": "backfill.max_active_runs",
    "backfill-run": "dag_run.backfill_order",
    "deadline": "deadline.deadline_time",
    "audit log": "request.requested_by",
    "import error": "dag_file.error",
    "DAG warning": "dag_file.warnings",
    "callback request": "callback_outbox.id",
    "serialized DAG, version, source code": "dag_version.spec dag_version.number dag_version.source",
}


@pytest.mark.parametrize(
    "places", [p for table in (DAG_ROW, RUN_ROW, TASK_INSTANCE_ROW, OTHERS) for p in table.values() if p != "-"]
)
def test_every_field_has_its_place(places: str) -> None:
    kinds = {"spec": DagSpec, "task": TaskSpec}
    for place in places.split():
        table, _, field = place.partition(".")
        known = kinds[table].__struct_fields__ if table in kinds else schema.metadata.tables[table].columns.keys()
        assert field in known, place


def test_a_pause_a_run_and_a_task_instance_begin_as_the_tables_say() -> None:
    instance, run = Instance(0), Run(1, "d", "r", 1, "manual", RunState.QUEUED, NOON)

    assert (instance.map_index, instance.try_number, instance.state) == (-1, 0, TaskState.NONE)
    assert (run.clear_number, run.conf, run.backfill_id) == (0, {}, None)
    assert {t.value for t in RunType} == {"scheduled", "manual", "backfill", "asset_triggered"}
    assert {s.value for s in RunState} == {"queued", "running", "success", "failed"}


# -- 1.2 what a run's row may hold --------------------------------------------------------------

GOOD: dict[str, Any] = {
    "dag_id": "d", "run_id": "r", "partition": 0, "run_type": "manual", "triggered_by": "test", "state": "queued",
    "logical_date": NOON, "data_interval_start": NOON, "data_interval_end": NOON + HOUR, "run_after": NOON,
}  # fmt: skip
NO_DATE = {"logical_date": None, "data_interval_start": None, "data_interval_end": None}


async def insert(db: Database, table: str, rows: list[dict[str, Any]]) -> None:
    async with db.transaction() as conn:
        for row in rows:
            columns, marks = ", ".join(row), ", ".join(f"${n + 1}" for n in range(len(row)))
            await conn.execute(f"INSERT INTO {table} ({columns}) VALUES ({marks})", *row.values())


async def version_of(db: Database) -> int:
    async with db.transaction() as conn:
        await register_specs(conn, [DagSpec(dag_id="d")], now=NOON)
        return int(await conn.fetchval("SELECT version_id FROM dag"))


@pytest.mark.parametrize(
    ("changes", "constraint"),
    [
        ([{}], None),
        ([{}, {"logical_date": NOON + HOUR}], "uq_dag_run_dag_id_run_id"),
        ([{}, {"run_id": "s"}], "uq_dag_run_dag_id_logical_date"),
        ([{**NO_DATE}, {"run_id": "s", **NO_DATE}], None),  # dates that are null are not equal
        ([{}, {"dag_id": "e"}], None),
        ([{"data_interval_end": None}], "data_interval"),
        ([{"data_interval_start": None}], "data_interval"),
        ([{"data_interval_start": None, "data_interval_end": None}], None),
        ([{"logical_date": None}], "logical_date"),  # then there is no interval either
        ([{"run_type": "operator_triggered"}], "run_type"),
        ([{"state": "restarting"}], "state"),
        ([{"run_id": "with space"}], "run_id"),
    ],
    ids=str,
)
async def test_what_a_runs_row_may_hold(db: Database, changes: list[dict[str, Any]], constraint: str | None) -> None:
    version = await version_of(db)
    rows = [{**GOOD, "version_id": version, **change} for change in changes]

    if constraint is None:
        await insert(db, "dag_run", rows)
        return
    with pytest.raises(asyncpg.IntegrityConstraintViolationError) as refused:
        await insert(db, "dag_run", rows)
    assert str(refused.value.constraint_name).endswith(constraint)


# -- 1.3 what a task instance's row may hold ------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "constraint"),
    [
        ([{}], None),
        ([{}, {}], "pk_task_instance"),
        ([{}, {"map_index": 0}, {"map_index": 1}, {"task_index": 1}, {"run_id": 2}], None),
        ([{"map_index": -2}], "map_index"),
        ([{"try_number": -1}], "tries"),
        ([{"state": "none"}], "state"),  # no state yet is NULL
        ([{"state": "awaiting_input"}], "state"),
        ([{"state": state.stored, "map_index": number} for number, state in enumerate(TaskState)], None),
    ],
    ids=str,
)
async def test_what_a_task_instances_row_may_hold(
    db: Database, changes: list[dict[str, Any]], constraint: str | None
) -> None:
    rows = [{"run_id": 1, "task_index": 0, "map_index": -1, **change} for change in changes]

    if constraint is None:
        await insert(db, "task_instance", rows)
        return
    with pytest.raises(asyncpg.IntegrityConstraintViolationError) as refused:
        await insert(db, "task_instance", rows)
    assert str(refused.value.constraint_name).endswith(constraint)


# -- rules that are told in the tables --------------------------------------------------------------


async def test_limits_are_read_at_every_parse_and_count_for_runs_that_exist(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("d", task("a"), task("b"), max_active_tasks=1, max_active_runs=1)) as it:
        await it.trigger("d", "r")
        await it.trigger("d", "s")
        assert (len(it.executor.running), await it.runs("d")) == (1, {"r": "running", "s": "queued"})

        await it.register(dag("d", task("a"), task("b"), max_active_tasks=4, max_active_runs=2))

        assert (len(it.executor.running), await it.runs("d")) == (4, {"r": "running", "s": "running"})


@pytest.mark.parametrize(
    ("flag", "made"), [("is_stale", False), ("has_import_errors", False), ("is_paused", False), (None, True)]
)
async def test_what_keeps_the_scheduler_from_making_runs(
    dsn: str, clock: FakeClock, flag: str | None, made: bool
) -> None:
    async with running(dsn, clock, dag("d", schedule=HOUR, start_date=NEW_YEAR, catchup=True)) as it:
        if flag is not None:
            await it.execute(f"UPDATE dag SET {flag} = true")
            it.dags_changed("d")
            await it.settled()

        await it.advance(2 * 3600)

        assert bool(await it.runs("d")) is made
        (row,) = await it.fetch("SELECT next_dagrun_data_interval_start, next_dagrun_data_interval_end FROM dag")
        assert (row[0] is None) == (row[1] is None)  # both or neither


async def test_a_number_of_a_try_is_never_used_twice_so_an_older_process_can_change_nothing(
    dsn: str, clock: FakeClock
) -> None:
    """In place of the opaque id that is replaced: the key of an attempt has the try in it."""
    async with running(dsn, clock, dag("d", task("a", retries=1, retry_delay=1.0))) as it:
        await it.trigger("d", "r")
        first = await it.attempt("a")
        it.executor.fail(first)
        await it.settled()
        await it.advance(2)
        second = await it.attempt("a")
        await it.ask("clear", "d", run_ids=["r"])
        third = await it.attempt("a")

        assert [attempt.key.try_number for attempt in (first, second, third)] == [1, 2, 3]
