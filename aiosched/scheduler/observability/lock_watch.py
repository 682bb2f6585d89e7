"""Says in the log which session holds the lock that commits of this scheduler wait for.

The hot path only shows its present transaction. If two looks in a row find the same one, a connection of its own asks
the server who holds a lock: those of the pool may all be waiting.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection
from typing import Final

from aiosched.db.queries.lock_holders import LockHolder, list_lock_holders
from aiosched.db.server.engine import Database
from aiosched.db.server.failures import is_retryable
from aiosched.scheduler.journal.journal import Journal, Transaction

logger: logging.Logger = logging.getLogger(__name__)

_EVERY: Final = 10.0  # seconds between two looks
WAITED: Final = 10.0  # for how long a wait must have lasted


class LockWatch:
    """See the module docstring. `journals`: those of the scheduler now."""

    def __init__(self, journals: Callable[[], Collection[Journal]]) -> None:
        self._journals = journals
        self._seen: set[Transaction] = set()  # at the last look
        self._named: set[int] = set()  # the sessions that were named since commits wait

    async def keep(self, db: Callable[[], Database]) -> None:
        """Look now and then, until cancelled."""
        while True:
            await asyncio.sleep(_EVERY)
            await self.look(db())

    async def look(self, db: Database) -> None:
        """Log who keeps a commit waiting that was there at the last look, each once; and when none waits any more."""
        present = {journal.present for journal in self._journals() if journal.present is not None}
        lasting, self._seen = present & self._seen, present
        if lasting:
            for holder in await _holders(db):
                if holder.pid not in self._named:
                    self._named.add(holder.pid)
                    logger.warning("%s: %s", holder, holder.release)
        elif self._named:
            self._named.clear()
            logger.info("commits do not wait for locks any more")


async def _holders(db: Database) -> list[LockHolder]:
    """Who holds locks; nobody if the database is away, which others tell."""
    try:
        conn = await db.connect(application_name="aiosched lock watch")
        try:
            return await list_lock_holders(conn, seconds=WAITED)
        finally:
            await conn.close()
    except Exception as error:  # whatever it is: this never ends a scheduler
        if not is_retryable(error):
            logger.exception("the sessions that hold locks cannot be read")
        return []
