"""Reports for another scheduler that cannot be stored: they hold up no other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from aiosched.clock import FakeClock
from aiosched.core.values.messages import Deferral, Outcome, Report
from aiosched.db.statements.reports import insert_reports
from aiosched.scheduler.loops import remote_attempts
from tests.scheduler.harness import dag, running
from tests.scheduler.test_handover import _until_state, until


async def test_a_report_that_cannot_be_stored_holds_up_no_other_and_its_attempt_is_lost(
    dsn: str, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(dsn, clock, dag("odd"), dag("fine"), dag("good")) as first:
        for name in ("odd", "fine", "good"):
            await first.trigger(name, "r")
        async with running(dsn, clock, settle=False) as second:
            await first.give_everything(second)
            async with first.session.locks.ownership:  # so that all are sent together
                deferral = Deferral(classpath="not.\ud800", kwargs="{}", next_method="go_on")  # no UTF-8
                attempt = await first.attempt("a", dag_id="odd")
                first.executor.report(attempt, Outcome.DEFERRED, deferral=deferral)
                for name in ("fine", "good"):
                    first.executor.succeed(await first.attempt("a", dag_id=name))

            await second.finish("a", dag_id="odd")

            assert [await second.runs(name) for name in ("odd", "fine", "good")] == [{"r": "success"}] * 3
            (lost,) = await second.fetch("SELECT state, reason FROM task_try")
            assert lost["state"] == "lost"
            assert "its report 'deferred' could not be stored" in lost["reason"]
            assert "'deferred', failed; all others go on" in caplog.text
            assert first.scheduler.is_running
            assert not first.session.env.attempts.remote.partitions
            await second.assert_consistent()


async def test_a_start_that_cannot_be_stored_is_left_out(
    dsn: str, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def picky(conn: Any, reports: Sequence[tuple[int, Report]], **options: Any) -> None:
        if any(report.outcome is Outcome.STARTED for _, report in reports):
            raise ValueError("no starts")
        await insert_reports(conn, reports, **options)

    monkeypatch.setattr(remote_attempts, "insert_reports", picky)
    async with running(dsn, clock, dag("d")) as first:
        await first.trigger("d", "r")
        async with running(dsn, clock, settle=False) as second:
            await first.give_everything(second)
            attempt = await first.attempt("a")
            first.executor.start_running(attempt)
            await until(lambda: not first.session.env.attempts.remote.outgoing, "the start to be left out")
            first.executor.succeed(attempt)
            await _until_state(second, "d", "success")

            assert await second.fetch("SELECT 1 FROM task_try") == []
            await second.assert_consistent()
