"""Mapped tasks and waiting for the run before, stored and read back: sections 6.1, 6.2, 7.4 and 26."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from aiosched.clock import FakeClock
from aiosched.core.graph.spec import DagSpec, GroupSpec, LiteralLength, MappingSpec, TaskOutput, TaskSpec
from aiosched.core.values.messages import SkipDecision
from tests.scheduler.harness import Running, dag, running, task

JAN = [datetime(2025, 12, day, tzinfo=UTC) for day in range(1, 10)]


def over(task_id: str) -> MappingSpec:
    return MappingSpec(inputs=(TaskOutput(task_id),))


def mapped_dag(*more: TaskSpec) -> DagSpec:
    return dag("d", task("p"), task("m", after="p", mapping=over("p")), task("c", after="m"), *more)


async def rows(it: Running, task_id: str, run_id: str = "r") -> dict[int, str | None]:
    found = [row for row in await it.instances(run_id) if row["task_id"] == task_id]
    return {row["map_index"]: row["state"] for row in sorted(found, key=lambda row: row["map_index"])}


async def returns(it: Running, task_id: str, value: object) -> None:
    it.executor.succeed(await it.attempt(task_id), value=value)
    await it.settled()


async def test_a_return_value_makes_the_rows_of_its_reader(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, mapped_dag()) as it:
        await it.trigger("d", "r")
        assert await rows(it, "m") == {-1: None}

        await returns(it, "p", [1, 2, 3])

        assert await rows(it, "m") == {0: "queued", 1: "queued", 2: "queued"}
        assert sorted(a.key.map_index for a in it.executor.running.values()) == [0, 1, 2]
        await it.assert_consistent()
        await it.finish_all()
        assert await it.runs("d") == {"r": "success"}
        await it.assert_consistent()


@pytest.mark.parametrize("value", [[1, 2], {"a": 1, "b": 2}])
async def test_lengths_survive_a_restart(dsn: str, clock: FakeClock, value: object) -> None:
    inside = task("x", after=["p", "gate"], mapping=over("p"))
    async with running(dsn, clock, dag("d", task("p"), task("gate"), inside)) as it:
        await it.trigger("d", "r")
        await returns(it, "p", value)
        assert await rows(it, "x") == {-1: None}

    async with running(dsn, clock) as it:
        await it.finish("gate")

        assert await rows(it, "x") == {0: "queued", 1: "queued"}
        await it.assert_consistent()


async def test_a_mapped_producer_is_counted_after_a_restart(dsn: str, clock: FakeClock) -> None:
    two = MappingSpec(inputs=(LiteralLength(3),))
    specs = dag("d", task("p", mapping=two), task("m", after="p", mapping=over("p"), trigger_rule="all_done"))
    async with running(dsn, clock, specs) as it:
        await it.trigger("d", "r")
        first, second, third = sorted(it.executor.running.values(), key=lambda attempt: attempt.key)
        it.executor.succeed(first, value="a")
        it.executor.fail(second)
        await it.settled()

    async with running(dsn, clock) as it:
        await returns(it, "p", 17)

        assert await rows(it, "m") == {0: "queued", 1: "queued"}
        await it.assert_consistent()
    assert third.key.map_index == 2


async def test_a_run_that_was_cleared_grows_and_shrinks_with_the_value(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, mapped_dag()) as it:
        await it.trigger("d", "r")
        await returns(it, "p", [1, 2])
        await it.finish_all()
        for value, states in (
            ([1, 2, 3], {0: "success", 1: "success", 2: "success"}),
            ([1], {0: "success", 1: "removed", 2: "removed"}),
            ([], {0: "skipped", 1: "removed", 2: "removed"}),
            ([1, 2], {0: "success", 1: "success", 2: "removed"}),
        ):
            await it.ask("clear", "d", run_ids=["r"])
            await returns(it, "p", value)
            await it.finish_all()

            assert await rows(it, "m") == states
            assert await it.runs("d") == {"r": "success"}
            await it.assert_consistent()


async def test_the_decision_of_a_branch_survives_a_restart(dsn: str, clock: FakeClock) -> None:
    left, right = task("left", after="branch", trigger_rule="always"), task("right", after="branch")
    async with running(dsn, clock, dag("d", task("branch", can_skip_downstream=True), left, right)) as it:
        await it.trigger("d", "r")
        branch = await it.attempt("branch")
        it.executor.start_running(await it.attempt("left"))
        await it.until(lambda: not it.session.cache.unstored.dirty)
        it.executor.succeed(branch, skip=SkipDecision(followed=("right",)))  # what runs already goes on
        await it.settled()
        assert (await it.states("r"))["left"] in ("queued", "running")

    async with running(dsn, clock) as it:  # the attempt was lost; now its branch has the say
        await it.finish_all()

        assert await it.states("r") == {"branch": "success", "left": "skipped", "right": "success"}


def patient_dag(*tasks: TaskSpec, **options: Any) -> DagSpec:
    return dag("d", *(tasks or (task("a", depends_on_past=True),)), **options)


async def test_a_run_waits_for_the_one_before_and_goes_on_with_it(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, patient_dag()) as it:
        await it.trigger("d", "one", logical_date=JAN[0])
        await it.trigger("d", "two", logical_date=JAN[1])
        assert (await it.states("one"), await it.states("two")) == ({"a": "queued"}, {"a": None})

        await it.finish("a", run_id="one")

        assert await it.states("two") == {"a": "queued"}
        await it.finish("a", run_id="two")
        await it.trigger("d", "three", logical_date=JAN[2])
        assert await it.states("three") == {"a": "queued"}  # the run before is over, and not in memory
        await it.assert_consistent()


async def test_waiting_for_the_past_survives_a_restart(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, patient_dag()) as it:
        for number, run_id in enumerate(("one", "two", "three")):
            await it.trigger("d", run_id, logical_date=JAN[number])
        it.executor.fail(await it.attempt("a", "one"))
        await it.settled()
        assert await it.states("two") == {"a": None}

    async with running(dsn, clock) as it:
        assert (await it.states("two"), await it.states("three")) == ({"a": None}, {"a": None})
        await it.ask("clear", "d", run_ids=["one"])
        await it.finish("a", run_id="one")
        assert await it.states("two") == {"a": "queued"}
        await it.finish("a", run_id="two")

        assert await it.states("three") == {"a": "queued"}
        await it.assert_consistent()


async def test_marking_the_run_before_lets_the_next_one_go_on(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, patient_dag()) as it:
        await it.trigger("d", "one", logical_date=JAN[0])
        await it.trigger("d", "two", logical_date=JAN[1])
        it.executor.fail(await it.attempt("a", "one"))
        await it.settled()
        assert await it.runs("d") == {"one": "failed", "two": "running"}

        await it.ask("mark_tasks", "d", run_ids=["one"], task_ids=["a"], state="success")

        assert await it.states("two") == {"a": "queued"}
        await it.assert_consistent()


async def test_a_queued_run_that_is_cancelled_lets_the_next_one_go_on(dsn: str, clock: FakeClock) -> None:
    """Its tasks are skipped in the rows alone: it was never held."""
    async with running(dsn, clock, patient_dag()) as it:
        await it.trigger("d", "one", logical_date=JAN[0], run_after=clock.now() + timedelta(hours=1))
        await it.trigger("d", "two", logical_date=JAN[1])
        assert (await it.runs("d"), await it.states("two")) == ({"one": "queued", "two": "running"}, {"a": None})

        await it.ask("cancel_run", "d", run_id="one")

        assert (await it.states("one"), await it.states("two")) == ({"a": "skipped"}, {"a": "queued"})
        await it.assert_consistent()


async def test_who_looked_at_the_past_in_a_partition_that_left_is_told_nothing(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, patient_dag()) as it:
        await it.trigger("d", "one", logical_date=JAN[0])
        await it.trigger("d", "two", logical_date=JAN[1])
        previous_run_index = list(it.session.cache.boards.values())
        await it.leave_and_come_back()

        await it.finish("a", run_id="one")
        await it.finish("a", run_id="two")

        assert await it.runs("d") == {"one": "success", "two": "success"}
        assert not any(board.past for board in previous_run_index)
        assert len(it.executor.submitted) == 2
        await it.assert_consistent()


async def test_a_run_that_comes_in_between_is_waited_for(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, patient_dag()) as it:
        await it.trigger("d", "one", logical_date=JAN[0])
        await it.trigger("d", "three", logical_date=JAN[2])
        await it.trigger("d", "two", logical_date=JAN[1])

        await it.finish("a", run_id="one")
        assert (await it.states("two"), await it.states("three")) == ({"a": "queued"}, {"a": None})
        await it.finish("a", run_id="two")

        assert await it.states("three") == {"a": "queued"}


@pytest.mark.parametrize("ignore_first", [True, False])
async def test_a_task_that_is_new_has_no_past(dsn: str, clock: FakeClock, ignore_first: bool) -> None:
    async with running(dsn, clock, patient_dag(task("old"))) as it:
        await it.trigger("d", "one", logical_date=JAN[0])
        await it.finish_all()

        new = task("new", depends_on_past=True, ignore_first_depends_on_past=ignore_first)
        await it.register(patient_dag(task("old"), new))
        await it.trigger("d", "two", logical_date=JAN[1])

        assert (await it.states("two"))["new"] == ("queued" if ignore_first else None)


async def test_a_group_that_a_new_run_would_not_expand_is_one_row_again_and_later_all(
    dsn: str, clock: FakeClock
) -> None:
    """After a clear another upstream of `n` fails, while `p` returns values; then that is mended."""
    groups = (GroupSpec(group_id="g", mapping=over("p")),)
    inside = {"group_id": "g"}
    tasks = (
        task("p"), task("x"), task("m", after="p", **inside), task("n", after=["m", "x"], **inside),
        task("k", after=["m", "n"], trigger_rule="all_done", **inside), task("c", after="k"),
    )  # fmt: skip

    async def play(it: Running, x: bool, length: int) -> None:
        await it.settled()
        while it.executor.running:
            one = min(it.executor.running.values(), key=lambda each: (each.task_id, each.key.map_index))
            if one.task_id == "x" and not x:
                it.executor.fail(one)
            else:
                it.executor.succeed(one, value=list(range(length)) if one.task_id == "p" else 1)
            await it.settled()

    async with running(dsn, clock, dag("d", *tasks, groups=groups)) as it:
        await it.trigger("d", "r")
        await play(it, x=True, length=3)
        assert await rows(it, "n") == {0: "success", 1: "success", 2: "success"}

        await it.ask("clear", "d", run_ids=["r"])
        await play(it, x=False, length=3)
        assert await rows(it, "n") == {-1: "upstream_failed", 1: "removed", 2: "removed"}
        assert await rows(it, "k") == {0: "success", 1: "success", 2: "success"}
        left = "SELECT count(*) AS n FROM xcom AS x JOIN dag_run AS r ON r.id = x.run_id WHERE x.task_index = 3"
        assert [row["n"] for row in await it.fetch(left)] == [0], "what n returned is gone"
        await it.assert_consistent()

    async with running(dsn, clock) as it:
        await it.ask("clear", "d", run_ids=["r"])
        await play(it, x=True, length=2)

        assert await rows(it, "n") == {0: "success", 1: "success", 2: "removed"}
        assert await it.runs("d") == {"r": "success"}
        await it.assert_consistent()
