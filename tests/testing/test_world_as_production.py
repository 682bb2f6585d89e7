"""The same DAG in a world and in a real scheduler with a real database gives the same states.

Where tasks run for real, what they return, raise and wait for is what the script of the world says.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from aiosched import (
    DAG,
    Asset,
    AssetAlias,
    BaseOperator,
    BranchDayOfWeekOperator,
    ExternalTaskSensor,
    LatestOnlyOperator,
    Metadata,
    PythonOperator,
    PythonSensor,
    Scheduler,
    TriggerDagRunOperator,
    task,
)
from aiosched.authoring.triggers.base import BaseTrigger, TriggerEvent
from aiosched.authoring.triggers.endings import TaskFailedEvent, TaskSkippedEvent, TaskSuccessEvent
from aiosched.clock import FakeClock
from aiosched.config import Settings
from aiosched.db.server.engine import Database
from aiosched.testing import Ending, World, defers, fails, skips, succeeds
from tests.scheduler import harness
from tests.testing.world_builders import NEW_YEAR

States = dict[Any, str | None]
DATE = datetime(2026, 1, 5, tzinfo=UTC)


async def in_production(dsn: str, home: Path, dags: Sequence[DAG], first: str) -> dict[str, list[States]]:
    """The states of all runs by DAG, after one run of the first DAG and all that came of it."""
    settings = Settings()
    settings.core.home = home
    async with Scheduler(dsn=dsn, dags=dags, executor="inline", settings=settings) as scheduler:
        run = await scheduler.trigger(first, logical_date=DATE)
        await run.wait(30)
        await scheduler.wait_idle()
        async with scheduler.db.acquire() as conn:
            rows = await conn.fetch(
                """SELECT r.dag_id, r.id, r.state AS of_run, ti.map_index, ti.state,
                          v.spec -> 'tasks' -> ti.task_index ->> 'task_id' AS task_id
                     FROM task_instance AS ti JOIN dag_run AS r ON r.id = ti.run_id
                     JOIN dag_version AS v ON v.id = r.version_id ORDER BY r.id, ti.task_index, ti.map_index"""
            )
    found: dict[str, dict[int, States]] = {dag.dag_id: {} for dag in dags}
    for row in rows:
        states = found[row["dag_id"]].setdefault(row["id"], {"": row["of_run"]})
        states[row["task_id"] if row["map_index"] < 0 else (row["task_id"], row["map_index"])] = row["state"]
    return {dag_id: list(runs.values()) for dag_id, runs in found.items()}


async def in_a_world(dags: Sequence[DAG], first: str, **scripts: Any) -> dict[str, list[States]]:
    """The same in a world; `scripts` are by task id, for all DAGs."""
    async with World(now=datetime.now(UTC)) as world:
        world.add(*dags)
        for task_id, script in scripts.items():
            words = script if isinstance(script, dict) else {"play": script}
            world.script("*", task_id, **words)
        world.trigger(first, logical_date=DATE)
        await world.run_until_idle()
        return {
            dag.dag_id: [{"": run.state.value} | world.states(dag.dag_id, run.run_id) for run in world.runs(dag.dag_id)]
            for dag in dags
        }


# ---- values ----


@pytest.mark.slow(but_first=True)
@pytest.mark.parametrize(
    "value", [None, "a text", 7, [], [1, 2], {"a": 1}, list(range(1025))], ids=lambda v: repr(v)[:9]
)
async def test_what_others_are_mapped_over(dsn: str, tmp_path: Path, value: object) -> None:
    with DAG("d", schedule=None) as written:

        @task
        def listed() -> Any:
            return value

        @task
        def each(one: Any) -> None: ...

        @task(trigger_rule="all_done")
        def end() -> None: ...

        each.expand(one=listed()) >> end()

    real = await in_production(dsn, tmp_path, [written], "d")

    assert await in_a_world([written], "d", listed={"returns": value}) == real


# ---- operators ----


async def test_operators_that_decide(dsn: str, tmp_path: Path) -> None:
    days = {"follow_task_ids_if_true": "monday", "follow_task_ids_if_false": "else"}

    def work(*names: str) -> list[PythonOperator]:
        return [PythonOperator(task_id=name, python_callable=dict) for name in names]

    with DAG("d", schedule=None) as written:

        @task
        def rows() -> int:
            return 12

        @task.branch
        def choose(number: int) -> list[str]:
            return ["many"] if number > 10 else ["few", "none"]

        @task.short_circuit(ignore_downstream_trigger_rules=False)
        def enough(number: int) -> bool:
            return number > 100

        counted = rows()
        choose(counted) >> work("many", "few", "none")
        (
            enough(counted)
            >> work("next")[0]
            >> PythonOperator(task_id="last", python_callable=dict, trigger_rule="all_done")
        )
        LatestOnlyOperator(task_id="latest") >> work("newest")
        BranchDayOfWeekOperator(task_id="day", week_day="Monday", use_task_logical_date=True, **days) >> work(
            "monday", "else"
        )

    real = await in_production(dsn, tmp_path, [written], "d")

    assert await in_a_world([written], "d", rows={"returns": 12}) == real


@pytest.mark.parametrize("options", [{}, {"soft_fail": True}, {"mode": "reschedule"}], ids=str)
async def test_sensors_whose_time_is_over(dsn: str, tmp_path: Path, options: dict[str, Any]) -> None:
    with DAG("d", schedule=None) as written:
        PythonSensor(
            task_id="wait", python_callable=lambda: False, poke_interval=0.05, timeout=0.1, retries=1, **options
        ) >> PythonOperator(task_id="work", python_callable=dict)

    real = await in_production(dsn, tmp_path, [written], "d")

    assert await in_a_world([written], "d", wait={"waits": timedelta(hours=1), "takes": timedelta()}) == real


@pytest.mark.parametrize("options", [{}, {"soft_fail": True}, {"never_fail": True}], ids=str)
async def test_sensors_that_raise(dsn: str, tmp_path: Path, options: dict[str, Any]) -> None:
    def refuse() -> None:
        raise ValueError("no network")

    with DAG("d", schedule=None) as written:
        PythonSensor(task_id="wait", python_callable=refuse, **options)

    real = await in_production(dsn, tmp_path, [written], "d")

    assert await in_a_world([written], "d", wait={"fails": True}) == real


@pytest.mark.slow(but_first=True)
@pytest.mark.parametrize("broken", [False, True])
@pytest.mark.parametrize("options", [{}, {"deferrable": True}], ids=str)
async def test_runs_of_other_dags(dsn: str, tmp_path: Path, options: dict[str, Any], broken: bool) -> None:
    def work() -> None:
        if broken:
            raise ValueError("no")

    with DAG("first", schedule=None) as first:
        start = TriggerDagRunOperator(
            task_id="start", trigger_dag_id="second", logical_date="{{ logical_date.isoformat() }}",
            wait_for_completion=True, poke_interval=0.05, allowed_states=["success", "failed"], failed_states=[],
            **options,
        )  # fmt: skip
        wait = ExternalTaskSensor(
            task_id="wait", external_dag_id="second", external_task_id="work", failed_states=["failed"],
            poke_interval=0.05, poll_interval=0.05, **options,
        )  # fmt: skip
        start >> wait
    with DAG("second", schedule=None) as second:
        PythonOperator(task_id="work", python_callable=work)

    real = await in_production(dsn, tmp_path, [first, second], "first")

    assert await in_a_world([first, second], "first", work={"fails": broken}) == real


# ---- triggers ----


class Tells(BaseTrigger):
    """Ends as it is told."""

    def __init__(self, how: str) -> None:
        self.how = how

    async def run(self) -> AsyncIterator[TriggerEvent]:
        ends: dict[str, Callable[[], TriggerEvent]] = {
            "fires": TriggerEvent,
            "succeeds": lambda: TaskSuccessEvent(xcoms={"return_value": [1, 2]}),
            "skips": TaskSkippedEvent,
            "fails": lambda: TaskFailedEvent(reason="refused"),
        }
        if self.how == "breaks":
            raise ValueError("the job is gone")
        yield ends[self.how]()


class Defers(BaseOperator):
    """Waits for a trigger that ends as it is told."""

    def __init__(self, *, how: str, **options: Any) -> None:
        super().__init__(**options)
        self.how = how

    def execute(self, context: Any) -> None:
        context["ti"].xcom_push("job", 7)
        self.defer(trigger=Tells(self.how), method_name="go_on")

    def go_on(self, context: Any, event: Any) -> list[int]:
        return [1]


PAUSE = timedelta(minutes=5)


@pytest.mark.slow(but_first=True)
@pytest.mark.parametrize(
    ("how", "ending"),
    [
        ("fires", lambda attempt: succeeds([1]) if attempt.resume else defers(PAUSE, pushes={"job": 7})),
        ("breaks", defers(PAUSE, pushes={"job": 7}, breaks="the job is gone")),
        ("succeeds", defers(PAUSE, pushes={"job": 7}, ends=succeeds([1, 2]))),
        ("skips", defers(PAUSE, pushes={"job": 7}, ends=skips())),
        ("fails", defers(PAUSE, pushes={"job": 7}, ends=fails("refused"))),
    ],
)
async def test_triggers_that_fire_fail_or_end_their_task(dsn: str, tmp_path: Path, how: str, ending: Ending) -> None:
    with DAG("d", schedule=None) as written:

        @task
        def each(one: int) -> None: ...

        each.expand(one=Defers(task_id="waits", how=how).output)

    real = await in_production(dsn, tmp_path, [written], "d")

    assert await in_a_world([written], "d", waits=ending) == real
    async with await Database.open(dsn, application_name="test") as db, db.acquire() as conn:
        stored = await conn.fetch("SELECT key, value FROM xcom WHERE key <> 'skipped_downstream' ORDER BY key")
    assert dict(stored) == await values_in_a_world(written, ending)


async def values_in_a_world(written: DAG, ending: Ending) -> dict[str, str]:
    """What the task `waits` has pushed, as JSON texts by key."""
    async with World(now=NEW_YEAR) as world:
        world.add(written)
        world.script("d", "waits", ending)
        run = world.trigger("d")
        await world.run_until_idle()
        found = {key: world.xcom("d", run, "waits", key) for key in ("job", "return_value")}
    return {key: value for key, value in found.items() if value is not None}


# ---- assets ----


async def test_events_with_extras_and_through_aliases(dsn: str, tmp_path: Path) -> None:
    table, alias, part = Asset("table"), AssetAlias("parts"), Asset("part_1")

    with DAG("maker", schedule=None) as maker:

        @task(outlets=[table, alias])
        def make() -> Any:
            yield Metadata(table, {"rows": 3})
            yield Metadata(part, {"n": 1}, alias=alias)

        make()
    readers = []
    for name, schedule in {"reader": table, "follower": alias, "both": [table, part], "neither": Asset("x")}.items():
        with DAG(name, schedule=schedule) as reader:
            PythonOperator(task_id="read", python_callable=dict)
        readers.append(reader)

    real = await in_production(dsn, tmp_path, [maker, *readers], "maker")

    said = [Metadata(table, {"rows": 3}), Metadata(part, {"n": 1}, alias="parts")]
    assert await in_a_world([maker, *readers], "maker", make={"events": said}) == real
    assert [len(runs) for runs in real.values()] == [1, 1, 1, 1, 0]


# ---- attempts that lie, files that vanish ----


@pytest.mark.slow(but_first=True)
@pytest.mark.parametrize("catchup", [True, False])
async def test_a_file_that_vanishes_and_returns(dsn: str, clock: FakeClock, catchup: bool) -> None:
    spec = harness.dag("d", schedule="@hourly", start_date=NEW_YEAR, catchup=catchup)
    async with harness.running(dsn, clock, spec) as it:
        it.executor.script = harness.succeeding
        for hour in range(8):
            if hour in (3, 6):
                await it.execute("UPDATE dag SET is_stale = $1", hour == 3)
                await it.leave_and_come_back()
            await it.advance(3600)
        real = await it.dates("d")

    async with World(now=NEW_YEAR, takes=timedelta()) as world:
        world.add(spec)
        for hour in range(8):
            if hour == 3:
                world.remove("d")
            elif hour == 6:
                world.add(spec)
            await world.run_for(timedelta(hours=1))
        assert sorted(run.logical_date for run in world.runs("d") if run.logical_date) == real
