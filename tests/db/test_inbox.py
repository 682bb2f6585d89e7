"""Requests and how they are answered."""

from __future__ import annotations

import asyncio

import pytest

from aiosched.core.values.ids import partition_of
from aiosched.db.server.connection import DatabaseConnection
from aiosched.db.server.engine import Database
from aiosched.db.statements import inbox
from aiosched.db.statements.inbox import RequestResult
from aiosched.db.statements.journal import PLANNER
from aiosched.errors import NotFound, Refused, StaleRows
from tests.db.waiting import until_true
from tests.patience import PATIENCE

# Somebody has looked for an answer.
POLLED = "SELECT count(*) > 0 FROM pg_stat_activity WHERE query = $query$" + inbox.READ_RESULTS + "$query$"


async def ask(conn: DatabaseConnection, verb: str = "pause", dag_id: str | None = "d") -> int:
    return await inbox.send_request(
        conn, verb=verb, dag_id=dag_id, args={"x": [1, "ü"]}, requested_by="me", reason="so"
    )


async def test_requests_wait_for_the_owner_of_their_partition_in_order(db: Database) -> None:
    async with db.acquire() as conn:
        ids = [await ask(conn, verb) for verb in ("pause", "trigger", "unpause")]
        await ask(conn, dag_id="of another partition")

        waiting = await inbox.waiting_requests(conn, [partition_of("d")], limit=2)

    assert [one.id for one in waiting] == ids[:2]
    assert (waiting[0].dag_id, waiting[0].verb, waiting[0].args) == ("d", "pause", {"x": [1, "ü"]})
    assert waiting[0].requested_by == "me"


async def test_an_answered_request_waits_no_more_and_is_kept_with_its_answer(db: Database) -> None:
    async with db.acquire() as conn:
        first, second = await ask(conn), await ask(conn)

        answers = [
            (first, RequestResult("applied", {"run_id": "r"})),
            (second, RequestResult("refused", {"error": "no"})),
        ]
        await inbox.answer_requests(conn, answers, incarnation=7)

        assert await inbox.waiting_requests(conn, range(64), limit=10) == []
        rows = await conn.fetch("SELECT state, result, applied_by, reason FROM request ORDER BY id")
    assert list(map(tuple, rows)) == [
        ("applied", '{"run_id":"r"}', 7, "so"),
        ("refused", '{"error":"no"}', 7, "so"),
    ]
    assert await inbox.wait_applied(db, second, timeout=PATIENCE) == answers[1][1]


async def test_a_request_is_answered_once(db: Database) -> None:
    async with db.acquire() as conn:
        number = await ask(conn)
        await inbox.answer_requests(conn, [(number, RequestResult("applied", {"n": 1}))], incarnation=1)
        with pytest.raises(StaleRows, match=f"withdrawn while it was applied: one of {number}"):
            await inbox.answer_requests(conn, [(number, RequestResult("refused", {"n": 2}))], incarnation=2)

    assert await inbox.wait_applied(db, number, timeout=PATIENCE) == RequestResult("applied", {"n": 1})


async def test_a_request_that_waits_is_withdrawn_and_never_applied(db: Database) -> None:
    async with db.acquire() as conn:
        number = await ask(conn)
        waiting = asyncio.create_task(inbox.wait_applied(db, number, timeout=20))
        await until_true(conn, POLLED)

        await inbox.withdraw_request(conn, number, by="ann", reason="a typo")

        answer = await waiting
        assert answer is not None
        assert str(answer.error) == "withdrawn by ann: a typo"
        assert await inbox.waiting_requests(conn, range(64), limit=10) == []
        with pytest.raises(Refused, match=f"Request {number} was refused already; see `aiosched requests show"):
            await inbox.withdraw_request(conn, number, by="ann")
        with pytest.raises(NotFound, match="There is no request 99; see `aiosched requests list`"):
            await inbox.withdraw_request(conn, 99, by="ann")


async def test_attempts_to_apply_requests_are_counted_while_they_wait(db: Database) -> None:
    async with db.acquire() as conn:
        first, second = await ask(conn), await ask(conn)
        await inbox.answer_requests(conn, [(second, RequestResult("applied", {}))], incarnation=1)

        await inbox.count_attempts(conn, {first: 2, second: 3})

        (waiting,) = await inbox.waiting_requests(conn, range(64), limit=10)
        assert (waiting.id, waiting.attempts) == (first, 2)
        assert await conn.fetchval("SELECT attempts FROM request WHERE id = $1", second) == 0


@pytest.mark.parametrize("settings", ["SELECT 1", PLANNER])
@pytest.mark.parametrize("statement", [inbox.COUNT_ATTEMPTS, inbox.ANSWER_REQUESTS])
async def test_requests_are_found_by_their_numbers_however_many_wait(
    db: Database, statement: str, settings: str
) -> None:
    async with db.acquire() as conn:
        await conn.execute("ANALYZE request")  # while none waits
        await conn.execute(
            "INSERT INTO request (partition, verb, requested_by) SELECT 1, 'pause', 'x' FROM generate_series(1, 2000)"
        )
        await conn.execute(settings)
        columns = [[1, 2], [1, 1]] if statement == inbox.COUNT_ATTEMPTS else [[1, 2], ["applied"] * 2, ["{}"] * 2, 1]
        plan = "\n".join(row[0] for row in await conn.fetch(f"EXPLAIN {statement}", *columns))

    assert "pk_request" in plan
    assert "ix_request_waiting" not in plan


async def test_who_waits_hears_of_the_answer(db: Database) -> None:
    async with db.acquire() as conn:
        number = await ask(conn)
        waiting = asyncio.create_task(inbox.wait_applied(db, number, timeout=20))
        await until_true(conn, POLLED)
        assert not waiting.done()

        await inbox.answer_requests(conn, [(number, RequestResult("applied", {}))], incarnation=1)
        await inbox.announce_applied(conn, [number])

        assert await waiting == RequestResult("applied", {})


async def test_nobody_answers_and_the_wait_ends(db: Database) -> None:
    async with db.acquire() as conn:
        number = await ask(conn)

    assert await inbox.wait_applied(db, number, timeout=0.01) is None


async def test_many_answers_are_announced_within_the_limits_of_a_notification(db: Database) -> None:
    await inbox.announce_applied(db, range(10**15, 10**15 + 1200))


@pytest.mark.parametrize(
    ("kind", "partitions"), [("dags", frozenset({0, 5, 63})), ("pools", frozenset()), ("requests", frozenset({7}))]
)
async def test_news_arrive_as_they_were_sent(db: Database, kind: str, partitions: frozenset[int]) -> None:
    conn = await db.connect()
    heard: asyncio.Queue[str] = asyncio.Queue()
    await conn.add_listener(inbox.NOTIFY_CHANNEL, lambda *news: heard.put_nowait(news[-1]))
    await inbox.notify(db, kind, [*partitions, *partitions])

    async with asyncio.timeout(PATIENCE):
        assert inbox.read_notification(await heard.get()) == (kind, partitions)
    await conn.close()


async def test_many_requests_keep_their_order_and_are_awaited_together(db: Database) -> None:
    async with db.acquire() as conn:
        numbers = await inbox.send_requests(conn, "d", "pause", [{"n": n} for n in range(300)], requested_by="me")
        waiting = asyncio.create_task(inbox.wait_all_applied(db, numbers, timeout=20))
        rows = await conn.fetch("SELECT id, args::text FROM request ORDER BY id")
        assert [tuple(row) for row in rows] == [(number, f'{{"n":{n}}}') for n, number in enumerate(numbers)]

        for part in (numbers[200:], numbers[:200]):
            answers = [(number, RequestResult("applied", {"id": number})) for number in part]
            await inbox.answer_requests(conn, answers, incarnation=1)
            await inbox.announce_applied(conn, part)

        assert await waiting == {number: RequestResult("applied", {"id": number}) for number in numbers}
        assert set(await inbox.wait_all_applied(db, [numbers[0], 10**9], timeout=0.5)) == {numbers[0]}
