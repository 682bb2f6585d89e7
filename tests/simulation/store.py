"""The modelled PostgreSQL: rows, read-committed transactions, row locks, sessions, notifications.

As much of it as the named statements rely on. A transaction sees what is committed and what it
wrote itself; it locks the rows that it writes, and one that waited for a lock sees the row as it is
then. Locks have PostgreSQL's three strengths that occur here; a circle of waits is a deadlock.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import Any, NamedTuple

import asyncpg

from aiosched.db.server import engine
from tests.simulation.loop import VirtualLoop

Row = dict[str, Any]
Place = tuple[str, Any]  # table and key

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
FLEET = "the simulated fleet"
IDLE_SECONDS = float(engine.IDLE_IN_TRANSACTION.removesuffix("s"))  # idle_in_transaction_session_timeout


class Strength(Enum):
    """Of row locks: FOR KEY SHARE, FOR NO KEY UPDATE (what an update takes), FOR UPDATE (what a delete takes)."""

    KEY_SHARE = 1
    NO_KEY_UPDATE = 2
    UPDATE = 3


_TOGETHER = {
    (Strength.KEY_SHARE, Strength.KEY_SHARE),
    (Strength.KEY_SHARE, Strength.NO_KEY_UPDATE),
    (Strength.NO_KEY_UPDATE, Strength.KEY_SHARE),
}


class Change(NamedTuple):
    """One row of a commit, before and after (None: it is not there)."""

    table: str
    key: Any
    old: Row | None
    new: Row | None


class Asked(NamedTuple):
    """A statement arrived at the server."""

    at: float
    session: int
    text: str
    args: tuple[Any, ...]


class Answered(NamedTuple):
    """It is carried out: its answer, or the error."""

    session: int
    said: object


class Ended(NamedTuple):
    """A session is over."""

    at: float
    session: int


Traffic = Asked | Answered | Ended


@dataclass(eq=False)
class Transaction:
    """One transaction of one session. `fence` is the incarnation that it was begun for, if any."""

    store: Store
    backend: Backend
    began: float
    explicit: bool
    fence: int | None = None
    failed: bool = False
    written: dict[Place, Row | None] = field(default_factory=dict)
    held: dict[Place, Strength] = field(default_factory=dict)
    renewed: set[Place] = field(default_factory=set)  # rows that it has deleted and inserted again
    notices: list[tuple[str, str]] = field(default_factory=list)
    waits_for: Place | None = None  # in whose queue it stands
    lock_timeout: float | None = None  # seconds for which it waits for one lock

    @property
    def now(self) -> datetime:
        return EPOCH + timedelta(seconds=self.began)

    def get(self, table: str, key: Any) -> Row | None:
        """The row as this transaction sees it."""
        place = (table, key)
        return self.written[place] if place in self.written else self.store.tables[table].get(key)

    def rows(self, table: str) -> Iterator[tuple[Any, Row]]:
        """All rows of a table as this transaction sees them, by key."""
        own = {key: row for (name, key), row in self.written.items() if name == table}
        committed = self.store.tables[table]
        for key in sorted(committed.keys() | own.keys()):
            row = own[key] if key in own else committed[key]
            if row is not None:
                yield key, row

    def put(self, table: str, key: Any, row: Row) -> None:
        if self.written.get((table, key), row) is None:
            self.renewed.add((table, key))
        self.written[table, key] = row

    def delete(self, table: str, key: Any) -> None:
        self.written[table, key] = None

    async def lock(
        self, table: str, key: Any, strength: Strength, wanted: Callable[[Row], bool] = lambda row: True
    ) -> Row | None:
        """Lock a row that is `wanted`, waiting for others; returns it as it is then.

        None for one that is not there or not wanted: before, then it is not waited for, or when others are done and
        have changed it. If they have not, PostgreSQL does not check it again.
        """
        row = before = self.get(table, key)
        if row is None or not wanted(row):
            return None
        place = (table, key)
        renewals = self.store.renewals[place]
        await self.store.lock(self, place, strength)
        row = self.get(table, key)
        if row is None or self.store.renewals[place] > renewals:  # deleted meanwhile: what has its key is another row
            self.store.unlock(self, place)
            return None
        return row if row is before or wanted(row) else None

    async def reserve(self, table: str, key: Any) -> bool:
        """Make sure that nobody else inserts this key; False when it is there.

        It waits for one who is about to insert it, and for one who changes or deletes the row that has it.
        """
        while True:
            found, place, strength = self.get(table, key), (table, key), Strength.UPDATE
            if found is not None:
                place, strength = found.get("of", place), Strength.NO_KEY_UPDATE
                if self.store.free(self, place, strength):
                    return False
            await self.store.lock(self, place, strength)
            if found is None and self.get(table, key) is None:
                return True
            self.store.unlock(self, place)

    async def update(self, table: str, key: Any, **values: Any) -> Row | None:
        """Lock and change a row; None when it is not there (any more)."""
        row = await self.lock(table, key, Strength.NO_KEY_UPDATE)
        if row is None:
            return None
        changed = {**row, **values}
        self.put(table, key, changed)
        return changed


@dataclass(eq=False)
class Backend:
    """The server's side of one connection."""

    pid: int
    node: int
    name: str
    started: datetime
    alive: bool = True
    transaction: Transaction | None = None
    busy: bool = False  # carries out a statement
    ending: bool = False  # ends as soon as it is not busy
    listens: dict[str, Callable[[int, str, str], None]] = field(default_factory=dict)
    idle: asyncio.TimerHandle | None = None  # ends a session that leaves its transaction open


class Store:
    """See the module docstring. `on_commit` hears of commits that changed something, `on_traffic` of all statements."""

    def __init__(self, loop: VirtualLoop) -> None:
        self.loop = loop
        self.tables: dict[str, dict[Any, Row]] = {
            name: {}
            for name in (
                "scheduler", "partition_lease", "dag", "dag_version", "dag_run", "task_instance", "task_try", "xcom",
                "pool", "request", "callback_outbox", "task_report", "uq_run", "uq_date", "uq_started",
                "deferred_trigger", "deferral", "backfill", "uq_backfill", "dag_quarantine",
                "lost_scheduler",
            )
        }  # fmt: skip
        self.backends: dict[int, Backend] = {}
        self.advisory: dict[int, Backend] = {}
        self.deadlocks: list[str] = []  # who waited for what
        self.on_commit: Callable[[Transaction, list[Change]], None] = lambda transaction, changes: None
        self.on_traffic: Callable[[Traffic], None] = lambda traffic: None
        self.on_notice: Callable[[Backend, str, str], None] = lambda backend, channel, payload: None
        self.renewals: Counter[Place] = Counter()  # how often a row was deleted and inserted again in one transaction
        self._loosened = 0  # statements that waited for a lock, and have it
        self.issued: Counter[str] = Counter()  # the newest number of each sequence
        self._holders: dict[Place, dict[Transaction, Strength]] = {}
        self._queues: dict[Place, list[tuple[Transaction, Strength, asyncio.Future[None]]]] = {}
        self._advisory_queues: dict[int, deque[tuple[Backend, asyncio.Future[None]]]] = {}

    def number(self, sequence: str) -> int:
        """The next number of a sequence; numbers of transactions that roll back are lost."""
        self.issued[sequence] += 1
        return self.issued[sequence]

    # -- sessions ---------------------------------------------------------------------------

    def connect(self, node: int, name: str) -> Backend:
        started = EPOCH + timedelta(seconds=self.loop.time())
        backend = Backend(self.number("pid"), node, name, started)
        self.backends[backend.pid] = backend
        return backend

    def end(self, backend: Backend) -> None:
        """The session is over, as soon as the statement under way is."""
        backend.ending = True
        if backend.busy:
            waiting = backend.transaction
            if waiting is not None and waiting.waits_for is not None:
                self._stop_waiting(waiting)
            for queue in self._advisory_queues.values():
                for _, granted in [entry for entry in queue if entry[0] is backend]:
                    _refuse(granted)
            return
        self._close_backend(backend)

    def _close_backend(self, backend: Backend) -> None:
        if not backend.alive:
            return
        backend.alive = False
        if backend.idle is not None:
            backend.idle.cancel()
        if backend.transaction is not None:
            self.roll_back(backend.transaction)
        for number in [n for n, holder in self.advisory.items() if holder is backend]:
            del self.advisory[number]
            self._grant_advisory(number)
        del self.backends[backend.pid]
        self.on_traffic(Ended(self.loop.time(), backend.pid))

    def resumed(self, backend: Backend, text: str, args: Sequence[Any]) -> None:
        """A statement is carried out from now on."""
        self.on_traffic(Asked(self.loop.time(), backend.pid, text, tuple(args)))
        backend.busy = True
        if backend.idle is not None:
            backend.idle.cancel()
            backend.idle = None

    def finished(self, backend: Backend, said: object) -> None:
        """The statement under way is done; `said` is its answer or an error."""
        self.on_traffic(Answered(backend.pid, said))
        backend.busy = False
        if backend.ending:
            self._close_backend(backend)
        elif backend.transaction is not None:
            backend.idle = self.loop.call_later(IDLE_SECONDS, self.end, backend)

    # -- transactions -----------------------------------------------------------------------

    def begin(self, backend: Backend, *, explicit: bool) -> Transaction:
        backend.transaction = Transaction(self, backend, self.loop.time(), explicit)
        return backend.transaction

    def commit(self, transaction: Transaction) -> None:
        changes = []
        for (table, key), new in transaction.written.items():
            old = self.tables[table].get(key)
            if new is None:
                self.tables[table].pop(key, None)
            else:
                self.tables[table][key] = new
            if old != new:
                changes.append(Change(table, key, old, new))
        self.renewals.update(transaction.renewed)
        self._release(transaction)
        if changes:
            self.on_commit(transaction, changes)
        for channel, payload in dict.fromkeys(transaction.notices):
            for backend in list(self.backends.values()):
                if channel in backend.listens:
                    self.on_notice(backend, channel, payload)

    def roll_back(self, transaction: Transaction) -> None:
        self._release(transaction)

    def fail(self, transaction: Transaction) -> None:
        """A statement of the transaction failed: its locks are free at once, all that it takes now is ROLLBACK."""
        transaction.failed = True
        self._unlock_all(transaction)
        if not transaction.explicit:
            self.roll_back(transaction)

    def _release(self, transaction: Transaction) -> None:
        transaction.backend.transaction = None
        self._unlock_all(transaction)

    def _unlock_all(self, transaction: Transaction) -> None:
        for place in list(transaction.held):
            self.unlock(transaction, place)

    # -- locks ------------------------------------------------------------------------------

    def unlock(self, transaction: Transaction, place: Place) -> None:
        """Let go of a lock, for the next one that waits for it."""
        del transaction.held[place]
        holders = self._holders[place]
        del holders[transaction]
        if not holders:
            del self._holders[place]
        self._grant(place)

    async def lock_advisory(self, backend: Backend, number: int) -> None:
        """Take the lock of a number for a session, waiting for the one that has it."""
        if self.advisory.get(number, backend) is backend:
            self.advisory[number] = backend
            return
        granted: asyncio.Future[None] = self.loop.create_future()
        self._advisory_queues.setdefault(number, deque()).append((backend, granted))
        await self._wait(granted)

    def _grant_advisory(self, number: int) -> None:
        queue = self._advisory_queues.get(number, deque())
        while queue and number not in self.advisory:
            backend, granted = queue.popleft()
            if not granted.done():
                self.advisory[number] = backend
                self._loosen(granted)

    async def catch_up(self) -> None:
        """Let every statement that was given its lock go on, before another one begins."""
        while self._loosened:  # noqa: ASYNC110  # they are next
            await asyncio.sleep(0)

    def _loosen(self, granted: asyncio.Future[None]) -> None:
        granted.set_result(None)
        self._loosened += 1

    async def _wait(self, granted: asyncio.Future[None]) -> None:
        try:
            await granted
        finally:
            if granted.done() and not granted.cancelled() and granted.exception() is None:
                self._loosened -= 1

    def free(self, transaction: Transaction, place: Place, strength: Strength) -> bool:
        """Whether the lock can be had now."""
        return not self._against(transaction, place, strength)

    def _against(self, transaction: Transaction, place: Place, strength: Strength) -> list[Transaction]:
        holders = self._holders.get(place, {})
        return [t for t, held in holders.items() if t is not transaction and (held, strength) not in _TOGETHER]

    async def lock(self, transaction: Transaction, place: Place, strength: Strength) -> None:
        held = transaction.held.get(place)
        if held is not None and held.value >= strength.value:
            return
        if self._against(transaction, place, strength):
            if self._circle(transaction, place, strength):
                waits = [f"{t.backend.name} of machine {t.backend.node} has {list(t.held)}, wants {t.waits_for}"
                         for t in {transaction, *self._against(transaction, place, strength)}]  # fmt: skip
                self.deadlocks.append(f"at {place}: {'; '.join(sorted(waits))}")
                raise asyncpg.DeadlockDetectedError(f"deadlock at {place}")
            granted: asyncio.Future[None] = self.loop.create_future()
            self._queues.setdefault(place, []).append((transaction, strength, granted))
            transaction.waits_for = place
            if transaction.lock_timeout is not None:
                self.loop.call_later(transaction.lock_timeout, self._give_up, transaction, granted)
            await self._wait(granted)
            return
        self._take(transaction, place, strength)

    def _take(self, transaction: Transaction, place: Place, strength: Strength) -> None:
        transaction.held[place] = strength
        self._holders.setdefault(place, {})[transaction] = strength

    def _grant(self, place: Place) -> None:
        queue = self._queues.get(place, [])
        while queue:
            transaction, strength, granted = queue[0]
            if self._against(transaction, place, strength):
                return
            queue.pop(0)
            transaction.waits_for = None
            self._take(transaction, place, strength)
            if not granted.done():
                self._loosen(granted)
        self._queues.pop(place, None)

    def _give_up(self, transaction: Transaction, granted: asyncio.Future[None]) -> None:
        """It has waited for `lock_timeout` seconds."""
        if not granted.done():
            self._stop_waiting(transaction, asyncpg.LockNotAvailableError("canceling statement due to lock timeout"))

    def _stop_waiting(self, transaction: Transaction, error: Exception | None = None) -> None:
        place = transaction.waits_for
        assert place is not None
        queue = self._queues.get(place, [])
        for entry in [entry for entry in queue if entry[0] is transaction]:
            queue.remove(entry)
            _refuse(entry[2], error)
        transaction.waits_for = None
        self._grant(place)

    def _circle(self, transaction: Transaction, place: Place, strength: Strength) -> bool:
        """Whether whom it would wait for waits, in the end, for it."""
        seen: set[Transaction] = set()
        ahead = [t for t, _, _ in self._queues.get(place, [])]
        left = [*self._against(transaction, place, strength), *ahead]
        while left:
            other = left.pop()
            if other is transaction:
                return True
            if other in seen or other.waits_for is None:
                continue
            seen.add(other)
            mode = next(s for t, s, _ in self._queues[other.waits_for] if t is other)
            left.extend(self._against(other, other.waits_for, mode))
        return False


def _refuse(granted: asyncio.Future[None], error: Exception | None = None) -> None:
    """Whoever waits gets no lock; without an `error` because its session is to end."""
    if not granted.done():
        granted.set_exception(error or asyncpg.AdminShutdownError("terminating connection"))
