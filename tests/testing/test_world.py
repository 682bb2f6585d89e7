"""What a world does with runs, tries and slots. The rules themselves: tests/semantics, in worlds as well."""

from __future__ import annotations

from datetime import timedelta

import pytest

from aiosched import Asset
from aiosched.core.graph.spec import MappingSpec, TaskOutput
from aiosched.core.values.states import RunState
from aiosched.errors import Refused
from aiosched.testing import World, defers, never_ends
from tests.testing.world_builders import NEW_YEAR, at, dag, minutes, task


def world(**options: object) -> World:
    return World(**{"now": NEW_YEAR, "takes": minutes(1)} | options)  # type: ignore[arg-type]


# ---- runs ----


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


# ---- assets ----


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


# ---- slots ----


async def test_a_pool_is_shared_by_priority() -> None:
    async with world() as it:
        it.pool("etl", slots=2)
        it.add(dag("d", *(task(f"t{n}", pool="etl", priority_weight=n) for n in range(1, 5))))
        run = it.trigger("d")

        await it.run_for(minutes(0.5))

        assert it.states("d", run) == {"t1": "scheduled", "t2": "scheduled", "t3": "running", "t4": "running"}
        assert it.waiting()["d", run, "t1"] == "pool 'etl': needs 1 slot, 0 of 2 open"


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
