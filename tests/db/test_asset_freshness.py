"""Whether assets are fresh: by the data that the runs of their producers have given, and by true timetables."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from aiosched.core.assets.conditions import AssetReference
from aiosched.core.graph.spec import DagSpec
from aiosched.core.timetables.base import DataInterval
from aiosched.core.timetables.parse import parse_schedule
from aiosched.db.assets.assets import NewAssetEvent, record_events, store_references
from aiosched.db.queries.asset_queries import AssetRow, get_asset
from aiosched.db.server.engine import Database
from aiosched.parsing.store import register_specs
from tests.cli.records import SALES, add_run


def at(text: str) -> datetime:
    return datetime.fromisoformat(f"2026-{text}+00:00")


class Shop:
    """A DAG that makes the asset `orders`, as rows."""

    def __init__(self, db: Database) -> None:
        self.db = db

    async def make(
        self,
        dag_id: str,
        schedule: str,
        runs: list[str],
        following: str,
        *,
        limit: float | None = None,
        **of: Any,
    ) -> None:
        """The DAG with scheduled runs by the ends of their intervals (failed ones), and the end of the next one's."""
        timetable = parse_schedule(schedule, timezone=of.get("timezone", "UTC"))
        spec = DagSpec(dag_id=dag_id, tasks=SALES, timetable=timetable, **of)
        reference = AssetReference("outlet", "asset", "orders", "s3://orders", "load", fresh_within=limit)
        ends = [at(text) for text in (*runs, following)]
        starts = [timetable.clock.prev_tick(end) for end in ends]  # type: ignore[union-attr]
        async with self.db.transaction() as conn:
            await register_specs(conn, [spec], now=at("01-01T00:00"))
            await store_references(conn, {dag_id: (reference,)}, now=at("01-01T00:00"))
            self.version = await conn.fetchval("SELECT version_id FROM dag WHERE dag_id = $1", dag_id)
            await conn.execute(
                "UPDATE dag SET is_paused = false, next_dagrun = $2, next_dagrun_data_interval_start = $2,"
                " next_dagrun_data_interval_end = $3, next_dagrun_create_after = $3 WHERE dag_id = $1",
                dag_id, starts[-1], ends[-1],
            )  # fmt: skip
        for start, end in zip(starts[:-1], ends[:-1], strict=True):
            await self.run(dag_id, f"s{end:%m-%dT%H}", DataInterval(start, end), run_type="scheduled", run_after=end)

    async def run(self, dag_id: str, run_id: str, interval: DataInterval | None, **columns: Any) -> None:
        if interval is not None:
            columns = {
                "logical_date": interval.start,
                "data_interval_start": interval.start,
                "data_interval_end": interval.end,
            } | columns
        await add_run(self.db, dag_id, self.version, run_id, state="failed", **columns)

    async def gives(self, dag_id: str, run_id: str, when: str) -> None:
        async with self.db.transaction() as conn:
            key = await conn.fetchval("SELECT id FROM dag_run WHERE dag_id = $1 AND run_id = $2", dag_id, run_id)
            await record_events(conn, [NewAssetEvent("orders", "", "{}", None, at(when), dag_id, key, 1, -1)])

    async def seen(self, now: str) -> AssetRow:
        return await get_asset(self.db, "orders", now=at(now))

    async def state(self, now: str) -> tuple[str, str | None]:
        row = await self.seen(now)
        return str(row.freshness), None if row.expected_by is None else f"{row.expected_by:%m-%dT%H:%M}"


@pytest.fixture
def shop(db: Database) -> Shop:
    return Shop(db)


DAILY = ["11-25T00:00", "11-26T00:00", "11-27T00:00"]


async def test_a_run_of_long_ago_that_runs_again_makes_nothing_fresh(shop: Shop) -> None:
    await shop.make("d", "@daily", DAILY, "11-28T00:00")
    await shop.gives("d", "s11-25T00", "11-25T01:00")
    assert await shop.state("11-27T12:00") == ("late", "11-27T00:00")

    await shop.gives("d", "s11-25T00", "11-27T11:00")
    assert await shop.state("11-27T12:00") == ("late", "11-27T00:00")

    await shop.gives("d", "s11-26T00", "11-27T11:30")
    assert await shop.state("11-27T12:00") == ("fresh", "11-28T00:00")
    await shop.gives("d", "s11-27T00", "11-27T11:40")
    await shop.gives("d", "s11-26T00", "11-27T11:50")
    assert await shop.state("11-27T12:00") == ("fresh", "11-29T00:00")
    assert (await shop.seen("11-27T12:00")).last_run_id == "s11-26T00"


async def test_a_manual_run_counts_by_its_data_interval(shop: Shop) -> None:
    await shop.make("d", "@daily", DAILY, "11-28T00:00")
    await shop.run("d", "undated", None)
    await shop.run("d", "old", DataInterval(at("11-01T00:00"), at("11-02T00:00")))
    now = at("11-27T11:00")
    await shop.run("d", "dated", DataInterval(at(DAILY[-2]), at(DAILY[-1])), logical_date=now, run_after=now)
    for run_id in ("undated", "old"):
        await shop.gives("d", run_id, "11-27T11:00")
        assert await shop.state("11-27T12:00") == ("late", "11-27T00:00")

    await shop.gives("d", "dated", "11-27T11:30")
    assert await shop.state("11-27T12:00") == ("fresh", "11-29T00:00")


@pytest.mark.parametrize("ends_later", [False, True], ids=["all of it", "its end"])
async def test_a_run_about_the_future_keeps_no_promise(shop: Shop, ends_later: bool) -> None:
    """Somebody has triggered it with the wrong year, or for the day that is not over."""
    await shop.make("d", "@daily", DAILY, "11-28T00:00")
    start = at("11-27T00:00") if ends_later else at("12-31T00:00")
    await shop.run("d", "ahead", DataInterval(start, at("12-31T00:00")), logical_date=start, run_type="manual")

    await shop.gives("d", "ahead", "11-27T11:00")

    assert await shop.state("11-27T12:00") == ("late", "11-27T00:00")
    await shop.gives("d", "s11-27T00", "11-27T11:40")
    assert await shop.state("11-27T12:00") == ("fresh", "11-29T00:00")


async def test_a_run_about_the_future_is_as_new_as_its_event(shop: Shop) -> None:
    await shop.make("d", "@daily", DAILY, "11-28T00:00", limit=3600.0)
    await shop.run("d", "ahead", None, logical_date=at("12-31T00:00"), run_type="manual")

    await shop.gives("d", "ahead", "11-26T11:00")
    await shop.gives("d", "s11-27T00", "11-27T11:40")

    assert await shop.state("11-27T12:00") == ("fresh", "11-27T12:40")


async def test_a_schedule_may_be_ahead_of_its_intervals(shop: Shop) -> None:
    await shop.make("d", "@daily", DAILY, "11-28T00:00")
    ahead = DataInterval(at("11-28T00:00"), at("11-29T00:00"))
    await shop.run("d", "tomorrow", ahead, run_type="scheduled", run_after=at("11-27T06:00"))

    await shop.gives("d", "tomorrow", "11-27T07:00")

    assert (await shop.state("11-27T12:00"))[0] == "fresh"


@pytest.mark.parametrize(
    ("timezone", "schedule", "runs", "following", "expected"),
    [
        ("UTC", "0 6 * * 1-5", ["11-26T06:00", "11-27T06:00"], "11-30T06:00", "12-01T06:00"),
        ("UTC", "0 6 * * 1-5", ["11-25T06:00", "11-26T06:00"], "11-27T06:00", "11-30T06:00"),
        ("UTC", "0 0 1 * *", ["02-01T00:00", "03-01T00:00"], "04-01T00:00", "05-01T00:00"),
        ("UTC", "0 8,9 * * *", ["11-26T08:00", "11-26T09:00"], "11-27T08:00", "11-27T09:00"),
        ("Europe/Amsterdam", "0 6 * * *", ["10-23T04:00", "10-24T04:00"], "10-25T05:00", "10-26T05:00"),
        ("America/New_York", "30 2 * * *", ["03-06T07:30", "03-07T07:30"], "03-08T07:00", "03-09T06:30"),
    ],
)
async def test_the_next_event_is_promised_by_the_true_timetable(
    shop: Shop, timezone: str, schedule: str, runs: list[str], following: str, expected: str
) -> None:
    await shop.make("d", schedule, runs, following, timezone=timezone)
    await shop.gives("d", f"s{runs[-1][:8]}", runs[-1])

    assert await shop.state(runs[-1]) == ("fresh", expected)


async def test_each_producer_keeps_its_own_promises(shop: Shop) -> None:
    """The hourly one gives its events, the daily one does not."""
    await shop.make("d", "@daily", DAILY, "11-28T00:00")
    await shop.make("h", "@hourly", ["11-27T10:00", "11-27T11:00", "11-27T12:00"], "11-27T13:00")
    await shop.gives("h", "s11-27T12", "11-27T12:05")

    assert await shop.state("11-27T12:30") == ("late", "11-27T00:00")
    await shop.gives("d", "s11-27T00", "11-27T12:10")
    assert await shop.state("11-27T12:30") == ("fresh", "11-27T14:00")


async def test_a_limit_counts_from_the_event_with_the_newest_data(shop: Shop) -> None:
    await shop.make("d", "@daily", DAILY, "11-28T00:00", limit=7200.0)
    await shop.gives("d", "s11-26T00", "11-26T01:00")
    await shop.gives("d", "s11-25T00", "11-26T10:00")
    assert await shop.state("11-26T11:00") == ("late", "11-26T03:00")

    await shop.gives("d", "s11-26T00", "11-26T10:30")  # the same data again
    assert await shop.state("11-26T11:00") == ("fresh", "11-26T12:30")
    async with shop.db.transaction() as conn:  # a person, who has no run
        await record_events(conn, [NewAssetEvent("orders", "", "{}", None, at("11-26T10:45"))])
    assert await shop.state("11-26T11:00") == ("fresh", "11-26T12:45")
