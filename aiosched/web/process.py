"""The web server in a process of its own, so that browsers never slow a scheduler down.

The parent binds the port and passes the socket on; it sends the settings as JSON on the child's standard input and
keeps that open. The child ends when it closes, so it never outlives its parent, and it never imports DAG files. It is
restarted if it dies; requests wait in the socket meanwhile, so no client has to wait until it is ready.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import logging
import socket
import sys
from typing import Any, Final

from aiosched.config import Settings
from aiosched.logs import claim_streams, configure_logging
from aiosched.timeouts import clean_up_timeout

logger: logging.Logger = logging.getLogger(__name__)

_ENDING_SECONDS: Final = 5.0
_AGAIN_SECONDS: Final = 1.0


class WebProcess:
    """The parent's side."""

    def __init__(self, settings: Settings, dsn: str, sock: socket.socket) -> None:
        self._order = {"settings": settings.model_dump(mode="json"), "dsn": dsn, "socket": sock.fileno()}
        self._sock = sock
        self._child: asyncio.subprocess.Process | None = None
        self._keeping: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start the child and keep it alive until `stop`."""
        await self._spawn()
        self._keeping = asyncio.create_task(self._keep(), name="web process")

    async def stop(self) -> None:
        """End the child: it closes its streams and finishes the requests in progress."""
        if self._keeping is not None:
            self._keeping.cancel()
        child, self._child = self._child, None
        if child is not None and child.returncode is None:
            if child.stdin is not None:
                child.stdin.close()
            try:
                async with clean_up_timeout(_ENDING_SECONDS):
                    await child.wait()
            except TimeoutError:
                with contextlib.suppress(ProcessLookupError):
                    child.kill()
                await child.wait()
        self._sock.close()

    async def _keep(self) -> None:
        while self._child is not None:
            code = await self._child.wait()
            logger.warning("the web server ended (exit code %s); restarting it", code)
            await asyncio.sleep(_AGAIN_SECONDS)
            await self._spawn()

    async def _spawn(self) -> None:
        child = self._child = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "aiosched.web.process",
            stdin=asyncio.subprocess.PIPE,
            pass_fds=(self._sock.fileno(),),
            start_new_session=True,  # Ctrl-C in the terminal is for the parent
        )
        assert child.stdin is not None
        child.stdin.write(json.dumps(self._order).encode() + b"\n")


async def _serve(order: dict[str, Any], ended: asyncio.Event) -> None:
    gc.disable()  # what is imported and built here stays: looking for garbage in it takes a sixth of the start
    from aiosched.db.server.engine import Database
    from aiosched.web.app import make_app
    from aiosched.web.requests.request_client import RequestClient
    from aiosched.web.server import uvicorn_server as server

    settings = Settings.model_validate(order["settings"])
    configure_logging(settings.logs)
    claim_streams()
    sock = socket.socket(fileno=order["socket"])
    async with await Database.open(
        order["dsn"], settings=settings.database, application_name="aiosched web", at_once=False
    ) as db:
        app = make_app(RequestClient(db, settings), listens=True)
        gc.freeze()
        gc.enable()
        await server.run(app, sock, ended)


async def _main() -> None:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=2**20)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    order = json.loads(await reader.readline())
    ended = asyncio.Event()

    async def watch_parent() -> None:
        await reader.read()
        ended.set()

    watching = asyncio.create_task(watch_parent())
    try:
        await _serve(order, ended)
    finally:
        watching.cancel()


def main() -> None:
    """The child: `python -m aiosched.web.process`, started by `WebProcess` only."""
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_main())


if __name__ == "__main__":
    main()
