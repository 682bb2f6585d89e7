"""Missed SLAs: recorded once, at their instant, and told of once. The semantics reference, section 23.3."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Any

import pytest

from aiosched import DAG
from aiosched import task as author_task
from aiosched.clock import FakeClock
from aiosched.core.graph.spec import DagSpec
from aiosched.core.values.ids import partition_of
from aiosched.core.values.messages import Attempt, Outcome
from aiosched.db.server.connection import DatabaseConnection
from aiosched.db.server.engine import Database
from aiosched.db.statements import slas as sla_statements
from aiosched.scheduler.effects import slas
from aiosched.scheduler.service import Scheduler
from tests.patience import PATIENCE
from tests.scheduler.harness import NEW_YEAR, Running, dag, register, running, settings_for_tests, task

HOUR = 3600.0


def hourly(dag_id: str = "d", **options: Any) -> DagSpec:
    """Runs of each hour; the SLA of `a` is ten minutes, `b` has none."""
    options = {"schedule": "@hourly", "start_date": NEW_YEAR, "catchup": True, "tells_missed_slas": True, **options}
    return dag(dag_id, task("a", sla=600.0), task("b", after="a"), **options)


def date(hour: float) -> datetime:
    return NEW_YEAR + timedelta(hours=hour)


async def misses(it: Running) -> list[tuple[str, str, float]]:
    """(DAG, task, date in hours) of what is recorded, in the order of dates."""
    rows = await it.fetch("SELECT dag_id, task_id, logical_date FROM sla_miss ORDER BY dag_id, logical_date, task_id")
    return [(row[0], row[1], (row[2] - NEW_YEAR) / timedelta(hours=1)) for row in rows]


def sla_callbacks(it: Running) -> list[Attempt]:
    return [one for one in it.executor.without_slot if one.callback is not None and one.callback.kind == "sla_miss"]


async def first_hour_done(it: Running) -> None:
    """The clock goes to 01:00, and the first run's tasks succeed."""
    await it.advance(HOUR)
    await it.finish("a", "b")


async def test_a_miss_is_recorded_just_after_its_instant_and_told_of_in_a_worker(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, hourly()) as it:
        await first_hour_done(it)  # the task is done for 00:00; the first date after it is not tested
        await it.advance(HOUR + 600)
        assert await misses(it) == []

        await it.advance(0.001)  # 02:00 and ten minutes have passed
        attempt = await it.callback()

        assert await misses(it) == [("d", "a", 2)]
        assert attempt.callback is not None
        assert (attempt.callback.kind, attempt.run.dag_id, attempt.key.task_index) == ("sla_miss", "d", -1)
        (row,) = await it.fetch("SELECT missed_at, callback_id FROM sla_miss")
        assert tuple(row) == (clock.at, attempt.callback.id)
        it.executor.report(attempt, Outcome.SUCCESS)
        await it.settled()
        assert await it.fetch("SELECT * FROM callback_outbox") == []


async def test_the_owner_sleeps_until_the_instant_at_which_a_date_may_be_missed(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, hourly()) as it:
        await first_hour_done(it)

        assert it.session.outbox.slas.earliest == date(1) + timedelta(minutes=10, microseconds=1)


async def test_a_task_that_is_done_in_time_misses_nothing(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, hourly()) as it:
        for _ in range(5):
            await first_hour_done(it)
            await it.advance(0)

        assert await misses(it) == []


async def test_a_success_that_is_not_stored_yet_counts(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, hourly()) as it:
        await first_hour_done(it)
        await it.advance(HOUR)
        it.executor.succeed(await it.attempt("a"))
        await it.advance(600.001)

        assert await misses(it) == []


async def test_a_success_that_is_stored_and_forgotten_while_the_rows_are_read_counts(
    dsn: str, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = dag("d", task("a", sla=600.0), schedule="@hourly", start_date=NEW_YEAR, catchup=True)
    async with running(dsn, clock, spec) as it, asyncio.timeout(PATIENCE):
        await it.advance(HOUR)
        await it.finish("a")
        await it.advance(HOUR)
        late, held = await it.attempt("a"), it.session.cache.dags["d"]
        read, original = asyncio.Event(), sla_statements.done_tasks

        async def done_tasks(conn: DatabaseConnection, places: Collection[tuple[int, int]]) -> Any:
            found = await original(conn, places)
            read.set()
            await it.until(lambda: not held.runs.under_way(), "the end of the run")
            return found

        monkeypatch.setattr(slas, "done_tasks", done_tasks)
        async with it.session.env.journal.quiet():  # nothing is stored
            it.executor.succeed(late)
            await it.until(lambda: held.runs.ending, "the success")
            clock.advance(601)
            it.scheduler.wake_loops()
            await read.wait()
        await it.settled()

        assert await misses(it) == []


async def test_dates_go_on_being_missed_and_each_is_told_of_once(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, hourly()) as it:
        await first_hour_done(it)
        await it.advance(HOUR)
        for _ in range(3):
            await it.advance(HOUR)
            for attempt in list(it.executor.callbacks.values()):
                it.executor.report(attempt, Outcome.SUCCESS)
            await it.settled()

        assert await misses(it) == [("d", "a", 2), ("d", "a", 3), ("d", "a", 4)]
        assert len(sla_callbacks(it)) == 3


async def test_runs_and_tasks_go_on_as_if_nothing_were_late(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, hourly(catchup=False)) as it:
        await first_hour_done(it)
        await it.advance(2 * HOUR)
        assert await misses(it) == [("d", "a", 2)]

        await it.finish_all()

        assert set((await it.runs("d")).values()) == {"success"}
        await it.assert_consistent()


async def test_skipped_counts_as_done_and_failed_does_not(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, hourly("skips"), hourly("fails")) as it:
        await it.advance(HOUR)
        for dag_id in ("skips", "fails"):
            await it.finish("a", dag_id=dag_id)
        await it.advance(HOUR)
        it.executor.skip(await it.attempt("a", dag_id="skips"))
        it.executor.fail(await it.attempt("a", dag_id="fails"))
        await it.advance(601)

        assert await misses(it) == [("fails", "a", 2)]


async def test_nothing_is_late_before_the_task_was_done_for_the_first_time(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, hourly()) as it:
        await it.advance(5 * HOUR)
        assert await misses(it) == []

        await it.finish("a", run_id="scheduled__2026-01-01T00:00:00+00:00")
        await it.advance(HOUR)

        assert [late for *_, late in await misses(it)] == [2, 3, 4, 5]
        assert len(sla_callbacks(it)) == 1  # all of them together


@pytest.mark.parametrize(
    ("options", "settings"),
    [
        pytest.param({"schedule": None}, {}, id="no schedule"),
        pytest.param({"schedule": "@once"}, {}, id="one date"),
        pytest.param({}, {"check_slas": False}, id="switched off"),
    ],
)
async def test_without_schedule_dates_or_switched_off_nothing_is_recorded(
    dsn: str, clock: FakeClock, options: dict[str, Any], settings: dict[str, Any]
) -> None:
    async with running(dsn, clock, hourly(**options), **settings) as it:
        if options:
            await it.trigger("d", "r", logical_date=date(0.25))
        await first_hour_done(it)
        await it.advance(5 * HOUR)

        assert await misses(it) == []
        assert it.session.outbox.slas.earliest is None


async def test_a_paused_dag_is_looked_at_again_once_it_is_unpaused(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, hourly()) as it:
        await first_hour_done(it)
        await it.ask("pause", "d")
        await it.advance(3 * HOUR)
        assert await misses(it) == []

        await it.ask("unpause", "d")
        await it.advance(HOUR)

        assert [late for *_, late in await misses(it)] == [2, 3, 4]  # nothing was done meanwhile


async def test_a_miss_that_nobody_is_told_of_is_recorded_and_told_of_when_there_is_a_callback(
    dsn: str, clock: FakeClock
) -> None:
    async with running(dsn, clock, hourly(tells_missed_slas=False)) as it:
        await first_hour_done(it)
        await it.advance(2 * HOUR)
        assert (await misses(it), sla_callbacks(it)) == ([("d", "a", 2)], [])

        await it.register(hourly())
        assert sla_callbacks(it) == []  # with the next one
        await it.advance(HOUR)

        (attempt,) = sla_callbacks(it)
        assert attempt.callback is not None
        ids = {row["callback_id"] for row in await it.fetch("SELECT callback_id FROM sla_miss")}
        assert ids == {attempt.callback.id}
        assert attempt.run.version == 2  # the DAG as it is now, whatever the version of its runs


async def test_a_new_sla_is_looked_at_at_once(dsn: str, clock: FakeClock) -> None:
    plain = dag("d", task("a"), task("b", after="a"), schedule="@hourly", start_date=NEW_YEAR, catchup=True)
    async with running(dsn, clock, plain) as it:
        await first_hour_done(it)
        await it.advance(3 * HOUR)

        await it.register(hourly())

        assert [late for *_, late in await misses(it)] == [2, 3]


# -- restarts and take-overs ------------------------------------------------------------------


async def test_a_restart_neither_loses_nor_doubles_a_miss(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, hourly()) as it:
        await first_hour_done(it)
        await it.advance(2 * HOUR)
        assert await misses(it) == [("d", "a", 2)]
        delivered = sla_callbacks(it)[0].callback
    clock.advance(HOUR)  # the date of 03:00 is missed while nobody looks

    async with running(dsn, clock) as it:
        assert await misses(it) == [("d", "a", 2), ("d", "a", 3)]
        again, new = sorted(one.callback.id for one in sla_callbacks(it) if one.callback)
        assert delivered is not None
        assert again == delivered.id
        rows = await it.fetch("SELECT callback_id FROM sla_miss ORDER BY logical_date")
        assert [row[0] for row in rows] == [again, new]


@pytest.mark.slow
async def test_two_schedulers_record_each_miss_once(dsn: str, clock: FakeClock) -> None:
    specs = [hourly(f"d{number}") for number in range(8)]
    async with running(dsn, clock, *specs) as one:
        await one.advance(HOUR)
        await one.finish_all()
        async with running(dsn, clock, settle=False) as other:
            await other.until(lambda: other.session.cache.dags, "a share")
            await other.settled()
            clock.advance(2 * HOUR)
            for it in (one, other):
                it.scheduler.wake_loops()
            for it in (one, other):
                await it.settled()

            assert await misses(one) == [(f"d{number}", "a", 2) for number in range(8)]
            stored = [row["partition"] for row in await one.fetch("SELECT partition FROM callback_outbox")]
            assert sorted(stored) == sorted(partition_of(f"d{number}") for number in range(8))
            called = [a.run.dag_id for it in (one, other) for a in sla_callbacks(it)]  # a few at a time in each
            assert called
            assert len(called) == len(set(called))


async def test_a_success_far_back_is_found(dsn: str, clock: FakeClock, db: Database) -> None:
    await register(db, hourly(catchup=True))
    async with running(dsn, clock) as it:
        await first_hour_done(it)
        await it.execute("DELETE FROM sla_miss")
        await it.ask("pause", "d")
        clock.advance(24 * HOUR)
        for hour in range(2, 22):
            await it.ask("trigger", "d", run_id=f"r{hour}", logical_date=date(hour).isoformat())
        await it.ask("unpause", "d")
        await it.advance(HOUR)

        assert [late for *_, late in await misses(it)][:3] == [2, 3, 4]


async def test_a_dag_that_is_deleted_takes_its_misses_along(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, hourly()) as it:
        await first_hour_done(it)
        await it.advance(2 * HOUR)
        await it.finish_all()
        assert await misses(it)

        await it.ask("delete_dag", "d")

        assert await misses(it) == []


async def test_from_a_task_that_hangs_to_the_callback_of_its_dag(dsn: str, clock: FakeClock) -> None:
    told_of: list[tuple[str, str]] = []
    release = asyncio.Event()

    def callback(dag: Any, task_list: str, blocking_task_list: str, slas: Any, blocking_tis: Any) -> None:
        told_of.append((task_list, blocking_task_list))

    def build() -> DAG:
        with DAG("d", schedule="@hourly", start_date=NEW_YEAR, catchup=True, sla_miss_callback=callback) as built:

            @author_task(sla=timedelta(minutes=90))
            async def work(ds: str, run_id: str) -> None:
                if not run_id.endswith("T00:00:00+00:00"):
                    await release.wait()

            work()  # type: ignore[call-arg]  # the context gives it
        return built

    async with await Database.open(dsn, application_name="test") as db:
        scheduler = Scheduler(dsn=dsn, dags=[build()], clock=clock, settings=settings_for_tests())
        async with scheduler:
            it = Running(scheduler, None, clock, db)  # type: ignore[arg-type] # the executor is a real one
            await it.advance(HOUR)
            await it.until(lambda: not it.session.cache.boards, "the first run")
            await it.advance(2.5 * HOUR)  # 03:30
            assert told_of == []

            await it.advance(0.001)
            await it.until(lambda: told_of, "the callback")

            assert told_of == [("work on 2026-01-01T02:00:00+00:00", "work on 2026-01-01T02:00:00+00:00")]
            release.set()
