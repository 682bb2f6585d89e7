"""Processor time of one HTTP request, as a worker asks it: of each parser on the server, of each client beside it.

Server and client are threads of one process, each with its event loop, and each reads the time of its own thread. The
candidates alternate.
"""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Awaitable, Callable
from functools import partial
from statistics import median
from typing import Any, Final

import httpx2
import uvicorn
import uvloop
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from aiosched.executors.engines.plain_http import PlainHttp
from aiosched.web.server.slow_requests import BoundedProtocol, RequestLimits
from benchmarks import measure
from benchmarks.figures import Figure, Finding

ROUNDS: Final = 3
_BODY: Final = b"x" * 400
_HEADERS: Final = {"Authorization": "Bearer " + "t" * 100, "Content-Type": "application/json"}
_ANSWER: Final = [(b"content-type", b"application/json"), (b"content-length", b"200")]
_SERVERS: Final[dict[str, Any]] = {
    "server: h11 (uvicorn's default)": H11Protocol,
    "server: httptools, with our limits": partial(BoundedProtocol, limits=RequestLimits()),
}

Post = Callable[[str], Awaitable[object]]


async def http_requests(size: int, _: float) -> Finding:
    """`size` requests with each server and each client, one after the other."""
    found: dict[str, list[float]] = {}
    for _round in range(ROUNDS):
        for name, protocol in _SERVERS.items():
            with _Server(protocol) as server:
                found.setdefault("client: httpx2", []).append(await _asked_by_httpx2(server.url, size))
                own = PlainHttp(30.0)
                found.setdefault("client: our own, httptools", []).append(
                    await _timed(partial(own.post, body=_BODY, headers=_HEADERS), server.url, size)
                )
                await own.close()
            found.setdefault(name, []).append(server.seconds / (2 * size))
    figures = [Figure(name, median(times) * 1e6, "us a request") for name, times in found.items()]
    about = f"{size:,} requests of 400 bytes with each, {ROUNDS} rounds"
    return Finding("http-requests", about, measure.machine(), figures)


async def _asked_by_httpx2(url: str, size: int) -> float:
    async with httpx2.AsyncClient(trust_env=False) as client:
        return await _timed(partial(client.post, content=_BODY, headers=_HEADERS), url, size)


async def _timed(post: Post, url: str, size: int) -> float:
    """Seconds of this thread for each of so many requests; the first one, which connects, not counted."""
    await post(url)
    before = time.thread_time()
    for _ in range(size):
        await post(url)
    return (time.thread_time() - before) / size


class _Server:
    """uvicorn with one of its protocols, in a thread; `seconds` of it once it has ended."""

    def __init__(self, protocol: Any) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}/worker/v1/reports"
        self.seconds = 0.0
        config = uvicorn.Config(_app, log_config=None, access_log=False, http=protocol, ws="none", lifespan="off")
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            before = time.thread_time()
            runner.run(self._server.serve(sockets=[self._socket]))
            self.seconds = time.thread_time() - before

    def __enter__(self) -> _Server:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.should_exit = True
        self._thread.join()


async def _app(scope: Scope, receive: Receive, send: Send) -> None:
    while (await receive()).get("more_body"):
        pass
    await send({"type": "http.response.start", "status": 200, "headers": _ANSWER})
    await send({"type": "http.response.body", "body": b"y" * 200})
