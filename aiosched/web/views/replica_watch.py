"""Which requests may be answered from the replica of `database.read_dsn`, as one fact for a whole web server.

The primary and the replica are asked once a second where they are, each on a connection of its own: how far the replica
is behind needs no clocks that agree. While it is away, too far behind or no replica of this database, the primary
is read. Whether a connection has what a request must see is asked when it is used (db/server/replica.py).

Positions of the log are how it is told what a request must see: what has changed something is answered with one, every
patch of the event stream comes with one, and a request that may be answered from the replica brings the last of them.
So it does not matter which web server has told, and which one is asked. Source: decision 0079.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from aiosched.core.fleet.replicas import (
    MOST_BEHIND,
    LogPlace,
    PassedPositions,
    difference,
    needed_position,
    read_position,
    shown_position,
)
from aiosched.db.server.connection import DatabaseConnection
from aiosched.db.server.engine import Database
from aiosched.db.server.failures import explain, is_of_database
from aiosched.db.server.replica import Replica, begun_position, place_of
from aiosched.web.views.database_watch import ANSWER_SECONDS, ASK_SECONDS
from aiosched.web.views.health import HealthPart, Status

logger: logging.Logger = logging.getLogger(__name__)

HEADER: Final = "Aiosched-Position"
TOLD_SECONDS: Final = 3.0  # so far behind a page is not current: it is said there
_NAME: Final = "aiosched web replica watch"
_UNKNOWN: Final = "how far it is behind is not known yet"


@dataclass(frozen=True, slots=True)
class ReplicaState:
    """How far the replica is behind, in seconds (None: not known), and why the primary is read (None: it is not)."""

    where: str
    behind: float | None
    trouble: str | None

    @property
    def is_old(self) -> bool:
        """Whether pages show what is older than somebody expects who looks at them."""
        return self.trouble is None and (self.behind or 0.0) > TOLD_SECONDS

    def health(self) -> HealthPart:
        """Never unhealthy: the primary answers everything that the replica does not."""
        status = Status.HEALTHY if self.trouble in (None, _UNKNOWN) else Status.DEGRADED
        fix = None if status is Status.HEALTHY else "see to the replica, or take database.read_dsn out"
        return HealthPart(status, str(self), fix)

    def __str__(self) -> str:
        if self.trouble is not None:
            return f"the primary is read, not the replica at {self.where}: {self.trouble}"
        return f"pages are read from the replica at {self.where}, at most {self.behind or 0:.1f} s behind"


class ReplicaWatch:
    """See the module docstring. `monotonic` is the clock, in seconds."""

    def __init__(self, db: Database, replica: Replica, monotonic: Callable[[], float] = time.monotonic) -> None:
        self.replica: Replica = replica
        self.answered: int = 0  # requests that the replica has answered
        self.repeated: int = 0  # requests that the primary was asked after it
        self._db, self._monotonic = db, monotonic
        self._passed = PassedPositions()
        self._position = 0  # that the replica had when it was asked last
        self._trouble: str | None = _UNKNOWN
        self._conns: dict[Database, DatabaseConnection] = {}
        self._work: asyncio.Task[None] | None = None
        self._lost = asyncio.Event()  # while there is a trouble
        self.looked: asyncio.Event = asyncio.Event()

    def start(self) -> None:
        """Watch, until `close`; can be called again."""
        if self._work is None:
            self._work = asyncio.create_task(self._watch(), name="replica watch")

    async def close(self) -> None:
        """Stop watching, and leave the replica."""
        if self._work is not None:
            self._work.cancel()
            await asyncio.wait({self._work})
        await self.replica.close()

    async def unless_lost(self, work: asyncio.Future[Any]) -> None:
        """Return when the work is done, or the replica is not read any more: it may hang."""
        lost = asyncio.ensure_future(self._lost.wait())
        try:
            await asyncio.wait({work, lost}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            lost.cancel()

    @property
    def state(self) -> ReplicaState:
        """What is known now."""
        behind = self._passed.behind(self._position, self._monotonic())
        return ReplicaState(self.replica.where, behind, self._trouble)

    def figures(self) -> dict[str, Any]:
        """As `exposition.of_replica` takes them."""
        state = self.state
        return {
            "behind": state.behind,
            "is_read": state.trouble is None,
            "answered": self.answered,
            "repeated": self.repeated,
        }

    def needed(self, known: str | None) -> int | None:
        """The position that a replica must have to answer somebody who knows of a position; None: ask the primary.

        That is so for who names none: he may know of anything.
        """
        seen = None if known is None else read_position(known)
        least = self._passed.least(self._monotonic())
        if self._trouble is not None or seen is None or least is None:
            return None
        return max(seen, least)

    async def position(self) -> str:
        """What a replica must have to show everything that is stored now. Asks the primary."""
        async with self._db.acquire() as conn:
            return shown_position(needed_position(await begun_position(conn)))

    async def position_if_told(self) -> str | None:
        """As `position`; None if the primary does not tell: what was done is done."""
        try:
            return await self.position()
        except Exception as error:
            if not is_of_database(error):
                raise
            return None

    async def _watch(self) -> None:
        try:
            await self.replica.start()
            while True:
                self._note(await self._find_trouble())
                self.looked.set()
                await asyncio.sleep(ASK_SECONDS)
        finally:
            for db in [*self._conns]:
                self._drop(db)

    async def _find_trouble(self) -> str | None:
        at = self._monotonic()
        try:
            primary = await self._ask(self._db)
        except Exception as error:
            return f"the primary does not answer: {self._words(error, self._db)}"
        before = self.replica.primary
        if before is None or difference(before, primary) is not None:
            self._passed.forget()
        self.replica.primary = primary
        self._passed.note(at, primary.position)
        try:
            replica = await self._ask(self.replica)
        except Exception as error:
            self.replica.drop_connections()  # some may hang: who waits for them asks the primary
            return self._words(error, self.replica)
        if (wrong := difference(primary, replica)) is not None:
            return f"{wrong}. Correct database.read_dsn"
        self._position = replica.position
        behind = self._passed.behind(self._position, self._monotonic())
        if behind is not None and behind <= MOST_BEHIND:
            return None
        return _UNKNOWN if self._passed.is_young(at) else f"it is more than {MOST_BEHIND:.0f} s behind"

    async def _ask(self, db: Database) -> LogPlace:
        """Where a server is. An error on an old connection says nothing about a new one."""
        if db in self._conns:
            with contextlib.suppress(Exception):
                return await self._place(db)
            self._drop(db)
        try:
            return await self._place(db)
        except Exception:
            self._drop(db)
            raise

    async def _place(self, db: Database) -> LogPlace:
        async with asyncio.timeout(ANSWER_SECONDS):
            if db not in self._conns:
                connect = db.connect_as_pool if db is self._db else db.connect
                self._conns[db] = await connect(application_name=_NAME)
            return await place_of(self._conns[db])

    def _drop(self, db: Database) -> None:
        if (conn := self._conns.pop(db, None)) is not None:
            conn.terminate()

    def _words(self, error: Exception, db: Database) -> str:
        if isinstance(error, TimeoutError):
            return "it does not answer in time"
        return str(explain(error, db.dsn) or error).rstrip(".")

    def _note(self, trouble: str | None) -> None:
        before, self._trouble = self._trouble, trouble
        if trouble is None:
            self._lost.clear()
        else:
            self._lost.set()
        if trouble in (before, _UNKNOWN):
            return
        level = logging.INFO if trouble is None else logging.WARNING
        logger.log(level, "%s", self.state)
