"""Live changes for open pages: one hub in each process listens to the database and sends small patches to every
browser.

A patch is a JSON object with `kind` and a number. Kinds: `run` (its changed columns), `task` (instances of a run that
a browser watches), `dag`, `pool`, `asset`, `command`, `scheduler`: something about one of these has changed, read it
again if it is shown. The last patches are kept, so that a browser that was disconnected for a moment continues after
its last number; if that is too old, it gets `reset`.

Schedulers publish changes of runs only while a browser watches (db/statements/run_changes.py). A dead scheduler
publishes nothing, so the hub polls the fleet, and sends a patch if a scheduler joined, left, drains or is dead, or if
partitions moved; and `dag`, if one went into quarantine or is tried again. Patches are made from rows, so a lost or
duplicate message never shows a wrong state. What a page reads because of a patch may be answered by a replica: so each
patch comes after a `position`, which that must have (views/replica_watch.py).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import secrets
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import msgspec

from aiosched.clock import Clock, SystemClock
from aiosched.core.values.states import TaskState
from aiosched.db.access.visibility import Seen
from aiosched.db.queries import live_queries
from aiosched.db.queries.quarantine_queries import QuarantineRow, list_quarantined
from aiosched.db.queries.schedulers import read_schedulers
from aiosched.db.server import request_answers
from aiosched.db.server.connection import DatabaseConnection
from aiosched.db.server.engine import Database
from aiosched.db.server.failures import is_of_database
from aiosched.db.statements import inbox, run_changes
from aiosched.errors import DatabaseUnreachable
from aiosched.timeouts import clean_up_timeout
from aiosched.web.views.database_watch import DatabaseWatch
from aiosched.web.views.live_status import STATUS_SECONDS, LiveStatus
from aiosched.web.views.replica_watch import ReplicaWatch

logger: logging.Logger = logging.getLogger(__name__)

_KEPT: Final = 2_000  # patches that are kept for browsers that reconnect
QUEUED: Final = 500  # patches that may queue up for a slow browser
SPREAD_SECONDS: Final = 0.4
_WATCH_AGAIN: Final = 20.0
POLL_INTERVAL: Final = 2.0  # seconds between polls of the fleet
ASK_SECONDS: Final = 15.0  # between two questions about what a user may see
AGAIN_SECONDS: Final = 2.0
READ_SECONDS: Final = 10.0  # that one read may take, or the way to the database; then it begins anew
CLOSE_SECONDS: Final = 1.0
MOST_TASKS: Final = 20_000  # instances of a watched run that are compared
MOST_PATCHED: Final = 500  # changed instances in one patch; for more, the browser reads the run again
_NO_DAG: Final = ""  # no DAG has this id: only for those who see everything
_KINDS: Final = {"dags": "dag", "pools": "pool", "assets": "asset"}  # of NOTIFYs to schedulers


@dataclass(slots=True)
class NewChanges:
    """Changes that were received and not yet sent."""

    runs: set[int] = field(default_factory=set)
    any_run: bool = False
    requests: set[int] = field(default_factory=set)
    kinds: set[str] = field(default_factory=set)


class StreamOver(Exception):
    """The user of a stream may not go on reading it."""


class LiveMessage(NamedTuple):
    """A patch as it is sent: about the task instances of a `run`, or a DAG (None: about none, and without its name)."""

    number: int
    run: int | None
    dag_id: str | None
    data: bytes


class Subscriber:
    """One open page: its queue of messages (None means "reset"), the runs that it watches, and the DAGs that its user
    may see (None: all)."""

    def __init__(self, runs: frozenset[int], seen: Seen = None) -> None:
        self.runs: frozenset[int] = runs
        self.seen: Seen = seen
        self.messages: asyncio.Queue[bytes | None] = asyncio.Queue(QUEUED)

    def gets(self, message: LiveMessage) -> bool:
        """Whether a message is for this page."""
        if message.run is not None and message.run not in self.runs:
            return False
        return self.seen is None or message.dag_id is None or message.dag_id in self.seen

    def put(self, message: LiveMessage) -> None:
        if not self.gets(message):
            return
        try:
            self.messages.put_nowait(message.data)
        except asyncio.QueueFull:  # too slow: it has to read everything again
            while not self.messages.empty():
                self.messages.get_nowait()
            self.messages.put_nowait(None)

    def put_status(self, message: bytes) -> None:
        with contextlib.suppress(asyncio.QueueFull):  # the next one follows soon
            self.messages.put_nowait(message)


async def see_all() -> Seen:
    """What a user who may see everything sees."""
    return None


class Hub:
    """See the module docstring. It listens from the first subscriber to the last."""

    def __init__(
        self,
        db: Database,
        *,
        watch: DatabaseWatch | None = None,
        replica: ReplicaWatch | None = None,
        clock: Clock | None = None,
        longest: float = math.inf,
    ) -> None:
        clock = clock or SystemClock()
        self._db = db
        self._watch = watch or DatabaseWatch(db, clock)
        self._watch.on_change.append(self._note_outage)
        self._replica = replica  # pages may be read from it
        self._position: str | None = None  # what it must have: that of the newest patch
        self._outbox: list[tuple[dict[str, Any], int | None, str | None]] = []  # patches that wait for their position
        self._status = LiveStatus(self._watch, clock, replica)
        self._longest = longest  # seconds that one stream may last; then the browser reconnects with its number
        self._epoch = secrets.token_hex(4)  # identifies the process, as numbers of another one mean nothing here
        self._number = 0
        self._kept: deque[LiveMessage] = deque(maxlen=_KEPT)
        self._subscribers: set[Subscriber] = set()
        self._changes = NewChanges()
        self._awake = asyncio.Event()
        self._work: asyncio.Task[None] | None = None
        self._states: dict[int, dict[tuple[int, int], live_queries.ChangedTask]] = {}
        self._fleet: tuple[object, ...] | None = None  # as last sent
        self._quarantine: list[QuarantineRow] = []  # as last sent
        self._conn: DatabaseConnection | None = None  # that listens
        self._has_missed = False  # changes, since it was lost
        self._closed = asyncio.Event()
        self.listening: asyncio.Event = asyncio.Event()  # while listening to the database

    def close(self) -> None:
        """End every stream, so that the server can stop."""
        self._closed.set()
        self._watch.close()
        if self._work is not None:
            self._work.cancel()

    async def stream(
        self, runs: frozenset[int], last: str | None, *, sees: Callable[[], Awaitable[Seen]] = see_all
    ) -> AsyncIterator[bytes]:
        """The messages for one browser, as server-sent events, until it disconnects or the hub is closed.

        Which DAGs its user `sees` is asked every 15 seconds; of others nothing is sent, not even of watched runs. The
        stream ends if that raises StreamOver. Between the patches its page is told its status (live_status.py).
        """
        subscriber = Subscriber(runs, await sees())
        self._subscribers.add(subscriber)
        if self._work is None or self._work.done():
            self._work = asyncio.create_task(self._listen(), name="live changes")
        asking: asyncio.Future[Seen] | None = None
        try:
            with self._watch.wanted():
                yield b"retry: 2000\n\n"
                if self._replica is not None and (now := await self._replica.position_if_told()) is not None:
                    self._position = max(now, self._position or "")
                    yield self._told_position()
                for message in self._missed(last, subscriber):
                    yield message
                loop = asyncio.get_running_loop()
                end, ask_at, tell_at = loop.time() + self._longest, loop.time() + ASK_SECONDS, 0.0
                while not self._closed.is_set() and loop.time() < end:
                    if asking is None and loop.time() >= ask_at:
                        asking = asyncio.ensure_future(sees())
                        await asyncio.wait({asking}, timeout=STATUS_SECONDS)
                    if asking is not None and asking.done():
                        subscriber.seen, asking = asking.result(), None
                        ask_at = loop.time() + ASK_SECONDS
                    if loop.time() >= tell_at:
                        yield self._status.message()
                        tell_at = loop.time() + STATUS_SECONDS
                    if (found := await self._next(subscriber, tell_at - loop.time())) is not None:
                        yield found
                if not self._closed.is_set():  # the browser comes back: nothing is lost
                    yield self._status.message()
        except StreamOver:
            return
        finally:
            if asking is not None:
                asking.cancel()
            self._subscribers.discard(subscriber)

    async def _next(self, subscriber: Subscriber, seconds: float) -> bytes | None:
        """The next message; None if there is none for that long, and at the end."""
        waiting = asyncio.ensure_future(subscriber.messages.get())
        closed = asyncio.ensure_future(self._closed.wait())
        try:
            await asyncio.wait(
                (waiting, closed), timeout=min(seconds, self._longest), return_when=asyncio.FIRST_COMPLETED
            )
            return waiting.result() or self._reset() if waiting.done() else None
        finally:
            waiting.cancel()
            closed.cancel()

    def _missed(self, last: str | None, subscriber: Subscriber) -> list[bytes]:
        """The messages after number `last`."""
        if last is None:
            return []
        epoch, _, number = last.partition("-")
        if epoch != self._epoch or not number.isdecimal():
            return [self._reset()]
        seen = int(number)
        if seen < self._number and (not self._kept or self._kept[0].number > seen + 1):
            return [self._reset()]
        return [message.data for message in self._kept if message.number > seen and subscriber.gets(message)]

    def _reset(self) -> bytes:
        return self._told_position() + f"id: {self._epoch}-{self._number}\nevent: reset\ndata: {{}}\n\n".encode()

    def _told_position(self) -> bytes:
        """A server-sent event, before what the page may read again; nothing without a replica."""
        return b"" if self._position is None else f"event: position\ndata: {self._position}\n\n".encode()

    # -- hearing ----------------------------------------------------------------------------

    async def _listen(self) -> None:
        """Listen to the database and send changes, as long as there are subscribers, whatever fails.

        Pages that are told that all is well rely on it: they would show old data for ever.
        """
        while self._subscribers:
            try:
                await self._listen_once()
            except Exception as error:
                if is_of_database(error):
                    logger.warning("live changes: %s", error)
                else:
                    logger.exception("live changes: reading them failed; they are read again")
                self._has_missed = True
                self._outbox.clear()
                self._position = None  # perhaps another server answers next, whose log is behind that
                await asyncio.sleep(AGAIN_SECONDS)
                await self._watch.until_it_answers()
        self._states.clear()
        self._status.forget()
        self._fleet = None
        self._quarantine = []

    async def _listen_once(self) -> None:
        async with asyncio.timeout(READ_SECONDS):
            conn = self._conn = await self._db.connect(application_name="aiosched live changes")
        try:
            async with asyncio.timeout(READ_SECONDS):
                await conn.add_listener(run_changes.RUNS_CHANNEL, self._receive_runs)
                await conn.add_listener(inbox.NOTIFY_CHANNEL, self._receive_changes)
                await conn.add_listener(request_answers.APPLIED_CHANNEL, self._receive_answers)
            conn.add_termination_listener(lambda *_: self._awake.set())
            loop = asyncio.get_running_loop()
            watch_at = poll_at = loop.time()
            while self._subscribers:
                if conn.is_closed():
                    raise DatabaseUnreachable("the connection that listens was closed")
                if loop.time() >= watch_at:
                    async with asyncio.timeout(READ_SECONDS):
                        await run_changes.watch(conn)
                    watch_at = loop.time() + _WATCH_AGAIN
                    if self._replica is not None and not self.listening.is_set():
                        await asyncio.sleep(SPREAD_SECONDS)  # until schedulers have heard that somebody watches
                        self._has_missed = True  # what was read from the replica before may lack what nobody has told
                    self.listening.set()
                    if self._has_missed:
                        self._has_missed = False
                        self._states.clear()
                        self._send({"kind": "reset"})
                if loop.time() >= poll_at:
                    async with asyncio.timeout(READ_SECONDS):
                        await self._publish_fleet(conn)
                        await self._publish_quarantine(conn)
                    poll_at = loop.time() + POLL_INTERVAL
                self._awake.clear()
                async with asyncio.timeout(READ_SECONDS):
                    await self._publish_changes()
                    await self._flush()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(POLL_INTERVAL):
                        await self._awake.wait()
                await asyncio.sleep(SPREAD_SECONDS)
        finally:
            self.listening.clear()
            self._conn = None
            try:
                async with clean_up_timeout(CLOSE_SECONDS):  # with a statement under way its own timeout does not hold
                    await conn.close(timeout=CLOSE_SECONDS)
            except Exception:  # it is of no use any more, and what ended it is told
                conn.terminate()

    def _receive_runs(self, _: DatabaseConnection, __: int, ___: str, payload: str) -> None:
        keys = run_changes.read_runs(payload)
        if keys is None:
            self._changes.any_run = True
        else:
            self._changes.runs.update(keys)
        self._awake.set()

    def _receive_changes(self, _: DatabaseConnection, __: int, ___: str, payload: str) -> None:
        if (kind := _KINDS.get(inbox.read_notification(payload)[0])) is not None:
            self._changes.kinds.add(kind)
            self._awake.set()

    def _receive_answers(self, _: DatabaseConnection, __: int, ___: str, payload: str) -> None:
        self._changes.requests.update(request_answers.read_numbers(payload))
        self._awake.set()

    # -- telling ----------------------------------------------------------------------------

    async def _publish_changes(self) -> None:
        changes, self._changes = self._changes, NewChanges()
        for kind in sorted(changes.kinds):
            self._send({"kind": kind})
        if changes.requests:
            for request in await live_queries.read_requests(self._db, changes.requests):
                self._send({"kind": "command", **msgspec.to_builtins(request)}, dag_id=request.dag_id or _NO_DAG)
        if changes.any_run:
            self._send({"kind": "reset"})
            self._states.clear()
        elif changes.runs:
            for run in await live_queries.read_changed_runs(self._db, changes.runs):
                self._send({"kind": "run", **msgspec.to_builtins(run)}, dag_id=run.dag_id)
        watched = {run for subscriber in self._subscribers for run in subscriber.runs}
        for gone in self._states.keys() - watched:
            del self._states[gone]
        for run_key in watched & changes.runs:
            await self._publish_tasks(run_key)

    async def _publish_fleet(self, conn: DatabaseConnection) -> None:
        """Send a patch if the fleet has changed since the last poll."""
        view, rows = await read_schedulers(conn)
        if self._status.see(rows):
            self._tell_status()
        before, self._fleet = self._fleet, (view.peers, view.leases)
        if before is not None and before != self._fleet:
            self._send({"kind": "scheduler"})

    def _note_outage(self) -> None:
        """Tell every page at once; a connection that hangs is of no use any more."""
        if self._watch.outage is not None and self._conn is not None:
            self._conn.terminate()
        self._tell_status()

    def _tell_status(self) -> None:
        message = self._status.message()
        for subscriber in self._subscribers:
            subscriber.put_status(message)

    async def _publish_quarantine(self, conn: DatabaseConnection) -> None:
        """Send a patch for each DAG whose quarantine has changed since the last poll.

        The first poll sends one for each DAG in quarantine, since the page may have been read before.
        """
        before, self._quarantine = self._quarantine, await list_quarantined(conn)
        for dag_id in sorted({row.dag_id for row in {*before} ^ {*self._quarantine}}):
            self._send({"kind": "dag", "dag_id": dag_id}, dag_id=dag_id)

    async def _publish_tasks(self, run: int) -> None:
        """Send the instances of watched runs that have changed since the last patch.

        `counts` has the current number of instances in each state for each task with changes, so that a page that shows
        no single instances needs to read nothing.
        """
        rows = await live_queries.read_states(self._db, run, limit=MOST_TASKS)
        now = {(row.task_index, row.map_index): row for row in rows}
        before = self._states.get(run, {})
        self._states[run] = now
        changed = [key for key in now | before if now.get(key) != before.get(key)]
        if not changed:
            return
        patch: dict[str, Any] = {"kind": "task", "run": run}
        if len(rows) < MOST_TASKS:
            counts: dict[int, Counter[str]] = {index: Counter() for index, _ in changed}
            for row in rows:
                if row.task_index in counts:
                    counts[row.task_index][row.state or TaskState.NONE.value] += 1
            patch["counts"] = counts
        if len(changed) > MOST_PATCHED or before.keys() - now.keys():
            patch["many"] = True
        else:
            patch["tasks"] = [msgspec.to_builtins(now[key]) for key in changed]
        self._send(patch, run=run, dag_id=await self._dag_of(run))

    async def _dag_of(self, run: int) -> str:
        """The DAG of a run that was changed; of a deleted one nobody is told but those who see everything."""
        rows = await live_queries.read_changed_runs(self._db, [run])
        return rows[0].dag_id if rows else _NO_DAG

    def _send(self, patch: dict[str, Any], *, run: int | None = None, dag_id: str | None = None) -> None:
        """Send a patch to everybody, or to those who see `dag_id`; with a replica, at the next `_flush`."""
        if self._replica is None:
            self._deliver(patch, run, dag_id)
        else:
            self._outbox.append((patch, run, dag_id))

    async def _flush(self) -> None:
        """Send what waits, with a position: what is read because of it must not be older."""
        if self._replica is not None and self._outbox:
            self._position = max(await self._replica.position(), self._position or "")
            sent, self._outbox = self._outbox, []
            for patch, run, dag_id in sent:
                self._deliver(patch, run, dag_id)

    def _deliver(self, patch: dict[str, Any], run: int | None, dag_id: str | None) -> None:
        self._number += 1
        number, data = f"{self._epoch}-{self._number}", msgspec.json.encode(patch).decode()
        event = self._told_position() + f"id: {number}\ndata: {data}\n\n".encode()
        message = LiveMessage(self._number, run, dag_id, event)
        self._kept.append(message)
        for subscriber in self._subscribers:
            subscriber.put(message)
