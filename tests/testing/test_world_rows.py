"""What a world stores is what PostgreSQL stores: the commits of a world, written again by the journal, give its rows.

`aiosched.testing.rows` applies changes to plain rows, without SQL. This is what holds the two together.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterator, Sequence
from datetime import datetime
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aiosched import DAG, BaseOperator, task
from aiosched.core.figures.metrics import Metrics
from aiosched.core.graph.spec import DagSpec
from aiosched.db.server.connection import DatabaseConnection
from aiosched.db.server.engine import Database
from aiosched.db.statements.backfills import cancel_backfill, take_runs
from aiosched.db.statements.journal import OF_TRY, InstanceChange
from aiosched.db.statements.runs import OF_RUN, NewRun, copy_instances, fail_queued_run, insert_runs
from aiosched.db.statements.triggers import DeferralRow
from aiosched.scheduler.journal.journal import Journal
from aiosched.scheduler.memory.changes import Changes, Committed
from aiosched.testing import World
from aiosched.testing.rows.rows import Rows
from tests.conftest import NIGHTLY
from tests.testing.test_world_restarts import DEEDS, HOUR, Scenario, play
from tests.testing.world_builders import NEW_YEAR

Step = Callable[[DatabaseConnection, Journal], Awaitable[object]]

_EMPTY = """
    TRUNCATE scheduler, dag, dag_version, dag_run, task_instance, task_try, xcom, pool, deferred_trigger, deferral,
             callback_outbox, deadline, request, backfill RESTART IDENTITY CASCADE
"""
_SEED = """
    INSERT INTO scheduler (name, hostname, pid, version, executor, slots, lease_expires_at)
         VALUES ('s', 'h', 1, '0', 'inline', 1, now() + interval '1 hour');
    INSERT INTO dag_version (dag_id, number, content_hash, spec)
         SELECT 'd', n, n::text, '{}' FROM generate_series(1, 20) AS n;
    INSERT INTO dag (dag_id, partition, version_id, is_paused, is_stale, max_active_runs)
         VALUES ('d', 0, 1, false, false, 16);
    INSERT INTO pool (name, slots) VALUES ('default_pool', 128)
"""


class Recorder:
    """Everything that changes the rows of a world, as what the scheduler says to the database for it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.steps: list[Step] = []
        for name in ("insert_run", "commit", "fail_queued", "skip_rest", "take_runs"):
            monkeypatch.setattr(Rows, name, self._recording(getattr(self, name), getattr(Rows, name)))

    def _recording(self, record: Callable[..., None], method: Callable[..., Any]) -> Callable[..., Any]:
        def recorded(rows: Rows, *args: Any, **kwargs: Any) -> Any:
            args = tuple(list(arg) if isinstance(arg, Iterator) else arg for arg in args)
            answer = method(rows, *args, **kwargs)
            record(rows, answer, *args)
            return answer

        return recorded

    def insert_run(self, _: Rows, key: int | None, new: NewRun, places: Sequence[tuple[int, int, int]]) -> None:
        async def step(conn: DatabaseConnection, _: Journal) -> None:
            assert list((await insert_runs(conn, [new])).values()) == [key]
            await copy_instances(conn, [(key, *place) for place in places])

        if key is not None:  # each attempt draws a key from the database's sequence
            self.steps.append(step)

    def commit(self, _: Rows, committed: Committed, changes: Changes) -> None:
        async def step(_: DatabaseConnection, journal: Journal) -> None:
            async with journal.batch(shared=True) as transaction:
                stored = await transaction.write(changes)
            assert stored.paused == committed.paused or not committed.paused

        self.steps.append(step)

    def fail_queued(self, rows: Rows, failed: list[int], _: Sequence[int], now: datetime) -> None:
        backfill = rows.runs[failed[0]].backfill_id if failed else None

        async def step(conn: DatabaseConnection, _: Journal) -> None:
            assert sorted(await cancel_backfill(conn, backfill or 0, now)) == sorted(failed)

        if failed:
            self.steps.append(step)

    def skip_rest(self, _: Rows, __: None, key: int, now: datetime) -> None:
        """A run was cancelled: the step before said only that it has failed."""
        self.steps[-1] = lambda conn, _: fail_queued_run(conn, key, now, "cancelled")

    def take_runs(self, _: Rows, __: None, backfill: int, taken: list[tuple[int, int]], conf: dict[str, Any]) -> None:
        text = json.dumps(conf) if conf else None
        self.steps.append(lambda conn, _: take_runs(conn, backfill, taken, text))


def make_spec(schedule: Any, length: int, retries: int) -> DagSpec:
    """Tasks that fail, return values, are mapped, and defer."""
    with DAG("d", schedule=schedule, start_date=NEW_YEAR, catchup=True, max_active_runs=2) as dag:

        @task(retries=retries, retry_delay=HOUR)
        def a() -> list[int]:
            return list(range(length))

        @task(retries=1, pool_slots=2)
        def b(number: int) -> int:
            return 2 * number

        @task(trigger_rule="all_done")
        def total(doubled: list[int]) -> None: ...

        total(b.expand(number=a())) >> BaseOperator(task_id="waits", trigger_rule="all_done")
    return dag.to_spec(now=NEW_YEAR)


@st.composite
def scenarios(draw: st.DrawFn) -> Scenario:
    schedules, length = st.sampled_from([None, "0 */12 * * *", 9 * HOUR]), draw(st.integers(0, 3))
    specs = [make_spec(draw(schedules), length, draw(st.integers(0, 1))) for _ in range(draw(st.integers(1, 2)))]
    fails, takes = st.sampled_from([0, 0, 1, True]), st.sampled_from([HOUR / 2, 2 * HOUR, 7 * HOUR])
    scripts: dict[str, dict[str, Any]] = {name: {"fails": draw(fails), "takes": draw(takes)} for name in ("a", "b")}
    scripts["a"]["returns"] = list(range(length))
    scripts["waits"] = {"defers": draw(takes)}
    deeds = draw(st.lists(st.tuples(st.integers(0, 55), st.sampled_from(DEEDS), st.integers(0, 30)), max_size=8))
    return Scenario(tuple(specs), scripts, tuple(sorted(deeds, key=lambda deed: deed[0])))


_INSTANCE = [name for name in InstanceChange._fields if not name.startswith("old_")]
_RUN = {field: column for field, column in OF_RUN.items() if field not in ("key", "is_incomplete", "conf")}
_DOCUMENTS = ("kwargs", "next_kwargs", "event")  # as they are written
_DEFERRAL = [name for name in DeferralRow._fields[3:] if name not in _DOCUMENTS]


def rows_of(world: World) -> dict[str, dict[Any, Any]]:
    """What a world has stored."""
    rows = world.rows
    instances = [row for of_run in rows.instances.values() for row in of_run.values()]
    return {
        "dag_run": {key: tuple(getattr(run, name) for name in _RUN) for key, run in rows.runs.items()},
        "task_instance": {row[:3]: tuple(getattr(row, name) for name in _INSTANCE[3:]) for row in instances},
        "task_try": {tuple(key): tuple(getattr(done, name) for name in OF_TRY) for key, done in rows.tries.items()},
        "xcom": {place: json.loads(value) for place, value in rows.xcoms.items()},
        "deferred_trigger": {
            row[:3]: tuple(getattr(row, name) for name in _DEFERRAL) for row in rows.deferrals.values()
        },
        "pool": {name: pool.used for name, pool in rows.pools.items() if pool is not None},
    }


async def stored_rows(conn: DatabaseConnection) -> dict[str, dict[Any, Any]]:
    """The same of a database."""

    async def read(table: str, key: Sequence[str], columns: Sequence[str]) -> dict[Any, Any]:
        found = await conn.fetch(f"SELECT {', '.join([*key, *columns])} FROM {table}")
        return {tuple(row[: len(key)]): tuple(row[len(key) :]) for row in found}

    place = ("run_id", "task_index", "map_index")
    return {
        "dag_run": {key: row for (key,), row in (await read("dag_run", ("id",), tuple(_RUN.values()))).items()},
        "task_instance": await read("task_instance", place, _INSTANCE[3:]),
        "task_try": await read("task_try", (*place, "try_number"), tuple(OF_TRY)),
        "xcom": {key: json.loads(row[0]) for key, row in (await read("xcom", (*place, "key"), ("value",))).items()},
        "deferred_trigger": await read("deferred_trigger", place, _DEFERRAL),
        "pool": {key: row[0] for (key,), row in (await read("pool", ("name",), ("used",))).items()},
    }


@settings(max_examples=2_000 if NIGHTLY else 30, deadline=None, suppress_health_check=list(HealthCheck))
@given(scenario=scenarios(), restarts=st.frozensets(st.integers(1, 100), max_size=3))
async def test_what_a_world_stores_is_what_postgresql_stores(
    db: Database, scenario: Scenario, restarts: frozenset[int]
) -> None:
    with pytest.MonkeyPatch.context() as monkeypatch:
        recorder = Recorder(monkeypatch)
        world = await play(scenario, restarts)

    async with db.acquire() as conn:
        await conn.execute(_EMPTY)
        await conn.execute(_SEED)
        journal = Journal(db, 1, Metrics())
        try:
            for step in recorder.steps:
                await step(conn, journal)
        finally:
            await journal.close()

        assert await stored_rows(conn) == rows_of(world)
    assert recorder.steps or not world.runs("d")
