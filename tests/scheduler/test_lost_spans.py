"""A database that is older than what a scheduler has seen is noticed, once; whatever else happens to it is not that."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import asyncpg
import pytest

from aiosched.clock import FakeClock
from aiosched.db.server.migrate import migrate
from aiosched.errors import ForeignFleet
from aiosched.scheduler import Scheduler
from tests.scheduler.harness import Running, chain, dag, running, settings_for_tests, task
from tests.scheduler.scripted_executor import ScriptedExecutor

OLDER: Final = "the database is older than what this scheduler has seen stored"
END_SESSIONS: Final = """
    SELECT pg_terminate_backend(pid) FROM pg_stat_activity
     WHERE datname = current_database() AND pid <> pg_backend_pid()
"""
GONE: Final = """
    UPDATE partition_lease SET incarnation = NULL;
    WITH gone AS (DELETE FROM scheduler RETURNING *)
    INSERT INTO lost_scheduler (incarnation, name, hostname, renewals, renewed_at)
    SELECT incarnation, name, hostname, renewals {}, renewed_at FROM gone
"""


def said(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    return [(r.levelname, r.getMessage()) for r in caplog.records if r.getMessage().startswith(OLDER)]


async def come_back_to(it: Running, dsn: str, *statements: str) -> None:
    """Change the database, end all sessions, and wait until the scheduler works again. It renews nothing meanwhile."""
    before, failed = it.session, it.scheduler.metrics.recoveries
    conn = await asyncpg.connect(dsn)
    for statement in (*statements, END_SESSIONS):
        await conn.execute(statement)
    await conn.close()
    await it.until(lambda: it.scheduler.metrics.recoveries > failed or it.session is not before, "the end of a session")
    await it.until(lambda: it.session is not before and it.session.locks.loaded.is_set(), "a new session")


@pytest.mark.slow(but_first=True)
@pytest.mark.parametrize(
    "statement",
    [
        pytest.param("UPDATE scheduler SET renewals = renewals - 1", id="a renewal is missing"),
        pytest.param(GONE.format("- 1"), id="a renewal is missing of one that others have taken over"),
        pytest.param("UPDATE partition_lease SET incarnation = NULL; DELETE FROM scheduler;"
                     "SELECT setval(pg_get_serial_sequence('scheduler', 'incarnation'), 1, false)",
                     id="it is older than the scheduler"),
    ],
)  # fmt: skip
async def test_a_database_that_went_back_is_said_once(
    dsn: str, clock: FakeClock, caplog: pytest.LogCaptureFixture, statement: str
) -> None:
    async with running(dsn, clock, chain("d", 2), lease=60.0, retention=True) as it:
        await it.trigger("d", "r")
        await it.finish("t0")

        await come_back_to(it, dsn, statement)
        await come_back_to(it, dsn)

        (row,) = await it.fetch("SELECT * FROM lost_span")
        assert row["lost_to"] <= row["noticed_at"]
        ((level, message),) = said(caplog)
        assert level == "WARNING"
        assert f"to {row['lost_to']:%Y-%m-%d %H:%M:%S} UTC may be lost (timeline 1 was seen at " in message


async def test_all_schedulers_of_a_fleet_say_it_together_once(
    dsn: str, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with (
        running(dsn, clock, lease=60.0, retention=True) as one,
        running(dsn, clock, lease=60.0, settle=False, retention=True) as two,
    ):
        before = two.session

        await come_back_to(one, dsn, "UPDATE scheduler SET renewals = renewals - 1")
        await two.until(lambda: two.session is not before and two.session.locks.loaded.is_set(), "a new session")

        assert len(await one.fetch("SELECT * FROM lost_span")) == 1
        assert [level for level, _ in said(caplog)].count("WARNING") == 1


@pytest.mark.slow(but_first=True)
@pytest.mark.parametrize(
    "statements",
    [
        pytest.param((), id="pg_terminate_backend"),
        pytest.param(("VACUUM FULL scheduler", "VACUUM FULL task_instance"), id="VACUUM FULL"),
        pytest.param(("VACUUM FREEZE",), id="VACUUM FREEZE"),
        pytest.param(("SELECT setval(pg_get_serial_sequence('scheduler', 'incarnation'), 1000)",), id="put forward"),
        pytest.param(("SELECT setval(pg_get_serial_sequence('scheduler', 'incarnation'), 1, false)",), id="put back"),
        pytest.param((GONE.format("+ 0"),), id="taken over"),
        pytest.param(("SELECT pg_switch_wal()", "CHECKPOINT"), id="another file of the log"),
        pytest.param(("UPDATE fleet SET id = 'other'",), id="a database of others"),
        pytest.param(
            ("REVOKE EXECUTE ON FUNCTION pg_control_system() FROM PUBLIC",
             "GRANT EXECUTE ON FUNCTION pg_control_system() TO PUBLIC"), id="a right that was away",
        ),
    ],
)  # fmt: skip
async def test_nothing_is_said_to_be_lost_that_was_not(
    dsn: str, clock: FakeClock, caplog: pytest.LogCaptureFixture, statements: tuple[str, ...]
) -> None:
    async with running(dsn, clock, chain("d", 2), lease=60.0, retention=True) as it:
        await it.trigger("d", "r")
        await it.finish("t0")

        await come_back_to(it, dsn, *statements)
        await come_back_to(it, dsn)

        assert await it.fetch("SELECT * FROM lost_span") == []
        assert said(caplog) == []


async def test_the_first_try_of_each_task_since_then_may_have_run_and_no_other(dsn: str, clock: FakeClock) -> None:
    clock.advance((datetime.now(UTC) - clock.now()).total_seconds())  # it is compared with PostgreSQL's
    spec = dag("d", task("a", retries=1), task("b", after="a"))
    async with running(dsn, clock, spec, lease=60.0, retention=True) as it:
        await it.trigger("d", "before")
        before = await it.attempt("a")
        it.executor.succeed(before)
        lost = await it.attempt("b")

        await come_back_to(
            it, dsn, "UPDATE scheduler SET renewals = renewals - 1",
            "UPDATE task_instance SET state = NULL, try_number = 0, start_date = NULL, end_date = NULL,"
            " queued_at = NULL, queued_by = NULL, scheduled_at = NULL", "UPDATE pool SET used = 0",
        )  # fmt: skip
        await it.until(lambda: lost.key in it.executor.cancelled, "the end of what the database does not know")
        first = await it.attempt("a")
        clock.advance(300)  # else it ends before the loss was noticed, by PostgreSQL's clock
        it.executor.fail(first)
        await it.settled()
        clock.advance(301)
        await come_back_to(it, dsn)
        it.scheduler.wake_loops()
        second = await it.attempt("a")
        it.executor.succeed(second)
        after = await it.attempt("b")
        it.executor.succeed(after)
        await it.trigger("d", "later")
        new = await it.attempt("a", run_id="later")

        attempts = [before, first, second, after, new]
        assert [attempt.key.try_number for attempt in attempts] == [1, 1, 2, 1, 1]
        assert [attempt.may_have_run for attempt in attempts] == [False, True, False, True, False]


def remembering(dsn: str, file: Path, clock: FakeClock) -> Scheduler:
    settings = settings_for_tests(lease=60.0)
    return Scheduler(
        dsn=dsn, executor=ScriptedExecutor(clock), clock=clock, parse=False, settings=settings, remembers_in=file
    )


@pytest.mark.parametrize(
    ("statement", "is_lost"),
    [
        pytest.param("SELECT 1", False, id="the same"),
        pytest.param("VACUUM FULL", False, id="VACUUM FULL"),
        pytest.param("UPDATE fleet SET id = 'of others'", False, id="another database"),
        pytest.param(
            "INSERT INTO scheduler (name, hostname, pid, version, executor, slots, lease_expires_at, incarnation)"
            " OVERRIDING SYSTEM VALUE SELECT 'x', 'x', 1, '', '', 1, now(),"
            " pg_sequence_last_value(pg_get_serial_sequence('scheduler', 'incarnation')::regclass)",
            True, id="it has not left yet",
        ),
        pytest.param(
            "SELECT setval(pg_get_serial_sequence('scheduler', 'incarnation'), 1, false)",
            True, id="it has not come yet",
        ),
    ],
)  # fmt: skip
async def test_a_scheduler_that_starts_knows_what_the_last_one_has_seen(
    dsn: str, clock: FakeClock, tmp_path: Path, caplog: pytest.LogCaptureFixture, statement: str, is_lost: bool
) -> None:
    file = tmp_path / "seen.json"
    async with remembering(dsn, file, clock):
        pass
    conn = await asyncpg.connect(dsn)
    await conn.execute(statement)
    await migrate(dsn)

    for _ in range(2):
        async with remembering(dsn, file, clock):
            pass

    assert await conn.fetchval("SELECT count(*) FROM lost_span") == is_lost
    assert [level for level, _ in said(caplog)] == ["WARNING"] * is_lost
    await conn.close()


@pytest.mark.slow(but_first=True)
@pytest.mark.parametrize("content", [b"", b"{}", b"\xff", b'{"fleet": 1}', b'{"fleet":"x","incarnation":1,"renewals":'])
async def test_a_file_that_is_broken_is_written_again(
    dsn: str, clock: FakeClock, tmp_path: Path, caplog: pytest.LogCaptureFixture, content: bytes
) -> None:
    file = tmp_path / "seen.json"
    file.write_bytes(content)

    async with remembering(dsn, file, clock):
        pass

    assert b'"has_left":true' in file.read_bytes()
    assert sum(str(file) in message for message in caplog.messages) == 1
    assert said(caplog) == []


COPY = "UPDATE fleet SET former = array_append(former, id), id = 'copy', accepts_former = {}"


async def test_a_scheduler_that_runs_leaves_a_copy_alone_until_it_is_told_to_work_with_it(
    dsn: str, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(dsn, clock, chain("d", 1), lease=1.0, retention=True) as it:
        await it.trigger("d", "r")
        attempt = await it.attempt("t0")
        conn = await asyncpg.connect(dsn)
        await conn.execute(COPY.format("false"))
        await conn.execute(END_SESSIONS)

        await it.until(lambda: any("for another fleet" in text for text in caplog.messages), "what it says")
        await it.until(lambda: attempt.key in it.executor.cancelled, "the end of what runs")
        await it.until(lambda: any(text.startswith("database: This database is for") for text in caplog.messages), "it")
        written = "SELECT renewals, renewed_at, (SELECT count(*) FROM scheduler) FROM scheduler"
        before = await conn.fetch(written)
        assert len(before) == 1
        assert await conn.fetchval("SELECT state FROM task_instance") == "queued"
        old = it.incarnation

        await conn.execute("UPDATE fleet SET accepts_former = true")
        await it.until(lambda: it.incarnation != old and it.session.locks.loaded.is_set(), "a new incarnation")
        await it.finish("t0")
        await it.settled()
        assert await it.runs("d") == {"r": "success"}
        await conn.close()


async def test_a_scheduler_that_starts_refuses_a_copy_of_what_it_remembers_and_one_that_remembers_nothing_works(
    dsn: str, clock: FakeClock, tmp_path: Path
) -> None:
    file = tmp_path / "seen.json"
    async with remembering(dsn, file, clock):
        pass
    conn = await asyncpg.connect(dsn)
    await conn.execute(COPY.format("false"))
    content, entries = file.read_bytes(), await conn.fetchval("SELECT count(*) FROM audit_log")

    with pytest.raises(ForeignFleet, match="aiosched db fleet --accept-former"):
        await remembering(dsn, file, clock).start()

    assert file.read_bytes() == content
    assert await conn.fetchval("SELECT count(*) FROM audit_log") == entries
    async with remembering(dsn, tmp_path / "another.json", clock):
        pass
    await conn.execute("UPDATE fleet SET accepts_former = true")
    async with remembering(dsn, file, clock):
        pass
    assert b'"fleet":"copy"' in file.read_bytes()
    await conn.close()
