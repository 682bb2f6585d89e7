"""Figures over time in the database: written once, rolled up to hours without counting twice, removed when old."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from aiosched.core.figures.minutes import MINUTE, Minute
from aiosched.core.figures.ranges import range_before
from aiosched.db.figures.reading import FLEET, POOL, fleet_points, pool_points
from aiosched.db.figures.writing import remove_old, roll_up, write_minutes
from aiosched.db.server.engine import Database

HOUR = timedelta(hours=1)
NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
PLAIN = Minute(
    at=NOON, incarnation=1, scheduler="a", ended=60, task_lag=[0, 3], commits=[6], loop_lag=[60], waiting=4, queued=1,
    running=2, memory=100, parsing=0.5, pools={"etl": (1, 3)},
)  # fmt: skip


async def write(db: Database, *minutes: Minute) -> None:
    async with db.acquire() as conn:
        for minute in minutes:
            await write_minutes(conn, [minute])


async def roll(db: Database, now: datetime) -> None:
    async with db.acquire() as conn:
        await roll_up(conn, now)


async def rows(db: Database, table: str) -> list[dict[str, Any]]:
    return [dict(row) for row in await db.fetch(f"SELECT * FROM {table} ORDER BY 1, 2")]


async def remove(db: Database, now: datetime, *, days: float) -> None:
    async with db.acquire() as conn:
        await remove_old(conn, now, minutes=timedelta(days=days), hours=timedelta(days=90))


def hour_of(start: datetime, minutes: int = 60, **values: Any) -> Sequence[Minute]:
    return [replace(PLAIN, at=start + n * MINUTE, **values) for n in range(minutes)]


@pytest.fixture
async def pool(db: Database) -> None:
    await db.execute("INSERT INTO pool (name, slots, used) VALUES ('etl', 4, 3), ('idle', 9, 0)")


@pytest.mark.usefixtures("pool")
async def test_a_minute_is_written_once_with_the_use_of_its_pools(db: Database) -> None:
    await write(db, PLAIN, replace(PLAIN, ended=99))

    (row,) = await rows(db, "figures_minute")

    assert (row["ended"], row["task_lag"], row["minutes"]) == (60, [0, 3], 1)
    assert json.loads(row["pools"]) == {"etl": [4, 3, 1, 3]}


@pytest.mark.usefixtures("pool")
async def test_minutes_that_are_written_late_have_no_pools_but_the_newest_has(db: Database) -> None:
    async with db.acquire() as conn:
        await write_minutes(conn, [PLAIN, replace(PLAIN, at=NOON + MINUTE)])

    assert [row["pools"] is None for row in await rows(db, "figures_minute")] == [True, False]


@pytest.mark.usefixtures("pool")
async def test_an_hour_is_the_sum_of_its_minutes_however_often_it_is_rolled_up(db: Database) -> None:
    await write(db, *hour_of(NOON, 30), *hour_of(NOON + 30 * MINUTE, 30, waiting=8, task_lag=[], pools={}))

    await roll(db, NOON + HOUR)
    first = await rows(db, "figures_hour")
    await roll(db, NOON + HOUR)
    await asyncio.gather(*(roll(db, NOON + HOUR) for _ in range(3)))

    (row,) = first
    assert (row["minutes"], row["ended"], row["waiting"], row["memory"]) == (60, 3600, 6.0, 100.0)
    assert row["task_lag"][:3] == [0, 90, 0]
    assert json.loads(row["pools"]) == {"etl": [4, 3, 0.5, 1.5]}
    assert await rows(db, "figures_hour") == first


async def test_minutes_that_come_late_are_in_their_hour_after_the_next_roll_up(db: Database) -> None:
    await write(db, *hour_of(NOON, 10))
    await roll(db, NOON + HOUR)

    await write(db, *hour_of(NOON + 10 * MINUTE, 10))
    await roll(db, NOON + 2 * HOUR)

    assert [(row["minutes"], row["ended"]) for row in await rows(db, "figures_hour")] == [(20, 1200)]


async def test_a_fleet_that_was_down_for_days_rolls_up_what_it_had_left(db: Database) -> None:
    await write(db, *hour_of(NOON, 10))
    await roll(db, NOON + 10 * MINUTE)
    await write(db, *hour_of(NOON + 10 * MINUTE, 20))

    back = NOON + timedelta(days=20)
    await write(db, replace(PLAIN, at=back, incarnation=2))
    await roll(db, back + MINUTE)
    await remove(db, back + MINUTE, days=7)
    await roll(db, back + 2 * MINUTE)

    assert [(row["at"], row["minutes"]) for row in await rows(db, "figures_hour")] == [(NOON, 30), (back, 1)]
    assert [row["at"] for row in await rows(db, "figures_minute")] == [back]


async def test_minutes_are_removed_by_whole_hours_that_are_rolled_up(db: Database) -> None:
    await write(db, *hour_of(NOON), *hour_of(NOON + HOUR), *hour_of(NOON + 30 * HOUR))

    await remove(db, NOON + 32 * HOUR, days=1)
    assert len(await rows(db, "figures_minute")) == 180  # nothing is rolled up yet

    await roll(db, NOON + 32 * HOUR)
    await remove(db, NOON + 25 * HOUR + 30 * MINUTE, days=1)
    assert {row["at"].hour for row in await rows(db, "figures_minute")} == {13, 18}

    await roll(db, NOON + 32 * HOUR)
    assert [row["minutes"] for row in await rows(db, "figures_hour")] == [60, 60, 60]


async def test_hours_are_removed_when_they_are_old(db: Database) -> None:
    await write(db, *hour_of(NOON, 1), *hour_of(NOON + timedelta(days=80), 1))
    await roll(db, NOON + timedelta(days=80))

    await remove(db, NOON + timedelta(days=91), days=7)

    assert [row["at"] for row in await rows(db, "figures_hour")] == [NOON + timedelta(days=80)]


@pytest.mark.usefixtures("pool")
@pytest.mark.parametrize("hours", [1, 24, 168])
async def test_schedulers_that_run_at_once_are_added_and_gaps_have_no_point(db: Database, hours: int) -> None:
    b = [replace(minute, incarnation=2, scheduler="b", task_lag=[9]) for minute in hour_of(NOON, 30)]
    await write(db, *hour_of(NOON - 3 * HOUR), *hour_of(NOON), *b)
    await roll(db, NOON + HOUR)
    span = range_before(NOON + 30 * MINUTE, timedelta(hours=hours))

    together = {point.at: point for point in await fleet_points(db, span)}
    alone = {point.at: point for point in await fleet_points(db, span, scheduler="b")}
    pool = {point.at: point for point in await pool_points(db, span, "etl")}

    half = 0.5 if hours == 168 else 1  # b ran in one half of the hour
    assert together[NOON].ended_per_second == pytest.approx(1 + half)
    assert together[NOON].waiting == pytest.approx(4 + 4 * half)
    assert (together[NOON].schedulers, alone[NOON].schedulers) == (2, 1)
    assert alone[NOON].ended_per_second == pytest.approx(1)
    assert alone[NOON].lag_p99 == pytest.approx(0.0001, rel=0.02)
    assert together.keys() == pool.keys()
    assert NOON - HOUR not in together
    assert (pool[NOON].slots, pool[NOON].used, pool[NOON].open) == (4, 3, 1)
    assert pool[NOON].waiting == pytest.approx(3 + 3 * half)


@pytest.mark.usefixtures("pool")
async def test_a_pool_that_nothing_used_was_empty(db: Database) -> None:
    await write(db, PLAIN)

    (point,) = await pool_points(db, range_before(NOON + MINUTE, HOUR), "idle")

    assert (point.slots, point.used, point.waiting) == (None, 0, 0)


async def test_reading_a_range_does_not_read_the_rest(db: Database) -> None:
    statement = """
        INSERT INTO figures_{} (at, {}, ended, waiting, queued, running, parsing)
        SELECT now() - n * interval '1 {}', 's', {} 1, 1, 1, 1, 1 FROM generate_series(1, 10000) AS n
    """
    async with db.acquire() as conn:
        await conn.execute(statement.format("minute", "scheduler, incarnation", "minute", "1,"))
        await conn.execute(statement.format("hour", "scheduler", "hour", ""))
        await conn.execute("ANALYZE")
        for hours, length in ((False, HOUR), (True, 168 * HOUR)):
            span = range_before(datetime.now(UTC), length)
            for read in (FLEET, POOL):
                arguments = (span.since, span.until, span.step.total_seconds(), "s")
                plan = await conn.fetch(f"EXPLAIN {read[hours]}", *arguments)
                assert "Seq Scan" not in "\n".join(row[0] for row in plan)
