"""What the schedule makes next is decided when there is room, from the rows: a restart changes nothing.

Source: the semantics reference, sections 11.5 and 13.1, invariants 4 and 5; docs/semantics.md, "When runs happen".
"""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from aiosched.clock import FakeClock
from aiosched.core.graph.spec import DagSpec
from tests.scheduler.harness import NEW_YEAR, Running, dag, running

DAY = timedelta(days=1)


def days(*numbers: float) -> list[datetime]:
    return [NEW_YEAR + number * DAY for number in numbers]


async def intervals(it: Running) -> list[tuple[float, float]]:
    """The data intervals of all runs, in seconds since NEW_YEAR, in the order in which they were made."""
    rows = await it.fetch("SELECT data_interval_start, data_interval_end FROM dag_run ORDER BY id")
    return [((start - NEW_YEAR).total_seconds(), (end - NEW_YEAR).total_seconds()) for start, end in rows]


# -- @continuous (11.5) -----------------------------------------------------------------------------


@pytest.mark.slow(but_first=True)
@pytest.mark.parametrize("start_date", [NEW_YEAR, NEW_YEAR + timedelta(seconds=60), None], ids=["now", "later", "none"])
async def test_the_intervals_of_a_continuous_dag_that_starts_now_or_later_follow_each_other(
    dsn: str, clock: FakeClock, start_date: datetime | None
) -> None:
    spec = dag("d", schedule="@continuous", start_date=start_date, catchup=False, max_active_runs=1)
    begin = 60.0 if start_date is not None and start_date > NEW_YEAR else 0.0
    async with running(dsn, clock, spec) as it:
        await it.advance(begin)
        for _ in range(2):
            await it.advance(10)
            await it.finish("a")

    async with running(dsn, clock, spec) as it:  # the third run was lost with its scheduler; it ends now
        await it.advance(10)
        await it.finish("a")

        assert await intervals(it) == [
            (begin, begin), (begin, begin + 10), (begin + 10, begin + 20), (begin + 20, begin + 30),
        ]  # fmt: skip


async def test_a_run_by_hand_at_the_date_of_the_next_continuous_one_leaves_its_interval_as_it_is(
    dsn: str, clock: FakeClock
) -> None:
    spec = dag("d", schedule="@continuous", start_date=NEW_YEAR - DAY, catchup=False, max_active_runs=1)
    async with running(dsn, clock, spec) as it:
        await it.trigger("d", "by_hand", logical_date=NEW_YEAR)  # where the run that is active has its end
        await it.advance(10)
        await it.finish("a")
        await it.finish("a")

        assert (await intervals(it))[-1] == (0, 10)


# -- @continuous after failures ---------------------------------------------------------------------


async def fail(it: Running) -> None:
    it.executor.fail(await it.attempt("a"))
    await it.settled()


@pytest.mark.slow
async def test_a_continuous_dag_that_fails_at_once_pauses_longer_after_each_failure(dsn: str, clock: FakeClock) -> None:
    spec = dag("d", schedule="@continuous", start_date=NEW_YEAR - DAY, catchup=False, max_active_runs=1)
    async with running(dsn, clock, spec) as it:
        for number, pause in enumerate([1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300], start=1):
            await fail(it)
            assert len(await it.runs("d")) == number, "no run follows at once"
            await it.advance(pause - 0.5)
            assert len(await it.runs("d")) == number, f"no run follows after {pause - 0.5} s"
            if number % 4 == 3:
                await it.leave_and_come_back()  # what is read anew is the same
            await it.advance(0.5)
            assert len(await it.runs("d")) == number + 1, f"a run follows after {pause} s"

        await it.advance(1)
        await it.finish("a")
        assert len(await it.runs("d")) == 13, "a success ends the pauses"
        assert all(start < end for start, end in await intervals(it))


async def test_why_tells_the_pause_of_a_continuous_dag(dsn: str, clock: FakeClock) -> None:
    spec = dag("d", schedule="@continuous", start_date=NEW_YEAR - DAY, catchup=False, max_active_runs=1)
    async with running(dsn, clock, spec) as it:
        await fail(it)
        await it.advance(1)
        await fail(it)

        why = await it.scheduler.why("d")

        due = "2026-01-01 00:00:03 UTC"
        assert f"it pauses because its last 2 runs failed; the next is due at {due}, in 2.0 s" in why.summary
        assert why.earliest_start == NEW_YEAR + timedelta(seconds=3)
        (row,) = await it.fetch("SELECT next_dagrun_create_after FROM dag")
        assert row[0] == why.earliest_start


# -- without catchup (invariant 5) ------------------------------------------------------------------


@pytest.mark.slow(but_first=True)
@pytest.mark.parametrize("restarted", [False, True])
async def test_without_catchup_a_run_that_takes_days_is_followed_by_the_latest_complete_one(
    dsn: str, clock: FakeClock, restarted: bool
) -> None:
    spec = dag("d", schedule="@daily", start_date=NEW_YEAR, catchup=False, max_active_runs=1)
    async with running(dsn, clock, spec) as it:
        await it.advance(86400)  # the run of the first day begins, and takes three days and a half
        await it.advance(3 * 86400)
        await it.advance(86400 / 2)
        if restarted:
            await it.leave_and_come_back()
        await it.finish("a")
        assert await it.dates("d") == days(0, 3)

        await it.advance(86400 / 2)
        await it.finish("a")
        assert await it.dates("d") == days(0, 3, 4)


# -- backfills and the schedule (invariant 4) -------------------------------------------------------


def caught_up() -> DagSpec:
    return dag("d", schedule="@daily", start_date=NEW_YEAR, catchup=True, max_active_runs=1)


@pytest.mark.slow(but_first=True)
@pytest.mark.parametrize("restarted", [False, True])
async def test_a_backfill_ahead_of_a_schedule_that_catches_up_leaves_no_date_out(
    dsn: str, clock: FakeClock, restarted: bool
) -> None:
    clock.advance(6.5 * 86400)
    async with running(dsn, clock, caught_up()) as it:
        await it.ask("backfill_create", "d", **{"from": days(2)[0].isoformat(), "to": days(4)[0].isoformat()})
        if restarted:
            await it.leave_and_come_back()

        await it.finish_all()

        assert await it.dates("d") == days(0, 1, 2, 3, 4, 5)
        rows = await it.fetch("SELECT run_type FROM dag_run ORDER BY logical_date")
        assert [row[0] for row in rows] == ["scheduled"] * 2 + ["backfill"] * 3 + ["scheduled"]
        await it.assert_consistent()


@pytest.mark.slow(but_first=True)
@pytest.mark.parametrize("restarted", [False, True])
async def test_a_backfill_that_takes_over_runs_of_the_schedule_does_not_move_it(
    dsn: str, clock: FakeClock, restarted: bool
) -> None:
    clock.advance(3.5 * 86400)
    async with running(dsn, clock, caught_up()) as it:
        await it.finish_all()
        args = {"from": days(1)[0].isoformat(), "to": days(2)[0].isoformat(), "rerun": "all"}
        await it.ask("backfill_create", "d", **args)
        await it.finish_all()
        if restarted:
            await it.leave_and_come_back()

        await it.advance(86400)
        await it.finish_all()

        assert await it.dates("d") == days(0, 1, 2, 3)
        (row,) = await it.fetch("SELECT next_dagrun FROM dag")
        assert row[0] == days(4)[0]


async def test_the_next_runs_that_people_see_leave_out_what_a_backfill_has_made(dsn: str, clock: FakeClock) -> None:
    clock.advance(3.5 * 86400)
    async with running(dsn, clock, caught_up()) as it:
        await it.ask("backfill_create", "d", **{"from": days(1)[0].isoformat(), "to": days(2)[0].isoformat()})
        await it.leave_and_come_back()

        (row,) = await it.fetch("SELECT next_dagrun FROM dag")
        assert row[0] == days(3)[0]
