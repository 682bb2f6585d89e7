"""Uvicorn on a bound socket, without signal handlers."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

import uvicorn
from fastapi import FastAPI
from starlette.types import ASGIApp, Receive, Scope, Send

from aiosched.web.server.slow_requests import BoundedProtocol, RequestLimits

_CLOSING_SECONDS: Final = 3
_LIMITS: Final = RequestLimits()


class _QuietServer(uvicorn.Server):
    """A server that leaves signals, and its end, to the process that runs it."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        try:
            await super().startup(sockets)
        except SystemExit:  # newer versions of Uvicorn end the process; older ones return, as we do
            if not self.lifespan.should_exit:
                raise
            self.should_exit = True

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def run(app: FastAPI, sock: socket.socket, stop: asyncio.Event) -> None:
    """Serve `app` on `sock` until `stop` is set."""
    web = app.state.request_client.settings.web
    closing = app.state.hub.close  # streams never end by themselves
    await serve(app, sock, stop, prefix=web.prefix, trusted_proxies=web.trusted_proxies, closing=closing)


async def serve(
    app: ASGIApp,
    sock: socket.socket,
    stop: asyncio.Event,
    *,
    prefix: str = "",
    trusted_proxies: str = "",
    closing: Callable[[], None] = lambda: None,
    limits: RequestLimits = _LIMITS,
) -> None:
    """Serve any application. `prefix` is stripped by a proxy; `closing` is called before the server ends.

    `trusted_proxies`: whose X-Forwarded headers are believed, as in the setting. Raises what its lifespan raises, which
    Uvicorn only logs.
    """
    trusted = trusted_proxies or os.environ.get("FORWARDED_ALLOW_IPS", "")
    failures: list[Exception] = []

    async def watched(scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await app(scope, receive, send)
        except Exception as error:
            if scope["type"] == "lifespan":
                failures.append(error)
            raise

    config = uvicorn.Config(
        watched,
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=bool(trusted),
        forwarded_allow_ips=trusted,
        http=partial(BoundedProtocol, limits=limits),  # type: ignore[arg-type]  # it makes protocols, as a class does
        ws="none",
        root_path=prefix,
        lifespan="on",
        timeout_graceful_shutdown=_CLOSING_SECONDS,
    )
    server = _QuietServer(config)
    serving = asyncio.create_task(server.serve(sockets=[sock]), name="web server")
    stopping = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait((serving, stopping), return_when=asyncio.FIRST_COMPLETED)
    finally:
        closing()
        server.should_exit = True
        stopping.cancel()
        await serving
    if failures:
        raise failures[0]
