"""Requests and how they are answered."""

from __future__ import annotations

import asyncio

import pytest

from aiosched.core.values.ids import partition_of
from aiosched.db.server.connection import DatabaseConnection
from aiosched.db.server.engine import Database
from aiosched.db.statements import inbox
from aiosched.db.statements.inbox import READ_RESULT, CommandResult
from aiosched.errors import NotFound, Refused, StaleRows
from tests.db.waiting import until_true
from tests.patience import PATIENCE


async def ask(conn: DatabaseConnection, verb: str = "pause", dag_id: str | None = "d") -> int:
    return await inbox.add_command(conn, verb=verb, dag_id=dag_id, args={"x": [1, "ü"]}, requested_by="me", reason="so")


async def test_requests_wait_for_the_owner_of_their_partition_in_order(db: Database) -> None:
    async with db.acquire() as conn:
        ids = [await ask(conn, verb) for verb in ("pause", "trigger", "unpause")]
        await ask(conn, dag_id="of another partition")

        waiting = await inbox.waiting_commands(conn, [partition_of("d")], limit=2)

    assert [command.id for command in waiting] == ids[:2]
    assert (waiting[0].dag_id, waiting[0].verb, waiting[0].args) == ("d", "pause", {"x": [1, "ü"]})
    assert waiting[0].requested_by == "me"


async def test_an_answered_request_waits_no_more_and_is_kept_with_its_answer(db: Database) -> None:
    async with db.acquire() as conn:
        first, second = await ask(conn), await ask(conn)

        answers = [
            (first, CommandResult("applied", {"run_id": "r"})),
            (second, CommandResult("refused", {"error": "no"})),
        ]
        await inbox.answer_commands(conn, answers, incarnation=7)

        assert await inbox.waiting_commands(conn, range(64), limit=10) == []
        rows = await conn.fetch("SELECT state, result, applied_by, reason FROM command ORDER BY id")
    assert list(map(tuple, rows)) == [
        ("applied", '{"run_id":"r"}', 7, "so"),
        ("refused", '{"error":"no"}', 7, "so"),
    ]
    assert await inbox.wait_applied(db, second, timeout=5) == answers[1][1]


async def test_a_request_is_answered_once(db: Database) -> None:
    async with db.acquire() as conn:
        command = await ask(conn)
        await inbox.answer_commands(conn, [(command, CommandResult("applied", {"n": 1}))], incarnation=1)
        with pytest.raises(StaleRows, match=f"withdrawn while it was applied: one of {command}"):
            await inbox.answer_commands(conn, [(command, CommandResult("refused", {"n": 2}))], incarnation=2)

    assert await inbox.wait_applied(db, command, timeout=5) == CommandResult("applied", {"n": 1})


async def test_a_request_that_waits_is_withdrawn_and_never_applied(db: Database) -> None:
    async with db.acquire() as conn:
        command = await ask(conn)
        waiting = asyncio.create_task(inbox.wait_applied(db, command, timeout=20))
        await until_true(conn, f"SELECT count(*) > 0 FROM pg_stat_activity WHERE query = '{READ_RESULT}'")

        await inbox.withdraw_command(conn, command, by="ann", reason="a typo")

        answer = await waiting
        assert answer is not None
        assert str(answer.error) == "withdrawn by ann: a typo"
        assert await inbox.waiting_commands(conn, range(64), limit=10) == []
        with pytest.raises(Refused, match=f"Request {command} was refused already; see `aiosched requests show"):
            await inbox.withdraw_command(conn, command, by="ann")
        with pytest.raises(NotFound, match="There is no request 99; see `aiosched requests list`"):
            await inbox.withdraw_command(conn, 99, by="ann")


async def test_attempts_to_apply_requests_are_counted_while_they_wait(db: Database) -> None:
    async with db.acquire() as conn:
        first, second = await ask(conn), await ask(conn)
        await inbox.answer_commands(conn, [(second, CommandResult("applied", {}))], incarnation=1)

        await inbox.count_attempts(conn, {first: 2, second: 3})

        (waiting,) = await inbox.waiting_commands(conn, range(64), limit=10)
        assert (waiting.id, waiting.attempts) == (first, 2)
        assert await conn.fetchval("SELECT attempts FROM command WHERE id = $1", second) == 0


async def test_who_waits_hears_of_the_answer(db: Database) -> None:
    async with db.acquire() as conn:
        command = await ask(conn)
        waiting = asyncio.create_task(inbox.wait_applied(db, command, timeout=20))
        await until_true(conn, f"SELECT count(*) > 0 FROM pg_stat_activity WHERE query = '{READ_RESULT}'")
        assert not waiting.done()

        await inbox.answer_commands(conn, [(command, CommandResult("applied", {}))], incarnation=1)
        await inbox.announce_applied(conn, [command])

        assert await waiting == CommandResult("applied", {})


async def test_nobody_answers_and_the_wait_ends(db: Database) -> None:
    async with db.acquire() as conn:
        command = await ask(conn)

    assert await inbox.wait_applied(db, command, timeout=0.01) is None


async def test_many_answers_are_announced_within_the_limits_of_a_notification(db: Database) -> None:
    async with db.acquire() as conn:
        await inbox.announce_applied(conn, range(10**15, 10**15 + 1200))


@pytest.mark.parametrize(
    ("kind", "partitions"), [("dags", frozenset({0, 5, 63})), ("pools", frozenset()), ("commands", frozenset({7}))]
)
async def test_news_arrive_as_they_were_sent(db: Database, kind: str, partitions: frozenset[int]) -> None:
    conn = await db.connect()
    heard: asyncio.Queue[str] = asyncio.Queue()
    await conn.add_listener(inbox.NOTIFY_CHANNEL, lambda *news: heard.put_nowait(news[-1]))
    async with db.acquire() as sender:
        await inbox.notify(sender, kind, [*partitions, *partitions])

    async with asyncio.timeout(PATIENCE):
        assert inbox.read_notification(await heard.get()) == (kind, partitions)
    await conn.close()
