"""Whatever the database answers, a scheduler that runs or joins waits until it is over."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
from collections.abc import Awaitable, Callable
from typing import Any

import asyncpg
import pytest

from aiosched.clock import FakeClock
from aiosched.core.figures.metrics import Metrics
from aiosched.db.server.engine import Database
from aiosched.db.server.failures import is_about_content, is_of_database
from aiosched.db.statements import ownership, pool_demands
from aiosched.errors import DatabaseError
from aiosched.scheduler.concurrency import supervision
from aiosched.scheduler.concurrency.supervision import keep_running
from aiosched.scheduler.membership import incarnation, outage
from aiosched.scheduler.membership.outage import Patience
from aiosched.scheduler.services.service_calls import CallRetry
from tests.database_answers import ANSWERS, CLASSES, EVERY, UNKNOWN
from tests.one_dag import Broken
from tests.patience import PATIENCE
from tests.scheduler.harness import chain, running


def test_every_answer_of_a_server_is_of_the_database_unless_values_caused_it() -> None:
    assert len(CLASSES) > 35
    for state, kind in ANSWERS.items():
        assert is_of_database(kind("said")) is (state[:2] not in ("22", "23", "54")), state
        assert is_of_database(kind("said")) is not is_about_content(kind("said"))
    assert is_of_database(UNKNOWN("of a newer server"))


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (DatabaseError("a right is missing"), True),
        (asyncpg.InterfaceError("connection is closed"), True),
        (asyncpg.InterfaceError("cannot perform operation: another operation is in progress"), False),
        (ZeroDivisionError(), False),
    ],
)
def test_what_else_is_of_the_database(error: Exception, expected: bool) -> None:
    assert is_of_database(error) is expected


@pytest.mark.parametrize(
    "error",
    [
        FileNotFoundError(errno.ENOENT, "No such file or directory", "/dags/rates.csv"),
        PermissionError(errno.EACCES, "Permission denied", "/srv/logs"),
        OSError(errno.ENOSPC, "No space left on device"),
        OSError(errno.EMFILE, "Too many open files"),
        OSError(errno.EIO, "Input/output error"),
        socket.gaierror(socket.EAI_NONAME, "vault.example"),
        ConnectionRefusedError(errno.ECONNREFUSED, "of another service"),
        ConnectionResetError(),
        BrokenPipeError(),
        TimeoutError(),
    ],
    ids=repr,
)
async def test_what_the_driver_has_not_raised_is_not_of_the_database(error: OSError, db: Database) -> None:
    caught: list[Exception] = []
    for use in (contextlib.nullcontext(), db.acquire(), db.transaction()):  # in its hands, too
        try:
            async with use:
                raise error
        except OSError as raised:
            caught.append(raised)

    assert [is_of_database(each) for each in caught] == [False] * 3


async def test_a_wait_for_something_else_that_took_too_long_is_not_of_the_database(db: Database) -> None:
    with pytest.raises(TimeoutError) as caught:
        async with db.acquire(), asyncio.timeout(0):
            await asyncio.Event().wait()

    assert not is_of_database(caught.value)


def _raising(error: Exception) -> Callable[..., Any]:
    def fail(*_: Any, **__: Any) -> Any:
        raise error

    return fail


async def _late_answer(db: Database) -> None:
    async with db.acquire() as conn, asyncio.timeout(0.01):
        await conn.execute("SELECT pg_sleep(60)")


async def _slow_statement(db: Database) -> None:
    async with db.acquire() as conn:
        await conn.execute("SELECT pg_sleep(60)", timeout=0.01)


async def _no_connection_left(db: Database) -> None:
    async with contextlib.AsyncExitStack() as stack:
        for _ in range(db.settings.pool_size):
            await stack.enter_async_context(db.acquire())
        async with asyncio.timeout(0.01), db.acquire():
            pass


async def _refused(_: Database) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    await asyncpg.connect(f"postgresql://me@127.0.0.1:{port}/d")


async def _no_such_host(_: Database) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket, "getaddrinfo", _raising(socket.gaierror(socket.EAI_NONAME, "Name or service not known")))
        await asyncpg.connect("postgresql://me@db.example/d")


async def _no_file_left_for_it(_: Database) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket, "socket", _raising(OSError(errno.EMFILE, "Too many open files")))
        await asyncpg.connect("postgresql://me@127.0.0.1:1/d")


@pytest.mark.parametrize(
    "use", [_late_answer, _slow_statement, _no_connection_left, _refused, _no_such_host, _no_file_left_for_it]
)
async def test_what_the_driver_meets_on_its_way_is_of_the_database(
    db: Database, use: Callable[[Database], Awaitable[None]]
) -> None:
    with pytest.raises(OSError) as caught:  # any
        await use(db)

    assert is_of_database(caught.value)


async def test_a_question_of_a_task_that_meets_a_file_error_is_answered_with_it() -> None:
    class Held:
        def trusted(self) -> bool:
            return True

    async def read() -> None:
        raise FileNotFoundError(errno.ENOENT, "No such file or directory", "/dags/rates.csv")

    async with asyncio.timeout(PATIENCE):
        with pytest.raises(FileNotFoundError):
            await CallRetry(Held).make("a connection", read)


async def test_a_session_that_fails_by_any_class_of_errors_is_followed_by_another(
    dsn: str, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = pool_demands.withdraw_demands
    left: list[type[asyncpg.PostgresError]] = [*EVERY]

    async def fails_first(*args: Any) -> None:
        if left:
            raise left.pop()("said")
        await original(*args)

    async with running(dsn, clock, chain("d", 2)) as it:
        await it.trigger("d", "r")
        await it.attempt("t0")
        monkeypatch.setattr(incarnation, "withdraw_demands", fails_first)
        await it.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND application_name LIKE 'aiosched%'"
        )
        await it.until(lambda: not left, "a session after each error")
        await it.finish("t0", "t1")
        await it.settled()

        assert await it.runs("d") == {"r": "success"}
        assert await it.fetch("SELECT * FROM dag_quarantine") == []


async def test_a_scheduler_joins_after_any_class_of_errors(
    dsn: str, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = ownership.register
    left: list[type[asyncpg.PostgresError]] = [*EVERY]

    async def fails_first(*args: Any, **options: Any) -> int:
        if left:
            raise left.pop()("said")
        return await original(*args, **options)

    monkeypatch.setattr(outage, "FIRST_PAUSE", 0.001)
    monkeypatch.setattr(outage, "LAST_PAUSE", 0.001)
    monkeypatch.setattr(ownership, "register", fails_first)

    async with running(dsn, clock, chain("d", 1)) as it:
        assert it.scheduler.is_running
    assert not left


def test_patience_ends_after_minutes_of_what_nothing_explains_and_never_with_the_database() -> None:
    patience = Patience()
    unexplained, of_database = ExceptionGroup("session", [Broken("no")]), asyncpg.UndefinedTableError("gone")

    assert not patience.is_over(unexplained, now=1000.0)
    assert not patience.is_over(unexplained, now=1299.0)
    assert not patience.is_over(of_database, now=9000.0)
    assert patience.is_over(unexplained, now=1300.0)
    patience.reset()
    assert not patience.is_over(unexplained, now=1301.0)


def test_what_patience_is_for_is_told_until_it_has_passed() -> None:
    patience = Patience()
    assert patience.trouble(now=0.0) is None

    patience.is_over(asyncpg.UndefinedTableError("gone"), now=1000.0)
    assert patience.trouble(now=1000.0) is None
    patience.is_over(ExceptionGroup("session", [ExceptionGroup("loops", [Broken("no")])]), now=1001.0)
    assert patience.trouble(now=1010.0) == "Broken: no"
    assert patience.trouble(now=1012.0) is None


async def test_a_scheduler_publishes_what_keeps_it_from_its_work(
    dsn: str, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    original, broken = pool_demands.withdraw_demands, asyncio.Event()

    async def fails(*args: Any) -> None:
        if not broken.is_set():
            raise Broken("no")
        await original(*args)

    async with running(dsn, clock, chain("d", 1)) as it:
        assert it.scheduler.figures()["trouble"] is None
        monkeypatch.setattr(incarnation, "withdraw_demands", fails)
        await it.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND application_name LIKE 'aiosched%'"
        )
        await it.until(lambda: it.scheduler.figures()["trouble"] == "Broken: no", "its trouble")
        broken.set()


async def test_work_outside_a_session_is_started_again_after_errors_of_the_database_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(supervision, "FIRST_PAUSE", 0.0)
    left: list[Exception] = [asyncpg.ObjectNotInPrerequisiteStateError("said"), OSError("gone"), Broken("no")]

    async def work() -> None:
        if left:
            raise left.pop()

    await keep_running("parsing", work, Metrics(), in_session=False)

    assert not left


async def test_work_that_has_failed_for_too_long_is_not_started_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervision, "FIRST_PAUSE", 0.0)
    left: list[Exception] = [Broken("no"), OSError("gone"), Broken("no")]

    async def work() -> None:
        raise left.pop()

    with pytest.raises(Broken):
        await keep_running("parsing", work, Metrics(), in_session=False, is_final=lambda _: not left)
