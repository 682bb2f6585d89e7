"""The web server of `serve`: a port that is free, and uvicorn on it without touching the process's signals."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import ipaddress
import socket
from collections.abc import Iterator
from typing import Final

import uvicorn
from fastapi import FastAPI

from aiosched.errors import ConfigError

_PORTS_TRIED: Final = 50
_CLOSING_SECONDS: Final = 3


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches `host`. A name counts when it is `localhost`."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def bind(host: str, port: int) -> socket.socket:
    """A listening socket on `port` or the next free one behind it; port 0: any.

    Raises ConfigError for an address that is not this machine's, and when no port is free.
    """
    try:
        family, _, _, _, address = socket.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM)[0]
    except OSError as error:
        raise ConfigError(f"web.host = {host!r} is no address of this machine: {error.strerror or error}.") from None
    tried = range(port, min(port + _PORTS_TRIED, 65536)) if port else (0,)
    for candidate in tried:
        sock = socket.socket(family, socket.SOCK_STREAM)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind((address[0], candidate, *address[2:]))
            sock.listen(1024)
        except OSError as error:
            sock.close()
            if error.errno in (errno.EADDRINUSE, errno.EACCES):
                continue
            raise ConfigError(f"web.host = {host!r} cannot be listened on: {error.strerror}.") from None
        sock.setblocking(False)
        return sock
    raise ConfigError(f"No port from {tried[0]} to {tried[-1]} can be had on {host}. Choose another with --port.")


def url_of(sock: socket.socket, host: str) -> str:
    """The address to type into a browser."""
    shown = f"[{host.strip('[]')}]" if ":" in host else host
    return f"http://{shown}:{sock.getsockname()[1]}"


class _QuietServer(uvicorn.Server):
    """A server that leaves signals to whoever runs the process."""

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
        lifespan="on",
        timeout_graceful_shutdown=_CLOSING_SECONDS,
    )
    server = _QuietServer(config)
    serving = asyncio.create_task(server.serve(sockets=[sock]), name="web server")
    stopping = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait((serving, stopping), return_when=asyncio.FIRST_COMPLETED)
    finally:
        app.state.hub.close()  # its streams never end by themselves
        server.should_exit = True
        stopping.cancel()
        await serving
