"""A request on which its owner dies or stalls ends at most three schedulers, and holds up no other request."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from types import MappingProxyType
from typing import Any

import asyncpg
import pytest

from aiosched.clock import FakeClock
from aiosched.db.server.engine import Database
from aiosched.db.statements import inbox
from aiosched.errors import NotFound, Refused
from aiosched.scheduler.requests import inbox as applying
from tests.patience import PATIENCE
from tests.scheduler.harness import dag, running

Verb = Callable[..., Awaitable[dict[str, Any]]]


async def leave(db: Database, verb: str, dag_id: str, attempts: int = 0) -> int:
    """A request that waits in the inbox, and was begun so often already."""
    async with db.acquire() as conn:
        number = await inbox.send_request(conn, verb=verb, dag_id=dag_id, args={}, requested_by="ann")
        await inbox.count_attempts(conn, {number: attempts})
    return number


async def answer_of(db: Database, number: int) -> inbox.RequestResult:
    answer = await inbox.wait_applied(db, number, timeout=PATIENCE)
    assert answer is not None
    return answer


def replace_verb(monkeypatch: pytest.MonkeyPatch, name: str, verb: Verb) -> None:
    monkeypatch.setattr(applying, "HANDLERS", MappingProxyType({**applying.HANDLERS, name: verb}))


async def test_the_fourth_owner_refuses_it_and_applies_the_others(dsn: str, clock: FakeClock, db: Database) -> None:
    before, poisonous, behind = [await leave(db, "pause", name, n) for name, n in (("a", 0), ("b", 3), ("c", 2))]

    async with running(dsn, clock, dag("a"), dag("b"), dag("c")):
        assert (await answer_of(db, before)).state == "applied"
        assert (await answer_of(db, behind)).state == "applied"
        refused = (await answer_of(db, poisonous)).error

    assert isinstance(refused, Refused)
    assert "pause: 3 schedulers died or stalled while they applied it, so no other one tries" in str(refused)


async def test_a_connection_that_breaks_while_an_attempt_is_counted_is_no_death(
    dsn: str, clock: FakeClock, db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    number, breaks = await leave(db, "pause", "a"), 4
    store = inbox.count_attempts

    async def count(*args: Any) -> None:
        nonlocal breaks
        await store(*args)
        if breaks:
            breaks -= 1
            raise asyncpg.ConnectionDoesNotExistError("it is stored, and the answer is lost")

    monkeypatch.setattr(inbox, "count_attempts", count)
    async with running(dsn, clock, dag("a"), settle=False):
        assert (await answer_of(db, number)).state == "applied"
    assert breaks == 0


async def test_what_waits_behind_a_suspect_is_not_counted_with_it(
    dsn: str, clock: FakeClock, db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    suspect, behind = await leave(db, "pause", "a", 1), await leave(db, "unpause", "b", 0)
    seen: dict[int, int] = {}

    async def look(session: Any, *_: Any) -> dict[str, Any]:
        seen.update({one.id: one.attempts for one in await inbox.waiting_requests(session.env.db, range(64), limit=10)})
        return {}

    replace_verb(monkeypatch, "pause", look)
    async with running(dsn, clock, dag("a"), dag("b")):
        await answer_of(db, behind)

    assert seen == {suspect: 2, behind: 0}


@pytest.mark.slow
async def test_errors_that_the_owner_survives_do_not_count(
    dsn: str, clock: FakeClock, db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures = iter(range(5))

    async def fail(*_: Any) -> dict[str, Any]:
        if next(failures, None) is not None:
            raise asyncpg.ConnectionDoesNotExistError("the database is away for a moment")
        return {}

    replace_verb(monkeypatch, "pause", fail)
    number = await leave(db, "pause", "a")
    async with running(dsn, clock, dag("a"), settle=False):
        assert (await answer_of(db, number)).state == "applied"
    assert await db.fetchval("SELECT attempts FROM request WHERE id = $1", number) == 1


DIES = """
import asyncio, os, sys
from types import MappingProxyType
from aiosched import Scheduler
from aiosched.scheduler.requests import inbox as applying

async def die(*_):
    os.kill(os.getpid(), 9)

async def main():
    applying.HANDLERS = MappingProxyType({**applying.HANDLERS, "pause": die})
    async with Scheduler(dsn=sys.argv[1], parse=False):
        await asyncio.sleep(3600)

asyncio.run(main())
"""


@pytest.mark.slow
async def test_it_kills_three_processes_and_no_more(dsn: str, clock: FakeClock, db: Database) -> None:
    async with running(dsn, clock, dag("a"), dag("b")):
        pass
    number = await leave(db, "pause", "a")
    environ = {**os.environ, "AIOSCHED__SCHEDULER__LEASE": "2"}

    for _ in range(3):
        process = await asyncio.create_subprocess_exec(sys.executable, "-c", DIES, dsn, env=environ)
        assert await process.wait() == -signal.SIGKILL

    async with running(dsn, clock):
        assert "3 schedulers died or stalled" in str((await answer_of(db, number)).error)


async def test_a_withdrawn_request_is_not_applied(dsn: str, clock: FakeClock, db: Database) -> None:
    number = await leave(db, "pause", "a")
    async with db.acquire() as conn:
        await inbox.withdraw_request(conn, number, by="ann")

    async with running(dsn, clock, dag("a")) as it:
        await it.settled()
        (row,) = await it.fetch("SELECT is_paused FROM dag WHERE dag_id = 'a'")

    assert not row["is_paused"]


async def test_a_request_that_is_withdrawn_while_it_is_applied_has_no_effect(
    dsn: str, clock: FakeClock, db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = applying.HANDLERS["set_note"]

    async def withdrawn_meanwhile(session: Any, dag: Any, request: Any, number: int) -> Any:
        async with db.acquire() as conn:
            await inbox.withdraw_request(conn, number, by="ann")
        return await original(session, dag, request, number)

    async with running(dsn, clock, dag("a")) as it:
        await it.trigger("a", "r")
        replace_verb(monkeypatch, "set_note", withdrawn_meanwhile)

        with pytest.raises((Refused, NotFound), match="withdrawn by ann"):
            await it.request("set_note", "a", {"run_id": "r", "note": "hello"})

        await it.settled()
        (row,) = await it.fetch("SELECT note FROM dag_run")
        assert row["note"] is None
        await it.assert_consistent()


@pytest.mark.parametrize(
    "document", ["1e400", "[" * 2000 + "]" * 2000, "null", '"text"', '{"run_id": 1e999}', '"\\ud800"']
)
async def test_arguments_that_cannot_be_read_are_refused_and_hold_up_nothing(
    dsn: str, clock: FakeClock, db: Database, document: str
) -> None:
    broken, behind = await leave(db, "cancel_run", "a"), await leave(db, "pause", "a")
    await db.execute("UPDATE request SET args = $1::text::json WHERE id = $2", document, broken)

    async with running(dsn, clock, dag("a")) as it:
        assert (await answer_of(db, behind)).state == "applied"
        assert "cancel_run: unusable arguments" in str((await answer_of(db, broken)).error)
        assert it.scheduler.is_running
        assert it.scheduler.metrics.recoveries == 0
