"""Keeps the embedded server running while this process uses it, by restarting it when it ends.

Every long-running process (a scheduler, a web server, a parser) watches the server that it started or joined. When the
server ends, each of them restarts it or joins the server that another process restarted: starts are mutually exclusive
(embedded.py), the address does not change, and clients see a database restart.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from typing import Final

from aiosched.db.server.embedded import EmbeddedPostgres, ServerState
from aiosched.errors import DatabaseError

logger: logging.Logger = logging.getLogger(__name__)

POLL_SECONDS: Final = 1.0
_LONGEST_PAUSE: Final = 60.0  # seconds
_SETTLED: Final = 60.0  # seconds; a server that ran for longer is restarted at once


def pause_before(again: int) -> float:
    """Seconds before the `again`-th consecutive restart of the server, counted from 0."""
    return 0.0 if again == 0 else min(2.0 ** (min(again, 10) - 1), _LONGEST_PAUSE)


@contextlib.asynccontextmanager
async def kept_running(server: EmbeddedPostgres | None) -> AsyncIterator[None]:
    """Restart `server` whenever it ends during the block, and log why it ended. None: there is no embedded server.

    Raises DatabaseError when its folder was renamed or removed: nothing can be stored any more, so the block is
    cancelled, and errors raised in it are consequences. The server is stopped, because no process would find it any
    more.
    """
    if server is None:
        yield
        return
    try:
        async with asyncio.TaskGroup() as group:
            keeping = group.create_task(_keep_running(server), name="embedded database")
            yield
            keeping.cancel()
    except Exception as error:
        if await asyncio.to_thread(server.check) is ServerState.FOLDER_GONE:
            await server.stop()
            raise DatabaseError(
                f"The folder {server.data_dir} of the embedded database was renamed or removed while it was in use; "
                "its PostgreSQL has been stopped. Restore the folder, or pass its new path with --home, "
                "then start again."
            ) from error
        raise


async def _keep_running(server: EmbeddedPostgres) -> None:
    loop = asyncio.get_running_loop()
    again, started = 0, loop.time()
    due: float | None = None  # when to restart the ended server
    while True:
        await asyncio.sleep(POLL_SECONDS)
        standing = await asyncio.to_thread(server.check)
        if standing is ServerState.FOLDER_GONE:
            raise DatabaseError(f"The folder {server.data_dir} is gone.")
        if standing is ServerState.RUNS:
            due = None
            continue
        if due is None:
            again = 0 if loop.time() - started > _SETTLED else again
            pause, again = pause_before(again), again + 1
            due = loop.time() + pause
            await _log_end(server, pause)
        if loop.time() >= due:
            await _start(server)
            due, started = None, loop.time()


async def _log_end(server: EmbeddedPostgres, pause: float) -> None:
    last = await asyncio.to_thread(server.last_lines)
    when = f"in {pause:g} s" if pause else "now"
    logger.error(
        "the embedded PostgreSQL on %s has ended and is restarted %s. Its log ends with: %s",
        server.data_dir, when, last,
    )  # fmt: skip


async def _start(server: EmbeddedPostgres) -> None:
    """Start it. A cancelled start is finished first: a thread does it, and the stop must come after it."""
    starting = asyncio.ensure_future(server.start())
    try:
        await asyncio.shield(starting)
    except asyncio.CancelledError:
        await asyncio.wait({starting})
        raise
    except DatabaseError as error:
        logger.error("%s", error)
    else:
        logger.warning("the embedded PostgreSQL on %s is running again", server.data_dir)
