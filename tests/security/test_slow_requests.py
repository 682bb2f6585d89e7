"""Heads and bodies that do not come to an end are given up, and nothing else is."""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any

import pytest
import uvicorn
from hypothesis import given
from hypothesis import strategies as st
from starlette.types import Receive, Scope, Send
from uvicorn.server import ServerState

from aiosched.config import Settings, WebSettings
from aiosched.db.server.engine import Database
from aiosched.web.app import make_app
from aiosched.web.requests.request_client import RequestClient
from aiosched.web.server import ports, uvicorn_server
from aiosched.web.server.slow_requests import MOST_HEAD, MOST_UNREAD, MOST_WAITING, BoundedProtocol, RequestLimits
from tests.patience import PATIENCE

LIMITS = RequestLimits(head=20.0, body=30.0, rate=1000.0)
HEAD = b"POST / HTTP/1.1\r\nhost: h\r\ncontent-length: %d\r\n\r\n"
WHOLE = b"GET / HTTP/1.1\r\nhost: h\r\n\r\n"


class FakeLoop:
    """The loop of the test with a clock that stands until it is moved."""

    def __init__(self) -> None:
        self.now, self._timers, self._number = 0.0, list[Any](), itertools.count()

    def time(self) -> float:
        return self.now

    def call_later(self, delay: float, call: Callable[[], None]) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(self.now + delay, call, (), asyncio.get_running_loop())
        heapq.heappush(self._timers, (self.now + delay, next(self._number), handle))
        return handle

    def create_task(self, work: Any, **options: Any) -> asyncio.Task[Any]:
        return asyncio.get_running_loop().create_task(work, **options)

    def move(self, seconds: float) -> None:
        end = self.now + seconds
        while self._timers and self._timers[0][0] <= end:
            self.now, _, handle = heapq.heappop(self._timers)
            if not handle.cancelled():
                handle._run()
        self.now = end


class FakeTransport(asyncio.Transport):
    def __init__(self) -> None:
        super().__init__()
        self.written, self.is_open = b"", True

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += bytes(data)

    def close(self) -> None:
        self.is_open = False

    abort = close

    def is_closing(self) -> bool:
        return not self.is_open

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


class Connection:
    """One connection to an application, which reads bodies when `reads`, and answers when `answers` is set."""

    def __init__(self) -> None:
        self.loop, self.transport = FakeLoop(), FakeTransport()
        self.reads, self.answers = True, asyncio.Event()
        self.headers, self.bodies = list[Any](), list[bytes]()
        config = uvicorn.Config(self.app, log_config=None, ws="none", interface="asgi3")
        config.load()
        self.protocol = BoundedProtocol(config, ServerState(), {}, self.loop, limits=LIMITS)
        self.protocol.connection_made(self.transport)

    @property
    def requests(self) -> int:
        return len(self.headers)

    async def app(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.headers.append(scope["headers"])
        body, is_whole = b"", not self.reads
        while not is_whole:
            message = await receive()
            body += message.get("body", b"")
            is_whole = not message.get("more_body")
        self.bodies.append(body)
        await self.answers.wait()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body"})

    async def send(self, data: bytes, *, after: float = 0.0) -> None:
        self.loop.move(after)
        if self.transport.is_open:
            self.protocol.data_received(data)
        for _ in range(5):
            await asyncio.sleep(0)

    def is_open_after(self, seconds: float) -> bool:
        self.loop.move(seconds)
        return self.transport.is_open


@pytest.fixture
async def connection() -> AsyncIterator[Connection]:
    found = Connection()
    yield found
    found.answers.set()
    found.protocol.connection_lost(None)
    for _ in range(5):
        await asyncio.sleep(0)


@pytest.mark.parametrize("begun", [b"", b"GET", b"GET / HTTP/1.1\r\nhost: h\r\nx: "])
async def test_half_a_head_is_given_up(connection: Connection, begun: bytes) -> None:
    if begun:
        await connection.send(begun)
    assert connection.is_open_after(19.0)
    assert not connection.is_open_after(1.0)
    assert connection.transport.written.startswith(b"HTTP/1.1 408 ")


async def test_bytes_one_by_one_are_no_way_around_it(connection: Connection) -> None:
    for byte in itertools.islice(itertools.cycle(b"a"), 19):
        await connection.send(bytes([byte]), after=1.0)
    assert not connection.is_open_after(1.0)


async def test_half_a_body_is_given_up(connection: Connection) -> None:
    await connection.send(HEAD % 100 + b"x", after=19.0)
    assert connection.is_open_after(29.0)
    assert not connection.is_open_after(1.1)


async def test_a_slow_line_may_take_the_time_that_its_bytes_need(connection: Connection) -> None:
    await connection.send(HEAD % 100_000)
    for _ in range(9):
        await connection.send(b"x" * 10_000, after=10.0)  # at the rate
    assert connection.transport.is_open
    for _ in range(40):
        await connection.send(b"x" * 100, after=1.0)
    assert not connection.transport.is_open


async def test_a_body_that_comes_after_the_answer_is_given_up_too(connection: Connection) -> None:
    connection.reads = False
    connection.answers.set()
    await connection.send(HEAD % 1000)
    assert b" 200 " in connection.transport.written
    for _ in range(31):
        await connection.send(b"x", after=1.0)
    assert not connection.transport.is_open


async def test_the_next_request_on_a_connection_has_limits_as_well(connection: Connection) -> None:
    connection.answers.set()
    await connection.send(WHOLE)
    await connection.send(b"GET / HT", after=4.0)
    assert connection.is_open_after(19.0)
    assert not connection.is_open_after(1.0)


async def test_one_that_waits_behind_another_has_limits_as_well(connection: Connection) -> None:
    await connection.send(WHOLE + HEAD % 10 + b"x")
    assert connection.is_open_after(1000.0)  # the first one is at work
    connection.answers.set()
    await connection.send(b"x")
    assert not connection.is_open_after(31.0)


async def test_an_answer_may_take_as_long_as_it_likes(connection: Connection) -> None:
    await connection.send(WHOLE)
    assert connection.is_open_after(100_000.0)


async def test_time_in_which_the_server_does_not_read_does_not_count(connection: Connection) -> None:
    connection.reads = False
    await connection.send(HEAD % 200_000 + b"x" * 100_000)
    assert connection.is_open_after(1000.0)


# ---- sizes, and what is no request ----


LONG = b"x" * 2 * MOST_HEAD


@pytest.mark.parametrize(
    "begun", [b"GET /" + LONG, b"GET / HTTP/1.1\r\nhost: h\r\nx: " + LONG, b"GET / HTTP/1.1\r\n" + LONG]
)
async def test_a_head_has_a_size_whole_or_in_pieces(connection: Connection, begun: bytes) -> None:
    for at in range(0, len(begun), 1000):
        await connection.send(begun[at : at + 1000])
    assert not connection.transport.is_open
    assert connection.transport.written.startswith(b"HTTP/1.1 400 ")
    assert connection.requests == 0


async def test_a_long_head_in_one_piece_is_refused(connection: Connection) -> None:
    await connection.send(b"GET / HTTP/1.1\r\nhost: h\r\n" + b"x: 1\r\n" * MOST_HEAD + b"\r\n")
    assert not connection.transport.is_open
    assert connection.requests == 0


async def test_many_heads_behind_each_other_are_no_long_head(connection: Connection) -> None:
    connection.answers.set()
    for _ in range(MOST_HEAD // len(WHOLE) + 5):
        await connection.send(WHOLE)
    assert connection.transport.is_open


async def test_a_body_behind_another_request_is_no_head(connection: Connection) -> None:
    await connection.send(WHOLE)
    await connection.send(HEAD % (3 * MOST_HEAD))
    for _ in range(3):
        await connection.send(b"x" * MOST_HEAD)
    connection.answers.set()
    await connection.send(WHOLE)
    assert connection.transport.is_open
    assert connection.requests == 3


CHUNKED = b"POST / HTTP/1.1\r\nhost: h\r\ntransfer-encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    ("begun", "again"),
    [(b"1\r\nx\r\n0\r\n", b"a: b\r\n"), (b"5;", b"a=b;"), (b"", b"0"), (b"0\r\na: ", b"b")],
    ids=["fields behind it", "words of a chunk", "zeros of a size", "one long field behind it"],
)
async def test_what_stands_between_the_bytes_of_a_body_has_a_size(
    connection: Connection, begun: bytes, again: bytes
) -> None:
    await connection.send(CHUNKED + begun)
    await connection.send(again * (MOST_HEAD // len(again)))
    assert connection.transport.is_open
    await connection.send(again)
    assert not connection.transport.is_open
    assert b" 400 " not in connection.transport.written  # in the middle of what may be an answer


async def test_a_body_in_chunks_of_one_byte_is_one(connection: Connection) -> None:
    connection.answers.set()
    await connection.send(CHUNKED)
    for _ in range(100):
        await connection.send(b"1\r\nx\r\n" * 1000)
    await connection.send(b"0\r\n\r\n")
    assert connection.transport.is_open
    assert b" 200 " in connection.transport.written


async def test_fields_behind_a_body_are_no_headers_of_the_request(connection: Connection) -> None:
    await connection.send(CHUNKED + b"1\r\nx\r\n")
    headers = connection.headers[0]
    await connection.send(b"0\r\nauthorization: Bearer x\r\nhost: other\r\n\r\n" + WHOLE)
    assert headers == [(b"host", b"h"), (b"transfer-encoding", b"chunked")]
    connection.answers.set()
    await connection.send(b"")
    assert connection.headers[1] == [(b"host", b"h")]


@st.composite
def requests(draw: st.DrawFn) -> tuple[bytes, bytes]:
    """The bytes of a request, and those of its body."""
    body = draw(st.binary(max_size=100))
    if draw(st.booleans()):
        return HEAD % len(body) + body, body
    cuts = sorted({0, len(body), *draw(st.sets(st.integers(0, len(body))))})
    chunks = (body[begin:end] for begin, end in pairwise(cuts))
    words = draw(st.sampled_from([b"", b";word", b";a=b;c"]))
    fields = draw(st.sampled_from([b"", b"x: y\r\n", b"authorization: Bearer x\r\nhost: other\r\n"]))
    return CHUNKED + b"".join(
        b"%x%s\r\n%s\r\n" % (len(one), words, one) for one in chunks
    ) + b"0\r\n" + fields + b"\r\n", body


@given(sent=st.lists(requests(), min_size=1, max_size=MOST_WAITING // 2), data=st.data())
def test_however_requests_are_cut_the_application_gets_the_same(
    sent: list[tuple[bytes, bytes]], data: st.DataObject
) -> None:
    stream = b"".join(request for request, _ in sent)
    cuts = data.draw(st.sets(st.integers(1, len(stream) - 1)))

    async def play() -> Connection:
        connection = Connection()
        connection.answers.set()
        for begin, end in pairwise([0, *sorted(cuts), len(stream)]):
            await connection.send(stream[begin:end])
        for _ in sent:
            await connection.send(b"")  # those behind the first one have their turn
        connection.protocol.connection_lost(None)
        return connection

    connection = asyncio.run(play())
    assert connection.bodies == [body for _, body in sent]
    assert [dict(headers)[b"host"] for headers in connection.headers] == [b"h"] * len(sent)
    assert connection.transport.written.count(b" 200 ") == len(sent)


@pytest.mark.parametrize("head", [CHUNKED + b"fffffffff\r\n", HEAD % 2**40], ids=["chunked", "of a length"])
async def test_a_body_without_an_end_that_was_answered_is_read_no_further(connection: Connection, head: bytes) -> None:
    connection.reads = False
    connection.answers.set()
    await connection.send(head)
    for _ in range(64):
        await connection.send(b"x" * (MOST_UNREAD // 64))
    assert connection.transport.is_open
    assert b" 200 " in connection.transport.written
    await connection.send(b"x")
    assert not connection.transport.is_open


async def test_a_flood_of_requests_in_one_piece_is_refused(connection: Connection) -> None:
    await connection.send(WHOLE * 10_000)
    assert not connection.transport.is_open
    assert connection.requests == 1
    assert len(connection.protocol.pipeline) == MOST_WAITING


@pytest.mark.parametrize(
    "head",
    [
        b"content-length: 4\r\ntransfer-encoding: chunked\r\n", b"content-length: 4\r\ncontent-length: 5\r\n",
        b"transfer-encoding: xchunked\r\n", b"transfer-encoding: chunked, identity\r\n", b"content-length: +4\r\n",
        b"content-length: 4,4\r\n", b"content-length : 4\r\n", b"content-length: 99999999999999999999\r\n",
        b"x: \x00\r\n", b"x\x00: 1\r\n", b"x: 1\rcontent-length: 4\r\n", b"nothing\r\n",
    ],
)  # fmt: skip
async def test_what_two_servers_may_read_in_two_ways_is_refused(connection: Connection, head: bytes) -> None:
    await connection.send(b"POST / HTTP/1.1\r\nhost: h\r\n" + head + b"\r\n0\r\n\r\n" + WHOLE)
    assert not connection.transport.is_open
    assert connection.transport.written.startswith(b"HTTP/1.1 400 ")


# ---- on a socket ----


@asynccontextmanager
async def server(db: Database, limits: RequestLimits) -> AsyncIterator[int]:
    app, ended = make_app(RequestClient(db, Settings(web=WebSettings(auth="password")))), asyncio.Event()
    sock = ports.bind("127.0.0.1", 0)
    closing = app.state.hub.close
    serving = asyncio.create_task(uvicorn_server.serve(app, sock, ended, closing=closing, limits=limits))
    try:
        yield sock.getsockname()[1]
    finally:
        ended.set()
        await serving


@pytest.mark.parametrize(
    "begun",
    [
        b"GET /livez HTTP/1.1\r\nhost: h\r\n", b"POST /api/v1/login HTTP/1.1\r\nhost: h\r\ncontent-length: 99\r\n\r\n{",
        b"POST /worker/v1/starts HTTP/1.1\r\nhost: h\r\ntransfer-encoding: chunked\r\n\r\n5\r\nab",
        b"POST /nothing HTTP/1.1\r\nhost: h\r\ncontent-length: 99\r\n\r\n{",
    ],
)  # fmt: skip
async def test_no_route_keeps_a_half_request_open(db: Database, begun: bytes) -> None:
    async with server(db, RequestLimits(head=0.1, body=0.1)) as port, asyncio.timeout(PATIENCE):
        opened = [await asyncio.open_connection("127.0.0.1", port) for _ in range(50)]
        for _, writer in opened:
            writer.write(begun)
        for reader, writer in opened:
            try:
                await reader.read()
            except ConnectionError:
                pass
            writer.close()
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /livez HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n")
        assert (await reader.read()).startswith(b"HTTP/1.1 200 ")
        writer.close()


async def test_a_head_has_a_size(db: Database) -> None:
    async with server(db, RequestLimits()) as port, asyncio.timeout(PATIENCE):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /livez HTTP/1.1\r\nhost: h\r\nx: " + b"x" * 4 * MOST_HEAD)
        assert (await reader.read()).startswith(b"HTTP/1.1 400 ")
        writer.close()


@pytest.mark.parametrize(
    ("line", "status"),
    [
        (b"GET http://h/livez HTTP/1.1", 200), (b"GET /livez?a=%ff HTTP/1.1", 200), (b"GET /%6civez HTTP/1.1", 200),
        (b"GET /livez HTTP/1.0", 200), (b"GET /\xff HTTP/1.1", 400), (b"GET /%ff HTTP/1.1", 200),
        (b"CONNECT h:443 HTTP/1.1", 400), (b"OPTIONS * HTTP/1.1", 404), (b"GET //livez HTTP/1.1", 200),
        (b"LIVEZ / HTTP/1.1", 400), (b"GET http://h HTTP/1.1", 400), (b"GET livez HTTP/1.1", 400),
        (b"\x16\x03\x01\x02\x00", 400),
    ],
)  # fmt: skip
async def test_odd_lines_are_answered_and_the_server_goes_on(db: Database, line: bytes, status: int) -> None:
    async with server(db, RequestLimits()) as port, asyncio.timeout(PATIENCE):
        for asked, expected in ((line, status), (b"GET /livez HTTP/1.1", 200)):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(asked + b"\r\nhost: h\r\nconnection: close\r\n\r\n")
            assert int((await reader.read()).split()[1]) == expected
            writer.close()
