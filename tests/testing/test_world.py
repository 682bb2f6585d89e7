"""The world decides as the real scheduler does: known tables, compactly."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest

from aiosched import Asset, CronTriggerTimetable
from aiosched.core.graph.spec import AssetRef, LiteralLength, MappingSpec, TaskOutput
from aiosched.core.values.states import RunState
from aiosched.errors import Refused
from aiosched.testing import World, defers, fails, never_ends, succeeds
from tests.testing.world_builders import NEW_YEAR, at, dag, minutes, task


def world(**options: object) -> World:
    return World(**{"now": NEW_YEAR, "takes": minutes(1)} | options)  # type: ignore[arg-type]


# ---- runs ----


@pytest.mark.parametrize(
    ("catchup", "created"),
    [
        (True, ["2025-12-29", "2025-12-30", "2025-12-31", "2026-01-01"]),
        (False, ["2025-12-31", "2026-01-01"]),  # the latest complete interval, then each new one
    ],
)
async def test_catchup_makes_the_missed_runs(catchup: bool, created: list[str]) -> None:
    async with world() as it:
        it.add(dag("d", schedule="@daily", start_date=datetime(2025, 12, 29, tzinfo=UTC), catchup=catchup))

        await it.run_until(at(12, day=2))

        assert [run.logical_date.date().isoformat() for run in it.runs("d") if run.logical_date] == created
        assert {run.state for run in it.runs("d")} == {RunState.SUCCESS}


async def test_a_run_begins_when_its_interval_is_over() -> None:
    async with world() as it:
        it.add(dag("d", schedule="30 6 * * *", start_date=NEW_YEAR))

        await it.run_until(at(6, 29, day=2))
        before = len(it.runs("d"))
        await it.run_until(at(6, 30, day=2))

        assert (before, len(it.runs("d"))) == (0, 1)
        assert it.runs("d")[0].start_date == at(6, 30, day=2)


@pytest.mark.parametrize("limit", [1, 2, 3])
async def test_max_active_runs_holds_at_every_instant(limit: int) -> None:
    async with world() as it:
        start = datetime(2025, 12, 20, tzinfo=UTC)
        it.add(dag("d", schedule="@daily", start_date=start, catchup=True, max_active_runs=limit))
        it.script("d", "a", takes=timedelta(hours=1))
        most = 0

        while await it.step() and it.now < at(day=2):
            most = max(most, sum(run.state in ("queued", "running") for run in it.runs("d") if run.end_date is None))

        assert len(it.runs("d")) >= 12
        assert most <= limit
        starts = sorted(run.start_date for run in it.runs("d") if run.start_date)
        assert all(starts.count(instant) <= limit for instant in starts)


async def test_a_clock_change_moves_a_run_in_utc() -> None:
    async with World(now=datetime(2026, 3, 27, tzinfo=UTC)) as it:
        schedule = CronTriggerTimetable("0 6 * * *", timezone="Europe/Berlin")
        it.add(dag("d", schedule=schedule, start_date=datetime(2026, 3, 1, tzinfo=UTC)))

        await it.run_until(datetime(2026, 3, 31, tzinfo=UTC))

        assert [run.run_after.hour for run in it.runs("d")[-3:]] == [5, 4, 4]


async def test_a_triggered_run_waits_while_its_dag_is_paused() -> None:
    async with world() as it:
        it.add(dag("d"), paused=True)
        run = it.trigger("d", conf={"day": 1})
        await it.run_until_idle()
        waiting = it.run("d", run).state

        it.unpause("d")
        await it.run_until_idle()

        assert (waiting, it.run("d", run).state) == (RunState.QUEUED, RunState.SUCCESS)
        assert it.run("d", run).conf == {"day": 1}


async def test_a_trigger_that_is_refused_leaves_the_dag_paused() -> None:
    async with world() as it:
        it.add(dag("d"), paused=True)
        it.trigger("d", run_id="taken")

        for wrong in ({"run_id": "taken"}, {"run_id": "no/slash"}):
            with pytest.raises(Refused):
                it.trigger("d", **wrong, unpause=True)  # type: ignore[call-overload]
        await it.run_until_idle()

        assert it.run("d", "taken").state is RunState.QUEUED
        it.trigger("d", unpause=True)
        await it.run_until_idle()
        assert it.run("d", "taken").state is RunState.SUCCESS


async def test_pausing_lets_what_runs_go_on_and_starts_nothing() -> None:
    async with world() as it:
        it.add(dag("d", task("a"), task("b", after="a")))
        run = it.trigger("d")
        await it.run_for(minutes(0.5))

        it.pause("d")
        await it.run_for(minutes(10))

        assert it.states("d", run) == {"a": "success", "b": None}


async def test_a_run_that_takes_too_long_fails_and_its_rest_is_skipped() -> None:
    async with world() as it:
        it.add(dag("d", task("a"), task("b", after="a"), dagrun_timeout=600.0))
        it.script("d", "a", lambda attempt: never_ends())
        run = it.trigger("d")

        await it.run_until_idle()

        assert it.states("d", run) == {"a": "skipped", "b": "skipped"}
        assert it.run("d", run).reason == "timed_out"
        assert it.now - NEW_YEAR == timedelta(minutes=10, microseconds=1)


async def test_a_cancelled_run_stops_what_runs() -> None:
    async with world() as it:
        it.add(dag("d", task("a"), task("b", after="a")))
        it.script("d", "a", lambda attempt: never_ends())
        run = it.trigger("d")
        await it.run_for(minutes(3))

        it.cancel("d", run)
        await it.run_until_idle()

        assert it.states("d", run) == {"a": "failed", "b": "skipped"}
        assert it.run("d", run).state is RunState.FAILED


# ---- tries ----


@pytest.mark.parametrize(
    ("retries", "failing", "state", "tries"),
    [(0, 0, "success", 1), (0, 1, "failed", 1), (2, 2, "success", 3), (2, 3, "failed", 3), (1, True, "failed", 2)],
)
async def test_retries(retries: int, failing: int, state: str, tries: int) -> None:
    async with world() as it:
        it.add(dag("d", task("a", retries=retries, retry_delay=300.0)))
        it.script("d", "a", fails=failing, takes=minutes(2))
        run = it.trigger("d")

        await it.run_until_idle()

        row = it.task("d", run, "a")
        assert (row.state, row.try_number) == (state, tries)
        waited = minutes(2 * tries + 5 * (tries - 1)) + timedelta(microseconds=tries - 1)
        assert it.now - NEW_YEAR == waited


async def test_an_execution_timeout_fails_a_try() -> None:
    async with world() as it:
        it.add(dag("d", task("a", execution_timeout=90.0)))
        it.script("d", "a", takes=minutes(5))
        run = it.trigger("d")

        await it.run_until_idle()

        assert it.task("d", run, "a").reason == "ran longer than its execution_timeout of 90 s"
        assert it.now - NEW_YEAR == timedelta(seconds=90)


async def test_a_lost_attempt_spends_no_retry() -> None:
    async with world() as it:
        it.add(dag("d"))
        run = it.trigger("d")
        await it.run_for(minutes(0.5))

        await it.events("d", run, {"a": "lost"})
        await it.run_until_idle()

        row = it.task("d", run, "a")
        assert (row.state, row.try_number, row.losses) == ("success", 2, 0)


async def test_a_sensor_gives_its_slot_back_while_it_waits() -> None:
    async with world() as it:
        it.pool("narrow", slots=1)
        it.add(dag("d", task("wait", pool="narrow"), task("work", pool="narrow")))
        it.script("d", "wait", waits=minutes(10), every=minutes(5), takes=minutes(1))
        run = it.trigger("d")

        await it.run_until_idle()

        assert it.states("d", run) == {"wait": "success", "work": "success"}
        assert it.task("d", run, "wait").try_number == 1
        assert it.task("d", run, "work").end_date == at(0, 2)


async def test_a_deferred_task_waits_without_a_slot() -> None:
    async with world(parallelism=1) as it:
        it.pool("narrow", slots=1)
        it.add(dag("d", task("wait", pool="narrow"), task("work", pool="narrow")))
        it.script("d", "wait", defers=minutes(30))
        run = it.trigger("d")
        await it.run_for(minutes(5))
        meanwhile = it.states("d", run)

        await it.run_until_idle()

        assert meanwhile == {"wait": "deferred", "work": "success"}
        assert it.states("d", run) == {"wait": "success", "work": "success"}
        assert it.task("d", run, "wait").try_number == 1
        assert it.task("d", run, "wait").end_date == at(0, 32)


@pytest.mark.parametrize("accident", ["restart", "crash"])
async def test_a_deferral_survives_its_scheduler(accident: str) -> None:
    async with world() as it:
        it.add(dag("d"))
        it.script("d", "a", lambda attempt: None if attempt.resume else defers(minutes(30)))
        run = it.trigger("d")
        await it.run_for(minutes(5))

        await getattr(it, accident)()
        await it.run_until_idle()

        row = it.task("d", run, "a")
        assert (row.state, row.try_number, row.losses) == ("success", 1, 0)


async def test_a_deferral_may_time_out() -> None:
    async with world() as it:
        it.add(dag("d"))
        it.script(
            "d", "a", lambda attempt: fails("late") if attempt.resume else defers(minutes(30), timeout=minutes(3))
        )
        run = it.trigger("d")

        await it.run_until_idle()

        assert it.task("d", run, "a").state == "failed"
        assert it.now < at(0, 6)


async def test_failed_runs_in_a_row_pause_a_dag_and_ask_for_callbacks() -> None:
    async with world() as it:
        it.add(
            dag(
                "d", schedule="@hourly", start_date=NEW_YEAR, max_consecutive_failed_dag_runs=2,
                has_failure_callback=True,
            )
        )  # fmt: skip
        it.script("d", "a", fails=True)

        await it.run_until(at(12))

        assert [run.state for run in it.runs("d")] == [RunState.FAILED] * 2
        assert [(call.kind, call.dag_id) for call in it.callbacks] == [("dag_failure", "d")] * 2


async def test_tasks_that_are_mapped_over_literal_values_have_their_map_index() -> None:
    async with world() as it:
        mapping = MappingSpec(inputs=(LiteralLength(length=3),))
        it.add(dag("d", task("a", mapping=mapping), task("b", after="a")))
        run = it.trigger("d")

        await it.run_until_idle()

        assert it.states("d", run) == {("a", 0): "success", ("a", 1): "success", ("a", 2): "success", "b": "success"}


@pytest.mark.parametrize("accident", [None, "restart", "crash"])
async def test_a_task_is_mapped_over_what_another_one_returned(accident: str | None) -> None:
    async with world() as it:
        mapping = MappingSpec(inputs=(TaskOutput(task_id="list"),))
        it.add(dag("d", task("list"), task("each", after="list", mapping=mapping), task("end", after="each")))
        it.script("d", "list", returns=["x", "y", "z"])
        run = it.trigger("d")
        await it.run_for(minutes(1.5))

        if accident is not None:
            await getattr(it, accident)()
        await it.run_until_idle()

        assert set(it.states("d", run).values()) == {"success"}
        assert [name for name in it.states("d", run) if name not in ("list", "end")] == [("each", n) for n in range(3)]


# ---- the past ----


@pytest.mark.parametrize("accident", [None, "restart"])
async def test_a_task_that_depends_on_its_past_waits_for_it(accident: str | None) -> None:
    async with world() as it:
        it.add(
            dag(
                "d", task("a", depends_on_past=True), schedule="@hourly",
                start_date=NEW_YEAR - timedelta(hours=3), catchup=True,
            )
        )  # fmt: skip
        await it.run_for(minutes(0.5))
        first = [it.states("d", run.run_id)["a"] for run in it.runs("d")]

        if accident is not None:
            await getattr(it, accident)()
        await it.run_for(minutes(30))

        assert first == ["running", None, None]
        assert [it.task("d", run.run_id, "a").end_date for run in it.runs("d")] == [at(0, n) for n in (1, 2, 3)]


async def test_a_failure_in_the_past_holds_up_what_depends_on_it() -> None:
    async with world() as it:
        spec = dag("d", task("a", depends_on_past=True), schedule="@hourly", start_date=NEW_YEAR, catchup=True)
        it.add(spec)
        it.script("d", "a", lambda attempt: fails() if attempt.run.logical_date == at(1) else None)

        await it.run_until(at(5, 30))

        assert [it.states("d", run.run_id)["a"] for run in it.runs("d")] == ["success", "failed", None, None, None]


# ---- assets ----


async def test_a_task_with_outlets_makes_runs_of_those_who_wait_for_its_asset() -> None:
    async with world() as it:
        it.add(dag("maker", task("a", outlets=(AssetRef(name="orders"),))))
        it.add(dag("reader", schedule=[Asset("orders"), Asset("prices")]))
        it.trigger("maker")
        await it.run_until_idle()
        before = len(it.runs("reader"))

        it.emit("prices")
        await it.run_until_idle()

        (run,) = it.runs("reader")
        assert (before, run.run_type, run.state) == (0, "asset_triggered", RunState.SUCCESS)


async def test_events_that_wait_for_a_dag_survive_a_restart() -> None:
    async with world() as it:
        it.add(dag("reader", schedule=[Asset("orders"), Asset("prices")]))
        it.emit("orders")
        it.emit("orders")

        await it.restart()
        it.emit("prices")
        await it.run_until_idle()

        (run,) = it.runs("reader")
        assert [event.name for event in it.events_of("reader", run.run_id)] == ["orders", "orders", "prices"]


# ---- the graph ----


@pytest.mark.parametrize(
    ("a", "rule", "b"),
    [
        ("success", "all_success", "success"),
        ("failed", "all_success", "upstream_failed"),
        ("skipped", "all_success", "skipped"),
        ("failed", "all_done", "success"),
        ("failed", "one_failed", "success"),
        ("success", "one_failed", "skipped"),
        ("skipped", "none_failed", "success"),
        ("failed", "none_failed", "upstream_failed"),
    ],
)
async def test_trigger_rules(a: str, rule: str, b: str) -> None:
    async with world() as it:
        it.add(dag("d", task("a"), task("b", after="a", trigger_rule=rule)))
        run = it.trigger("d")
        it.set_task("d", run, "a", state=a)

        await it.run_until_idle()

        assert it.states("d", run) == {"a": a, "b": b}


async def test_a_branch_skips_what_it_does_not_follow() -> None:
    async with world() as it:
        tasks = [task("choose"), task("left", after="choose"), task("right", after="choose")]
        it.add(dag("d", *tasks, task("join", after="left right", trigger_rule="none_failed_min_one_success")))
        it.script("d", "choose", branch="right")
        run = it.trigger("d")

        await it.run_until_idle()

        assert it.states("d", run) == {"choose": "success", "left": "skipped", "right": "success", "join": "success"}


async def test_an_unknown_branch_fails_the_task() -> None:
    async with world() as it:
        it.add(dag("d", task("choose"), task("left", after="choose")))
        it.script("d", "choose", lambda attempt: succeeds(branch="middle"))
        run = it.trigger("d")

        await it.run_until_idle()

        assert it.states("d", run) == {"choose": "failed", "left": "upstream_failed"}
        assert "middle" in it.task("d", run, "choose").reason


async def test_values_are_kept_and_forgotten_by_a_new_try() -> None:
    async with world() as it:
        it.add(dag("d", task("a", retries=1)))
        it.script("d", "a", lambda a: fails() if a.key.try_number == 1 else succeeds({"rows": 3}))
        run = it.trigger("d")

        await it.run_until_idle()

        assert json.loads(it.xcom("d", run, "a") or "null") == {"rows": 3}


# ---- slots ----


async def test_a_pool_is_shared_by_priority() -> None:
    async with world() as it:
        it.pool("etl", slots=2)
        it.add(dag("d", *(task(f"t{n}", pool="etl", priority_weight=n) for n in range(1, 5))))
        run = it.trigger("d")

        await it.run_for(minutes(0.5))

        assert it.states("d", run) == {"t1": "scheduled", "t2": "scheduled", "t3": "running", "t4": "running"}
        assert it.waiting()["d", run, "t1"] == "pool 'etl': needs 1 slot, 0 of 2 open"


async def test_a_shrunk_pool_drains_and_then_holds() -> None:
    async with world() as it:
        it.pool("etl", slots=3)
        it.add(dag("d", *(task(f"t{n}", pool="etl") for n in range(6))))
        run = it.trigger("d")
        await it.run_for(minutes(0.5))

        it.pool("etl", slots=1)
        await it.run_for(minutes(1))

        assert list(it.states("d", run).values()).count("running") == 1


async def test_a_pool_that_does_not_exist_is_waited_for() -> None:
    async with world() as it:
        it.add(dag("d", task("a", pool="etl")))
        run = it.trigger("d")
        await it.run_until_idle()
        before = it.states("d", run)

        it.pool("etl", slots=1)
        await it.run_until_idle()

        assert (before, it.states("d", run)) == ({"a": "scheduled"}, {"a": "success"})


@pytest.mark.parametrize("limits", [{"parallelism": 2}, {"slots": 2}])
async def test_limits_of_the_scheduler_itself(limits: dict[str, int]) -> None:
    async with world(**limits) as it:
        it.add(dag("d", *(task(f"t{n}") for n in range(5))))
        run = it.trigger("d")

        await it.run_for(minutes(0.5))

        assert list(it.states("d", run).values()).count("running") == 2


@pytest.mark.parametrize("end", ["cancel", "time out", "clear"])
@pytest.mark.parametrize("limits", [{"parallelism": 1}, {"slots": 1}], ids=["parallelism", "slots of the executor"])
async def test_an_attempt_that_is_stopped_makes_room_for_the_next(end: str, limits: dict[str, int]) -> None:
    async with world(**limits) as it:
        it.add(dag("long", dagrun_timeout=600.0 if end == "time out" else None), dag("waits", max_active_runs=1))
        it.script("long", "a", lambda attempt: never_ends())
        long = it.trigger("long")
        await it.run_until(at(0, 1))
        waiting = it.trigger("waits")
        await it.run_until(at(0, 5))

        if end == "cancel":
            it.cancel("long", long)
        elif end == "clear":
            it.pause("long")
            it.clear("long", [long])
        await it.run_until(at(1))

        assert it.run("waits", waiting).state == "success"
