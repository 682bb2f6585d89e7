"""Clearing, as a request to a living scheduler: the semantics reference, sections 28.1 to 28.3 and 14.3."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from aiosched.clock import FakeClock
from aiosched.core.graph.spec import DagSpec, LiteralLength, MappingSpec
from aiosched.errors import NotFound, Refused
from tests.db.waiting import until_true
from tests.scheduler.harness import NEW_YEAR, Running, ScriptedExecutor, chain, dag, running, succeeding, task

HOUR = timedelta(hours=1)


async def finished_run(it: Running, dag_id: str = "d", run_id: str = "r") -> None:
    """A run that has ended: all its tasks succeeded."""
    await it.trigger(dag_id, run_id)
    await it.finish_all()


async def tries(it: Running, task_id: str, run_id: str = "r") -> tuple[int, int]:
    row = await it.instance(task_id, run_id)
    return row["try_number"], row["max_tries"]


# -- task instances of a finished run (28.2) ----------------------------------------------------


@pytest.mark.parametrize(
    ("ending", "state"), [("succeed", "success"), ("fail", "failed"), ("skip", "skipped")], ids=str
)
async def test_of_a_cleared_try_a_row_of_history_remains(dsn: str, clock: FakeClock, ending: str, state: str) -> None:
    async with running(dsn, clock, dag("d")) as it:
        await it.trigger("d", "r")
        getattr(it.executor, ending)(await it.attempt("a"))
        await it.settled()

        await it.ask("clear", "d", run_ids=["r"])

        history = await it.fetch("SELECT try_number, state FROM task_try")
        assert list(map(tuple, history)) == [(1, state)]
        await it.assert_consistent()


@pytest.mark.parametrize("held", [True, False], ids=["the run is running", "the run is over"])
@pytest.mark.parametrize("dry_run", [True, False], ids=["dry run", "for real"])
async def test_what_failed_is_cleared_with_its_setup_and_teardown(
    dsn: str, clock: FakeClock, held: bool, dry_run: bool
) -> None:
    tasks = (
        task("s", is_setup=True), task("a", after="s"),
        task("t", after=("s", "a"), is_teardown=True, trigger_rule="all_done_setup_success"), task("slow"),
    )  # fmt: skip
    async with running(dsn, clock, dag("d", *tasks)) as it:
        await it.trigger("d", "r")
        await it.finish("s")
        it.executor.fail(await it.attempt("a"))
        await it.finish("t", *(() if held else ("slow",)))

        answer = await it.ask("clear", "d", run_ids=["r"], only_failed=True, dry_run=dry_run)

        assert {one["task_id"]: one["state"] for one in answer["instances"]} == {
            "s": "success",
            "a": "failed",
            "t": "success",
        }
        if not dry_run:
            for name in ("s", "a", "t"):
                assert (await it.attempt(name)).key.try_number == 2
                await it.finish(name)
            if held:
                await it.finish("slow")
            assert await it.runs("d") == {"r": "success"}
        await it.assert_consistent()


async def test_an_application_can_clear_one_map_index(dsn: str, clock: FakeClock) -> None:
    mapped = task("m", mapping=MappingSpec(inputs=(LiteralLength(3),)))
    async with running(dsn, clock, dag("d", mapped)) as it:
        await it.trigger("d", "r")
        await it.finish_all()

        touched = await it.scheduler.clear("d", ["r"], task_ids=["m"], map_index=1, dry_run=True)

        assert [(one["task_id"], one["map_index"]) for one in touched] == [("m", 1)]


CLEARED: tuple[tuple[dict[str, Any], list[str]], ...] = (
    ({"task_ids": ["b"]}, ["b"]),
    ({"task_ids": ["b"], "upstream": True}, ["a", "b"]),
    ({"task_ids": ["b"], "downstream": True}, ["b", "c", "d"]),
    ({"pattern": "^[ad]$"}, ["a", "d"]),
    ({"only_failed": True}, ["c", "d"]),
    ({"task_ids": ["b", "c"], "only_failed": True}, ["c"]),
    ({"only_running": True}, []),
    ({"map_index": 3}, []),
    ({"map_index": -1}, ["a", "b", "c", "d"]),
    ({}, ["a", "b", "c", "d"]),
)


async def test_what_a_clear_means(dsn: str, clock: FakeClock, subtests: pytest.Subtests) -> None:
    def spec(dag_id: str) -> DagSpec:
        return dag(dag_id, task("a"), task("b", after="a"), task("c", after="b"), task("d", after="c"))

    async with running(dsn, clock, *(spec(f"dag{number}") for number in range(len(CLEARED)))) as it:
        for number, (selection, cleared) in enumerate(CLEARED):
            dag_id, run_id = f"dag{number}", f"r{number}"
            await it.trigger(dag_id, run_id)
            await it.finish("a", "b", run_id=run_id)
            it.executor.fail(await it.attempt("c", run_id))
            await it.settled()
            before = await it.instances(run_id)
            for dry_run in (True, False):
                with subtests.test(selection=selection, dry_run=dry_run):
                    answer = await it.ask("clear", dag_id, run_ids=[run_id], dry_run=dry_run, **selection)

                    assert [one["task_id"] for one in answer["instances"]] == cleared
                    assert answer["count"] == len(cleared)
                    assert answer["runs"] == ([run_id] if cleared else [])
                    if dry_run or not cleared:
                        assert await it.instances(run_id) == before
                        assert await it.runs(dag_id) == {run_id: "failed"}
                    else:
                        assert await it.runs(dag_id) == {run_id: "running"}
        await it.assert_consistent()


async def test_the_answer_tells_what_was_there_before(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, chain("d", 2)) as it:
        await it.trigger("d", "r")
        it.executor.fail(await it.attempt("t0"))
        await it.settled()

        answer = await it.ask("clear", "d", run_ids=["r"], dry_run=True)

        assert answer["states"] == {"failed": 1, "upstream_failed": 1}
        assert answer["instances"] == [
            {"run_id": "r", "task_id": "t0", "map_index": -1, "state": "failed", "try_number": 1},
            {"run_id": "r", "task_id": "t1", "map_index": -1, "state": "upstream_failed", "try_number": 0},
        ]


async def test_a_range_of_dates_means_the_runs_in_it_ends_included(dsn: str, clock: FakeClock) -> None:
    spec = dag("d", schedule=HOUR, start_date=NEW_YEAR, catchup=True)
    async with running(dsn, clock, spec, executor=ScriptedExecutor(clock, script=succeeding)) as it:
        await it.trigger("d", "by_hand")
        await it.advance(5 * 3600)
        dates = {"from": (NEW_YEAR + HOUR).isoformat(), "to": (NEW_YEAR + 3 * HOUR).isoformat()}

        answer = await it.ask("clear", "d", dry_run=True, **dates)
        everything = await it.ask("clear", "d", dry_run=True)

        assert answer["runs"] == [f"scheduled__2026-01-01T0{hour}:00:00+00:00" for hour in (1, 2, 3)]
        assert len(everything["runs"]) == 6


async def test_a_new_try_begins_without_the_values_of_the_old_one(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("d")) as it:
        await it.trigger("d", "r")
        it.executor.succeed(await it.attempt("a"), value=1)
        await it.settled()

        await it.ask("clear", "d", run_ids=["r"])
        await it.finish("a")

        assert await it.fetch("SELECT 1 FROM xcom") == []


# -- refused ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "error", "message"),
    [
        ({"run_ids": ["r", "other"]}, NotFound, "DAG 'd' has no run 'other'"),
        ({"run_ids": ["r"], "task_ids": ["ab"]}, Refused, "no task or task group 'ab'"),
        ({"run_ids": ["r"], "pattern": "("}, Refused, "'\\(' cannot be used: missing"),
        ({"from": "yesterday"}, Refused, "unusable arguments"),
        ({"run_ids": ["r"], "from": "2026-01-01T00:00:00Z"}, Refused, r"names runs \(--run\) and dates .*: give one"),
    ],
    ids=str,
)
@pytest.mark.parametrize("dry_run", [True, False], ids=["dry run", "for real"])
async def test_a_clear_that_cannot_be_is_refused_and_changes_nothing(
    dsn: str, clock: FakeClock, args: dict[str, Any], error: type[Exception], message: str, dry_run: bool
) -> None:
    async with running(dsn, clock, dag("d")) as it:
        await finished_run(it)

        with pytest.raises(error, match=message):
            await it.ask("clear", "d", dry_run=dry_run, **args)

        assert await it.runs("d") == {"r": "success"}


@pytest.mark.parametrize(
    ("verb", "args"),
    [
        ("clear", {"run_ids": ["r"]}),
        ("mark_tasks", {"run_ids": ["r"], "state": "failed"}),
        ("backfill_create", {"from": "2026-01-01T00:00:00Z", "to": "2026-01-02T00:00:00Z"}),
    ],
)
async def test_an_owner_applies_no_preview(dsn: str, clock: FakeClock, verb: str, args: dict[str, Any]) -> None:
    """Whoever has written it: it would be done, though it was only asked what it would touch."""
    async with running(dsn, clock, dag("d")) as it:
        await finished_run(it)

        with pytest.raises(Refused, match="dry_run is not applied"):
            await it.request(verb, "d", {**args, "dry_run": True})

        assert await it.runs("d") == {"r": "success"}


async def test_a_task_that_only_some_runs_have_is_cleared_in_those(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("d", task("a"), task("old"))) as it:
        await finished_run(it, run_id="first")
        await it.register(dag("d", task("a"), task("new")))
        await finished_run(it, run_id="second")

        old = await it.ask("clear", "d", task_ids=["old"], dry_run=True)
        new = await it.ask("clear", "d", task_ids=["a", "new"], dry_run=True)

        assert [(one["run_id"], one["task_id"]) for one in old["instances"]] == [("first", "old")]
        assert [(one["run_id"], one["task_id"]) for one in new["instances"]] == [
            ("first", "a"),
            ("second", "a"),
            ("second", "new"),
        ]


# -- the run (28.3) ---------------------------------------------------------------------------


async def test_a_cleared_run_is_queued_again_and_its_times_begin_anew(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("d")) as it:
        await finished_run(it)
        await it.ask("pause", "d")
        clock.advance(60)

        await it.ask("clear", "d", run_ids=["r"])

        columns = "state, queued_at, start_date, end_date, reason, clear_number"
        (row,) = await it.fetch(f"SELECT {columns} FROM dag_run")
        assert tuple(row) == ("queued", clock.now(), None, None, None, 1)
        await it.ask("unpause", "d")
        (row,) = await it.fetch(f"SELECT {columns} FROM dag_run")
        assert tuple(row) == ("running", NEW_YEAR + timedelta(seconds=60), clock.now(), None, None, 1)


async def test_clearing_a_running_run_leaves_its_state_and_start(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, chain("d", 2)) as it:
        await it.trigger("d", "r")
        await it.finish("t0")
        clock.advance(60)

        await it.ask("clear", "d", run_ids=["r"], task_ids=["t0"])

        (row,) = await it.fetch("SELECT state, queued_at, start_date, clear_number FROM dag_run")
        assert tuple(row) == ("running", clock.now(), NEW_YEAR, 1)
        assert await it.states("r") == {"t0": "queued", "t1": "queued"}
        await it.assert_consistent()


async def test_one_request_may_mean_finished_queued_and_running_runs(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("d", max_active_runs=1)) as it:
        await finished_run(it, run_id="over")
        await it.trigger("d", "runs")
        it.executor.start_running(await it.attempt("a", "runs"))
        await it.trigger("d", "waits")

        answer = await it.ask("clear", "d")

        assert answer["runs"] == ["over", "waits", "runs"]
        assert await it.runs("d") == {"over": "queued", "runs": "running", "waits": "queued"}
        await it.assert_consistent()
        await it.finish_all()
        assert set((await it.runs("d")).values()) == {"success"}
        assert [await tries(it, "a", run) for run in ("over", "runs", "waits")] == [(2, 1), (2, 1), (1, 0)]


async def test_a_run_that_was_going_to_end_in_failure_goes_on_when_a_task_of_it_is_cleared(
    dsn: str, clock: FakeClock
) -> None:
    spec = dag(
        "d",
        task("setup", is_setup=True),
        task("work", after="setup"),
        task("clean", after=("setup", "work"), is_teardown=True, trigger_rule="all_done_setup_success"),
    )
    async with running(dsn, clock, spec) as it:
        await it.trigger("d", "r")
        await it.finish("setup")
        await it.ask("cancel_run", "d", run_id="r")
        await it.attempt("clean")

        await it.ask("clear", "d", run_ids=["r"], task_ids=["work"])
        await it.finish_all()

        assert await it.fetch("SELECT state, reason FROM dag_run") == [("success", None)]


# -- options (28.1, 28.2) -----------------------------------------------------------------------


async def test_a_clear_that_prevents_running_is_refused_before_anything_has_changed(dsn: str, clock: FakeClock) -> None:
    """Of two runs one is over, and the other still runs `b`."""
    async with running(dsn, clock, dag("d", task("a"), task("b"))) as it:
        for run_id in ("over", "runs"):
            await it.trigger("d", run_id, logical_date=NEW_YEAR - (HOUR if run_id == "over" else 0 * HOUR))
            await it.finish("a", run_id=run_id)
            attempt = await it.attempt("b", run_id)
            it.executor.start_running(attempt)
            if run_id == "over":
                it.executor.succeed(attempt)
            await it.settled()
        async with it.scheduler.db.acquire() as conn:  # a start is stored within a moment
            await until_true(conn, "SELECT count(*) = 1 FROM task_instance WHERE state = 'running'")
        before = [await it.instances(run_id) for run_id in ("over", "runs")]

        for dry_run in (True, False):
            with pytest.raises(Refused, match=r"these are running: b of run 'runs'\. Wait for them to end"):
                await it.scheduler.clear("d", ["over"], future=True, prevent_running=True, dry_run=dry_run)

        assert [await it.instances(run_id) for run_id in ("over", "runs")] == before
        assert not it.executor.cancelled
        cleared = await it.scheduler.clear("d", ["runs"], task_ids=["a"], past=True, prevent_running=True)
        assert [(one["run_id"], one["task_id"]) for one in cleared] == [("over", "a"), ("runs", "a")]
        await it.finish_all()
        assert await it.runs("d") == {"over": "success", "runs": "success"}
        await it.assert_consistent()
