"""Stores what a parser has found: results in batches, in transactions that wait until the database is there.

Does not live here: the statements (store.py), and what follows after a commit (service.py).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Final, TypeVar

from aiosched.clock import Clock
from aiosched.db.server.connection import DatabaseConnection
from aiosched.db.server.engine import Database
from aiosched.db.server.failures import is_about_content, is_of_database
from aiosched.parsing.module_texts import Read, keep_texts
from aiosched.parsing.owned_files import OwnedFiles
from aiosched.parsing.result import FileError, ParsedFile
from aiosched.parsing.store import StoredFiles, store_results

log: Final = logging.getLogger(__name__)
T = TypeVar("T")

BATCH_FILES: Final = 200
BATCH_BYTES: Final = 16_777_216  # bytes of documents per transaction
RETRY: Final = (0.5, 30.0)  # seconds between attempts to reach the database: first, maximum


class Storage:
    """The database of one parser. New DAGs are `paused`; `executors` are those of its scheduler, None: unknown."""

    def __init__(self, db: Database, clock: Clock, *, paused: bool, executors: Collection[str] | None) -> None:
        self._db, self._clock = db, clock
        self._paused, self._executors = paused, executors

    async def transaction(self, work: Callable[[DatabaseConnection], Awaitable[T]]) -> T:
        """The result of `work`, run in one transaction; retries while the database is unavailable."""
        pause, most = RETRY
        while True:
            try:
                async with self._db.transaction() as conn:
                    return await work(conn)
            except Exception as error:
                if not is_of_database(error):
                    raise
                log.warning("parsing cannot use the database, trying again in %g s: %s", pause, error)
            await asyncio.sleep(pause)
            pause = min(2 * pause, most)

    async def store(self, batch: Sequence[ParsedFile], here: OwnedFiles, texts: Read) -> StoredFiles:
        """Store results, and the `texts` of the modules that they name. One that cannot be stored becomes an error."""
        await keep_texts(self.transaction, batch, texts)
        return await self._store(batch, here)

    async def _store(self, batch: Sequence[ParsedFile], here: OwnedFiles) -> StoredFiles:
        async def work(conn: DatabaseConnection) -> StoredFiles:
            return await store_results(
                conn,
                batch,
                now=self._clock.now(),
                paused_at_creation=self._paused,
                present=here.present,
                absent_since=here.absent_since,
                executors=self._executors,
            )

        try:
            return await self.transaction(work)
        except Exception as error:
            if not is_about_content(error):
                raise
            if len(batch) == 1:  # it can never be stored: an error of this file
                if batch[0].error is not None and batch[0].error.type == "Unstorable":
                    raise
                return await self._store([_unstorable(batch[0], error)], here)
        parts = [await self._store([result], here) for result in batch]
        return StoredFiles(
            frozenset().union(*(p.changed for p in parts)),
            frozenset().union(*(p.withdrawn for p in parts)),
            {name: conflicts for part in parts for name, conflicts in part.conflicts.items()},
            frozenset().union(*(p.warned for p in parts)),
        )


class ResultQueue:
    """Results that are not stored yet, the oldest first."""

    def __init__(self) -> None:
        self._results: list[ParsedFile] = []
        self._arrived = asyncio.Event()
        self._in_work = False

    def __bool__(self) -> bool:
        """Whether there are results, or those that were taken last are still being stored."""
        return bool(self._results) or self._in_work

    def add(self, results: Collection[ParsedFile]) -> None:
        self._results += results
        if results:
            self._arrived.set()

    async def wait(self) -> None:
        """Return when there are results; those that were taken last are stored."""
        self._in_work = False
        self._arrived.clear()
        if not self._results:
            await self._arrived.wait()

    def take(self, *, still: Callable[[str], bool]) -> list[ParsedFile]:
        """The oldest results, for each file that is `still` here the latest one."""
        newest: dict[str, ParsedFile] = {}
        size = taken = 0
        for result in self._results:
            size += sum(len(d.document) for d in result.dags)
            if newest and (len(newest) == BATCH_FILES or size > BATCH_BYTES):
                break
            newest[result.name] = result
            taken += 1
        del self._results[:taken]
        batch = [result for name, result in newest.items() if still(name)]
        self._in_work = bool(batch)
        return batch


def _unstorable(result: ParsedFile, error: Exception) -> ParsedFile:
    return ParsedFile(
        name=result.name,
        digest=result.digest,
        seconds=result.seconds,
        error=FileError(type="Unstorable", message=f"PostgreSQL cannot store the DAGs of this file: {error}"),
        sources=result.sources,
    )
