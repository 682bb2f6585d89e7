"""The ordered group commit: the one writer of the hot path.

Everything that was decided since the last commit goes into one transaction, then the next
one starts. No timer: a quiet system commits at once, a busy one in batches of hundreds.
The order is always commit, then act. Lives here: the connection, the fence, and how an
unknown commit outcome is settled. Does not live here: what to store (holdings.py), who
gets a slot (enqueueing.py), the statements (db/journal.py).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, field

from aiosched.db import journal as statements
from aiosched.db.engine import Connection, Database
from aiosched.db.inbox import answer_commands
from aiosched.db.journal import PoolRow
from aiosched.scheduler.holdings import Batch
from aiosched.scheduler.metrics import Metrics

_SETTLE_PAUSE = 0.05  # seconds between two questions about a commit that is still under way


@dataclass(slots=True)
class Transaction:
    """One open transaction of this scheduler, behind the fence."""

    conn: Connection
    incarnation: int
    pools: dict[str, PoolRow] = field(default_factory=dict)
    missing_pools: set[str] = field(default_factory=set)
    xid: str | None = None

    async def lock_pools(self, names: Iterable[str]) -> None:
        """Lock those of `names` that are not locked yet; ones that do not exist are remembered as missing."""
        wanted = set(names) - self.pools.keys() - self.missing_pools
        if wanted:
            found = await statements.lock_pools(self.conn, wanted)
            self.pools.update(found)
            self.missing_pools |= wanted - found.keys()

    def covers(self, names: Iterable[str]) -> bool:
        """Whether all of `names` are locked (or do not exist)."""
        return all(name in self.pools or name in self.missing_pools for name in names)

    async def write(self, batch: Batch) -> None:
        """Store a batch. Raises StaleRows, which voids the transaction, when a row is not as expected."""
        written = await statements.write(self.conn, batch.instances, batch.pool_deltas)
        self.xid = written.xid
        if batch.runs:
            await statements.write_runs(self.conn, batch.runs)
        if batch.tries:
            await statements.insert_tries(self.conn, batch.tries)
        if batch.forget_xcoms:
            await statements.delete_xcoms(self.conn, batch.forget_xcoms)
        if batch.xcoms:
            await statements.upsert_xcoms(self.conn, batch.xcoms)
        if batch.answers:
            await answer_commands(self.conn, batch.answers, incarnation=self.incarnation)


class Journal:
    """Transactions of one scheduler incarnation, one at a time, on a connection of its own."""

    def __init__(self, db: Database, incarnation: int, metrics: Metrics) -> None:
        self._db = db
        self._incarnation = incarnation
        self._metrics = metrics
        self._conn: Connection | None = None
        self._lock = asyncio.Lock()
        self.unsettled: str | None = None  # a transaction whose COMMIT was sent and not answered

    @contextlib.asynccontextmanager
    async def transaction(self) -> AsyncIterator[Transaction]:
        """A fenced transaction: committed at the end of the block, void if the block raises.

        After any failure the connection is closed, so the next transaction opens a new one.
        Raises FencedOut when this scheduler was taken over.
        """
        async with self._lock:
            conn = await self._connection()
            try:
                await statements.begin(conn, self._incarnation)
                transaction = Transaction(conn, self._incarnation)
                yield transaction
                self.unsettled = transaction.xid
                with self._metrics.journal_commit.time():
                    await conn.execute("COMMIT")
                self.unsettled = None
            except BaseException:
                self._conn = None
                conn.terminate()
                raise

    async def settle(self) -> None:
        """Wait until a transaction with an unknown outcome is over, one way or the other.

        What it became is read from the rows afterwards. Source: the design, section 6.
        """
        if self.unsettled is None:
            return
        conn = await self._connection()
        status: str | None = "in progress"
        while status == "in progress":
            status = await statements.transaction_status(conn, self.unsettled)
            await asyncio.sleep(0 if status != "in progress" else _SETTLE_PAUSE)
        self.unsettled = None

    async def close(self) -> None:
        """Close the connection."""
        conn, self._conn = self._conn, None
        if conn is not None:
            with contextlib.suppress(OSError):
                await conn.close(timeout=1.0)

    async def _connection(self) -> Connection:
        if self._conn is None or self._conn.is_closed():
            conn = await self._db.connect(application_name="aiosched journal")
            try:
                await conn.execute(statements.PLANNER)
            except BaseException:
                conn.terminate()
                raise
            self._conn = conn
        return self._conn
