"""The client for plain HTTP, against a server that answers as it is told."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Sequence

import pytest

from aiosched.executors.engines.plain_http import SILENCE, HttpAnswer, PlainHttp
from tests.patience import until

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nye"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


class Server:
    """Answers the requests of all connections in turn; after an answer of None it closes the connection."""

    def __init__(self) -> None:
        self.answers: list[bytes | None] = []
        self.requests: list[bytes] = []
        self.writers: list[asyncio.StreamWriter] = []
        self.url = ""

    @property
    def connections(self) -> int:
        return len(self.writers)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writers.append(writer)
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                size = int(head.split(b"Content-Length: ")[1].split(b"\r\n")[0])
                self.requests.append(head + await reader.readexactly(size))
                answer = self.answers.pop(0)
                if answer is None:
                    return
                writer.write(answer)
                if b"close" in answer:
                    return
        except asyncio.IncompleteReadError:
            pass
        finally:
            writer.close()


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    found = Server()
    listening = await asyncio.start_server(found.serve, "127.0.0.1", 0)
    found.url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    yield found
    listening.close()


async def ask(client: PlainHttp, server: Server, answers: Sequence[bytes | None]) -> list[HttpAnswer]:
    server.answers += answers
    url = server.url
    return [await client.post(f"{url}/at?offset=3", b"body", {"Name": "value"}) for _ in answers]


async def test_requests_share_a_connection(server: Server) -> None:
    client = PlainHttp(5.0)
    assert await ask(client, server, [OK, OK]) == [HttpAnswer(200, b"ye")] * 2
    assert server.connections == 1
    head, _, body = server.requests[0].partition(b"\r\n\r\n")
    host = server.url.removeprefix("http://").encode()
    lines = [b"POST /at?offset=3 HTTP/1.1", b"Host: " + host, b"Name: value", b"Content-Length: 4"]
    assert (head.split(b"\r\n"), body) == (lines, b"body")
    await client.close()


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (b"HTTP/1.1 204 No Content\r\n\r\n", HttpAnswer(204, b"")),
        (b"HTTP/1.1 410 Gone\r\nContent-Length: 4\r\n\r\nover", HttpAnswer(410, b"over")),
        (b"HTTP/1.1 100 Continue\r\n\r\n" + OK, HttpAnswer(200, b"ye")),
        (
            CHUNKED + b"3;x=y\r\nabc\r\nA\r\n0123456789\r\n0\r\nt: 1\r\n\r\n",
            HttpAnswer(200, b"abc0123456789"),
        ),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 200000\r\n\r\n" + b"x" * 200_000, HttpAnswer(200, b"x" * 200_000)),
    ],
    ids=["nothing", "an error", "a notice before it", "chunks", "large"],
)
async def test_answers_are_read_whole(server: Server, answer: bytes, expected: HttpAnswer) -> None:
    client = PlainHttp(5.0)
    assert await ask(client, server, [answer, OK]) == [expected, HttpAnswer(200, b"ye")]
    assert server.connections == 1
    await client.close()


@pytest.mark.parametrize(
    "answer", [None, b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\nConnection: close\r\n\r\nabc", b"SSH-2.0-close\r\n\r\n"]
)
async def test_an_answer_that_does_not_come_is_an_error_and_the_next_request_has_a_new_connection(
    server: Server, answer: bytes | None
) -> None:
    client = PlainHttp(5.0)
    with pytest.raises(ConnectionError):
        await ask(client, server, [answer])
    assert await ask(client, server, [OK]) == [HttpAnswer(200, b"ye")]
    assert server.connections == 2
    await client.close()


async def test_an_answer_to_nothing_is_not_taken_for_the_next_one(server: Server) -> None:
    client = PlainHttp(5.0)
    with pytest.raises(ConnectionError):
        await ask(client, server, [OK + OK])
    assert await ask(client, server, [b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nno"]) == [HttpAnswer(200, b"no")]
    assert server.connections == 2
    await client.close()


@pytest.mark.parametrize("ends", [False, True])
async def test_nor_is_one_that_comes_while_nothing_is_asked(server: Server, ends: bool) -> None:
    client = PlainHttp(5.0)
    await ask(client, server, [OK])
    ((line,),) = client._idle.values()
    server.writers[0].write(b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\n\r\n")  # as a proxy that gives up
    if ends:
        server.writers[0].close()
    await until(lambda: not line.is_open())

    assert await ask(client, server, [OK]) == [HttpAnswer(200, b"ye")]
    assert server.connections == 2
    await client.close()


@pytest.mark.parametrize(
    ("path", "headers"),
    [
        ("/a b", {}), ("/", {"Authorization": "Bearer x\r\nInjected: 1"}), ("/", {"X\nY": "1"}), ("/", {"X": "\0"}),
        ("/é", {}), ("/", {"X": "ü"}),
    ],
)  # fmt: skip
async def test_nothing_is_sent_that_is_no_request(server: Server, path: str, headers: dict[str, str]) -> None:
    client = PlainHttp(5.0)
    with pytest.raises(ConnectionError, match="character that none may have"):
        await client.post(server.url + path, b"", headers)
    assert server.connections == 0
    await client.close()


async def test_a_connection_that_the_server_has_closed_is_not_used_again(server: Server) -> None:
    client = PlainHttp(5.0)
    await ask(client, server, [b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"])
    assert await ask(client, server, [OK]) == [HttpAnswer(200, b"ye")]
    assert server.connections == 2
    await client.close()


async def test_a_server_that_does_not_answer_is_an_error(server: Server) -> None:
    client = PlainHttp(0.05)
    with pytest.raises(TimeoutError):
        await ask(client, server, [b""])


async def test_idle_connections_are_given_up_with_one_that_does_not_answer(server: Server) -> None:
    """A network that has lost one has lost its equals, too, and each would cost as long as a request may take."""
    client = PlainHttp(0.05)
    server.answers += [OK] * 3
    await asyncio.gather(*(client.post(server.url, b"", {}) for _ in range(3)))
    assert server.connections == 3

    with pytest.raises(TimeoutError):
        await ask(client, server, [b""])
    assert await ask(client, server, [OK]) == [HttpAnswer(200, b"ye")]
    assert server.connections == 4
    await client.close()


async def test_the_kernel_gives_up_a_connection_whose_packets_are_lost(server: Server) -> None:
    client = PlainHttp(5.0)
    await ask(client, server, [OK])
    ((line,),) = client._idle.values()
    sock = line._writer.get_extra_info("socket")

    assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
    assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == SILENCE * 1000
    await client.close()


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:1/", "http://127.0.0.1:x/", "http://[::1/", "http://no host.invalid/"]
)
async def test_where_nobody_listens_there_is_no_answer(url: str) -> None:
    with pytest.raises(OSError):
        await PlainHttp(5.0).post(url, b"", {})
