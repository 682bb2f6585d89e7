"""Deadlines of runs: the semantics reference, sections 23.4 and 23.5."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from aiosched.clock import FakeClock
from aiosched.core.graph.spec import DagSpec, DeadlineSpec
from aiosched.core.values.messages import Outcome
from aiosched.db.statements.deadlines import DeadlineRow
from tests.scheduler.harness import NEW_YEAR, Running, dag, running, task


def with_deadline(reference: str = "queued_at", interval: float = 60.0, **options: Any) -> DagSpec:
    return dag("d", deadlines=(DeadlineSpec(reference=reference, interval=interval, **options),))


async def deadlines(it: Running) -> list[tuple[str, int, datetime, bool]]:
    rows = await it.fetch(
        "SELECT r.run_id, d.deadline_index, d.deadline_time, d.missed FROM deadline AS d"
        " JOIN dag_run AS r ON r.id = d.run_id ORDER BY d.run_id, d.deadline_index"
    )
    return [tuple(row) for row in rows]


def seconds(number: float) -> datetime:
    return NEW_YEAR + timedelta(seconds=number)


# -- when they are ----------------------------------------------------------------------------


async def test_a_deadline_counts_from_its_reference(dsn: str, clock: FakeClock) -> None:
    spec = dag(
        "d",
        deadlines=(
            DeadlineSpec(reference="logical_date", interval=1.0),
            DeadlineSpec(reference="queued_at", interval=2.0),
            DeadlineSpec(reference="fixed", interval=-3.0, at=seconds(100)),
        ),
    )
    async with running(dsn, clock, spec) as it:
        await it.trigger("d", "dated", logical_date=seconds(-10))
        await it.trigger("d", "undated")

        assert await deadlines(it) == [
            ("dated", 0, seconds(-9), True),  # in the past at once
            ("dated", 1, seconds(2), False),
            ("dated", 2, seconds(97), False),
            ("undated", 1, seconds(2), False),
            ("undated", 2, seconds(97), False),
        ]


@pytest.mark.parametrize(("options", "expected"), [({}, 1), ({"min_runs": 4}, 0), ({"max_runs": 2}, 1)])
async def test_an_average_needs_enough_ended_runs(
    dsn: str, clock: FakeClock, options: dict[str, int], expected: int
) -> None:
    options = {"max_runs": 3, **options}
    async with running(dsn, clock, with_deadline("average_runtime", 5.0, **options)) as it:
        for number, duration in enumerate((20, 10, 30)):
            await it.trigger("d", f"r{number}", logical_date=seconds(-100 + number))
            assert await deadlines(it) == []
            await it.advance(duration)
            if number == 1:
                it.executor.fail(await it.attempt("a"))  # failed runs count
                await it.settled()
            else:
                await it.finish("a")
            if options["max_runs"] == 2 and number == 1:
                break
        await it.trigger("d", "next", logical_date=seconds(-1))

        found = await deadlines(it)
        assert len(found) == expected
        if expected:
            mean = 15 if options["max_runs"] == 2 else 20
            assert found[0][2] == clock.at + timedelta(seconds=mean + 5)


async def test_a_deadline_beyond_the_calendar_is_none(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, with_deadline(interval=1e300)) as it:
        await it.trigger("d", "r")

        assert await deadlines(it) == []


# -- missing one ------------------------------------------------------------------------------


async def test_a_run_that_is_late_strictly_has_its_callback_run_once_and_goes_on(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, with_deadline()) as it:
        await it.trigger("d", "r")
        await it.advance(60)
        assert it.executor.without_slot == []

        await it.advance(0.001)
        attempt = await it.callback()

        assert attempt.callback is not None
        assert (attempt.callback.kind, attempt.callback.index, attempt.run.run_id) == ("deadline", 0, "r")
        assert await deadlines(it) == [("r", 0, seconds(60), True)]
        it.executor.report(attempt, Outcome.SUCCESS)
        await it.finish("a")
        await it.advance(3600)
        assert await it.runs("d") == {"r": "success"}
        assert len(it.executor.without_slot) == 1
        assert await it.fetch("SELECT * FROM callback_outbox") == []


async def test_each_of_several_deadlines_is_missed_for_itself(dsn: str, clock: FakeClock) -> None:
    three = tuple(DeadlineSpec(reference="queued_at", interval=60.0 * n) for n in (3, 1, 2))
    async with running(dsn, clock, dag("d", deadlines=three)) as it:
        await it.trigger("d", "r")
        for _ in range(3):
            await it.advance(60.5)

        assert [a.callback.index for a in it.executor.without_slot if a.callback] == [1, 2, 0]


async def test_a_success_in_time_prunes_deadlines_and_a_failure_keeps_them(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, with_deadline()) as it:
        await it.trigger("d", "good")
        await it.trigger("d", "bad")
        await it.advance(60)
        await it.finish("a", run_id="good")
        it.executor.fail(await it.attempt("a", "bad"))
        await it.settled()
        assert await deadlines(it) == [("bad", 0, seconds(60), False)]

        await it.advance(1)

        assert [a.run.run_id for a in it.executor.without_slot] == ["bad"]
        assert await deadlines(it) == [("bad", 0, seconds(60), True)]


async def test_a_success_at_the_deadline_and_the_clock_behind_it_miss_nothing(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, with_deadline()) as it:
        await it.trigger("d", "r")
        clock.advance(60)
        it.executor.succeed(await it.attempt("a"))
        await it.until(lambda: not it.session.cache.boards, "the run to end")
        await it.advance(1)

        assert it.executor.without_slot == []
        assert await deadlines(it) == []


async def test_a_deadline_is_missed_by_a_run_that_succeeds_too_late_and_is_not_stored_yet(
    dsn: str, clock: FakeClock
) -> None:
    async with running(dsn, clock, with_deadline()) as it:
        await it.trigger("d", "r")
        async with it.session.env.journal.quiet():  # the end of the run is not stored before its deadline is looked at
            async with it.session.locks.ownership:
                clock.advance(61)
                it.executor.succeed(await it.attempt("a"))
                await it.until(lambda: not it.session.cache.boards, "the run to end")
                it.scheduler.wake_loops()
            await it.until(lambda: it.session.outbox.deadlines.earliest is None, "the deadline to pass")
        await it.settled()

        assert [a.run.run_id for a in it.executor.without_slot] == ["r"]
        assert await deadlines(it) == [("r", 0, seconds(60), True)]


async def test_a_queued_run_of_a_paused_dag_misses_its_deadline_too(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, with_deadline()) as it:
        await it.ask("pause", "d")
        await it.trigger("d", "r")
        await it.advance(61)

        assert [a.run.run_id for a in it.executor.without_slot] == ["r"]


# -- restarts ---------------------------------------------------------------------------------


async def test_a_deadline_that_passes_while_nobody_runs_is_missed_after_the_restart(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, with_deadline()) as it:
        await it.trigger("d", "r")
    clock.advance(61)

    async with running(dsn, clock) as again:
        assert (await again.callback()).run.run_id == "r"
        assert await deadlines(again) == [("r", 0, seconds(60), True)]


async def test_a_deadline_that_was_missed_before_a_restart_is_not_missed_again(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, with_deadline()) as it:
        await it.trigger("d", "r")
        await it.advance(61)
        it.executor.report(await it.callback(), Outcome.SUCCESS)
        await it.settled()

    async with running(dsn, clock) as again:
        await again.advance(61)
        assert again.executor.without_slot == []


async def test_a_deadline_of_a_run_that_could_not_be_created_does_no_harm(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, with_deadline(), dag("other", task("a"))) as it:
        partition = it.session.cache.dags["d"].row.partition
        it.session.outbox.deadlines.add(seconds(1), DeadlineRow(999, 0, partition, seconds(1)))
        await it.advance(2)

        assert it.executor.without_slot == []


async def test_clearing_a_run_moves_the_deadlines_that_count_from_its_queueing(dsn: str, clock: FakeClock) -> None:
    two = (
        DeadlineSpec(reference="queued_at", interval=60.0),
        DeadlineSpec(reference="fixed", interval=0, at=seconds(50)),
    )
    async with running(dsn, clock, dag("d", deadlines=two)) as it:
        await it.trigger("d", "r")
        it.executor.fail(await it.attempt("a"))
        await it.advance(30)

        await it.ask("clear", "d", run_ids=["r"])

        assert await deadlines(it) == [("r", 0, seconds(90), False), ("r", 1, seconds(50), False)]
        await it.advance(59)
        assert [a.callback.index for a in it.executor.without_slot if a.callback] == [1]
        await it.advance(2)
        assert [a.callback.index for a in it.executor.without_slot if a.callback] == [1, 0]
