"""Keeps the embedded server running for as long as its process uses it: it is started again when it ends.

Every long-running process (a scheduler, a web server, a parser) watches the server that it has started or joined.
When the server ends, each of them starts it again or joins the one that another has started: starts exclude each other
(embedded.py), the address stays the same, and all that use it see a restart of the database.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from typing import Final

from aiosched.db.server.embedded import EmbeddedPostgres, ServerStanding
from aiosched.errors import DatabaseError

logger = logging.getLogger(__name__)

_POLL_SECONDS: Final = 1.0
_LONGEST_PAUSE: Final = 60.0  # seconds
_SETTLED: Final = 60.0  # a server that has run for so many seconds is started again at once


def pause_before(again: int) -> float:
    """Seconds before the server is started for the `again`-th time in a row, 0 being the first."""
    return 0.0 if again == 0 else min(2.0 ** (min(again, 10) - 1), _LONGEST_PAUSE)


@contextlib.asynccontextmanager
async def kept_running(server: EmbeddedPostgres | None) -> AsyncIterator[None]:
    """Start `server` again whenever it ends, for as long as the block; the log says why it ended. None: there is none.

    Raises DatabaseError when its folder was renamed or removed: nothing can be stored any more, so the block is
    cancelled, and whatever went wrong in it came of that. The server is stopped, because nobody would find it.
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
        if await asyncio.to_thread(server.check) is ServerStanding.FOLDER_GONE:
            await server.stop()
            raise DatabaseError(
                f"The folder {server.data_dir} of the embedded database was renamed or removed while it was in use; "
                "its PostgreSQL has been stopped. Bring the folder back, or name its new place with --home, "
                "then start again."
            ) from error
        raise


async def _keep_running(server: EmbeddedPostgres) -> None:
    loop = asyncio.get_running_loop()
    again, started = 0, loop.time()
    due: float | None = None  # when an ended server is started
    while True:
        await asyncio.sleep(_POLL_SECONDS)
        standing = await asyncio.to_thread(server.check)
        if standing is ServerStanding.FOLDER_GONE:
            raise DatabaseError(f"The folder {server.data_dir} is gone.")
        if standing is ServerStanding.RUNS:
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
        "the embedded PostgreSQL on %s has ended; it is started again %s. Its log ends with: %s",
        server.data_dir, when, last,
    )  # fmt: skip


async def _start(server: EmbeddedPostgres) -> None:
    try:
        await server.start()
    except DatabaseError as error:
        logger.error("%s", error)
    else:
        logger.warning("the embedded PostgreSQL on %s runs again", server.data_dir)
