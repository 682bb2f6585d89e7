"""The proxy of the fault campaigns: it forwards faithfully, and breaks a connection exactly where it is told to."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator, Callable
from typing import Any

import asyncpg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiosched.db.server.dsn import address_of
from aiosched.db.server.failures import DRIVER_ERRORS, is_connection_failure
from tests.faults.campaign.proxy import Cut, Proxy, Silence
from tests.faults.campaign.wire import Commits, Message, Splitter
from tests.patience import PATIENCE


def said(kind: str, body: bytes = b"") -> Message:
    return Message(kind, kind.encode() + struct.pack("!I", len(body) + 4) + body)


def start_up() -> bytes:
    body = struct.pack("!I", 196608) + b"user\0u\0application_name\0journal\0\0"
    return struct.pack("!I", len(body) + 4) + body


@given(st.lists(st.binary(max_size=20)), st.integers(1, 7))
def test_messages_are_the_same_however_the_bytes_arrive(bodies: list[bytes], size: int) -> None:
    messages = [said("Q", body) for body in bodies]
    stream = start_up() + b"".join(message.raw for message in messages)
    splitter = Splitter(opening=True)

    found = [m for at in range(0, len(stream), size) for m in splitter.feed(stream[at : at + size])]

    assert found[0].kind == ""
    assert found[1:] == messages


def test_a_question_for_tls_comes_before_the_start_up_message() -> None:
    question = struct.pack("!II", 8, 80877103)

    found = Splitter(opening=True).feed(question + start_up() + said("S").raw)

    assert [m.kind for m in found] == ["", "", "S"]


@pytest.mark.parametrize(
    ("state", "messages", "commits"),
    [
        pytest.param(b"T", [said("Q", b"COMMIT;\0")], [True], id="commit"),
        pytest.param(b"I", [said("Q", b"COMMIT\0")], [False], id="commit of nothing"),
        pytest.param(b"T", [said("Q", b"SELECT 1\0")], [False], id="statement in a transaction"),
        pytest.param(b"I", [said("Q", b"BEGIN; SELECT 1 FROM x FOR KEY SHARE\0")], [False], id="begin"),
        pytest.param(b"I", [said("Q", b"UPDATE x SET y = 1\0")], [True], id="autocommitted query"),
        pytest.param(
            b"I",
            [said("P", b"s1\0WITH f AS (SELECT 1) UPDATE x SET y = 1\0\0\0"), said("B", b"\0s1\0"), said("S")],
            [False, False, True],
            id="autocommitted statement",
        ),
        pytest.param(
            b"T",
            [said("P", b"s1\0UPDATE x SET y = 1\0\0\0"), said("B", b"\0s1\0"), said("S")],
            [False, False, False],
            id="statement in an open transaction",
        ),
        pytest.param(
            b"I",
            [said("P", b"s1\0SELECT 1\0\0\0"), said("B", b"\0s1\0"), said("E"), said("S")],
            [False] * 4,
            id="reading statement",
        ),
        pytest.param(
            b"I",
            [said("P", b"s1\0DELETE FROM x\0\0\0"), said("S"), said("B", b"\0s1\0"), said("S")],
            [False, False, False, True],
            id="prepared earlier",
        ),
    ],
)
def test_a_commit_is_recognised(state: bytes, messages: list[Message], commits: list[bool]) -> None:
    connection = Commits()
    connection.server_says(said("Z", state))

    assert [connection.client_says(message) for message in messages] == commits


def test_the_application_is_known_from_the_start_up_message() -> None:
    connection = Commits()
    connection.client_says(Splitter(opening=True).feed(start_up())[0])

    assert connection.application == "journal"


@pytest.fixture
async def proxy(dsn: str) -> AsyncIterator[Proxy]:
    address = address_of(dsn)
    async with Proxy(f"{address.host}/.s.PGSQL.{address.port}") as proxy:
        yield proxy


@pytest.fixture
async def connect(proxy: Proxy, dsn: str) -> AsyncIterator[Callable[..., Any]]:
    opened: list[Any] = []

    async def connect(**options: Any) -> Any:
        conn = await asyncpg.connect(
            host="127.0.0.1", port=proxy.port, user="postgres", database=address_of(dsn).database, **options
        )
        opened.append(conn)
        return conn

    yield connect
    for conn in opened:
        conn.terminate()


async def numbers(dsn: str) -> list[int]:
    conn = await asyncpg.connect(dsn)
    try:
        return [row[0] for row in await conn.fetch("SELECT n FROM numbers ORDER BY n")]
    finally:
        await conn.close()


async def test_everything_passes_unchanged(proxy: Proxy, connect: Callable[..., Any]) -> None:
    conn = await connect()
    await conn.execute("CREATE TABLE numbers (n int)")

    await conn.copy_records_to_table("numbers", records=[(n,) for n in range(10_000)])

    assert await conn.fetchval("SELECT sum(n) FROM numbers") == 49_995_000
    assert len(await conn.fetchval("SELECT repeat('x', 1000000)")) == 1_000_000
    assert proxy.connections == 1


@pytest.mark.parametrize("how", ["transaction", "statement"])
@pytest.mark.parametrize(("cut", "stored"), [(Cut.BEFORE, [0]), (Cut.AFTER, [0, 1]), (Cut.ANSWERED, [0, 1])])
async def test_a_commit_is_cut_where_it_was_asked_for(
    proxy: Proxy, connect: Callable[..., Any], dsn: str, how: str, cut: Cut, stored: list[int]
) -> None:
    conn = await connect(server_settings={"application_name": "aiosched journal"})
    await conn.execute("CREATE TABLE numbers (n int)")
    await conn.execute("INSERT INTO numbers VALUES ($1)", 0)
    pid, seen = conn.get_server_pid(), []

    def decide(application: str) -> Cut:
        seen.append(application)
        return cut

    proxy.decide = decide
    with pytest.raises((OSError, *DRIVER_ERRORS)) as caught:  # noqa: PT012
        if how == "statement":
            await conn.execute("INSERT INTO numbers VALUES ($1)", 1)
        else:
            async with conn.transaction():
                await conn.execute("INSERT INTO numbers VALUES ($1)", 1)

    assert is_connection_failure(caught.value)
    await gone(dsn, pid)
    assert await numbers(dsn) == stored
    assert proxy.cuts == {cut: 1}
    assert seen == ["aiosched journal"]


async def gone(dsn: str, pid: int) -> None:
    """Wait until a server process has ended: what it was told to do is done by then."""
    conn = await asyncpg.connect(dsn)
    try:
        async with asyncio.timeout(PATIENCE):
            while await conn.fetchval("SELECT count(*) FROM pg_stat_activity WHERE pid = $1", pid):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
    finally:
        await conn.close()


async def test_a_reset_is_noticed_at_once(proxy: Proxy, connect: Callable[..., Any]) -> None:
    conn = await connect()
    question = asyncio.ensure_future(conn.fetchval("SELECT pg_sleep(60)"))
    await asyncio.sleep(0)

    proxy.reset()

    with pytest.raises((OSError, *DRIVER_ERRORS)) as caught:
        await asyncio.wait_for(question, PATIENCE)
    assert is_connection_failure(caught.value)


@pytest.mark.parametrize("direction", [Silence.TO_SERVER, Silence.TO_CLIENT])
async def test_silence_in_one_direction_keeps_the_connection_and_ends_with_what_was_held_back(
    proxy: Proxy, connect: Callable[..., Any], direction: Silence
) -> None:
    conn = await connect()
    proxy.silence(direction)

    question = asyncio.ensure_future(conn.fetchval("SELECT 7"))
    done, _ = await asyncio.wait([question], timeout=0.05)
    assert not done

    proxy.silence(Silence.NONE)
    assert await question == 7


async def test_without_a_server_a_client_is_refused(tmp_path: Any) -> None:
    async with Proxy(str(tmp_path / "nobody")) as proxy:
        with pytest.raises((OSError, asyncpg.InterfaceError)):
            await asyncpg.connect(host="127.0.0.1", port=proxy.port, user="u", database="d", timeout=10)
