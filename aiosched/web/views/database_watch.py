"""Whether the database answers and is ready for use, as one fact for a whole web server.

While somebody wants to know, it is asked once a second, on a connection of its own. A second attempt on a new
connection decides, since a connection can also be lost alone. A database that hangs counts as one that is away: a
suspended server, a full disk or a broken network keep a query for ever.

A server that starts serves at once, and has its database prepared as soon as that is possible: it is migrated, if that
was asked for, its schema is checked, the first user is made. Until then an outage says what is in the way.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, TypeVar

from aiosched.clock import Clock, SystemClock
from aiosched.db.server.connection import DatabaseConnection
from aiosched.db.server.engine import Database
from aiosched.db.server.failures import explain
from aiosched.errors import DatabaseUnreachable
from aiosched.web.views import health

logger: logging.Logger = logging.getLogger(__name__)

T = TypeVar("T")

_IS_PREPARED: Final = (
    "PostgreSQL at {} answers, and is being prepared: its schema is migrated, or another session holds a lock. "
    "`aiosched doctor` names that session."
)

ASK_SECONDS: Final = 1.0
ANSWER_SECONDS: Final = 1.5  # of one attempt
ATTEMPTS: Final = 2
PATIENCE: Final = 1.0  # seconds that work may take before the database is asked
PROBE_SECONDS: Final = 1.3  # of a probe's question, whatever happens: who sends it waits for 2 s
_START_SECONDS: Final = 0.5  # that a server waits for its database before it serves without
_PREPARING_SECONDS: Final = 5.0  # after which those who wait for the preparation are refused

Preparation = Callable[[], Coroutine[Any, Any, object]]


@dataclass(frozen=True, slots=True)
class Outage:
    """The database cannot be used. `detail` says what is wrong and what to do."""

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
        self._preparation: Preparation | None = None
        self._told = asyncio.Event()  # whether the database can be used is known
        self._told.set()
        self.prepared: asyncio.Event = asyncio.Event()
        self.prepared.set()
        self._wanted = 0
        self._work: asyncio.Task[None] | None = None
        self._conn: DatabaseConnection | None = None
        self._closed = asyncio.Event()  # the connection, by the server
        self._left: set[asyncio.Task[Any]] = set()

    @contextlib.contextmanager
    def wanted(self) -> Iterator[None]:
        """Keep `outage` up to date during the block."""
        self._wanted += 1
        self._keep_watching()
        try:
            yield
        finally:
            self._wanted -= 1

    def _keep_watching(self) -> None:
        if self._work is None:
            self._work = asyncio.create_task(self._watch(), name="database watch")

    async def prepare(self, preparation: Preparation) -> None:
        """Have the database prepared, now or as soon as it can be; `prepared` is set then, and until then `outage`.

        Returns within a second. An error of `preparation` is an outage, too, and it is tried again.
        """
        self._preparation = preparation
        self._told.clear()
        self.prepared.clear()
        self._keep_watching()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_START_SECONDS):
                await self._told.wait()

    async def told(self) -> None:
        """Wait until `outage` is known, which takes a moment only while a server starts."""
        await self._told.wait()

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
            while self._wanted or self.outage is not None or self._preparation is not None:
                self._note(await self._failure() or await self._prepare())
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(ASK_SECONDS):
                        await self._closed.wait()
        finally:
            self._work = None
            self._drop()

    def _note(self, failure: BaseException | None) -> None:
        before = self.outage
        detail = None if failure is None else str(explain(failure, self._db.dsn) or failure)
        if detail is None:
            if before is not None:
                logger.warning("the database answers again")
            self.outage = None
            self._lost.clear()
            self._answers.set()
        elif before is None or before.detail != detail:
            trace = None if isinstance(failure, health.DATABASE_FAILURES) else failure
            logger.error("the database cannot be used: %s", detail, exc_info=trace)
            self.outage = Outage(self._clock.now() if before is None else before.since, detail)
            self._answers.clear()
            self._lost.set()
        self._told.set()
        if self.outage is not before:
            for tell in self.on_change:
                tell()

    async def _prepare(self) -> BaseException | None:
        """Why the database, which answers, is not ready for use; None if it is. May take long, as a migration does."""
        if self._preparation is None:
            return None
        work, began = asyncio.create_task(self._preparation()), asyncio.get_running_loop().time()
        while not work.done():
            await asyncio.wait({work}, timeout=ASK_SECONDS)
            if work.done():
                break
            if failure := await self._failure():
                self.leave(work)
                return failure
            if asyncio.get_running_loop().time() - began > _PREPARING_SECONDS:
                self._note(DatabaseUnreachable(_IS_PREPARED.format(self._db.where)))
        if (failure := work.exception()) is None:
            self._preparation = None
            self.prepared.set()
        return failure

    async def _failure(self) -> BaseException | None:
        """What is wrong with the database; None if it answers."""
        failure: BaseException | None = None
        for _ in range(ATTEMPTS):
            try:
                async with asyncio.timeout(ANSWER_SECONDS):
                    await self._ask()
            except Exception as error:  # whatever it is: without this watch nobody would notice that it is over
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
    """The health of each part, within `PROBE_SECONDS` also if the database hangs."""
    work = asyncio.create_task(health.examine(db))
    try:
        async with asyncio.timeout(PROBE_SECONDS):
            return await watch.unless_lost(work)
    except TimeoutError:
        watch.leave(work)
        return health.without_database(DatabaseUnreachable(f"PostgreSQL at {db.where} has not answered in time."))
    except DatabaseUnreachable as error:
        return health.without_database(error)
