"""The lease of one scheduler, kept on a thread of its own.

User code that blocks the main loop for some seconds must not cost the lease, so it is renewed
on a thread with its own loop and connection. A main loop that makes no progress for as long as
the lease lasts ends it: others can do the work. That connection also holds the session advisory
lock by which peers notice within a second that the process died. Once a second the thread
reads the state of the fleet and passes it to the main loop.

The trust window starts at the *start* of each renewal attempt. Once it has passed, it is
never extended again: this incarnation has ended. Source: docs/architecture.md, "Ownership and fencing".
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from typing import Final

from aiosched.db.server.connection import DatabaseConnection
from aiosched.db.server.engine import Database
from aiosched.db.server.failures import is_of_database
from aiosched.db.statements import ownership
from aiosched.db.statements.ownership import FleetView
from aiosched.errors import FencedOut
from aiosched.executors.worker.lease_deadline import LeaseDeadline
from aiosched.scheduler.membership.heartbeat import Heartbeat
from aiosched.scheduler.memory.known_position import KnownPosition

logger: logging.Logger = logging.getLogger(__name__)

POLL_SECONDS: Final = 1.0
_FIRST_RETRY: Final = 0.05  # seconds before the first reconnect; doubled for each further one, up to POLL_SECONDS
_RECONNECT_SECONDS: Final = 0.5  # a living scheduler has this long to take its lock again on a new connection
_SAFETY: Final = 0.8  # trusted share of the lease: the clocks of two machines may run at slightly different rates
_LAST_MOMENT: Final = 0.9  # share of the lease after which a worker process that still runs attempts ends itself


@dataclass(frozen=True, slots=True)
class SchedulerIdentity:
    """How a scheduler is entered in the fleet."""

    name: str
    version: str
    executor: str
    slots: int


class SuspectedPeers:
    """Peers whose lock is missing. They are dead only if it stays missing: a live peer reconnects and locks again."""

    def __init__(self) -> None:
        self._since: dict[int, float] = {}  # incarnation -> monotonic second at which its lock was first missing

    def __bool__(self) -> bool:
        return bool(self._since)

    def confirm(self, view: FleetView) -> FleetView:
        """The view, with `process_gone` only where the lock has been missing for `_RECONNECT_SECONDS`."""
        missing = {peer.incarnation for peer in view.peers if peer.process_gone}
        self._since = {incarnation: self._since.get(incarnation, view.at) for incarnation in missing}
        sure = {incarnation for incarnation, since in self._since.items() if view.at - since >= _RECONNECT_SECONDS}
        peers = (replace(peer, process_gone=peer.incarnation in sure) for peer in view.peers)
        return replace(view, peers=tuple(peers))


class Lease:
    """One incarnation's lease. `start` returns the incarnation; `trusted` says whether the lease still holds."""

    def __init__(
        self,
        db: Database,
        identity: SchedulerIdentity,
        *,
        seconds: float,
        on_view: Callable[[FleetView | None], None],
        heartbeat: Heartbeat | None = None,
        windows: Iterable[LeaseDeadline] = (),
        on_stuck: Callable[[str], None] | None = None,
        known_position: KnownPosition | None = None,
    ) -> None:
        self._db = db
        self._identity = identity
        self._seconds = seconds
        self._on_view = on_view  # on the main loop; None: the lease is lost
        self._windows = tuple(windows)  # of executors whose processes must not outlive the lease
        self._heartbeat = heartbeat
        self._known_position = KnownPosition() if known_position is None else known_position
        self._on_stuck = on_stuck  # on this thread: the main loop is still blocked long after the lease has ended
        self._main = asyncio.get_running_loop()
        self._stop = threading.Event()
        self._poll_requested = asyncio.Event()  # belongs to the thread's loop
        self._loop: asyncio.AbstractEventLoop | None = None
        self._started: asyncio.Future[int] = self._main.create_future()
        self._trusted_until = 0.0
        self._lost = False
        self._leave = False
        self._conn: DatabaseConnection | None = None  # used only by the thread, like the next two
        self._incarnation: int | None = None
        self._renewed = 0.0
        self._suspicions = SuspectedPeers()
        self._thread = threading.Thread(target=self._run, name="aiosched lease", daemon=True)

    async def start(self) -> int:
        """Register and begin renewing; returns the incarnation."""
        self._begin()
        try:
            return await self._started
        except asyncio.CancelledError:
            self._end(leave=True)
            raise

    def trusted(self) -> bool:
        """Whether no peer can have taken over yet. Once False, it stays False."""
        if not self._lost and time.monotonic() >= self._trusted_until:
            self._lost = True
        return not self._lost

    def poll_now(self) -> None:
        """Read the fleet now instead of within a second."""
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # its thread has ended
                self._loop.call_soon_threadsafe(self._poll_requested.set)

    async def stop(self, *, leave: bool) -> None:
        """End the thread; `leave` also releases the partitions and deletes the incarnation's row.

        Cancelling this call only stops waiting for the thread; the thread ends all the same.
        """
        self._end(leave=leave)
        await asyncio.to_thread(self._thread.join)

    def _begin(self) -> None:
        self._thread.start()

    def _end(self, *, leave: bool) -> None:
        self._leave = leave
        self._stop.set()
        self.poll_now()

    def _run(self) -> None:
        with asyncio.Runner() as runner:
            runner.run(self._keep())

    async def _keep(self) -> None:
        self._loop = asyncio.get_running_loop()
        retry = _FIRST_RETRY
        try:
            while not self._stop.is_set():
                pause = POLL_SECONDS
                try:
                    async with asyncio.timeout(self._seconds / 3):  # a half-open connection must not block us
                        pause = await self._poll()
                    retry = _FIRST_RETRY
                except FencedOut as error:
                    logger.warning("%s", error)
                    self._lost = True
                except Exception as error:
                    if self._incarnation is None:
                        self._call_main_loop(self._set_failed, error)
                        return
                    if isinstance(error, TimeoutError) or is_of_database(error):
                        logger.warning("lease: %s", str(error) or "no answer from the database")
                    else:
                        logger.exception("lease: unexpected error")
                    self._drop_connection()
                    if not self._stop.is_set():
                        self._poll_requested.clear()  # whatever ended the connection does not cut the pause short
                    pause, retry = retry, min(2 * retry, POLL_SECONDS)
                if not self.trusted():
                    self._call_main_loop(self._on_view, None)
                    await self._watch_stuck_loop()
                    return
                await self._rest(pause)
            if self._leave and self._conn is not None and self._incarnation is not None:
                async with asyncio.timeout(self._seconds / 3):
                    await ownership.leave(self._conn, self._incarnation)
                    self._known_position.left()
        except Exception as error:
            logger.warning("lease: could not leave the fleet cleanly: %s", error)
        finally:
            self._drop_connection()

    async def _rest(self, seconds: float) -> None:
        """Pause until `poll_now`, `stop` or the loss of the connection, at most `seconds`."""
        if self._heartbeat is not None:
            self._heartbeat.check()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._poll_requested.wait()
        self._poll_requested.clear()

    async def _poll(self) -> float:
        """Connect and register if need be, renew if a third of the lease has passed or figures changed, read the fleet.

        Returns the seconds until the next poll.
        """
        if self._incarnation is not None and not self.trusted():  # the machine slept: end before sending any query
            raise FencedOut(f"Scheduler incarnation {self._incarnation} was silent for longer than its lease.")
        if self._conn is None or self._conn.is_closed():
            conn = self._conn = await self._db.connect(application_name="aiosched lease")
            conn.add_termination_listener(lambda *_: self._receive_end(conn))
            await self._known_position.compare(conn)
            if self._incarnation is not None:
                await ownership.lock_again(self._conn, self._incarnation)
                self._renewed = 0.0
        now = time.monotonic()
        if self._incarnation is None:
            self._incarnation = await self._register(self._conn)
            self._trust(now)
            self._renewed = now
            self._call_main_loop(self._set_started, self._incarnation)
        elif self._is_stuck():
            pass  # the lease ends, unless the main loop comes back before
        elif now - self._renewed >= self._seconds / 3 or (self._heartbeat is not None and self._heartbeat.is_urgent):
            figures = None if self._heartbeat is None else self._heartbeat.take_snapshot()
            loads = None if self._heartbeat is None else self._heartbeat.loads
            renewal = await ownership.renew(self._conn, self._incarnation, self._seconds, figures=figures, loads=loads)
            if renewal is None:
                raise FencedOut(f"Scheduler incarnation {self._incarnation} was taken over.")
            self._known_position.renewed(renewal)
            self._trust(now)
            self._renewed = now
        view = await ownership.read_fleet(self._conn)
        if self._incarnation not in {peer.incarnation for peer in view.peers}:
            raise FencedOut(f"Scheduler incarnation {self._incarnation} was taken over.")
        self._call_main_loop(self._on_view, self._suspicions.confirm(view))
        return min(_RECONNECT_SECONDS if self._suspicions else POLL_SECONDS, self._seconds / 3)

    def _is_stuck(self) -> bool:
        """Whether the main loop has made no progress for as long as the lease lasts."""
        return self._heartbeat is not None and self._heartbeat.stalled() >= self._seconds

    async def _watch_stuck_loop(self) -> None:
        """After the end of the lease: call `on_stuck` if the main loop is still blocked a lease later.

        The connection is held, and with it the lock that keeps peers from taking over, until the lease has expired:
        before that, workers may still run attempts, which the blocked loop cannot stop.
        """
        lost = time.monotonic()
        while self._heartbeat is not None and self._is_stuck() and not self._stop.is_set():
            now = time.monotonic()
            if now >= self._renewed + self._seconds:
                self._drop_connection()
            if now >= lost + self._seconds:
                where = self._heartbeat.where()
                logger.error("the event loop has been blocked for %.0f s by %s", self._heartbeat.stalled(), where)
                if self._on_stuck is not None:
                    self._on_stuck(where)
                return
            await self._rest(POLL_SECONDS)

    def _receive_end(self, conn: DatabaseConnection) -> None:
        """Connect again at once, unless this thread has dropped the connection itself."""
        if conn is self._conn:
            self._poll_requested.set()

    def _drop_connection(self) -> None:
        conn, self._conn = self._conn, None
        if conn is not None:
            conn.terminate()

    async def _register(self, conn: DatabaseConnection) -> int:
        identity = asdict(self._identity)
        incarnation = await ownership.register(
            conn, **identity, hostname=socket.gethostname(), pid=os.getpid(), lease=self._seconds
        )
        self._known_position.joined(incarnation)
        return incarnation

    def _trust(self, attempt_started: float) -> None:
        until = attempt_started + self._seconds * _SAFETY
        if self.trusted() or self._trusted_until == 0.0:
            self._lost = False if self._trusted_until == 0.0 else self._lost
            self._trusted_until = until
            for window in self._windows:
                window.until = attempt_started + self._seconds * _LAST_MOMENT

    def _call_main_loop(self, callback: Callable[..., object], *args: object) -> None:
        with contextlib.suppress(RuntimeError):  # the main loop is closed already
            self._main.call_soon_threadsafe(callback, *args)

    def _set_started(self, incarnation: int) -> None:
        if not self._started.done():
            self._started.set_result(incarnation)

    def _set_failed(self, error: BaseException) -> None:
        if not self._started.done():
            self._started.set_exception(error)
