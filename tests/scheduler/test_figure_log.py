"""A scheduler keeps its figures: a row a minute, one of the fleet rolls up, and nothing of that ends a scheduler."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from aiosched.clock import FakeClock
from aiosched.config import DatabaseSettings, Settings
from aiosched.core.figures.minutes import MINUTE
from aiosched.db.server.engine import Database
from aiosched.scheduler.observability.figure_log import FigureLog, FigureSource
from aiosched.scheduler.service import Scheduler

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)


class Source:
    """Figures that grow by ten ended attempts with each look."""

    def __init__(self) -> None:
        self.incarnation: int | None = 3
        self.is_owner = True
        self.ended = 0

    def figures(self) -> dict[str, Any]:
        self.ended += 10
        return {"finished": {"success": self.ended}, "tasks": {"running": 2}}

    def log(self, **settings: Any) -> FigureLog:
        source = FigureSource(self.figures, lambda: self.incarnation, lambda: self.is_owner)
        return FigureLog(Settings(scheduler={"name": "one"}, figures=settings), FakeClock(NOON), source)


async def counts(db: Database, table: str) -> list[tuple[int, int]]:
    return [(row["minutes"], row["ended"]) for row in await db.fetch(f"SELECT * FROM {table} ORDER BY at")]


async def test_each_minute_is_a_row_and_every_five_are_rolled_up(db: Database) -> None:
    log = Source().log()

    for minute in range(5):
        await log.end_minute(db, NOON + minute * MINUTE)
    assert await counts(db, "figures_hour") == [(1, 10)]
    await log.end_minute(db, NOON + 5 * MINUTE)

    assert await counts(db, "figures_minute") == [(1, 10)] * 6
    assert await counts(db, "figures_hour") == [(6, 60)]


async def test_only_one_of_the_fleet_rolls_up(db: Database) -> None:
    source = Source()
    source.is_owner = False

    await source.log().end_minute(db, NOON)

    assert (len(await counts(db, "figures_minute")), await counts(db, "figures_hour")) == (1, [])


async def test_a_minute_without_an_incarnation_is_a_gap(db: Database) -> None:
    source = Source()
    log = source.log()

    source.incarnation = None
    await log.end_minute(db, NOON)
    source.incarnation = 4
    await log.end_minute(db, NOON + MINUTE)

    assert await counts(db, "figures_minute") == [(1, 10)]


class Away(Database):
    """A database that refuses connections."""

    def acquire(self) -> Any:
        raise ConnectionRefusedError("the server is away")


async def test_minutes_wait_for_a_database_that_is_away(
    db: Database, dsn: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    log, away = Source().log(), Away(dsn, DatabaseSettings(), "test")

    for minute in range(2):
        await log.end_minute(away, NOON + minute * MINUTE)
    await log.end_minute(db, NOON + 2 * MINUTE)

    assert await counts(db, "figures_minute") == [(1, 10)] * 3
    assert caplog.text.count("wait until the database answers") == 1


async def test_a_table_that_is_not_there_is_logged_once_and_ends_nothing(
    db: Database, caplog: pytest.LogCaptureFixture
) -> None:
    await db.execute("DROP TABLE figures_minute")
    log = Source().log()

    for minute in range(3):
        await log.end_minute(db, NOON + minute * MINUTE)

    assert caplog.text.count("the figures of this scheduler cannot be stored") == 1


async def test_a_running_scheduler_has_figures_of_itself(dsn: str, db: Database) -> None:
    async with Scheduler(dsn=dsn, name="one", parse=False) as scheduler:
        source = FigureSource(scheduler.figures, lambda: scheduler.incarnation, lambda: scheduler._owns(0))
        await FigureLog(scheduler.settings, scheduler.clock, source).end_minute(db, NOON)

    row = await db.fetchrow("SELECT * FROM figures_minute WHERE at = $1", NOON)
    assert row["scheduler"] == "one"
    assert sum(row["commits"]) >= 0
    assert await counts(db, "figures_hour") != []
