"""Marking task instances and runs, as requests to a living scheduler.

Source: the semantics reference, sections 28.4 and 28.5.
"""

from __future__ import annotations

from datetime import timedelta

import pytest

from aiosched.clock import FakeClock
from aiosched.errors import NotFound, Refused
from tests.scheduler.harness import NEW_YEAR, Running, chain, dag, running, task

HOUR = timedelta(hours=1)


async def put(it: Running, **states: str | None) -> None:
    """Give task instances of the only run these states, while no scheduler holds it."""
    for task_id, state in states.items():
        await it.execute(
            """UPDATE task_instance AS ti SET state = $2, try_number = 1 FROM dag_run AS r, dag_version AS v
                WHERE r.id = ti.run_id AND v.id = r.version_id
                  AND v.spec -> 'tasks' -> ti.task_index ->> 'task_id' = $1""",
            task_id,
            state,
        )


# -- task instances (28.4) ----------------------------------------------------------------------


async def test_marking_a_failed_task_success_clears_what_had_failed_behind_it(dsn: str, clock: FakeClock) -> None:
    """The example of section 28.4."""
    spec = dag("d", task("t1"), *(task(f"t{n}", after="t1") for n in (2, 3, 4, 5)), task("far", after=("t2", "t5")))
    async with running(dsn, clock, spec) as it:
        await it.trigger("d", "r")
        it.executor.fail(await it.attempt("t1"))
        await it.settled()
        await it.ask("pause", "d")
        await put(it, t2="success", t3="upstream_failed", t4="failed", t5="skipped", far="upstream_failed")

        answer = await it.ask("mark_tasks", "d", run_ids=["r"], task_ids=["t1"], state="success")

        assert [one["task_id"] for one in answer["instances"]] == ["t1"]
        states = await it.states("r")
        assert states == {"t1": "success", "t2": "success", "t3": None, "t4": None, "t5": "skipped", "far": None}
        assert await it.runs("d") == {"r": "queued"}
        await it.ask("unpause", "d")
        await it.finish_all()
        assert await it.runs("d") == {"r": "success"}
        await it.assert_consistent()


@pytest.mark.parametrize(
    ("mark", "behind", "run"),
    [
        ("success", "queued", "running"),
        ("failed", "upstream_failed", "failed"),
        ("skipped", "skipped", "success"),
    ],
)
async def test_a_running_task_that_is_marked_is_stopped_and_the_run_goes_on(
    dsn: str, clock: FakeClock, mark: str, behind: str, run: str
) -> None:
    async with running(dsn, clock, chain("d", 2)) as it:
        await it.trigger("d", "r")
        attempt = await it.attempt("t0")
        it.executor.start_running(attempt)

        await it.ask("mark_tasks", "d", run_ids=["r"], task_ids=["t0"], state=mark)

        assert attempt.key in it.executor.cancelled
        assert await it.states("r") == {"t0": mark, "t1": behind}
        assert await it.runs("d") == {"r": run}
        await it.assert_consistent()


@pytest.mark.parametrize("paused", [False, True])
async def test_a_task_that_is_marked_while_it_waits_for_a_slot_is_not_run(
    dsn: str, clock: FakeClock, paused: bool
) -> None:
    async with running(dsn, clock, dag("d", task("a"), task("b")), parallelism=1) as it:
        await it.trigger("d", "r")
        await it.attempt("a")
        if paused:
            await it.ask("pause", "d")

        await it.ask("mark_tasks", "d", run_ids=["r"], task_ids=["b"], state="success")

        if paused:
            await it.ask("unpause", "d")
        await it.finish("a")
        assert it.executor.order() == ["a"]
        assert await it.runs("d") == {"r": "success"}
        assert it.scheduler.metrics.quarantines == 0
        await it.assert_consistent()


async def test_marking_with_past_and_future_reaches_stored_and_running_runs(dsn: str, clock: FakeClock) -> None:
    """Two runs are over, one runs, one waits for it, and one has no date."""
    async with running(dsn, clock, dag("d", task("a"), task("b", after="a"), max_active_runs=1)) as it:
        for number in (2, 0):
            await it.trigger("d", f"over{number}", logical_date=NEW_YEAR - number * HOUR)
            it.executor.fail(await it.attempt("a"))
            await it.settled()
        await it.trigger("d", "undated")
        await it.finish_all()
        await it.trigger("d", "runs", logical_date=NEW_YEAR - HOUR)
        it.executor.start_running(await it.attempt("a"))
        await it.trigger("d", "waits", logical_date=NEW_YEAR - 3 * HOUR)
        args = {"run_ids": ["runs"], "task_ids": ["a"], "state": "success"}

        past = await it.ask("mark_tasks", "d", **args, past=True, dry_run=True)
        both = await it.scheduler.mark_task("d", "runs", "a", "success", past=True, future=True)

        assert past["runs"] == ["waits", "over2", "runs"]
        assert {one["run_id"] for one in both} == {"waits", "over2", "over0", "runs"}
        for run_id in ("waits", "over2", "over0", "runs"):
            assert (await it.states(run_id))["a"] == "success", run_id
        assert it.executor.cancelled
        with pytest.raises(Refused, match="'undated' has no logical date"):
            await it.ask("mark_tasks", "d", **{**args, "run_ids": ["undated"]}, future=True)
        await it.finish_all()
        assert set((await it.runs("d")).values()) == {"success"}
        await it.assert_consistent()


# -- runs (28.5) --------------------------------------------------------------------------------


@pytest.mark.parametrize("mark", ["success", "failed"])
async def test_marking_a_run_gives_what_runs_its_state_and_skips_what_waits(
    dsn: str, clock: FakeClock, mark: str
) -> None:
    spec = dag("d", task("done"), task("broken"), task("runs"), task("retries", retries=1), task("waits", after="runs"))
    async with running(dsn, clock, spec) as it:
        await it.trigger("d", "r")
        await it.finish("done")
        it.executor.fail(await it.attempt("broken"))
        it.executor.fail(await it.attempt("retries"))
        it.executor.start_running(await it.attempt("runs"))
        await it.settled()

        await it.ask("mark_run", "d", run_id="r", state=mark)

        assert await it.states("r") == {
            "done": "success",
            "broken": "failed",
            "runs": mark,
            "retries": "skipped",
            "waits": "skipped",
        }
        assert await it.runs("d") == {"r": mark}
        assert not it.executor.running
        await it.assert_consistent()


async def test_a_finished_run_that_is_marked_keeps_its_times(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("d")) as it:
        await it.trigger("d", "r")
        it.executor.fail(await it.attempt("a"))
        await it.settled()
        clock.advance(60)

        await it.ask("mark_run", "d", run_id="r", state="success")

        assert await it.fetch("SELECT state, end_date, reason FROM dag_run") == [("success", NEW_YEAR, None)]
        assert await it.states("r") == {"a": "failed"}


async def test_a_run_that_is_marked_queued_ends_as_its_tasks_say(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("d")) as it:
        await it.trigger("d", "r")
        await it.finish("a")
        await it.ask("mark_run", "d", run_id="r", state="failed")
        clock.advance(60)

        await it.ask("mark_run", "d", run_id="r", state="queued")

        assert await it.fetch("SELECT state, start_date FROM dag_run") == [("success", clock.now())]
        assert len(it.executor.submitted) == 1
        await it.assert_consistent()


async def test_a_queued_run_can_be_marked_and_makes_room(dsn: str, clock: FakeClock) -> None:
    spec = dag("d", schedule=HOUR, start_date=NEW_YEAR, catchup=True, max_active_runs=1)
    async with running(dsn, clock, spec) as it:
        handle = await it.trigger("d", "later", run_after=NEW_YEAR + 5 * HOUR)
        await it.advance(3600)
        with it.scheduler.notified_of_end(handle.key) as ended:
            await it.ask("mark_run", "d", run_id="later", state="success")
            assert ended.is_set()

        assert await it.states("later") == {"a": "skipped"}
        assert await it.dates("d") == [NEW_YEAR, None]
        await it.assert_consistent()


@pytest.mark.parametrize(
    ("run_id", "state", "error", "message"),
    [
        ("r", "running", Refused, "cannot be marked running; mark it queued"),
        ("r", "queued", Refused, "'r' is running; clear tasks of it, or cancel it first"),
        ("r", "excellent", Refused, "unusable arguments"),
        ("other", "failed", NotFound, "no run 'other'"),
    ],
)
async def test_a_mark_that_cannot_be_is_refused(
    dsn: str, clock: FakeClock, run_id: str, state: str, error: type[Exception], message: str
) -> None:
    async with running(dsn, clock, dag("d")) as it:
        await it.trigger("d", "r")

        with pytest.raises(error, match=message):
            await it.ask("mark_run", "d", run_id=run_id, state=state)

        await it.finish("a")
        assert await it.runs("d") == {"r": "success"}


# -- what an embedding application asks -----------------------------------------------------------


async def test_an_application_can_pause_clear_mark_and_cancel(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, chain("d", 2)) as it:
        scheduler = it.scheduler
        await it.trigger("d", "r")
        await scheduler.pause("d")
        assert await it.fetch("SELECT is_paused FROM dag") == [(True,)]
        await scheduler.unpause("d")
        assert await it.fetch("SELECT is_paused FROM dag") == [(False,)]

        await scheduler.mark_task("d", "r", "t0", "success")
        await it.settled()
        assert await it.states("r") == {"t0": "success", "t1": "queued"}
        it.executor.start_running(await it.attempt("t1"))
        await scheduler.cancel("d", "r")
        await it.settled()
        assert await it.runs("d") == {"r": "failed"}
        assert [one["task_id"] for one in await scheduler.clear("d", ["r"], only_failed=True, dry_run=True)] == ["t1"]
        assert await it.runs("d") == {"r": "failed"}
        cleared = await scheduler.clear("d", ["r"], task_ids=["t1"])
        assert cleared == [{"run_id": "r", "task_id": "t1", "map_index": -1, "state": "failed", "try_number": 1}]
        await it.settled()
        assert await it.runs("d") == {"r": "running"}
        await scheduler.mark_run("d", "r", "success")
        await it.settled()
        assert await it.runs("d") == {"r": "success"}
        with pytest.raises(NotFound, match="no run 'other'"):
            await scheduler.clear("d", ["other"])
        await it.assert_consistent()
