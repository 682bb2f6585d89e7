"""Requests of people, applied by the owner of the DAG: scheduler/requests/inbox.py."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from aiosched.clock import FakeClock
from aiosched.core.graph.spec import ParamSpec
from aiosched.core.requests.requests import SetNote
from aiosched.core.values.ids import partition_of
from aiosched.core.values.states import RunState
from aiosched.db.server.engine import Database
from aiosched.db.statements import inbox
from aiosched.errors import AioschedError, InternalError, NotFound, Refused
from aiosched.parsing.store import register_specs
from aiosched.scheduler.memory.cache import OwnedDag
from aiosched.scheduler.requests import inbox as applying
from aiosched.scheduler.session.session import Session
from tests.db.waiting import until_true
from tests.patience import PATIENCE
from tests.scheduler.harness import NEW_YEAR, chain, dag, register, running, task
from tests.scheduler.scripted_executor import DeafExecutor

HOUR = timedelta(hours=1)
OF_SCHEDULERS = (
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name LIKE 'aiosched%'"
)


async def leave(db: Database, verb: str, dag_id: str, **args: object) -> int:
    """A request made while no scheduler lives."""
    async with db.acquire() as conn:
        return await inbox.send_request(conn, verb=verb, dag_id=dag_id, args=args, requested_by="tester")


async def test_a_pause_given_while_no_scheduler_lived_comes_before_any_creation(
    dsn: str, db: Database, clock: FakeClock
) -> None:
    await register(db, dag("d", schedule=HOUR, start_date=NEW_YEAR, catchup=True))
    clock.advance(5 * 3600)
    await leave(db, "pause", "d")

    async with running(dsn, clock) as it:
        assert await it.runs("d") == {}


async def test_a_pause_given_while_no_scheduler_lived_comes_before_any_start(
    dsn: str, db: Database, clock: FakeClock
) -> None:
    async with running(dsn, clock, chain("d", 2)) as it:
        await it.trigger("d", "r")
        await it.finish("t0")
        assert (await it.states("r"))["t1"] == "queued"
    await leave(db, "pause", "d")

    async with running(dsn, clock) as it:
        assert it.executor.submitted == []
        assert await it.runs("d") == {"r": "running"}


async def test_a_cancellation_given_while_no_scheduler_lived_comes_before_any_start(
    dsn: str, db: Database, clock: FakeClock
) -> None:
    async with running(dsn, clock, chain("d", 2)) as it:
        await it.trigger("d", "r")
    number = await leave(db, "cancel_run", "d", run_id="r")

    async with running(dsn, clock) as it:
        await it.settled()

        assert it.executor.submitted == []
        assert await it.fetch("SELECT state, reason FROM dag_run") == [("failed", "cancelled")]
        assert await it.fetch("SELECT state, result FROM request WHERE id = $1", number) == [
            ("applied", '{"run_id":"r"}')
        ]


async def test_requests_are_applied_in_the_order_in_which_they_were_made(
    dsn: str, db: Database, clock: FakeClock
) -> None:
    await register(db, dag("d"))
    await leave(db, "trigger", "d", run_id="first")
    await leave(db, "pause", "d")
    await leave(db, "trigger", "d", run_id="second")

    async with running(dsn, clock) as it:
        assert await it.runs("d") == {"first": "running", "second": "queued"}
        rows = await it.fetch("SELECT state, applied_by FROM request ORDER BY id")
        assert list(map(tuple, rows)) == [("applied", it.incarnation)] * 3


async def test_more_requests_than_fit_one_pass_are_all_applied(dsn: str, db: Database, clock: FakeClock) -> None:
    await register(db, dag("d", max_active_runs=1000))
    for number in range(210):
        await leave(db, "trigger", "d", run_id=f"r{number}")

    async with running(dsn, clock) as it:
        assert len(await it.runs("d")) == 210


async def test_a_request_for_a_dag_whose_notification_has_not_arrived_yet_is_applied(
    dsn: str, db: Database, clock: FakeClock
) -> None:
    async with running(dsn, clock) as it:
        await it.settled()
        async with db.transaction() as conn:
            await register_specs(conn, [dag("new")], now=NEW_YEAR)

        await it.trigger("new", "r")

        assert await it.runs("new") == {"r": "running"}


async def test_a_request_for_a_changed_dag_gets_the_new_version_even_if_reading_it_is_put_off(
    dsn: str, db: Database, clock: FakeClock
) -> None:
    async with running(dsn, clock, dag("d", task("old"))) as it:
        it.session.notifications.reload_from = clock.monotonic() + 3600
        async with db.transaction() as conn:
            stored = await register_specs(conn, [dag("d", task("new"))], now=NEW_YEAR)
        it.dags_changed(*stored.changed)

        await it.scheduler.trigger("d", run_id="r")

        query = """
            SELECT v.spec #>> '{tasks,0,task_id}' AS task FROM dag_run AS r JOIN dag_version AS v ON v.id = r.version_id
        """
        assert [row["task"] for row in await it.fetch(query)] == ["new"]


@pytest.mark.slow(but_first=True)
@pytest.mark.parametrize(
    "wrong",
    [
        {"conf": {"size": "large"}},
        {"logical_date": NEW_YEAR - timedelta(days=1)},
        {"run_id": "taken"},
        {"run_id": "other", "logical_date": NEW_YEAR},
    ],
    ids=["conf", "date", "run id", "date of another run"],
)
async def test_a_trigger_that_is_refused_leaves_the_dag_paused(
    dsn: str, clock: FakeClock, wrong: dict[str, Any]
) -> None:
    size = ParamSpec(value=1, json_schema={"type": "integer"})
    spec = dag("d", task("a", start_date=NEW_YEAR), params={"size": size})
    async with running(dsn, clock, spec) as it:
        await it.trigger("d", "taken", logical_date=NEW_YEAR)
        await it.ask("pause", "d")

        with pytest.raises(AioschedError):
            await it.ask("trigger", "d", **wrong, unpause=True)

        assert [row["is_paused"] for row in await it.fetch("SELECT is_paused FROM dag")] == [True]
        assert it.session.cache.dags["d"].row.is_paused


async def test_a_request_that_nobody_knows_is_refused_and_says_what_is_known(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("d")) as it:
        with pytest.raises(Refused, match=r"no request 'explode'; known are .*cancel_run"):
            await it.request("explode", "d", {})


UNUSABLE: tuple[tuple[str, dict[str, object]], ...] = (
    ("cancel_run", {}),
    ("trigger", {"logical_date": "yesterday"}),
    ("trigger", {"conf": 5}),
    ("clear", {"run_ids": "r"}),
    ("clear", {"map_index": "one"}),
    ("mark_run", {"run_id": "r", "state": ["success"]}),
    ("set_note", {"run_id": "r", "note": {}}),
    ("backfill_create", {"from": "2026-01-01T00:00:00+00:00"}),
    ("backfill_pause", {"id": "seven"}),
)


async def test_unusable_arguments_are_refused(dsn: str, clock: FakeClock, subtests: pytest.Subtests) -> None:
    async with running(dsn, clock, dag("d")) as it:
        for number, (verb, args) in enumerate(UNUSABLE):
            with subtests.test(verb=verb, args=args):
                with pytest.raises(Refused, match="unusable arguments") as refused:
                    await it.request(verb, "d", args)
                assert refused.value.exit_code == 2

                await it.trigger("d", f"r{number}")  # and the scheduler goes on
                assert (await it.runs("d"))[f"r{number}"] == "running"


async def test_the_log_says_which_requests_were_applied_and_why_others_were_refused(
    dsn: str, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger=applying.logger.name)
    async with running(dsn, clock, dag("d", task("a"), allowed_run_types=("scheduled",))) as it:
        await it.request("pause", "d", {})
        with pytest.raises(Refused):
            await it.request("trigger", "d", {"run_id": "r"})

    pause, trigger = (one.message for one in caplog.records if one.name == applying.logger.name)
    assert pause.startswith("pause by ")
    assert pause.endswith(" is applied")
    assert trigger.startswith("trigger by ")
    assert " is refused: " in trigger
    assert "manual" in trigger.partition(" is refused: ")[2]


@pytest.mark.slow(but_first=True)
@pytest.mark.parametrize("bug", [KeyError("x"), TypeError("no"), ValueError("no"), AttributeError("no")], ids=repr)
async def test_a_bug_in_a_request_is_answered_as_a_bug_and_everything_is_read_again(
    dsn: str, clock: FakeClock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, bug: Exception
) -> None:
    async def broken(session: Session, dag: OwnedDag, request: SetNote, number: int) -> None:
        dag.runs.running.clear()
        raise bug

    monkeypatch.setattr(applying, "HANDLERS", {**applying.HANDLERS, "set_note": broken})
    async with running(dsn, clock, chain("d", 2)) as it:
        await it.trigger("d", "r")

        async with asyncio.timeout(PATIENCE):
            with pytest.raises(InternalError, match=r"set_note hit a bug in the scheduler.*its log has the details"):
                await it.request("set_note", "d", {"run_id": "r", "note": "hello"})

        assert "Traceback" in caplog.text
        await it.finish("t0", "t1")
        assert await it.runs("d") == {"r": "success"}
        assert it.scheduler.metrics.recoveries == 1
        await it.assert_consistent()


async def test_a_request_about_a_dag_that_does_not_exist_is_answered(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock) as it:
        with pytest.raises(NotFound, match="There is no DAG 'ghost'"):
            await it.request("pause", "ghost", {})


@pytest.mark.fresh_database
async def test_any_number_of_requests_at_once_need_few_connections(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("d", max_active_runs=1000)) as it:
        triggers = asyncio.gather(*(it.scheduler.trigger("d", run_id=f"r{n}") for n in range(300)))
        most = 0
        while not triggers.done():
            most = max(most, (await it.fetch(OF_SCHEDULERS))[0][0])

        assert {run.run_id for run in await triggers} == set(await it.runs("d")) == {f"r{n}" for n in range(300)}
        pool, lease, notifications, journals, answers = it.scheduler.settings.database.pool_size, 1, 1, 2, 1
        assert 0 < most <= pool + lease + notifications + journals + answers


@pytest.mark.fresh_database
async def test_a_scheduler_that_stops_tells_those_who_wait(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock) as it:
        waiting = asyncio.create_task(inbox.wait_applied(it.scheduler.db, 4711, timeout=60))
        async with it.db.acquire() as conn:
            await until_true(conn, f"{OF_SCHEDULERS} AND application_name = 'aiosched answers'")

            await it.scheduler.stop()

            assert await waiting is None
            await until_true(conn, OF_SCHEDULERS.replace("count(*)", "count(*) = 0"))


# -- cancel -----------------------------------------------------------------------------------


async def test_cancelling_a_running_run_stops_what_runs_and_fails_it(dsn: str, clock: FakeClock) -> None:
    spec = dag("d", task("a"), task("b"), task("c", after="a"))
    async with running(dsn, clock, spec) as it:
        await it.trigger("d", "r")
        a, b = await it.attempt("a"), await it.attempt("b")
        it.executor.start_running(a)

        assert await it.ask("cancel_run", "d", run_id="r") == {"run_id": "r"}

        assert await it.fetch("SELECT state, reason FROM dag_run") == [("failed", "cancelled")]
        states = await it.states("r")
        assert states["a"] == "failed"
        assert set(states.values()) <= {"failed", "skipped"}
        assert sorted(it.executor.cancelled) == sorted([a.key, b.key])
        assert not it.executor.running
        await it.assert_consistent()


async def test_a_cancelled_run_with_a_teardown_ends_after_it(dsn: str, clock: FakeClock) -> None:
    spec = dag(
        "d",
        task("setup", is_setup=True),
        task("work", after="setup"),
        task("clean", after=("setup", "work"), is_teardown=True, trigger_rule="all_done_setup_success"),
    )
    async with running(dsn, clock, spec) as it:
        await it.trigger("d", "r")
        await it.finish("setup")
        await it.attempt("work")

        await it.ask("cancel_run", "d", run_id="r")
        await it.finish("clean")

        assert await it.fetch("SELECT state, reason FROM dag_run") == [("failed", "cancelled")]
        assert (await it.states("r"))["clean"] == "success"
        await it.assert_consistent()


async def test_cancelling_twice_is_answered_twice(dsn: str, clock: FakeClock) -> None:
    spec = dag(
        "d",
        task("setup", is_setup=True),
        task("clean", after="setup", is_teardown=True, trigger_rule="all_done_setup_success"),
    )
    async with running(dsn, clock, spec) as it:
        await it.trigger("d", "r")
        await it.finish("setup")
        await it.attempt("clean")

        assert await it.ask("cancel_run", "d", run_id="r") == {"run_id": "r"}
        async with asyncio.timeout(PATIENCE):
            assert await it.ask("cancel_run", "d", run_id="r") == {"run_id": "r"}


async def test_cancelling_a_queued_run_skips_its_tasks(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("d")) as it:
        await it.trigger("d", "r", run_after=NEW_YEAR + HOUR)

        await it.ask("cancel_run", "d", run_id="r")

        assert await it.fetch("SELECT state, reason, start_date FROM dag_run") == [("failed", "cancelled", None)]
        assert await it.states("r") == {"a": "skipped"}
        await it.advance(2 * 3600)
        assert it.executor.submitted == []
        await it.assert_consistent()


async def test_whoever_waits_for_a_queued_run_is_told_of_its_cancellation_and_the_next_has_room(
    dsn: str, clock: FakeClock
) -> None:
    spec = dag("d", schedule=HOUR, start_date=NEW_YEAR, catchup=True, max_active_runs=1)
    async with running(dsn, clock, spec) as it:
        handle = await it.trigger("d", "later", run_after=NEW_YEAR + 5 * HOUR)
        await it.advance(3600)
        with it.scheduler.notified_of_end(handle.key) as ended:
            await it.ask("cancel_run", "d", run_id="later")
            assert ended.is_set()

        assert await it.dates("d") == [NEW_YEAR, None]


async def test_a_run_that_is_over_cannot_be_cancelled(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("d")) as it:
        await it.trigger("d", "r")
        await it.finish("a")

        with pytest.raises(Refused, match="is success already"):
            await it.request("cancel_run", "d", {"run_id": "r"})
        with pytest.raises(NotFound, match="no run 'other'"):
            await it.request("cancel_run", "d", {"run_id": "other"})


async def test_the_result_of_a_cancelled_attempt_does_not_come_back(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("d"), executor=DeafExecutor(clock)) as it:
        await it.trigger("d", "r")
        await it.ask("cancel_run", "d", run_id="r")

        await it.finish("a")

        assert await it.runs("d") == {"r": "failed"}
        assert it.scheduler.metrics.stale_reports == 1
        await it.assert_consistent()


# -- delete -----------------------------------------------------------------------------------


async def test_a_deleted_dag_leaves_nothing_behind(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("d", task("a", retries=1, retry_delay=1.0)), dag("other")) as it:
        await it.trigger("d", "r")
        it.executor.fail(await it.attempt("a"))
        await it.settled()
        await it.advance(2)
        it.executor.succeed(await it.attempt("a"), value=1)
        await it.settled()
        await it.trigger("d", "waits", run_after=NEW_YEAR + HOUR)

        await it.ask("delete_dag", "d")

        for table in ("dag_run", "task_instance", "task_try", "xcom"):
            assert await it.fetch(f"SELECT 1 FROM {table}") == []
        assert await it.fetch("SELECT dag_id FROM dag") == [("other",)]
        await it.advance(2 * 3600)
        await it.assert_consistent()

        await it.register(dag("d"))  # as a new one
        await it.trigger("d", "r")
        await it.finish("a")
        assert await it.runs("d") == {"r": "success"}


async def test_a_dag_with_running_runs_is_not_deleted(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("d")) as it:
        await it.trigger("d", "r")

        with pytest.raises(Refused, match="cancel them first"):
            await it.request("delete_dag", "d", {})

        await it.finish("a")
        assert await it.runs("d") == {"r": "success"}


async def test_a_run_that_is_triggered_when_a_new_version_is_stored_and_not_announced_yet_has_it(
    dsn: str, clock: FakeClock
) -> None:
    """Parsing announces a version after its commit, and who sees the version may be faster."""
    async with running(dsn, clock, dag("d", task("a"))) as it:
        await it.trigger("d", "before")
        async with it.db.transaction() as conn:
            await register_specs(conn, [dag("d", task("a"), task("b"))], now=clock.now())

        await it.trigger("d", "after")

        versions = await it.fetch("SELECT run_id, number FROM dag_run JOIN dag_version v ON v.id = version_id")
        assert dict(versions) == {"before": 1, "after": 2}


async def test_a_dag_whose_file_broke_or_was_corrected_just_now_is_triggered_accordingly(
    dsn: str, clock: FakeClock
) -> None:
    async with running(dsn, clock, dag("d", task("a"))) as it:
        await it.execute("UPDATE dag SET has_import_errors = true")
        with pytest.raises(Refused, match="cannot be imported"):
            await it.trigger("d", "broken")

        await it.execute("UPDATE dag SET has_import_errors = false")
        await it.trigger("d", "corrected")

        assert list(await it.runs("d")) == ["corrected"]


# -- with nobody there ------------------------------------------------------------------------


async def test_a_request_waits_where_nobody_lives(db: Database) -> None:
    number = await leave(db, "pause", "d")

    assert await inbox.wait_applied(db, number, timeout=0.05) is None
    (waiting,) = await inbox.waiting_requests(db, [partition_of("d")], limit=10)
    assert (waiting.id, waiting.verb, waiting.requested_by) == (number, "pause", "tester")


async def test_run_states_are_read_from_the_database(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("d")) as it:
        await it.trigger("d", "r")

        assert await it.scheduler.run_state("d", "r") is RunState.RUNNING
        with pytest.raises(NotFound, match="no run 'x'"):
            await it.scheduler.run_state("d", "x")
