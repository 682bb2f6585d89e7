"""The ordered group commit: the one writer of the hot path.

Everything that was decided since the last commit goes into one transaction, then the next
one starts. There is no timer: a quiet system commits at once, a busy one in batches of hundreds.
The order is always commit, then act. Lives here: the connection, the fence, and how an
unknown commit outcome is resolved. Does not live here: what to store (memory/cache.py), which
tasks get a slot (slots/claiming.py), the statements (db/statements/journal.py).
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Collection, Iterable
from typing import Any, Final

from aiosched.core.figures.metrics import Metrics
from aiosched.db.crypto.keyring import Keyring
from aiosched.db.engines.claims import write_with_attempts
from aiosched.db.server.connection import DatabaseConnection
from aiosched.db.server.engine import Database
from aiosched.db.server.failures import is_connection_failure
from aiosched.db.statements import journal
from aiosched.db.statements.deadlines import pause_failing, prune, store_deadlines
from aiosched.db.statements.inbox import NewRequest, RequestResult, answer_requests, send_following
from aiosched.db.statements.journal import Backend, PoolRow
from aiosched.db.statements.outbox import insert_callbacks
from aiosched.db.statements.pool_demands import store_demands, store_starts
from aiosched.db.statements.rendered_fields import store_labels, store_rendered
from aiosched.db.statements.reports import delete_reports
from aiosched.db.statements.runs import copy_instances
from aiosched.db.statements.triggers import delete_deferrals, store_deferrals
from aiosched.errors import FencedOut, StaleRows
from aiosched.scheduler.journal.asset_events import store_events
from aiosched.scheduler.memory.changes import Changes, Committed
from aiosched.scheduler.memory.known_position import KnownPosition

_SETTLE_PAUSE = 0.05  # seconds between two checks of a commit that is still in progress
_NOBODY: Final = frozenset[int]()


class Transaction:
    """One transaction of this scheduler, behind the fence.

    It is opened only when more than one statement is needed. A batch of nothing but
    instances, runs and pools is one statement, hence a transaction by itself.
    """

    def __init__(
        self,
        conn: DatabaseConnection,
        incarnation: int,
        pools: dict[str, PoolRow | None],
        *,
        shared: bool,
        keyring: Keyring | None = None,
    ) -> None:
        self.conn = conn
        self.pools = pools  # those read so far; None: does not exist
        self.number: int | None = None  # by which PostgreSQL knows it; None: not asked for
        self.is_open: bool = False
        self.committing: bool = False  # a commit was sent and is not confirmed yet
        self.began: float = time.perf_counter()
        self._incarnation = incarnation
        self.shared: bool = shared
        self._keyring = keyring
        self.locks_pools: bool = False  # those of `pools` are locked, and any others will be

    async def begin(self) -> None:
        """Open it unless it is open. Raises FencedOut if this scheduler was taken over."""
        if not self.is_open:
            await journal.begin(self.conn, self._incarnation)
            self.is_open = True

    async def check_pools(self, names: Collection[str]) -> None:
        """Read the pools `names`; after `lock_pools` they are locked until the end of the transaction, too."""
        if self.locks_pools:
            if self.pools and min(names) < max(self.pools):  # locks are taken in name order: begin again with all pools
                names = {*names, *self.pools}
                await self.conn.execute("ROLLBACK")
                self.is_open = False
            await self.begin()
        found = await journal.read_pools(self.conn, names, lock=self.locks_pools)
        self.pools.update({name: found.get(name) for name in names})

    async def lock_pools(self) -> None:
        """Lock the pools that were read, and read them again."""
        names = list(self.pools)
        self.pools.clear()
        self.locks_pools = True
        await self.check_pools(names)

    async def write(self, batch: Changes) -> Committed:
        """Store what was decided; the result is to be used after the commit.

        Raises StaleRows, which voids the transaction, if a row is not as expected.
        """
        if batch.is_empty:
            return Committed(batch)
        tasks, runs, messages = batch.tasks, batch.runs, batch.messages
        outbox, paused, consumers = {}, [], _NOBODY
        if batch.needs_transaction:
            await self.begin()
        if tasks.expanded:
            await journal.expand(self.conn, tasks.expanded)
        if tasks.collapsed:
            await journal.collapse(self.conn, tasks.collapsed)
        if tasks.created:
            await copy_instances(self.conn, tasks.created)
        self.committing = not self.is_open
        states = (self._incarnation, tasks.instances, runs.changed, batch.pools.deltas)
        if attempts := messages.attempts:
            reports = messages.read_reports
            moved, engine_rows, self.number = await write_with_attempts(
                self.conn, *states, attempts=attempts, applied=reports
            )
        else:
            (moved, self.number), engine_rows = await journal.write(self.conn, *states), {}
        self.committing = False
        self.pools.update(moved)
        if tasks.tries:
            await journal.insert_tries(self.conn, tasks.tries)
        if tasks.forget_xcoms:
            await journal.delete_xcoms(self.conn, tasks.forget_xcoms)
        if tasks.xcoms:
            await journal.upsert_xcoms(self.conn, tasks.xcoms)
        if messages.asset_events:
            consumers = await store_events(self.conn, messages.asset_events)
        if tasks.undeferred:
            await delete_deferrals(self.conn, tasks.undeferred)
        if tasks.deferrals:
            await store_deferrals(self.conn, tasks.deferrals, self._keyring)
        if messages.callbacks:
            outbox = await insert_callbacks(self.conn, messages.callbacks)
        if runs.deadlines:
            await store_deadlines(self.conn, runs.deadlines)
        if runs.kept_deadlines:
            await prune(self.conn, runs.kept_deadlines)
        if runs.failing:
            paused = await pause_failing(self.conn, runs.failing, incarnation=self._incarnation)
        if tasks.sources:
            await journal.store_sources(self.conn, tasks.sources)
        if tasks.rendered:
            await store_rendered(self.conn, tasks.rendered)
        if tasks.labels:
            await store_labels(self.conn, tasks.labels)
        if batch.pools.demands:
            await store_demands(self.conn, self._incarnation, batch.pools.demands)
        if batch.pools.starts:
            await store_starts(self.conn, batch.pools.starts)
        if messages.read_reports and not messages.attempts:  # else it is done
            await delete_reports(self.conn, messages.read_reports)
        if messages.requests:
            await send_following(self.conn, messages.requests)
        if messages.answers:
            await answer_requests(self.conn, messages.answers, incarnation=self._incarnation)
        return Committed(batch, outbox, paused, consumers, engine_rows)

    async def answer(self, number: int, result: dict[str, Any], requests: Iterable[NewRequest] = ()) -> None:
        """Answer a request as applied, in the transaction that stores its effects; `requests` follow from it."""
        await send_following(self.conn, requests)
        await self.store_answer(number, RequestResult("applied", result))

    async def answer_all(self, answers: Iterable[tuple[int, dict[str, Any]]]) -> None:
        """Answer requests as applied, in the transaction that stores their effects."""
        results = [(number, RequestResult("applied", result)) for number, result in answers]
        await answer_requests(self.conn, results, incarnation=self._incarnation)

    async def store_answer(self, number: int, result: RequestResult) -> None:
        """Answer a request."""
        await answer_requests(self.conn, [(number, result)], incarnation=self._incarnation)


class Journal:
    """Transactions of one scheduler incarnation, one at a time, on a connection of its own."""

    def __init__(
        self,
        db: Database,
        incarnation: int,
        metrics: Metrics,
        keyring: Keyring | None = None,
        known_position: KnownPosition | None = None,
    ) -> None:
        self._db = db
        self.keyring = keyring  # encrypts the arguments of triggers; None: they are not encrypted
        self._incarnation = incarnation
        self._metrics = metrics
        self._known_position = KnownPosition() if known_position is None else known_position  # of what was confirmed
        self._conn: DatabaseConnection | None = None
        self._backend: Backend | None = None
        self._lock = asyncio.Lock()
        self._pools: dict[str, PoolRow | None] = {}  # as of our last commit, while no other scheduler uses them
        self.was_refused: bool = False  # a batch; set until pools were counted again (partitions/recounting.py)
        self.present: Transaction | None = None  # the one that is open or about to be
        self._unsettled: list[Backend] = []  # of connections that were lost in the middle of a transaction

    @contextlib.asynccontextmanager
    async def transaction(self) -> AsyncIterator[Transaction]:
        """A fenced transaction: committed at the end of the block, void if the block raises.

        After any failure the connection is closed, so the next transaction opens a new one.
        Raises FencedOut if this scheduler was taken over.
        """
        async with self.batch(shared=True) as transaction:
            await transaction.begin()
            yield transaction

    def batch(self, *, shared: bool) -> Batch:
        """As `transaction`, but opened only when needed. `shared`: other schedulers use the pools, too."""
        return Batch(self, shared=shared)

    def _note_failure(self, transaction: Transaction, error: BaseException) -> None:
        self._give_up_connection()
        self.was_refused |= isinstance(error, StaleRows)
        if isinstance(error, FencedOut | StaleRows):
            self._metrics.stale_writes_refused += 1
        elif transaction.committing and is_connection_failure(error):
            self._metrics.unknown_commits += 1

    @contextlib.asynccontextmanager
    async def quiet(self) -> AsyncIterator[DatabaseConnection]:
        """The connection, for reading while this journal stores nothing. After any failure it is closed."""
        async with self._lock:
            try:
                yield await self._connection()
            except BaseException:
                self._give_up_connection()
                raise

    def forget_pools(self) -> None:
        """A pool was changed: read them again before the next use."""
        self._pools.clear()

    async def settle(self) -> None:
        """Make sure that nothing sent on a lost connection is still in progress.

        The rows then show whether it was committed. Source: docs/architecture.md, "The journal".
        """
        while self._unsettled:
            if await journal.end_backend(await self._connection(), self._unsettled[-1]):
                await asyncio.sleep(_SETTLE_PAUSE)
            else:
                self._unsettled.pop()

    async def close(self) -> None:
        """Close the connection."""
        conn, self._conn = self._conn, None
        if conn is not None:
            with contextlib.suppress(OSError):
                await conn.close(timeout=1.0)

    def _give_up_connection(self) -> None:
        conn, self._conn = self._conn, None
        self._pools.clear()
        if conn is not None:
            conn.terminate()
        if self._backend is not None:
            self._unsettled.append(self._backend)
            self._backend = None

    async def _connection(self) -> DatabaseConnection:
        if self._conn is None or self._conn.is_closed():
            if self._conn is not None:
                self._give_up_connection()
            conn = await self._db.connect(application_name="aiosched journal")
            try:
                await conn.execute(journal.PLANNER)
                self._backend = await journal.who_am_i(conn)
            except BaseException:
                conn.terminate()
                raise
            self._conn = conn
        return self._conn


class Batch:
    """A batch of a journal as a context manager; no generator, since the hot path enters one for each commit."""

    __slots__ = ("_journal", "_shared", "_transaction")

    def __init__(self, journal: Journal, *, shared: bool) -> None:
        self._journal, self._shared = journal, shared

    async def __aenter__(self) -> Transaction:
        journal, shared = self._journal, self._shared
        await journal._lock.acquire()
        try:
            conn = await journal._connection()
        except BaseException:
            journal._lock.release()
            raise
        if shared:
            journal._pools.clear()
        pools = {} if shared else journal._pools
        transaction = Transaction(conn, journal._incarnation, pools, shared=shared, keyring=journal.keyring)
        journal.present = self._transaction = transaction
        return transaction

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        journal, transaction = self._journal, self._transaction
        try:
            if error is not None:
                journal._note_failure(transaction, error)
                return
            if transaction.is_open:
                transaction.committing = True
                await transaction.conn.execute("COMMIT")
            journal._metrics.journal_commit.observe(time.perf_counter() - transaction.began)
            if transaction.number is not None:
                journal._known_position.confirm(transaction.number)
        except BaseException as failed:
            journal._note_failure(transaction, failed)
            raise
        finally:
            journal.present = None
            journal._lock.release()
