"""An unforeseen error about one DAG puts it into quarantine; nothing else stops, and nothing is lost."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from aiosched.clock import FakeClock
from aiosched.core.run.board import Board
from aiosched.db.server import engine
from aiosched.db.server.engine import Database
from aiosched.errors import Refused
from aiosched.scheduler.journal import journal
from aiosched.scheduler.loops import run_creation
from aiosched.scheduler.membership import outage
from aiosched.scheduler.memory.cache import StateCache
from aiosched.scheduler.partitions import loading, unreadable_runs
from aiosched.scheduler.runs import due_runs, new_runs
from tests.one_dag import Broken, broken
from tests.scheduler.harness import NEW_YEAR, Running, dag, keys_of, number_runs, running, task

POLL = 11.0  # seconds, after which the scheduler has read everything that may have changed
HOUR = timedelta(hours=1)


def two_tasks(dag_id: str, **options: Any) -> Any:
    return dag(dag_id, task("a"), task("b", after="a"), **options)


async def quarantined(it: Running) -> dict[str, Any]:
    return {row["dag_id"]: row for row in await it.fetch("SELECT * FROM dag_quarantine WHERE tried_at IS NULL")}


async def taken_up(it: Running, dag_id: str) -> None:
    """Wait until a new session holds the DAG, and has settled."""
    await it.until(lambda: dag_id in it.session.cache.dags, "its DAG")
    await it.settled()


async def test_a_dag_whose_evaluation_fails_is_left_alone_and_goes_on_later_as_if_nothing_had_been(
    dsn: str, clock: FakeClock
) -> None:
    async with running(dsn, clock, two_tasks("bad"), two_tasks("good")) as it:
        await it.trigger("bad", "r")
        await it.trigger("good", "r")
        with broken(Board, "evaluate"):
            it.executor.succeed(await it.attempt("a", dag_id="bad"))
            await it.until(lambda: it.scheduler.metrics.quarantines, "the quarantine")
            await it.settled()
            await it.finish("a", "b", dag_id="good")

            assert await it.runs("good") == {"r": "success"}
            assert await it.states("r", "bad") == {"a": "queued", "b": None}
            found = (await quarantined(it))["bad"]
            assert (found["failures"], found["place"]) == (1, "the evaluation")
            assert found["error"] == "Broken: evaluate does not like bad"
            assert "in evaluate\n" in found["traceback"] or "raising" in found["traceback"]
        assert it.scheduler.is_running

        await it.advance(16.0)
        await it.finish("b", dag_id="bad")

        assert await it.runs("bad") == {"r": "success"}
        assert [row["try_number"] for row in await it.instances("r", "bad")] == [1, 1]
        assert await quarantined(it) == {}
        await it.assert_consistent()


async def test_a_result_that_was_cut_off_by_a_failure_is_not_taken_for_stored(dsn: str, clock: FakeClock) -> None:
    """Another loop, which is not cancelled yet, must not commit what the failed one has begun."""
    async with running(dsn, clock, two_tasks("bad"), two_tasks("good")) as it:
        await it.trigger("bad", "r")
        attempt = await it.attempt("a", dag_id="bad")
        await it.settled()
        with broken(Board, "evaluate"):
            session = it.scheduler.session
            assert session is not None
            it.executor.succeed(attempt)  # evaluated next, and then slots are given out
            session.cache.work.room_changed = True
            session.wakeups.enqueueing.wake()
            await it.until(lambda: it.scheduler.metrics.quarantines, "the quarantine")

        await it.advance(16.0)
        await it.finish("b", dag_id="bad")

        assert await it.runs("bad") == {"r": "success"}
        assert [row["try_number"] for row in await it.instances("r", "bad")] == [1, 1]
        assert it.scheduler.metrics.lost_attempts == 0
        await it.assert_consistent()


HOT_PATH = [
    (Board, "apply"),
    (Board, "evaluate"),
    (Board, "grant"),
    (Board, "attempt"),
    (StateCache, "collect_board"),
    (StateCache, "apply_effects"),
    (journal.journal, "write"),
    (journal.journal, "insert_tries"),
    (journal.journal, "upsert_xcoms"),
    (loading, "make_board"),
    (unreadable_runs, "load_readable_instances"),
]


@pytest.mark.slow(but_first=True)
@pytest.mark.parametrize(("owner", "name"), HOT_PATH, ids=[name for _, name in HOT_PATH])
async def test_whatever_fails_for_one_dag_on_the_hot_path_concerns_no_other(
    dsn: str, clock: FakeClock, owner: Any, name: str
) -> None:
    specs = [dag(name, task("a", retries=1), task("b", after="a")) for name in ("bad", "good", "fine")]
    async with running(dsn, clock, *specs) as it:
        await number_runs(it)
        for dag_id in ("bad", "good", "fine"):
            await it.trigger(dag_id, "r")
        keys = await keys_of(it, "bad")
        with broken(owner, name, keys=lambda: keys):
            if owner in (loading, unreadable_runs):
                await it.leave_and_come_back()
            for attempt in list(it.executor.running.values()):
                if attempt.run.dag_id == "fine" or name == "insert_tries":
                    it.executor.fail(attempt)
                else:
                    it.executor.succeed(attempt, value=1)
            await it.until(lambda: it.scheduler.metrics.quarantines, "the quarantine")
            await it.advance(301.0)
            await it.finish_all(value=1)
            await it.advance(301.0)
            await it.finish_all(value=1)

            assert await it.runs("good") == {"r": "success"}
            assert await it.runs("fine") == {"r": "success"}
            assert await it.runs("bad") == {"r": "running"}
            await it.until(lambda: "bad" not in it.session.cache.dags, "the quarantine after the last attempt")
            await it.settled()
            assert list(await quarantined(it)) == ["bad"]

        await it.advance(3700.0)
        await it.finish_all()
        await it.advance(301.0)
        await it.finish_all()

        assert await it.runs("bad") == {"r": "success"}
        await it.assert_consistent()


CREATION = [
    (due_runs, "next_scheduled_run"),
    (due_runs, "tasks_of_run"),
    (run_creation, "schedule_positions"),
    (new_runs, "insert_runs"),
    (new_runs, "new_places"),
    (loading, "next_scheduled_run"),
    (loading, "schedule_positions"),
]


@pytest.mark.slow(but_first=True)
@pytest.mark.parametrize(("owner", "name"), CREATION, ids=[f"{owner.__name__}-{name}" for owner, name in CREATION])
async def test_whatever_fails_in_creating_the_runs_of_one_dag_concerns_no_other(
    dsn: str, clock: FakeClock, owner: Any, name: str
) -> None:
    specs = [dag(name, schedule=HOUR, start_date=NEW_YEAR, catchup=True) for name in ("bad", "good")]
    async with running(dsn, clock, *specs) as it:
        await number_runs(it)

        def keys() -> set[int]:
            return (
                {run.key for run in it.session.cache.dags["bad"].runs.under_way()}
                if "bad" in it.session.cache.dags
                else set()
            )

        with broken(owner, name, keys=keys):
            if owner is loading:
                await it.leave_and_come_back()
            await it.advance(3601.0)
            await it.finish_all()

            assert list(await it.runs("good")) == ["scheduled__2026-01-01T00:00:00+00:00"]
            assert await it.runs("bad") == {}
            assert list(await quarantined(it)) == ["bad"]

        await it.advance(61.0)
        await it.finish_all()

        assert await it.runs("bad") == {"scheduled__2026-01-01T00:00:00+00:00": "success"}
        await it.assert_consistent()


async def test_a_queued_run_that_cannot_start_concerns_only_its_dag(dsn: str, clock: FakeClock) -> None:
    specs = [dag(name, max_active_runs=1) for name in ("bad", "good")]
    async with running(dsn, clock, *specs) as it:
        for dag_id in ("bad", "good"):
            await it.trigger(dag_id, "first")
            await it.trigger(dag_id, "second")
        with broken(Board, "start"):
            await it.finish("a", run_id="first", dag_id="bad")
            await it.finish("a", run_id="first", dag_id="good")
            await it.finish("a", run_id="second", dag_id="good")

            assert it.scheduler.is_running
            assert await it.runs("good") == {"first": "success", "second": "success"}
            assert await it.runs("bad") == {"first": "success", "second": "queued"}
            found = await quarantined(it)
            assert {dag_id: row["place"] for dag_id, row in found.items()} == {"bad": "the start of a run"}

        await it.advance(61.0)
        await it.finish_all()
        assert await it.runs("bad") == {"first": "success", "second": "success"}
        await it.assert_consistent()


async def test_a_run_that_is_created_but_not_held_counts_for_the_limit(dsn: str, clock: FakeClock) -> None:
    spec = dag("bad", schedule=HOUR, start_date=NEW_YEAR, catchup=True, max_active_runs=1)
    async with running(dsn, clock, spec, dag("good")) as it:
        with broken(Board, "start"):
            await it.advance(3 * 3600.0)
            await it.until(lambda: it.scheduler.metrics.quarantines, "the quarantine")
            await it.settled()

            assert await it.runs("bad") == {"scheduled__2026-01-01T00:00:00+00:00": "running"}

        await it.advance(3700.0)
        await it.finish_all()
        assert set((await it.runs("bad")).values()) == {"success"}
        await it.assert_consistent()


async def test_what_fails_for_every_dag_concerns_none_of_them(dsn: str, clock: FakeClock, db: Database) -> None:
    async def write(*_: Any) -> None:
        raise Broken("for everybody")

    async def break_the_journal(patch: pytest.MonkeyPatch) -> None:
        patch.setattr(outage, "PATIENCE", 0.0)
        async with running(dsn, clock, dag("one"), dag("two")) as it:
            await it.trigger("one", "r")
            await it.trigger("two", "r")
            patch.setattr(journal.journal, "write", write)
            for attempt in list(it.executor.running.values()):
                it.executor.succeed(attempt)
            await asyncio.wait([it.scheduler.failed])

    with pytest.MonkeyPatch.context() as patch, pytest.raises(ExceptionGroup) as raised:
        await break_the_journal(patch)

    assert raised.group_contains(Broken, match="for everybody")
    assert await db.fetch("SELECT 1 FROM dag_quarantine") == []


@pytest.mark.slow
async def test_the_pause_grows_with_each_failure_in_a_row(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("bad")) as it:
        with broken(Board, "evaluate"):
            await it.scheduler.trigger("bad", run_id="r")
            pauses = []
            for number in range(1, 10):
                await it.until(lambda number=number: it.scheduler.metrics.quarantines == number, f"failure {number}")
                await it.settled()
                found = (await quarantined(it))["bad"]
                pauses.append((found["retry_at"] - clock.now()).total_seconds())
                await it.advance(pauses[-1] + POLL)

        assert pauses == [15.0, 30.0, 60.0, 120.0, 240.0, 480.0, 960.0, 1920.0, 3600.0]


async def test_a_release_tries_a_dag_again_at_once(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("bad"), dag("good")) as it:
        await it.trigger("bad", "r")
        with broken(Board, "evaluate"):
            it.executor.succeed(await it.attempt("a"))
            await it.until(lambda: it.scheduler.metrics.quarantines, "the quarantine")
            await it.settled()
        for verb, args in (("trigger", {}), ("pause", {}), ("cancel_run", {"run_id": "r"})):
            with pytest.raises(Refused, match=r"DAG 'bad' is in quarantine since .*aiosched dags release bad"):
                await it.ask(verb, "bad", **args)

        await it.ask("release_dag", "bad")
        await taken_up(it, "bad")

        assert await it.runs("bad") == {"r": "success"}
        with pytest.raises(Refused, match="DAG 'bad' is not in quarantine"):
            await it.ask("release_dag", "bad")
        await it.trigger("bad", "s")
        await it.finish("a", run_id="s")
        await it.assert_consistent()


async def test_nothing_is_stored_while_the_loop_that_failed_closes_its_connection(
    dsn: str, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    void, close = list[bool](), engine._CountedConnection.close
    async with running(dsn, clock, dag("bad")) as it:
        session = it.scheduler.session
        assert session is not None

        async def closing(conn: engine._CountedConnection, **options: Any) -> None:
            void.append(session.cache.unstored.is_void)
            await close(conn, **options)

        monkeypatch.setattr(engine._CountedConnection, "close", closing)
        with broken(StateCache, "put_dag"):
            await it.register(dag("bad", task("a"), task("b")))
            await it.until(lambda: it.scheduler.metrics.quarantines, "the quarantine")

    assert void[0]


async def test_a_new_version_of_a_dag_ends_its_quarantine(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("bad")) as it:
        await it.trigger("bad", "r")
        with broken(Board, "evaluate"):
            it.executor.succeed(await it.attempt("a"))
            await it.until(lambda: it.scheduler.metrics.quarantines, "the quarantine")
            await it.settled()

        await it.register(dag("bad", task("a"), task("b")))

        assert await it.runs("bad") == {"r": "success"}
        assert await quarantined(it) == {}


async def test_failures_are_forgotten_when_a_dag_has_worked_for_ten_minutes(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("bad")) as it:
        await it.trigger("bad", "r")
        with broken(Board, "evaluate"):
            it.executor.succeed(await it.attempt("a"))
            await it.until(lambda: it.scheduler.metrics.quarantines, "the quarantine")
            await it.settled()
        await it.advance(16.0)
        assert [row["failures"] for row in await it.fetch("SELECT failures FROM dag_quarantine")] == [1]

        await it.advance(599.0)
        assert len(await it.fetch("SELECT failures FROM dag_quarantine")) == 1
        await it.advance(POLL)

        assert await it.fetch("SELECT failures FROM dag_quarantine") == []


@pytest.mark.slow
async def test_a_result_that_came_during_quarantine_counts_when_the_partition_has_moved_meanwhile(
    dsn: str, clock: FakeClock
) -> None:
    async with running(dsn, clock, two_tasks("bad"), two_tasks("good")) as it:
        await it.trigger("bad", "r")
        first = await it.attempt("a", dag_id="bad")
        with broken(Board, "apply"):
            it.executor.start_running(first)
            await it.until(lambda: it.scheduler.metrics.quarantines, "the quarantine")
            await it.settled()
            it.executor.succeed(first)
            attempts = it.session.env.attempts
            await it.until(lambda: not (attempts.in_flight or attempts.remote.outgoing), "its report to be stored")
            await it.settled()
        await it.leave_and_come_back()
        assert [row["outcome"] for row in await it.fetch("SELECT outcome FROM task_report ORDER BY id")][1:] == [
            "success"
        ]
        clock.advance(61.0)
        await it.leave_and_come_back()
        await it.finish("b", dag_id="bad")

        assert it.executor.order().count("a") == 1
        assert await it.runs("bad") == {"r": "success"}
        await it.assert_consistent()


async def test_an_attempt_that_could_not_be_handed_out_is_reported_to_who_holds_the_dag_next(
    dsn: str, clock: FakeClock
) -> None:
    async with running(dsn, clock, two_tasks("bad"), two_tasks("good")) as it:
        with broken(Board, "attempt"):
            await it.trigger("bad", "r")
            await it.until(lambda: it.scheduler.metrics.quarantines, "the quarantine")
            remote = it.session.env.attempts.remote
            await it.until(lambda: not remote.partitions and not remote.outgoing, "the report to be stored")
            await it.settled()
        assert await it.states("r", "bad") == {"a": "queued", "b": None}
        assert [row["outcome"] for row in await it.fetch("SELECT outcome FROM task_report")] == ["stuck"]

        await it.advance(61.0)
        await it.finish("a", "b", dag_id="bad")

        assert await it.runs("bad") == {"r": "success"}
        assert [row["try_number"] for row in await it.instances("r", "bad")] == [1, 1]
        await it.assert_consistent()


async def test_a_restarted_scheduler_leaves_a_dag_in_quarantine_alone(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("bad"), dag("good")) as it:
        await it.trigger("bad", "r")
        with broken(Board, "evaluate"):
            it.executor.succeed(await it.attempt("a"))
            await it.until(lambda: it.scheduler.metrics.quarantines, "the quarantine")
            await it.settled()
    async with running(dsn, clock) as it:
        assert "bad" not in it.session.cache.dags
        await it.trigger("good", "r")
        await it.finish("a", dag_id="good")
        assert await it.runs("bad") == {"r": "running"}

        await it.advance(16.0)
        await it.finish_all()

        assert await it.runs("bad") == {"r": "success"}
        await it.assert_consistent()


async def test_a_run_that_cannot_be_read_leaves_its_dag_alone_and_nothing_else(
    dsn: str, clock: FakeClock, db: Database
) -> None:
    async with running(dsn, clock, dag("bad"), dag("good")) as it:
        await it.trigger("bad", "r")
        await it.trigger("bad", "s")
        await it.trigger("good", "r")
    deep = "(repeat('[', 3000) || repeat(']', 3000))::json"
    await db.execute(f"UPDATE dag_run SET conf = {deep} WHERE dag_id = 'bad' AND run_id = 'r'")
    async with running(dsn, clock) as it:
        assert it.scheduler.metrics.quarantines == 1
        assert (await quarantined(it))["bad"]["place"] == "reading run r"
        await it.finish_all()
        assert await it.runs("good") == {"r": "success"}
        assert await it.runs("bad") == {"r": "running", "s": "running"}

        await it.execute("UPDATE dag_run SET conf = '{}' WHERE dag_id = 'bad'")
        await it.ask("release_dag", "bad")
        await taken_up(it, "bad")
        await it.finish_all()

        assert await it.runs("bad") == {"r": "success", "s": "success"}
        await it.assert_consistent()


async def test_the_listener_is_told_of_a_quarantine(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("bad")) as it:
        with broken(Board, "evaluate"):
            await it.scheduler.trigger("bad", run_id="r")
            await it.until(lambda: it.scheduler.metrics.quarantines, "the quarantine")
        (event,) = [event for event in it.events if event.kind == "dag_quarantined"]
        assert (event.dag_id, event.state) == ("bad", "quarantined")
        assert "the evaluation failed (Broken: evaluate does not like bad)" in str(event.reason)


@pytest.mark.slow(but_first=True)
@pytest.mark.parametrize(
    ("owner", "name"), [(loading, "next_scheduled_run"), (journal.journal, "write")], ids=["loading", "journal"]
)
async def test_two_dags_that_fail_together_are_not_all_dags(dsn: str, clock: FakeClock, owner: Any, name: str) -> None:
    async with running(dsn, clock, dag("bad"), dag("worse"), dag("good")) as it:
        await number_runs(it)
        for dag_id in ("bad", "worse"):
            await it.trigger(dag_id, "r")
        keys = {dag_id: await keys_of(it, dag_id) for dag_id in ("bad", "worse")}
        with (
            broken(owner, name, "bad", lambda: keys["bad"]),
            broken(owner, name, "worse", lambda: keys["worse"]),
        ):
            for attempt in list(it.executor.running.values()):
                it.executor.succeed(attempt)
            if owner is loading:
                await it.leave_and_come_back()
            await it.until(lambda: it.scheduler.metrics.quarantines >= 2, "the quarantine of both")
            await it.advance(16.0)  # they are tried again together, beside nothing else that has changed
            await it.until(lambda: it.scheduler.metrics.quarantines >= 4, "the quarantine after that")
            await it.trigger("good", "r")
            await it.finish("a", dag_id="good")

        await it.advance(61.0)
        await it.finish_all()
        assert [await it.runs(dag_id) for dag_id in ("bad", "worse", "good")] == [{"r": "success"}] * 3
        await it.assert_consistent()


@pytest.mark.parametrize("restarts", [False, True])
async def test_a_backfill_whose_end_was_not_stored_before_a_quarantine_ends_after_it(
    dsn: str, clock: FakeClock, monkeypatch: pytest.MonkeyPatch, restarts: bool
) -> None:
    """Its runs are over, so nothing of its DAG is left to be read but the backfill itself."""

    async def fail(*_: object) -> None:
        raise ValueError("this backfill does not end")

    async def completed(it: Running) -> list[bool]:
        return [row[0] for row in await it.fetch("SELECT completed_at IS NOT NULL FROM backfill")]

    daily = dag("d", schedule=timedelta(days=1), start_date=NEW_YEAR, catchup=False)
    clock.at = NEW_YEAR + timedelta(days=20)
    async with running(dsn, clock, daily) as it:
        with monkeypatch.context() as patch:
            patch.setattr("aiosched.scheduler.runs.backfills.backfills.complete_backfill", fail)
            dates = {"from": NEW_YEAR.isoformat(), "to": (NEW_YEAR + timedelta(days=1)).isoformat()}
            await it.ask("backfill_create", "d", **dates)
            await it.finish_all()
            await it.until(lambda: it.scheduler.metrics.quarantines, "the quarantine")
            await it.settled()
        assert await completed(it) == [False]
        await it.advance(0.0 if restarts else 16.0)
        assert await completed(it) == [not restarts]
    async with running(dsn, clock) as it:
        await it.advance(16.0)
        assert await completed(it) == [True]
