"""The wall clock of a scheduler jumps, or differs from the database's: it is said, and no run is lost or doubled."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

import pytest

from aiosched.clock import FakeClock, SystemClock
from aiosched.db.server.engine import Database
from aiosched.scheduler.observability.clock_check import ClockCheck
from tests.scheduler.harness import NEW_YEAR, Running, dag, running

HOUR = timedelta(hours=1)


@dataclass
class JumpingClock(FakeClock):
    """Jumps by `wrong`; its other reading does not."""

    wrong: timedelta = timedelta()

    def now(self) -> datetime:
        return self.at + self.wrong


async def jump(it: Running, clock: JumpingClock, by: timedelta) -> None:
    """Nobody wakes a loop but the look at the clock, which the scheduler takes once a second."""
    said = it.scheduler.figures()["remarks"]
    clock.wrong += by
    await it.until(lambda: it.scheduler.figures()["remarks"] != said, "the jump to be noticed")
    await it.settled()


async def test_runs_follow_a_clock_that_jumps_and_are_neither_lost_nor_doubled(
    dsn: str, caplog: pytest.LogCaptureFixture
) -> None:
    clock = JumpingClock(NEW_YEAR + timedelta(minutes=1))
    specs = [
        dag("all", schedule=HOUR, start_date=NEW_YEAR, catchup=True),
        dag("last", schedule=HOUR, start_date=NEW_YEAR, catchup=False),
        dag("manual"),
    ]
    async with running(dsn, clock, *specs) as it:
        await it.settled()
        hours = [NEW_YEAR + n * HOUR for n in range(4)]

        await jump(it, clock, 3 * HOUR)  # or the virtual machine was suspended
        assert await it.dates("all") == hours[:3]
        latest = await it.dates("last")
        assert latest[-1:] == hours[2:3]
        [said] = [text for text in caplog.messages if "went forward" in text]
        assert "by 3 h, from 2026-01-01 00:01:00 UTC to 2026-01-01 03:01:00 UTC; " in said
        assert "runs of that time are created now: all, last." in said

        await jump(it, clock, -3 * HOUR)
        await it.advance(3 * HOUR.total_seconds() - 1)
        assert (await it.dates("all"), await it.dates("last")) == (hours[:3], latest)
        assert "due next wait until it shows 2026-01-01 03:01:00 UTC again; no run is made twice" in caplog.text

        await it.advance(HOUR.total_seconds())
        assert (await it.dates("all"), await it.dates("last")) == (hours, [*latest, hours[3]])
        assert len([text for text in caplog.messages if "the clock of this machine" in text]) == 2

        await it.advance(HOUR.total_seconds())
        assert it.scheduler.figures()["remarks"] == [], "an hour later it is no news"


@pytest.mark.parametrize(("wrong", "words"), [(1, "1 h ahead of"), (-1, "1 h behind"), (0, None)])
async def test_a_clock_that_differs_from_that_of_the_database_is_named_until_it_agrees(
    db: Database, caplog: pytest.LogCaptureFixture, wrong: int, words: str | None
) -> None:
    class Wrong(SystemClock):
        by = wrong * HOUR

        def now(self) -> datetime:
            return super().now() + self.by

    caplog.set_level("INFO")
    check = ClockCheck(Wrong(), lambda: None)
    for _ in range(2):
        await check.ask(db)
    assert [words in text for text in check.remarks() if words] == [True] * bool(words)
    Wrong.by = timedelta()
    await check.ask(db)
    assert check.remarks() == []
    assert len(caplog.messages) == 2 * bool(words)
