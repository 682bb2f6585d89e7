"""A report that fails whenever it is applied is set aside, and its DAG goes on."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

from aiosched.clock import FakeClock
from aiosched.core.run.board import Board
from aiosched.core.values.ids import PARTITIONS
from aiosched.core.values.messages import Outcome, Report
from aiosched.db.queries.quarantine_queries import recently_set_aside
from aiosched.db.statements import journal, set_aside
from aiosched.scheduler.partitions import set_aside_reports
from aiosched.scheduler.why.why import why
from tests.one_dag import Broken
from tests.scheduler.harness import Running, dag, running, task


@contextlib.contextmanager
def cannot_apply(is_meant: Callable[[Report], bool]) -> Iterator[None]:
    """Reports that nobody can apply, in the DAG `bad`."""
    original = Board.apply

    def apply(board: Board, report: Report, *args: Any) -> bool:
        if board.run.dag_id == "bad" and is_meant(report):
            raise Broken("this report is odd")
        return original(board, report, *args)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Board, "apply", apply)
        yield


def first_success(report: Report) -> bool:
    return report.outcome is Outcome.SUCCESS and report.key.task_index == 0 and report.key.try_number == 1


async def set_aside_rows(it: Running) -> list[Any]:
    return await it.fetch("SELECT * FROM set_aside_report ORDER BY id")


async def until_set_aside(it: Running, number: int = 1) -> None:
    """Let pauses of quarantine pass until so many reports are set aside."""
    for _ in range(10):
        await it.settled()
        if it.scheduler.metrics.reports_set_aside >= number:
            return
        await it.advance(121.0)
    raise AssertionError(f"no report was set aside, {it.scheduler.metrics.quarantines} quarantines")


async def test_a_report_that_always_fails_is_set_aside_and_its_dag_goes_on(
    dsn: str, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(dsn, clock, dag("bad", task("a"), task("b", after="a"), task("c")), dag("good")) as it:
        await it.trigger("bad", "r")
        with cannot_apply(first_success):
            it.executor.succeed(await it.attempt("a", dag_id="bad"), value=7)
            await until_set_aside(it)

            assert it.scheduler.metrics.quarantines == 2
            (row,) = await set_aside_rows(it)
            assert (row["task_index"], row["try_number"], row["outcome"], row["failures"]) == (0, 1, "success", 3)
            assert row["error"] == "Broken: this report is odd"
            assert '"value":"7"' in row["body"] or '"7"' in row["body"]
            assert await it.fetch("SELECT 1 FROM task_report") == []
            logged = [record for record in caplog.records if "is set aside in set_aside_report" in record.getMessage()]
            assert [(record.levelno, record.exc_info is not None) for record in logged] == [(logging.ERROR, True)]

            assert "bad" in it.session.cache.dags
            await it.finish("c", dag_id="bad")
            await it.finish("a", "b", dag_id="bad")

        assert await it.runs("bad") == {"r": "success"}
        (lost,) = await it.fetch("SELECT try_number, state, reason FROM task_try")
        assert (lost["try_number"], lost["state"]) == (1, "lost")
        assert "could not be processed 3 times (Broken: this report is odd); it is kept as row 1" in lost["reason"]
        assert len(await set_aside_rows(it)) == 1
        await it.assert_consistent()


@contextlib.contextmanager
def cannot_store(value: str) -> Iterator[None]:
    """XComs of this value cannot be stored."""
    original = journal.upsert_xcoms

    async def upsert(conn: Any, xcoms: Any) -> None:
        if any(value in xcom.value for xcom in xcoms):
            raise Broken("no table takes this value")
        await original(conn, xcoms)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(journal, "upsert_xcoms", upsert)
        yield


async def test_a_report_whose_result_can_never_be_stored_is_set_aside_and_its_dag_goes_on(
    dsn: str, clock: FakeClock
) -> None:
    async with running(dsn, clock, dag("bad", task("a"), task("b", after="a"), task("c")), dag("good")) as it:
        for dag_id in ("bad", "good"):
            await it.trigger(dag_id, "r")
        with cannot_store("odd"):
            it.executor.succeed(await it.attempt("c", dag_id="bad"), value="fine")
            it.executor.succeed(await it.attempt("a", dag_id="bad"), value="odd")
            it.executor.succeed(await it.attempt("a", dag_id="good"), value="fine")
            await until_set_aside(it)

            assert it.scheduler.metrics.quarantines == 2
            (row,) = await set_aside_rows(it)
            assert (row["task_index"], row["try_number"], row["outcome"], row["failures"]) == (0, 1, "success", 3)
            assert row["error"] == "Broken: no table takes this value"
            assert (await it.states("r", "bad"))["c"] == "success"
            assert await it.runs("good") == {"r": "success"}
            await it.finish("a", "b", dag_id="bad")

        assert await it.runs("bad") == {"r": "success"}
        (lost,) = await it.fetch("SELECT try_number, state FROM task_try")
        assert tuple(lost) == (1, "lost")
        await it.assert_consistent()


async def test_a_report_whose_result_is_stored_in_time_is_not_set_aside(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("bad"), dag("good")) as it:
        await it.trigger("bad", "r")
        with cannot_store("odd"):
            it.executor.succeed(await it.attempt("a", dag_id="bad"), value="odd")
            await it.until(lambda: it.scheduler.metrics.quarantines == 1, "the quarantine")
            await it.settled()
        await it.advance(16.0)

        assert await it.runs("bad") == {"r": "success"}
        assert await set_aside_rows(it) == []
        await it.assert_consistent()


async def test_a_task_whose_reports_are_all_set_aside_fails_in_the_end(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("bad"), dag("good")) as it:
        await it.trigger("bad", "r")
        with cannot_apply(lambda report: report.outcome is Outcome.SUCCESS):
            for number in (1, 2, 3):
                it.executor.succeed(await it.attempt("a", dag_id="bad"))
                await until_set_aside(it, number)
            await it.settled()

            assert await it.runs("bad") == {"r": "failed"}
        assert len(await set_aside_rows(it)) == 3
        await it.assert_consistent()


async def test_all_odd_reports_of_a_dag_are_set_aside_together(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("bad", *map(task, "abc")), dag("good")) as it:
        await it.trigger("bad", "r")
        with cannot_apply(lambda report: report.outcome is Outcome.SUCCESS and report.key.try_number == 1):
            for name in "abc":
                it.executor.succeed(await it.attempt(name, dag_id="bad"))
            await until_set_aside(it, 3)
            assert it.scheduler.metrics.quarantines == 2
            await it.finish("a", "b", "c", dag_id="bad")

        assert await it.runs("bad") == {"r": "success"}
        await it.assert_consistent()


async def test_a_report_that_can_be_applied_in_time_is_not_set_aside(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("bad"), dag("good")) as it:
        await it.trigger("bad", "r")
        with cannot_apply(first_success):
            it.executor.succeed(await it.attempt("a", dag_id="bad"))
            await it.until(lambda: it.scheduler.metrics.quarantines == 1, "the quarantine")
            await it.settled()
            await it.advance(16.0)
            await it.until(lambda: it.scheduler.metrics.quarantines == 2, "the second failure")
            await it.settled()

        await it.advance(31.0)

        assert await it.runs("bad") == {"r": "success"}
        assert await set_aside_rows(it) == []


@pytest.mark.slow
async def test_an_attempt_of_another_scheduler_is_lost_when_its_report_is_set_aside(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("bad"), dag("good")) as first:
        await first.trigger("bad", "r")
        async with running(dsn, clock, settle=False) as second:
            await first.give_everything(second)
            with cannot_apply(first_success):
                first.executor.succeed(await first.attempt("a", dag_id="bad"))
                await second.until(lambda: second.scheduler.metrics.quarantines, "the quarantine")
                await until_set_aside(second)

                await second.finish("a", dag_id="bad")

            assert await second.runs("bad") == {"r": "success"}
            (row,) = await set_aside_rows(second)
            assert row["queued_by"] == first.incarnation
            assert second.scheduler.metrics.lost_attempts == 1
            await second.assert_consistent()


async def test_a_start_that_is_set_aside_costs_nothing(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("bad"), dag("good")) as it:
        await it.trigger("bad", "r")
        with cannot_apply(lambda report: report.outcome is Outcome.STARTED):
            attempt = await it.attempt("a", dag_id="bad")
            it.executor.start_running(attempt)
            await until_set_aside(it)
            it.executor.succeed(attempt)
            await it.settled()

            assert await it.runs("bad") == {"r": "success"}
        assert [row["outcome"] for row in await set_aside_rows(it)] == ["started"]
        assert await it.fetch("SELECT 1 FROM task_try WHERE state = 'lost'") == []
        await it.assert_consistent()


async def test_a_trigger_whose_event_is_set_aside_has_failed(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("bad"), dag("good")) as it:
        await it.trigger("bad", "r")
        it.executor.defer(await it.attempt("a", dag_id="bad"))
        with cannot_apply(lambda report: report.outcome is Outcome.TRIGGERED):
            for _ in range(3):
                it.executor.fire(await it.trigger_of("a"))
                await it.settled()
                await it.advance(31.0)
            await until_set_aside(it)
            attempt = await it.attempt("a", dag_id="bad")

            assert attempt.resume is not None
            assert "could not be processed 3 times" in str(attempt.resume.error)
            await it.finish("a", dag_id="bad")
        assert await it.runs("bad") == {"r": "success"}
        await it.assert_consistent()


async def test_a_report_that_cannot_be_set_aside_stays_and_others_are_set_aside(
    dsn: str, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = set_aside.set_reports_aside

    async def picky(conn: Any, reports: Any, *args: Any, **options: Any) -> None:
        if any(each.report.key.task_index == 0 for each in reports):
            raise Broken("the disk does not like it")
        await write(conn, reports, *args, **options)

    monkeypatch.setattr(set_aside_reports, "set_reports_aside", picky)
    async with running(dsn, clock, dag("bad", *map(task, "ab")), dag("good")) as it:
        await it.trigger("bad", "r")
        with cannot_apply(lambda report: report.outcome is Outcome.SUCCESS and report.key.try_number == 1):
            for name in "ab":
                it.executor.succeed(await it.attempt(name, dag_id="bad"))
            await until_set_aside(it)
            assert [row["task_index"] for row in await set_aside_rows(it)] == [1]
            assert await it.runs("bad") == {"r": "running"}
            assert len(await it.fetch("SELECT 1 FROM task_report")) == 1
        await it.advance(3700.0)
        await it.finish_all()

        assert await it.runs("bad") == {"r": "success"}
        await it.assert_consistent()


@pytest.mark.slow
async def test_a_crash_between_setting_aside_and_losing_the_attempt_loses_it_later(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("bad"), dag("good")) as first:
        await first.trigger("bad", "r")
        attempt = await first.attempt("a", dag_id="bad")
        async with running(dsn, clock, settle=False) as second:
            await first.give_everything(second)
            report = Report(key=attempt.key, outcome=Outcome.SUCCESS, at=clock.now())
            row = set_aside.SetAside(report, first.incarnation, 3, "Broken: odd")
            async with first.db.transaction() as conn:  # by a scheduler that is gone now
                await set_aside.set_reports_aside(conn, [row], clock.now(), version="1")
            del first.executor.running[attempt.key]
            first.session.env.attempts.in_flight.clear()
            first.session.env.attempts.remote.clear()

            await second.leave_and_come_back()

            assert len(second.session.cache.partitions) == PARTITIONS
            await second.finish("a", dag_id="bad")
            assert await second.runs("bad") == {"r": "success"}


async def test_why_and_doctor_say_that_a_report_is_set_aside(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("bad"), dag("good")) as it:
        await it.trigger("bad", "r")
        with cannot_apply(first_success):
            it.executor.succeed(await it.attempt("a", dag_id="bad"))
            await until_set_aside(it)
            await it.settled()

            found = await why(it.db, "bad", "r", "a", now=clock.now())

        (note,) = found.notes
        assert "the report 'success' of try 1 could not be processed 3 times (Broken: this report is odd)" in note
        assert "row 1 of set_aside_report" in note
        (row,) = await recently_set_aside(it.db, clock.now() - timedelta(days=1), limit=9)
        assert (row.task, row.error) == ("bad r a", "Broken: this report is odd")
        assert await recently_set_aside(it.db, clock.now(), limit=9) == []
