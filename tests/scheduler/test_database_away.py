"""What a scheduler says about a database that is away, and when it tries again."""

from __future__ import annotations

import asyncpg
import pytest

from aiosched.clock import FakeClock
from aiosched.errors import DatabaseReadOnly
from aiosched.scheduler.membership import outage
from aiosched.scheduler.membership.lease import Lease
from aiosched.scheduler.membership.outage import DatabaseOutage
from tests.scheduler.harness import chain, running


def test_the_pauses_grow_to_two_seconds_and_begin_anew_after_each_outage() -> None:
    away = DatabaseOutage()

    pauses = [away.failed(OSError("gone"), now=float(now)) for now in range(4)]
    away.over()

    assert pauses == [0.5, 1.0, 2.0, 2.0]
    assert away.failed(OSError("gone"), now=9.0) == 0.5


def test_an_unchanged_failure_is_told_every_half_minute_and_another_one_at_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    away = DatabaseOutage()

    for now, error in [(0.0, "gone"), (1.0, "gone"), (29.0, "gone"), (30.0, "gone"), (31.0, "full"), (32.0, "full")]:
        away.failed(OSError(error), now=now)

    assert caplog.messages == ["database: gone", "database: gone", "database: full"]


def test_the_end_of_an_outage_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    away = DatabaseOutage()

    away.over()
    assert caplog.messages == []
    away.failed(OSError("gone"), now=0.0)
    away.over()
    away.over()

    assert caplog.messages == ["database: gone", "database: it can be used again"]


async def test_a_scheduler_that_cannot_join_for_a_while_tells_it_once(
    dsn: str, clock: FakeClock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    start, failures = Lease.start, [DatabaseReadOnly("it is read-only.") for _ in range(3)]

    async def fails_first(self: Lease) -> int:
        if failures:
            raise failures.pop()
        return await start(self)

    monkeypatch.setattr(outage, "FIRST_PAUSE", 0.001)
    monkeypatch.setattr(Lease, "start", fails_first)

    async with running(dsn, clock, chain("d", 1)):
        pass

    said = [message for message in caplog.messages if message.startswith("database:")]
    assert said == ["database: it is read-only.", "database: it can be used again"]


@pytest.mark.fresh_database
async def test_a_database_that_was_read_only_for_a_while_is_used_again(dsn: str, clock: FakeClock) -> None:
    admin = await asyncpg.connect(dsn)
    name = await admin.fetchval("SELECT current_database()")
    async with running(dsn, clock, chain("d", 2)) as it:
        await it.trigger("d", "r")
        await it.attempt("t0")
        await admin.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
        await admin.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        failed = it.scheduler.metrics.recoveries
        await it.until(lambda: it.scheduler.metrics.recoveries > failed, "a session that can write nothing")
        await admin.execute(f"ALTER DATABASE {name} RESET default_transaction_read_only")

        await it.finish("t0", "t1")
        await it.settled()

        assert await admin.fetchval("SELECT state FROM dag_run") == "success"
        await admin.close()
