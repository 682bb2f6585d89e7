"""Uvicorn on a bound socket, without signal handlers."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable, Iterator
from typing import Final

import uvicorn
from fastapi import FastAPI
from starlette.types import ASGIApp

_CLOSING_SECONDS: Final = 3


class _QuietServer(uvicorn.Server):
    """A server that leaves signals to the process that runs it."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def run(app: FastAPI, sock: socket.socket, stop: asyncio.Event) -> None:
    """Serve `app` on `sock` until `stop` is set."""
    prefix = app.state.request_client.settings.web.prefix
    await serve(app, sock, stop, prefix=prefix, closing=app.state.hub.close)  # streams never end by themselves


async def serve(
    app: ASGIApp,
    sock: socket.socket,
    stop: asyncio.Event,
    *,
    prefix: str = "",
    closing: Callable[[], None] = lambda: None,
) -> None:
    """Serve any application. `prefix` is stripped by a proxy; `closing` is called before the server ends."""
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        server_header=False,
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
