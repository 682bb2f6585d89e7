"""What people do in a world: the same as in the real scheduler, at once and on a virtual clock.

Source: the semantics reference, sections 23, 28 and 29.1. More of their rules: tests/semantics, in worlds as well.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from aiosched import Asset
from aiosched.core.graph.spec import DeadlineSpec
from aiosched.errors import AioschedError, NotFound
from aiosched.testing import World, fails, never_ends
from tests.testing.world_builders import NEW_YEAR, at, dag, minutes, task


def world(**options: object) -> World:
    return World(now=NEW_YEAR, takes=minutes(1), **options)  # type: ignore[arg-type]


def day(number: int) -> datetime:
    return datetime(2025, 12, number, tzinfo=UTC)


# ---- clearing (28.1 to 28.3) ----


async def test_a_cleared_task_and_what_is_behind_it_run_again() -> None:
    async with world() as it:
        it.add(dag("d", task("a"), task("b", after="a"), task("c", after="b")))
        run = it.trigger("d")
        await it.run_until_idle()

        touched = it.clear("d", [run], task_ids=["b"], downstream=True)
        before = it.run("d", run).state
        await it.run_until_idle()

        assert [(i["task_id"], i["state"], i["try_number"]) for i in touched] == [
            ("b", "success", 1),
            ("c", "success", 1),
        ]
        assert (before, it.run("d", run).state, it.run("d", run).clear_number) == ("queued", "success", 1)
        assert [it.task("d", run, task_id).try_number for task_id in "abc"] == [1, 2, 2]


async def test_a_failed_run_is_cleared_by_its_failures_and_succeeds() -> None:
    async with world() as it:
        it.add(dag("d", task("a"), task("b", after="a"), task("c", after="b")))
        it.script("d", "b", fails=1)
        run = it.trigger("d")
        await it.run_until_idle()
        failed = it.states("d", run)

        it.clear("d", [run], only_failed=True)
        await it.run_until_idle()

        assert failed == {"a": "success", "b": "failed", "c": "upstream_failed"}
        assert set(it.states("d", run).values()) == {"success"}


async def test_the_setup_and_teardown_of_what_failed_run_again_with_it() -> None:
    rule = {"is_teardown": True, "trigger_rule": "all_done_setup_success"}
    async with world() as it:
        it.add(dag("d", task("s", is_setup=True), task("a", after="s"), task("t", after=("s", "a"), **rule), task("x")))
        it.script("d", "a", fails=1)
        run = it.trigger("d")
        await it.run_until_idle()

        touched = it.clear("d", [run], only_failed=True)
        await it.run_until_idle()

        assert [one["task_id"] for one in touched] == ["s", "a", "t"]
        assert [it.task("d", run, task_id).try_number for task_id in ("s", "a", "t", "x")] == [2, 2, 2, 1]
        assert it.run("d", run).state == "success"


async def test_a_running_task_that_is_cleared_is_stopped_and_runs_again() -> None:
    async with world() as it:
        it.add(dag("d"))
        it.script("d", "a", takes=minutes(10))
        run = it.trigger("d")
        await it.run_until(at(0, 5))

        it.clear("d", [run])
        await it.run_until_idle()

        assert (it.task("d", run, "a").try_number, it.now) == (2, at(0, 15))


async def test_a_cleared_run_may_move_to_the_newest_version() -> None:
    async with world() as it:
        it.add(dag("d", task("a"), task("b", after="a")))
        it.script("d", "a", returns=[1])
        run = it.trigger("d")
        await it.run_until_idle()
        it.add(dag("d", task("new"), task("b", after="new"), task("a")))

        it.clear("d", [run], task_ids=["b"], newest_version=True)
        await it.run_until_idle()

        assert it.states("d", run) == {"new": "success", "b": "success", "a": "success"}
        assert [it.task("d", run, task_id).try_number for task_id in ("new", "b", "a")] == [1, 2, 1]
        assert (it.xcom("d", run, "a"), it.xcom("d", run, "b")) == ("[1]", None)


# ---- marking (28.4, 28.5) ----


@pytest.mark.parametrize(
    ("state", "running", "waiting"), [("success", "success", "skipped"), ("failed", "failed", "skipped")]
)
async def test_a_run_that_is_marked_ends_with_all_that_is_unfinished_in_it(
    state: str, running: str, waiting: str
) -> None:
    async with world() as it:
        it.add(dag("d", task("a"), task("b", after="a"), has_success_callback=True, has_failure_callback=True))
        it.script("d", "a", lambda attempt: never_ends())
        run = it.trigger("d")
        await it.run_until(at(0, 5))

        it.mark_run("d", run, state)
        await it.run_until_idle()

        assert it.states("d", run) == {"a": running, "b": waiting}
        assert (it.run("d", run).state, it.callbacks) == (state, [])


async def test_a_queued_run_can_be_cancelled() -> None:
    """As test_cancelling_a_queued_run_skips_its_tasks says of the service."""
    async with world() as it:
        it.add(dag("d", max_active_runs=1))
        first, second = it.trigger("d"), it.trigger("d")

        it.cancel("d", second)
        await it.run_until_idle()

        assert [it.run("d", run).state for run in (first, second)] == ["success", "failed"]
        assert it.run("d", second).reason == "cancelled"
        assert set(it.states("d", second).values()) == {"skipped"}
        rows = it.rows.instances[it.run("d", second).key].values()
        assert {(row.start_date, row.end_date, row.reason) for row in rows} == {
            (NEW_YEAR, NEW_YEAR, "the run was cancelled")
        }


async def test_what_had_ended_before_its_run_was_queued_again_stays_when_that_is_cancelled() -> None:
    async with world() as it:
        it.add(dag("d", task("a"), task("b", after="a"), max_active_runs=1))
        run = it.trigger("d")
        await it.run_until_idle()
        it.trigger("d", run_after=at(5))
        it.clear("d", [run], task_ids=["b"])

        it.cancel("d", run)
        await it.run_until_idle()

        assert it.states("d", run) == {"a": "success", "b": "skipped"}


async def test_a_queued_run_that_is_cancelled_lets_the_next_one_go_on() -> None:
    async with world() as it:
        it.add(dag("d", task("a", depends_on_past=True)))
        first = it.trigger("d", logical_date=day(1), run_after=at(5))
        second = it.trigger("d", logical_date=day(2))
        await it.run_until(at(1))
        assert it.states("d", second) == {"a": None}

        it.cancel("d", first)
        await it.run_until(at(2))

        assert (it.states("d", first), it.states("d", second)) == ({"a": "skipped"}, {"a": "success"})


# ---- backfills (29.1) ----


async def test_a_backfill_pauses_goes_on_and_is_cancelled() -> None:
    async with world() as it:
        it.add(dag("d", schedule="@daily", start_date=day(1)), paused=False)
        number = it.backfill("d", day(1), day(6), max_active_runs=1)["id"]
        await it.run_until(at(0, 0))

        it.pause_backfill(number)
        await it.run_until(at(1))
        while_paused = sum(run.state == "queued" for run in it.runs("d") if run.backfill_id)
        await it.restart()
        it.pause_backfill(number, paused=False)
        await it.run_until(at(1, 2))
        failed = it.cancel_backfill(number)
        await it.run_until_idle()

        assert (while_paused, it.backfills("d")) == (5, {number: "completed"})
        assert sum(run.reason == "cancelled" for run in it.runs("d")) == failed
        assert {run.state for run in it.runs("d")} == {"success", "failed"}


# ---- deadlines (23.4, 23.5) ----


LATE = DeadlineSpec(reference="queued_at", interval=600.0)


@pytest.mark.parametrize(
    ("takes", "state", "callbacks"), [(10, None, []), (11, "missed", ["deadline"])], ids=["in time", "too late"]
)
async def test_a_deadline_is_missed_when_the_run_is_not_over_by_then(
    takes: int, state: str | None, callbacks: list[str]
) -> None:
    async with world() as it:
        it.add(dag("d", deadlines=(LATE,)))
        it.script("d", "a", takes=minutes(takes))
        run = it.trigger("d")
        planned = it.deadlines("d", run)
        await it.run_until_idle()

        assert planned == {0: (at(0, 10), "pending")}
        assert it.deadlines("d", run) == ({} if state is None else {0: (at(0, 10), state)})
        assert [call.kind for call in it.callbacks] == callbacks
        assert it.run("d", run).state == "success"


async def test_a_failed_run_misses_its_deadline_unless_it_is_cleared_in_time() -> None:
    async with world() as it:
        it.add(dag("d", deadlines=(LATE,)), dag("e", deadlines=(LATE,)))
        it.script("*", "a", fails=1)
        left, cleared = it.trigger("d"), it.trigger("e")
        await it.run_until(at(0, 5))

        it.clear("e", [cleared])
        await it.run_until(at(1))

        assert it.deadlines("d", left) == {0: (at(0, 10), "missed")}
        assert it.deadlines("e", cleared) == {}
        assert [(call.kind, call.dag_id) for call in it.callbacks] == [("deadline", "d")]


async def test_an_average_counts_the_latest_runs() -> None:
    usual = DeadlineSpec(reference="average_runtime", interval=60.0, max_runs=2)
    async with world() as it:
        it.add(dag("d", deadlines=(usual,), schedule="@hourly", start_date=NEW_YEAR))
        it.script("d", "a", takes=minutes(4))

        await it.run_until(at(3))

        runs = [run.run_id for run in it.runs("d")]
        assert [it.deadlines("d", run) for run in runs[:2]] == [{}, {}], "two runs make an average"
        assert it.deadlines("d", runs[2]) == {0: (at(3, 5), "pending")}


# ---- callbacks (23.1, 23.2) ----


async def test_callbacks_are_noted_with_what_they_are_about() -> None:
    told: dict[str, Any] = {"has_retry_callback": True, "has_failure_callback": True, "has_success_callback": True}
    async with world() as it:
        it.add(dag("d", task("a", retries=1, retry_delay=0.0, **told), task("b", **told), has_failure_callback=True))
        it.script("d", "a", lambda attempt: fails(f"try {attempt.key.try_number}"))
        run = it.trigger("d")
        await it.run_until_idle()

        calls = [(call.kind, call.task_id, call.try_number, call.reason) for call in it.callbacks]
        assert sorted(calls[:3]) == [
            ("task_failure", "a", 2, "try 2"),
            ("task_retry", "a", 1, "try 1"),
            ("task_success", "b", 1, None),
        ]
        assert calls[3:] == [("dag_failure", "a", 2, "task_failure")]
        assert {call.run_id for call in it.callbacks} == {run}


# ---- what is refused ----


async def test_an_asset_that_nobody_mentions_has_no_events() -> None:
    async with world() as it:
        it.add(dag("reader", schedule=Asset("a")))

        with pytest.raises(NotFound, match=r"No DAG of the world mentions an asset 'b'"):
            it.emit("b")


async def test_what_the_scheduler_refuses_is_refused() -> None:
    async with world() as it:
        it.add(dag("d", schedule="@daily", start_date=day(1)), dag("running"))
        it.script("running", "a", lambda attempt: never_ends())
        run = it.trigger("running")
        await it.run_until(at(0, 1))
        it.backfill("d", day(1), day(3))
        it.add(dag("running", task("a"), task("b")))

        for request, message in (
            (lambda: it.backfill("d", day(1), day(3)), "has an unfinished backfill"),
            (lambda: it.backfill("running", day(1), day(3)), "no dates to backfill"),
            (lambda: it.backfill("d", day(1), day(3), max_active_runs=0), "would never run"),
            (lambda: it.mark_run("running", run, "running"), "cannot be marked running"),
            (lambda: it.mark_run("running", run, "queued"), "is running"),
            (lambda: it.mark_task("running", run, "a", "deferred"), "cannot be marked deferred"),
            (lambda: it.clear("running", [run], newest_version=True), "cannot be moved"),
            (lambda: it.clear("running", ["other"]), "has no run 'other'"),
            (lambda: it.clear("running", [run], first=day(1)), "names runs .* and dates"),
            (lambda: it.clear("running", [run], task_ids=["c"]), "no task or task group 'c'"),
            (lambda: it.pause_backfill(7), "has no backfill 7"),
        ):
            with pytest.raises(AioschedError, match=message):
                request()
