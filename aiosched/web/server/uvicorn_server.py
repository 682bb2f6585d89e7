"""Uvicorn on a bound socket, without signal handlers."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Iterator
from typing import Final

import uvicorn
from fastapi import FastAPI

_CLOSING_SECONDS: Final = 3


class _QuietServer(uvicorn.Server):
    """A server that leaves signals to the process that runs it."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def run(app: FastAPI, sock: socket.socket, stop: asyncio.Event) -> None:
    """Serve `app` on `sock` until `stop` is set."""
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        server_header=False,
        root_path=app.state.request_client.settings.web.prefix,
        lifespan="on",
        timeout_graceful_shutdown=_CLOSING_SECONDS,
    )
    server = _QuietServer(config)
    serving = asyncio.create_task(server.serve(sockets=[sock]), name="web server")
    stopping = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait((serving, stopping), return_when=asyncio.FIRST_COMPLETED)
    finally:
        app.state.hub.close()  # streams never end by themselves
        server.should_exit = True
        stopping.cancel()
        await serving
