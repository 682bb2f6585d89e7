"""Whether the database answers, as one fact for a whole web server.

While somebody wants to know, it is asked once a second, on a connection of its own. A second attempt on a new
connection decides, since a connection can also be lost alone. A database that hangs counts as one that is away: a
suspended server, a full disk or a broken network keep a query for ever.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, TypeVar

from aiosched.clock import Clock, SystemClock
from aiosched.db.server.connection import DatabaseConnection
from aiosched.db.server.engine import Database
from aiosched.db.server.failures import explain
from aiosched.errors import DatabaseUnreachable
from aiosched.web.views import health

logger = logging.getLogger(__name__)

T = TypeVar("T")

ASK_SECONDS: Final = 1.0
ANSWER_SECONDS: Final = 1.5  # of one attempt
ATTEMPTS: Final = 2
PATIENCE: Final = 1.0  # seconds that work may take before the database is asked


@dataclass(frozen=True, slots=True)
class Outage:
    """The database does not answer. `detail` says what is wrong and what to do."""

    since: datetime
    detail: str


class DatabaseWatch:
    """See the module docstring. `on_change` is called after `outage` has changed."""

    def __init__(self, db: Database, clock: Clock | None = None) -> None:
        self.outage: Outage | None = None
        self.on_change: list[Callable[[], None]] = []
        self._db, self._clock = db, clock or SystemClock()
        self._lost, self._answers = asyncio.Event(), asyncio.Event()
        self._answers.set()
        self._wanted = 0
        self._work: asyncio.Task[None] | None = None
        self._conn: DatabaseConnection | None = None
        self._closed = asyncio.Event()  # the connection, by the server
        self._left: set[asyncio.Task[Any]] = set()

    @contextlib.contextmanager
    def wanted(self) -> Iterator[None]:
        """Keep `outage` up to date during the block."""
        self._wanted += 1
        if self._work is None:
            self._work = asyncio.create_task(self._watch(), name="database watch")
        try:
            yield
        finally:
            self._wanted -= 1

    async def unless_lost(self, work: asyncio.Task[T]) -> T:
        """The result of `work`. Raises DatabaseUnreachable if the database is away before the work is done."""
        try:
            is_lost = await self.is_lost_before(work)
        except asyncio.CancelledError:
            work.cancel()
            raise
        if is_lost:
            self.leave(work)
            raise DatabaseUnreachable(self.detail)
        return await work

    async def is_lost_before(self, work: asyncio.Task[Any]) -> bool:
        """Whether the database is away before `work` is done. Asks it only if the work takes long."""
        if self.outage is None:
            await asyncio.wait({work}, timeout=PATIENCE)
        if work.done():
            return False
        with self.wanted():
            lost = asyncio.create_task(self._lost.wait())
            try:
                await asyncio.wait({work, lost}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                lost.cancel()
        return not work.done()

    def leave(self, work: asyncio.Task[Any]) -> None:
        """Cancel work that nobody waits for any more: it may be stuck until the database is back."""

        def forget(done: asyncio.Task[Any]) -> None:
            self._left.discard(done)
            if not done.cancelled():
                done.exception()

        work.cancel()
        self._left.add(work)
        work.add_done_callback(forget)

    @property
    def detail(self) -> str:
        """What is wrong, for those who are refused."""
        return "The database does not answer." if self.outage is None else self.outage.detail

    async def until_it_answers(self) -> None:
        """Wait for the end of an outage."""
        with self.wanted():
            await self._answers.wait()

    def close(self) -> None:
        """Stop watching."""
        if self._work is not None:
            self._work.cancel()

    async def _watch(self) -> None:
        try:
            while self._wanted or self.outage is not None:
                self._note(await self._failure())
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(ASK_SECONDS):
                        await self._closed.wait()
        finally:
            self._work = None
            self._drop()

    def _note(self, failure: BaseException | None) -> None:
        if (failure is None) is (self.outage is None):
            return
        if failure is None:
            logger.warning("the database answers again")
            self.outage = None
            self._lost.clear()
            self._answers.set()
        else:
            detail = str(explain(failure, self._db.dsn) or failure)
            logger.error("the database does not answer: %s", detail)
            self.outage = Outage(self._clock.now(), detail)
            self._answers.clear()
            self._lost.set()
        for tell in self.on_change:
            tell()

    async def _failure(self) -> BaseException | None:
        """What is wrong with the database; None if it answers."""
        failure: BaseException | None = None
        for _ in range(ATTEMPTS):
            try:
                async with asyncio.timeout(ANSWER_SECONDS):
                    await self._ask()
            except health.DATABASE_FAILURES as error:
                failure = error
                self._drop()
            else:
                return None
        return failure

    async def _ask(self) -> None:
        if self._conn is None:
            conn = await self._db.connect_as_pool(application_name="aiosched web watch")
            closed = self._closed = asyncio.Event()
            conn.add_termination_listener(lambda *_: closed.set())
            self._conn = conn
        await self._conn.execute("SELECT 1")

    def _drop(self) -> None:
        conn, self._conn = self._conn, None
        if conn is not None:
            conn.terminate()
        self._closed = asyncio.Event()


async def examine(db: Database, watch: DatabaseWatch) -> health.Health:
    """The health of each part, within a few seconds also if the database hangs."""
    try:
        return await watch.unless_lost(asyncio.create_task(health.examine(db)))
    except DatabaseUnreachable as error:
        return health.without_database(error)
