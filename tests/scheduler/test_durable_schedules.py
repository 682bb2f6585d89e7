"""Schedules that are data, as a live scheduler fires them: scheduler/loops/schedules.py."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from datetime import timedelta
from typing import Any

import pytest

from aiosched.clock import FakeClock
from aiosched.core.graph.spec import ParamSpec
from aiosched.db.server.connection import DatabaseConnection
from aiosched.db.server.engine import Database
from aiosched.db.statements.dag_schedules import Firing, due_schedules, fire_schedules
from aiosched.errors import DagError, NotFound, Refused
from aiosched.scheduler.loops import schedules
from aiosched.scheduler.why.why import why
from tests.scheduler.harness import NEW_YEAR, Running, dag, register, running

HOUR = timedelta(hours=1)


@pytest.fixture
async def it(dsn: str, clock: FakeClock) -> AsyncIterator[Running]:
    async with running(dsn, clock, dag("d"), dag("e")) as scheduler:
        yield scheduler


def runs_at(name: str, *hours: int) -> set[str]:
    return {f"{name}__{(NEW_YEAR + timedelta(hours=each)).isoformat()}" for each in hours}


async def test_it_starts_a_run_at_each_instant_with_its_conf(it: Running) -> None:
    await it.scheduler.schedule("d", "tenant-7", cron="0 * * * *", conf={"tenant": 7})
    await it.settled()
    await it.advance(3600)
    await it.advance(3600)

    assert set(await it.runs("d")) == runs_at("tenant-7", 0, 1, 2)
    assert set(await it.fetch("SELECT conf::text, triggered_by, logical_date FROM dag_run")) == {
        ('{"tenant":7}', "schedule", None)
    }
    (shown,) = await it.scheduler.schedules("d")
    assert (shown.summary, shown.conf, shown.last_at, shown.next_at, shown.last_state) == (
        "0 * * * * (UTC)", {"tenant": 7}, NEW_YEAR + 2 * HOUR, NEW_YEAR + 3 * HOUR, "running",
    )  # fmt: skip
    await it.assert_consistent()


async def test_many_on_one_dag_that_are_due_at_once(it: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedules, "_AT_ONCE", 30)
    at = NEW_YEAR + HOUR
    await asyncio.gather(*(it.scheduler.schedule("d", f"t{n}", at=at, conf={"n": n}) for n in range(100)))
    await it.advance(3600)

    assert await it.fetch("SELECT count(*), count(DISTINCT conf::text) FROM dag_run") == [(100, 100)]
    assert len(await it.scheduler.schedules()) == 100
    assert {each.next_at for each in await it.scheduler.schedules("d")} == {None}


async def test_what_was_missed_with_large_confs_is_caught_up_with_in_bounded_statements(
    it: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schedules, "_MOST_BYTES", 9_000)
    sizes = list[int]()

    async def fire(conn: DatabaseConnection, firings: Sequence[Firing]) -> None:
        sizes.append(sum(len(one.schedule.conf) * len(one.instants) for one in firings))
        await fire_schedules(conn, firings)

    monkeypatch.setattr(schedules, "fire_schedules", fire)
    conf = {"text": "x" * 1000}
    for name in ("a", "b", "c", "d"):
        await it.scheduler.schedule("d", name, cron="0 * * * *", start=NEW_YEAR + HOUR, catchup=True, conf=conf)
    await it.scheduler.schedule("d", "huge", at=NEW_YEAR + HOUR, conf={"text": "x" * 20_000})
    await it.advance(12 * 3600)

    assert set(await it.runs("d")) == runs_at("huge", 1).union(*(runs_at(one, *range(1, 13)) for one in "abcd"))
    small = [size for size in sizes if size < 20_000]
    assert max(small) <= 9_000 + 4 * 1_100
    assert len(small) >= 6
    assert {one.error for one in await it.scheduler.schedules("d")} == {None}


async def test_it_is_paused_changed_and_removed(it: Running) -> None:
    scheduler = it.scheduler
    await scheduler.schedule("d", "n", every=3600, start=NEW_YEAR + HOUR)
    await scheduler.pause_schedule("d", "n")
    await it.advance(2.5 * 3600)
    assert await it.runs("d") == {}
    await scheduler.resume_schedule("d", "n")  # the last of those that were missed
    await it.settled()
    assert set(await it.runs("d")) == runs_at("n", 2)
    await scheduler.schedule("d", "n", every=3600, start=NEW_YEAR + HOUR, conf={"x": 1})  # the same instants
    await it.settled()
    assert set(await it.runs("d")) == runs_at("n", 2)
    await it.advance(3600)
    assert set(await it.runs("d")) == runs_at("n", 2, 3)
    await scheduler.unschedule("d", "n")
    await it.advance(3600)

    assert set(await it.runs("d")) == runs_at("n", 2, 3)
    assert await scheduler.schedules() == []
    for verb in (scheduler.pause_schedule, scheduler.resume_schedule, scheduler.unschedule):
        with pytest.raises(NotFound, match="has no schedule 'n'"):
            await verb("d", "n")


async def test_it_goes_on_after_a_restart_and_what_was_missed_is_caught_up_with(
    dsn: str, db: Database, clock: FakeClock
) -> None:
    async with running(dsn, clock, dag("d")) as it:
        await it.scheduler.schedule("d", "n", every=3600, start=NEW_YEAR + HOUR, catchup=True)
        await it.advance(3600)
    clock.advance(3 * 3600)
    async with running(dsn, clock) as it:
        await it.settled()
        assert set(await it.runs("d")) == runs_at("n", 1, 2, 3, 4)


async def test_two_schedulers_that_both_see_it_due_start_one_run(it: Running, db: Database) -> None:
    """The second has lost its partitions and does not know: it fires what it has read."""
    await it.scheduler.schedule("d", "n", at=NEW_YEAR + HOUR)
    at = NEW_YEAR + HOUR
    async with db.acquire() as one, db.acquire() as two:
        (seen,) = await due_schedules(one, range(64), at, limit=10, most_bytes=10_000)
        await asyncio.gather(*(fire_schedules(conn, [Firing(seen, [at], None)]) for conn in (one, two)))
        assert await one.fetchval("SELECT count(*) FROM request WHERE verb = 'trigger'") == 1
        await fire_schedules(two, [Firing(seen, [at], None)])  # even later
        assert await one.fetchval("SELECT count(*) FROM request WHERE verb = 'trigger'") == 1
    await it.advance(3600)

    assert set(await it.runs("d")) == runs_at("n", 1)


async def test_while_partitions_move_between_schedulers_each_instant_has_one_run(dsn: str, clock: FakeClock) -> None:
    specs = [dag(f"d{n}", max_active_runs=50) for n in range(12)]
    async with running(dsn, clock, *specs) as first:
        for spec in specs:
            await first.scheduler.schedule(spec.dag_id, "s", every=3600, start=NEW_YEAR, catchup=True)
        await first.settled()
        async with running(dsn, clock, settle=False) as second:
            for _ in range(4):
                clock.advance(3600)
                first.scheduler.wake_loops()
                second.scheduler.wake_loops()
                first.scheduler.look_at_fleet()
                second.scheduler.look_at_fleet()
                await asyncio.sleep(0)
            await first.give_everything(second)
            await second.settled()

            found = await second.fetch("SELECT dag_id, count(*), count(DISTINCT run_id) FROM dag_run GROUP BY dag_id")
            assert {(number, distinct) for _, number, distinct in found} == {(5, 5)}
            assert len(found) == len(specs)


async def test_made_anew_it_starts_no_second_run_of_an_instant(it: Running) -> None:
    for _ in range(2):
        await it.scheduler.schedule("d", "n", at=NEW_YEAR)
        await it.settled()
        await it.scheduler.unschedule("d", "n")

    assert set(await it.runs("d")) == runs_at("n", 0)
    await it.finish("a")
    await it.settled()
    await it.scheduler.delete("d")
    await register(it.db, dag("d"))
    await it.scheduler.schedule("d", "n", at=NEW_YEAR)  # nothing of it is left
    await it.settled()
    assert set(await it.runs("d")) == runs_at("n", 0)


async def test_a_change_that_wrote_what_it_had_read_repeats_nothing(it: Running) -> None:
    await it.scheduler.schedule("d", "n", every=3600)
    await it.settled()
    await it.fetch("UPDATE dag_schedule SET last_at = NULL, next_at = $1 RETURNING 1", NEW_YEAR)
    await it.advance(0)
    await it.settled()

    assert await it.fetch("SELECT count(*) FROM request WHERE verb = 'trigger'") == [(1,)]
    assert set(await it.runs("d")) == runs_at("n", 0)


async def test_a_clock_that_jumps_forward_and_back_repeats_nothing(dsn: str, db: Database, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("d")) as it:
        await it.scheduler.schedule("d", "n", every=3600, start=NEW_YEAR + HOUR)
        await it.advance(5 * 3600)
        assert set(await it.runs("d")) == runs_at("n", 5)
    async with running(dsn, FakeClock(NEW_YEAR + HOUR), dag("d")) as it:
        await it.settled()
        await it.advance(4 * 3600)
        assert set(await it.runs("d")) == runs_at("n", 5)
        await it.advance(3600)
        assert set(await it.runs("d")) == runs_at("n", 5, 6)


async def test_a_run_that_is_refused_is_told_and_the_schedule_goes_on(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("d", allowed_run_types=("scheduled",))) as it:
        await it.scheduler.schedule("d", "n", every=3600)
        await it.settled()
        (shown,) = await it.scheduler.schedules("d")

    assert (shown.last_state, shown.next_at) == ("refused", NEW_YEAR + HOUR)
    assert "takes no manual runs" in str(shown.error)


REFUSES = """
    CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF row_to_json(NEW)->>'{column}' = 'broken' THEN
            RAISE unique_violation USING MESSAGE = 'there is one already';
        END IF;
        RETURN NEW;
    END $$;
    CREATE TRIGGER refuse BEFORE {what} FOR EACH ROW EXECUTE FUNCTION refuse()
"""
DEEP = """(repeat('{"a":', 2000) || '1' || repeat('}', 2000))::json"""
BROKEN = {  # what an administrator, or an older program, has made of the row, and what the schedule says
    "cron": ("UPDATE dag_schedule SET cron = '61 * * * *' WHERE name = 'broken'", "61"),
    "zone": ("UPDATE dag_schedule SET timezone = 'Mars/Olympus' WHERE name = 'broken'", "Mars/Olympus"),
    "every NaN": ("UPDATE dag_schedule SET cron = NULL, every = 'NaN' WHERE name = 'broken'", "NaN"),
    "every 1e-300": ("UPDATE dag_schedule SET cron = NULL, every = 1e-300 WHERE name = 'broken'", "0 seconds"),
    "conf a list": ("UPDATE dag_schedule SET conf = '[1]' WHERE name = 'broken'", "give a JSON object"),
    "conf half": (r"""UPDATE dag_schedule SET conf = '{"a": "\ud800"}' WHERE name = 'broken'""", "JSON object"),
    "conf NUL": (r"""UPDATE dag_schedule SET conf = '{"a": "\u0000"}' WHERE name = 'broken'""", "NUL"),
    "conf deep": (f"UPDATE dag_schedule SET conf = {DEEP} WHERE name = 'broken'", "JSON object"),
    "name": ("UPDATE dag_schedule SET name = repeat('b', 5000) WHERE name = 'broken'", "5027 characters"),
    "last": ("UPDATE dag_schedule SET last_at = 'infinity' WHERE name = 'broken'", "out of range"),
    "request": (REFUSES.format(column="reason", what="INSERT ON request"), "there is one already; it is tried again"),
}


@pytest.mark.parametrize(("broken", "error"), BROKEN.values(), ids=BROKEN)
async def test_what_fails_about_a_row_is_said_there_and_the_others_go_on(it: Running, broken: str, error: str) -> None:
    for dag_id, name in (("d", "broken"), ("d", "good"), ("e", "good")):
        await it.scheduler.schedule(dag_id, name, cron="0 * * * *", start=NEW_YEAR + HOUR)
    session = it.session
    await it.execute(broken)
    await it.advance(3600)
    await it.advance(3600)

    assert await it.runs("d") == await it.runs("e") == dict.fromkeys(sorted(runs_at("good", 1, 2)), "running")
    assert it.session is session
    said, good, other = await it.scheduler.schedules()
    assert (error in str(said.error), good.error, other.error) == (True, None, None)


async def test_what_the_database_refused_is_tried_again_and_why_names_it(
    it: Running, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("broken", "good"):
        await it.scheduler.schedule("d", name, at=NEW_YEAR + HOUR)
    await it.execute(REFUSES.format(column="reason", what="INSERT ON request"))
    await it.advance(3600)
    told = await why(it.db, "d", now=it.clock.now())
    await it.execute("DROP FUNCTION refuse CASCADE")
    await it.advance(59)
    before = set(await it.runs("d"))
    await it.advance(1)

    assert (before, set(await it.runs("d"))) == (runs_at("good", 1), runs_at("good", 1) | runs_at("broken", 1))
    assert {one.error for one in await it.scheduler.schedules()} == {None}
    assert "the schedule broken failed: UniqueViolationError: there is one already" in caplog.text
    (gate,) = (gate for gate in told.gates if gate.name == "schedules")
    assert "2 schedules, 1 with an error; next is broken" in gate.detail
    assert gate.commands == ("aiosched schedules list --dag d",)


async def test_one_that_cannot_even_say_so_delays_no_other(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("d"), safety_poll=3600) as it:
        for name, seconds in (("broken", 3600.0), ("good", 3600.0), ("next", 3600.2)):
            await it.scheduler.schedule("d", name, at=NEW_YEAR + timedelta(seconds=seconds))
        await it.execute(REFUSES.format(column="name", what="UPDATE ON dag_schedule"))
        await it.advance(3600)
        assert set(await it.runs("d")) == runs_at("good", 1)
        it.clock.advance(0.2)  # nobody wakes the loop
        await it.until(lambda: len(it.executor.running) == 2, "the next run")


@pytest.mark.parametrize("of", ["gone", "e"], ids=["a DAG that is gone", "a stale DAG"])
async def test_one_of_a_dag_that_is_not_there_waits(it: Running, of: str) -> None:
    await it.scheduler.schedule("d", "good", at=NEW_YEAR + HOUR)
    await it.scheduler.schedule("e", "lost", at=NEW_YEAR + HOUR)
    await it.execute("UPDATE dag SET is_stale = true WHERE dag_id = 'e'")
    await it.execute(f"UPDATE dag_schedule SET dag_id = '{of}' WHERE name = 'lost'")
    await it.advance(3600)

    assert set(await it.runs("d")) == runs_at("good", 1)
    assert await it.fetch("SELECT 1 FROM dag_run WHERE dag_id <> 'd'") == []


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({}, "one of cron, every and at"),
        ({"cron": "61 * * * *"}, "61"),
        ({"every": 0.01}, "at most"),
        ({"cron": "0 0 * * *", "timezone": "Mars/Olympus"}, "Mars/Olympus"),
        ({"every": 60, "conf": {"n": "much"}}, "'n'"),
    ],
    ids=["none", "cron", "every", "zone", "conf"],
)
async def test_what_cannot_be_is_refused_when_it_is_set(
    dsn: str, clock: FakeClock, options: dict[str, Any], error: str
) -> None:
    spec = dag("d", params={"n": ParamSpec(value=1, json_schema={"type": "integer"})})
    async with running(dsn, clock, spec) as it:
        with pytest.raises((Refused, DagError), match=error):
            await it.scheduler.schedule("d", "n", **options)
        with pytest.raises(NotFound):
            await it.scheduler.schedule("no dag", "n", every=1)
        assert await it.scheduler.schedules() == []


async def test_a_deleted_dag_has_no_schedules(it: Running) -> None:
    await it.scheduler.schedule("d", "n", every=3600, start=NEW_YEAR + HOUR)
    await it.scheduler.schedule("e", "n", every=3600, start=NEW_YEAR + HOUR)
    await it.scheduler.delete("d")

    assert [(each.dag_id, each.name) for each in await it.scheduler.schedules()] == [("e", "n")]
