"""Waiting for answers: everybody of one process shares one connection that listens."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Sequence

import pytest

from aiosched.config import DatabaseSettings
from aiosched.db.server import request_answers
from aiosched.db.server.connection import DatabaseConnection
from aiosched.db.server.engine import Database
from aiosched.db.statements import inbox
from aiosched.db.statements.inbox import RequestResult, wait_applied
from aiosched.errors import TooManyConnections
from tests.db.waiting import until_true
from tests.patience import PATIENCE

EARS = "pg_stat_activity WHERE application_name = 'aiosched answers' AND datname = current_database()"
LISTENS = f"SELECT count(*) = 1 FROM {EARS} AND state = 'idle' AND query LIKE 'LISTEN%'"
DONE = RequestResult("applied", {})
NEVER = 60.0  # seconds: longer than a test may last


class Looks:
    """How often somebody has looked for an answer, and which connections were opened."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.times: Counter[int] = Counter()
        self.connections: list[str | None] = []
        self.may_connect = asyncio.Event()
        self.may_connect.set()
        read, connect = inbox.read_answers, Database.connect

        async def read_noted(conn: DatabaseConnection, numbers: Sequence[int]) -> dict[int, RequestResult]:
            answers = await read(conn, numbers)
            self.times.update(numbers)
            return answers

        async def connect_noted(db: Database, *, application_name: str | None = None) -> DatabaseConnection:
            self.connections.append(application_name)
            await self.may_connect.wait()
            return await connect(db, application_name=application_name)

        patch.setattr(inbox, "read_answers", read_noted)
        patch.setattr(Database, "connect", connect_noted)

    async def until(self, numbers: Iterable[int], times: int) -> None:
        """Return when those who wait for `numbers` have looked so often."""
        async with asyncio.timeout(PATIENCE):
            while True:
                if all(self.times[number] >= times for number in numbers):
                    return
                await asyncio.sleep(0.001)


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> Looks:
    return Looks(monkeypatch)


@pytest.fixture
def no_polls(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody looks unless told."""
    monkeypatch.setattr(inbox, "POLL_SECONDS", NEVER)


@pytest.fixture
def haste(monkeypatch: pytest.MonkeyPatch) -> None:
    """What happens once a second happens all the time."""
    monkeypatch.setattr(inbox, "POLL_SECONDS", 0.01)
    monkeypatch.setattr(request_answers, "POLL_SECONDS", 0.01)


async def ask(db: Database, count: int = 1) -> list[int]:
    async with db.acquire() as conn:
        return [
            await inbox.send_request(conn, verb="pause", dag_id="d", args={}, requested_by="me") for _ in range(count)
        ]


async def answer(db: Database, *numbers: int, announce: bool = True) -> None:
    async with db.acquire() as conn:
        await inbox.answer_requests(conn, [(number, DONE) for number in numbers], incarnation=1)
        if announce:
            await inbox.announce_applied(conn, numbers)


def wait(db: Database, number: int, timeout: float = NEVER) -> asyncio.Task[RequestResult | None]:
    return asyncio.create_task(inbox.wait_applied(db, number, timeout=timeout))


@pytest.mark.usefixtures("no_polls")
async def test_all_who_wait_share_one_connection(db: Database, looks: Looks) -> None:
    numbers = await ask(db, 300)
    waiting = [wait(db, number) for number in numbers]
    await looks.until(numbers, 2)  # at once, and when it listens

    await answer(db, *numbers)

    assert await asyncio.gather(*waiting) == [DONE] * 300
    assert looks.connections == ["aiosched answers"]


@pytest.mark.usefixtures("no_polls")
async def test_only_those_concerned_look(db: Database, looks: Looks) -> None:
    first, second = await ask(db, 2)
    waiting = {number: wait(db, number) for number in (first, second)}
    twice = wait(db, first)
    await looks.until([first], 4)
    await looks.until([second], 2)

    await answer(db, first)
    assert await waiting[first] == await twice == DONE
    assert looks.times == {first: 6, second: 2}

    await answer(db, second)
    assert await waiting[second] == DONE


@pytest.mark.usefixtures("no_polls")
async def test_an_answer_that_came_before_the_listener_is_seen(db: Database, looks: Looks) -> None:
    looks.may_connect.clear()
    (number,) = await ask(db)
    waiting = wait(db, number)
    await looks.until([number], 1)

    await answer(db, number)
    looks.may_connect.set()

    assert await waiting == DONE


async def test_an_answer_that_is_there_needs_no_listener(db: Database, looks: Looks) -> None:
    (number,) = await ask(db)
    await answer(db, number)

    assert await wait(db, number) == DONE
    assert looks.connections == []


@pytest.mark.usefixtures("haste")
async def test_news_that_get_lost_cost_a_second(db: Database, looks: Looks) -> None:
    (number,) = await ask(db)
    waiting = wait(db, number)
    await looks.until([number], 2)

    await answer(db, number, announce=False)

    assert await waiting == DONE


@pytest.mark.usefixtures("haste")
async def test_who_cannot_listen_looks(
    db: Database, looks: Looks, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def refuse(*_: object, **__: object) -> DatabaseConnection:
        raise TooManyConnections("no connection left")

    monkeypatch.setattr(Database, "connect", refuse)
    (number,) = await ask(db)
    waiting = wait(db, number)
    await looks.until([number], 3)

    await answer(db, number)

    assert await waiting == DONE
    assert "no connection left" in caplog.text


@pytest.mark.usefixtures("haste")
async def test_a_connection_that_breaks_while_somebody_looks_costs_nobody_the_answer(
    db: Database, looks: Looks, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    read = inbox.read_answers
    broken: list[int] = []

    async def read_of_a_server_that_ends(conn: DatabaseConnection, asked: Sequence[int]) -> dict[int, RequestResult]:
        if not broken:
            broken.extend(asked)
            await conn.execute("SELECT pg_terminate_backend(pg_backend_pid())")
        return await read(conn, asked)

    (number,) = await ask(db)
    monkeypatch.setattr(inbox, "read_answers", read_of_a_server_that_ends)
    waiting = wait(db, number)
    await looks.until([number], 1)  # the second time

    await answer(db, number)

    assert await waiting == DONE
    assert f"request {number} waits for its answer: " in caplog.text


async def test_what_the_database_refuses_is_told_and_waited_for(
    db: Database, haste: None, caplog: pytest.LogCaptureFixture
) -> None:
    await db.execute("DROP TABLE request CASCADE")

    assert await wait_applied(db, 1, timeout=0.1) is None

    assert caplog.messages[0] == 'request 1 waits for its answer: relation "request" does not exist'


async def test_behind_a_pooler_nobody_listens(
    dsn: str, looks: Looks, haste: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with await Database.open(dsn, settings=DatabaseSettings(pgbouncer=True)) as db:
        (number,) = await ask(db)
        waiting = wait(db, number)
        await looks.until([number], 3)

        await answer(db, number)

        assert await waiting == DONE
        assert looks.connections == []


async def test_a_listening_connection_that_breaks_is_replaced(
    db: Database, looks: Looks, haste: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inbox, "POLL_SECONDS", NEVER)
    (number,) = await ask(db)
    waiting = wait(db, number)
    async with db.acquire() as conn:
        await until_true(conn, LISTENS)
        broken = await conn.fetchval(f"SELECT pid FROM {EARS}")
        await looks.until([number], 2)

        assert await conn.fetchval("SELECT pg_terminate_backend($1)", broken)
        await until_true(conn, f"{LISTENS} AND pid <> {broken}")
        await looks.until([number], 3)

    await answer(db, number)
    assert await waiting == DONE
    assert len(looks.connections) == 2


@pytest.mark.usefixtures("no_polls")
async def test_who_is_cancelled_disturbs_nobody(db: Database, looks: Looks) -> None:
    looks.may_connect.clear()
    first, second = await ask(db, 2)
    cancelled, waiting = wait(db, first), wait(db, second)
    await looks.until([first, second], 1)  # the first one's listener is on its way

    cancelled.cancel()
    with pytest.raises(asyncio.CancelledError):
        await cancelled
    looks.may_connect.set()
    await looks.until([second], 2)
    await answer(db, second)

    assert await waiting == DONE
    assert looks.times[first] == 1


@pytest.mark.fresh_database
async def test_nobody_waits_and_the_connection_is_closed_after_a_rest(
    db: Database, looks: Looks, haste: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def ask_and_wait() -> None:
        (number,) = await ask(db)
        waiting = wait(db, number)
        async with db.acquire() as conn:
            await until_true(conn, LISTENS)
        await answer(db, number)
        assert await waiting == DONE

    await ask_and_wait()
    await ask_and_wait()
    assert len(looks.connections) == 1  # it rests

    monkeypatch.setattr(request_answers, "REST_SECONDS", 0.0)
    async with db.acquire() as conn:
        await until_true(conn, f"SELECT count(*) = 0 FROM {EARS}")
    await ask_and_wait()
    assert len(looks.connections) == 2


@pytest.mark.fresh_database
@pytest.mark.usefixtures("no_polls")
async def test_who_waits_when_the_database_is_closed_looks_once_more(dsn: str, db: Database, looks: Looks) -> None:
    closing = await Database.open(dsn)
    numbers = await ask(db, 50)
    waiting = [wait(closing, number) for number in numbers]
    await looks.until(numbers, 2)
    await answer(db, *numbers[:10], announce=False)

    await closing.close()

    assert await asyncio.gather(*waiting) == [DONE] * 10 + [None] * 40
    async with db.acquire() as conn:
        await until_true(conn, f"SELECT count(*) = 0 FROM {EARS}")


@pytest.mark.usefixtures("no_polls")
async def test_a_database_is_closed_while_its_listener_connects(dsn: str, looks: Looks) -> None:
    looks.may_connect.clear()
    db = await Database.open(dsn)
    waiting = wait(db, 1)
    await looks.until([1], 1)

    await db.close()

    assert await waiting is None
    assert asyncio.all_tasks() == {asyncio.current_task()}


def test_a_connection_that_rests_keeps_no_event_loop(dsn: str) -> None:
    async def wait_in_vain() -> bool:
        db = await Database.open(dsn)
        waiting = wait(db, 1)
        async with db.acquire() as conn:
            await until_true(conn, LISTENS)
        waiting.cancel()
        await asyncio.wait([waiting])
        await db._pool.close()
        return len(asyncio.all_tasks()) == 2  # somebody listens, and nobody tells them to stop

    assert asyncio.run(wait_in_vain())


@pytest.mark.usefixtures("no_polls")
async def test_who_has_just_sent_a_request_looks_once_when_it_is_answered(db: Database, looks: Looks) -> None:
    """While the connection listens; also when the answer was announced before anybody waited for it."""
    (first,) = await ask(db)
    waiting = wait(db, first)
    await looks.until([first], 2)
    late, early = await ask(db, 2)

    waiting_late = asyncio.create_task(wait_applied(db, late, timeout=NEVER, is_new=True))
    await answer(db, early)
    await answer(db, first, late)
    assert await waiting == await waiting_late == DONE
    assert await wait_applied(db, early, timeout=NEVER, is_new=True) == DONE

    assert looks.times == {first: 3, late: 1, early: 1}


@pytest.mark.usefixtures("haste")
async def test_who_has_just_sent_a_request_looks_without_being_told(db: Database, looks: Looks) -> None:
    (other,) = await ask(db)
    waiting_for_other = wait(db, other)
    await looks.until([other], 2)
    (number,) = await ask(db)
    await answer(db, number, announce=False)

    assert await wait_applied(db, number, timeout=NEVER, is_new=True) == DONE
    waiting_for_other.cancel()
