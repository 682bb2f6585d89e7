"""The log of a scheduler says whose lock its commits wait for."""

from __future__ import annotations

import asyncio
import logging

import pytest

from aiosched.clock import FakeClock
from aiosched.scheduler.observability import lock_watch
from aiosched.scheduler.observability.lock_watch import LockWatch
from tests.db.locks import holding
from tests.db.waiting import until_true
from tests.scheduler.harness import chain, running

AWAITED = """
    SELECT count(*) > 0 FROM pg_locks JOIN pg_stat_activity USING (pid)
     WHERE NOT granted AND waitstart IS NOT NULL AND application_name = 'aiosched journal'
"""


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wait counts at the second look, however soon that is."""
    monkeypatch.setattr(lock_watch, "WAITED", 0.0)


async def test_the_session_that_keeps_commits_waiting_is_named_once_and_the_end_is_told(
    dsn: str, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, lock_watch.__name__)

    def said() -> list[tuple[str, str]]:
        records = [record for record in caplog.records if record.name == lock_watch.__name__]
        return [(record.levelname, record.getMessage()) for record in records]

    async with running(dsn, clock, chain("d", 1)) as it:
        watch = LockWatch(lambda: it.session.env.journals)
        await watch.look(it.db)
        async with holding(dsn, "LOCK TABLE task_instance IN ACCESS EXCLUSIVE MODE") as holder:
            trigger = asyncio.ensure_future(it.scheduler.trigger("d", run_id="r"))
            await until_true(holder, AWAITED)
            await watch.look(it.db)
            assert said() == []  # it has just begun
            await watch.look(it.db)
            await watch.look(it.db)
            ((level, text),) = said()
            assert level == "WARNING"
            assert text.startswith(f"session {holder.get_server_pid()} (psql, ")
            assert "keeps aiosched journal waiting for a lock on task_instance" in text
            assert text.endswith(f"SELECT pg_terminate_backend({holder.get_server_pid()})")
        await trigger
        await it.finish_all()
        await watch.look(it.db)
        await watch.look(it.db)

    assert said()[1:] == [("INFO", "commits do not wait for locks any more")]


async def test_a_database_that_is_away_is_for_others_to_tell(
    dsn: str, clock: FakeClock, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(**_: object) -> None:
        raise ConnectionRefusedError("the server is away")

    async with running(dsn, clock, chain("d", 1)) as it:
        watch = LockWatch(lambda: it.session.env.journals)
        async with it.session.env.journal.transaction():
            await watch.look(it.db)
            with monkeypatch.context() as patch:
                patch.setattr(it.db, "connect", away)
                await watch.look(it.db)

    assert lock_watch.__name__ not in {record.name for record in caplog.records}
