"""The worker's side of engines: claims attempts, runs them in processes of this machine, and reports their outcomes.

Attempts run as with the executor `local`, by the same processes. Instead of a scheduler's lease there is that of this
worker: it is renewed by heartbeats, and if no server can be reached for as long as it lasts, all processes end, so that
no attempt overlaps with its next try. Source: docs/decisions/0036-attempts-on-engines.md.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import tempfile
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import msgspec

from aiosched.bundles.places import CodePlaces
from aiosched.core.values.messages import Attempt, AttemptKey, Outcome, Report, XComPairs, XComRef
from aiosched.core.values.service_errors import error_of_kind
from aiosched.core.values.worker_messages import (
    MOST_ATTEMPTS,
    CodeCall,
    FinalReport,
    Job,
    ServiceCall,
    ServiceResult,
    WorkerHeartbeat,
    WorkerHeartbeatAnswer,
    XComCall,
    XComResult,
)
from aiosched.errors import AttemptStopped, ExecutorError
from aiosched.executors.engines.api_client import ApiClient, AttemptGone
from aiosched.executors.engines.received_code import ReceivedCode
from aiosched.executors.engines.worker_connection import Begin, WorkerConnection
from aiosched.executors.local.executor import LocalExecutor
from aiosched.executors.local.options import LocalOptions
from aiosched.executors.throughput import Throughput
from aiosched.remote.log_files import log_path

logger: logging.Logger = logging.getLogger(__name__)

ANNOUNCED_AFTER: Final = 1.0  # seconds after which a start is reported; shorter attempts only report their end
LOGS_EVERY: Final = 2.0  # seconds between two parts of a log
TRUSTED: Final = 0.9  # of the lease: the rest is for ending processes
_BEAT_LIMIT: Final = 0.25  # of the lease, for one heartbeat: one is sent after a third, and two more may follow
_AHEAD: Final = 0.25  # seconds of plain functions that may wait here for a slot
_MOST_AHEAD: Final = 32  # times the slots
WAITS_FOR: Final = 2.0  # seconds after which one that waits for a slot is turned away
_GIVEN_UP_GRACE: Final = 1.0  # seconds for an attempt whose result nobody wants any more


class _NoSlot(Exception):
    """Other plain functions have held all slots for a while: the job is sent again, perhaps to another worker."""


@dataclass(slots=True, eq=False)
class _Running:
    """An attempt that this worker has claimed, until its report is stored."""

    job: Job
    attempt: Attempt
    at: WorkerConnection
    logs: LogShipping
    since: float  # monotonic second
    report: asyncio.Future[Report]
    is_stopping: bool = False
    is_gone: bool = False  # it has been given up
    rendered: str | None = None  # its template fields, for the report


@dataclass
class WorkerAgent:
    """Runs the jobs that an engine delivers to this machine. Call everything on one event loop.

    `options.slots` plain functions run at a time; further ones wait. `transport` is httpx2's, for tests.
    """

    options: LocalOptions
    transport: Any = None
    id: str = field(default_factory=lambda: uuid4().hex)
    _is_stopping: bool = False
    _given: set[int] = field(default_factory=set)  # the ids of the jobs that have not begun
    _running: dict[int, _Running] = field(default_factory=dict)  # by the id of the job
    _by_key: dict[AttemptKey, _Running] = field(default_factory=dict)
    _unannounced: dict[int, _Running] = field(default_factory=dict)  # by the id of the job, the oldest first
    _waiting: deque[asyncio.Future[None]] = field(default_factory=deque)  # plain functions that wait for a slot
    _claiming: int = 0  # plain functions that are about to be claimed
    _plain_running: int = 0
    _throughput: Throughput = field(default_factory=lambda: Throughput(_AHEAD))
    _connections: dict[tuple[str, ...], WorkerConnection] = field(default_factory=dict)
    _until: float = 0.0  # monotonic second at which the lease ends; meaningless while nothing runs
    _lease: float = 30.0
    _loops: list[asyncio.Task[None]] = field(default_factory=list)

    async def start(self) -> None:
        """Start the processes below which attempts run."""
        self._scratch = tempfile.TemporaryDirectory(prefix="aiosched-worker-")
        self._logs_folder = Path(self._scratch.name)
        places = self.options.places or CodePlaces({"": str(self.options.dags_folder)})
        self._code = ReceivedCode(places)
        options = replace(self.options, logs_folder=self._logs_folder, uploads_logs=False, places=places)
        self._executor = LocalExecutor(options)
        self._changed = asyncio.Event()
        await self._executor.start(self._receive, self)
        self._loops = [
            asyncio.create_task(self._beat(), name="heartbeats of attempts"),
            asyncio.create_task(self._ship_logs(), name="logs of attempts"),
        ]

    async def stop(self, grace: float) -> None:
        """Wait up to `grace` seconds for attempts, end the others as lost, and report them all."""
        self._is_stopping = True
        for admitted in self._waiting:
            if not admitted.done():
                admitted.set_exception(AttemptStopped("this worker stops"))
        self._waiting.clear()
        await self._executor.stop(grace)
        waiting = [each.report for each in self._running.values()]
        if waiting:
            await asyncio.wait(waiting, timeout=5.0)
        while self._running and self._lease_holds():  # their reports are being stored
            await self._next_change(0.2)
        for loop in self._loops:
            loop.cancel()
        await asyncio.gather(*self._loops, return_exceptions=True)
        for connection in self._connections.values():
            await connection.api.close()
        self._scratch.cleanup()

    @property
    def running(self) -> int:
        """How many attempts have been claimed and not reported yet."""
        return len(self._running)

    @property
    def room(self) -> int:
        """How many more plain functions could run soon, at the rate at which they have ended lately."""
        ahead = min(self._throughput.ahead(time.monotonic()), _MOST_AHEAD * self._executor.slots)
        return self._executor.slots + ahead - self._plain_running - self._claiming - len(self._waiting)

    # -- jobs

    async def run(self, job: Job) -> Outcome | None:
        """Run the attempt of a job to its end; returns its outcome once that is stored, None if it did not begin here.

        Cancel it to stop the attempt as lost: the worker is going away.
        """
        if job.id in self._given or job.id in self._running:  # delivered twice to this worker
            return None
        self._given.add(job.id)
        try:
            running = await self._start(job)
        finally:
            self._given.discard(job.id)
        if running is None:
            return None
        try:
            return await self._finish(running)
        finally:
            del self._running[job.id]
            self._plain_running -= not job.is_async
            self._by_key.pop(running.attempt.key, None)
            self._unannounced.pop(job.id, None)
            if not self._running:  # nothing to end with the lease
                self._executor.lease_deadline.until = 0.0
            self._changed.set()

    async def _start(self, job: Job) -> _Running | None:
        """Claim the start of a job's attempt and begin it; None if it is not to be begun here."""
        name, at = job.title or job.name, self._connection(self.options.worker_api or job.urls)
        try:
            begin = await self._claim(job, at)
        except _NoSlot:
            logger.info("%s: it is not begun here: this worker has no slot for it", name)
            return None
        except AttemptStopped as error:
            logger.error("%s: it is not begun here: %s", name, error)
            return None
        if begin.answer.attempt is None:
            logger.info("%s: it is not begun here: %s", name, begin.answer.refusal)
            return None
        if time.monotonic() >= begin.asked + TRUSTED * begin.lease:  # this process stood still meanwhile
            logger.error("%s: it is not begun here: its lease ended first", name)
            return None
        return self._begin(job, begin.answer.attempt, begin, at)

    async def _claim(self, job: Job, at: WorkerConnection) -> Begin:
        """Claim a start; that of a plain function once it can run soon, since until then it may begin elsewhere."""
        if self._is_stopping:
            raise AttemptStopped("this worker stops")
        if job.is_async:
            return await at.claim(job.token)
        loop = asyncio.get_running_loop()
        admitted: asyncio.Future[None] = loop.create_future()
        self._waiting.append(admitted)
        self._admit()
        timer = loop.call_later(WAITS_FOR, self._turn_away, admitted)
        try:
            await admitted
            return await at.claim(job.token)
        finally:
            timer.cancel()
            if not admitted.cancelled() and admitted.exception() is None:  # also if cancelled just after it
                self._claiming -= 1
                loop.call_soon(self._admit)  # once it is submitted

    def _turn_away(self, admitted: asyncio.Future[None]) -> None:
        if not admitted.done():
            self._waiting.remove(admitted)
            admitted.set_exception(_NoSlot)

    def _admit(self) -> None:
        while self._waiting and self._executor.open_slots > self._claiming:
            admitted = self._waiting.popleft()
            if not admitted.done():  # not cancelled
                self._claiming += 1
                admitted.set_result(None)

    def _begin(self, job: Job, attempt: Attempt, begin: Begin, at: WorkerConnection) -> _Running:
        def send(offset: int, part: bytes) -> Any:
            where = f"?offset={offset}"
            goes_on = partial(self._goes_on, job.id)
            return at.api.post("log", part, dict, token=job.token, worker=self.id, query=where, goes_on=goes_on)

        until = begin.asked + TRUSTED * begin.lease
        self._until = min(self._until, until) if self._running else until
        self._lease = begin.lease
        self._executor.lease_deadline.until = self._until
        logs = LogShipping(log_path(self._logs_folder, attempt), send, begin.answer.log_offset)
        report = asyncio.get_running_loop().create_future()
        running = _Running(job, attempt, at, logs, time.monotonic(), report)
        if not self._running or len(self._unannounced) == 0:
            self._changed.set()
        self._running[job.id] = self._by_key[attempt.key] = self._unannounced[job.id] = running
        self._plain_running += not job.is_async
        self._code.note_use(attempt.run)
        self._executor.submit([attempt])
        return running

    async def _finish(self, running: _Running) -> Outcome | None:
        try:
            report = await asyncio.shield(running.report)
        except asyncio.CancelledError:
            await self._executor.cancel(running.attempt.key, self.options.kill_after)
            await running.report
            report = running.report.result()
            if report.outcome is Outcome.FAILED and not running.is_stopping:
                report = _lost(report)
            await asyncio.shield(self._store(running, report))
            raise
        if self._is_stopping and report.outcome is Outcome.LOST:
            report = _lost(report)
        return report.outcome if await self._store(running, report) else None

    async def _store(self, running: _Running, report: Report) -> bool:
        """Send the report, with the rest of the log; returns whether it was stored."""
        job = running.job
        try:
            offset, log = 0, b""
            with contextlib.suppress(AttemptGone, ExecutorError, AttemptStopped):
                offset, log = await running.logs.last_part()
            if running.is_gone:
                return False
            return await running.at.report(FinalReport(token=job.token, report=report, log=log, log_offset=offset))
        except AttemptStopped as error:
            logger.error("%s: its result %s could not be stored: %s", job.title, report.outcome, error)
            return False
        finally:
            running.logs.remove()

    async def cancel(self, job: int, *, grace: float) -> None:
        """Stop the attempt of a job on request: it fails."""
        if (running := self._running.get(job)) is not None and not running.is_stopping:
            running.is_stopping = True
            await self._executor.cancel(running.attempt.key, grace)

    # -- the lease

    def _lease_holds(self) -> bool:
        return time.monotonic() < self._until

    def _goes_on(self, job: int) -> bool:
        running = self._running.get(job)
        return self._lease_holds() and running is not None and not running.is_gone

    async def _beat(self) -> None:
        """Renew the lease each third of it, and report the starts of attempts that have run for a moment."""
        renewed = time.monotonic()
        while True:
            now = time.monotonic()
            if not self._running:
                renewed = now
                await self._next_change(None)
                continue
            if now - renewed >= self._lease / 3:
                renewed = now
                if await self._renew(list(self._running.values())):
                    self._until = now + TRUSTED * self._lease
                    self._executor.lease_deadline.until = self._until if self._running else 0.0
                continue
            oldest = next(iter(self._unannounced.values()), None)
            if oldest is not None and now >= oldest.since + ANNOUNCED_AFTER:
                if not await self._renew([r for r in self._unannounced.values() if now >= r.since + ANNOUNCED_AFTER]):
                    await asyncio.sleep(ANNOUNCED_AFTER)
            else:
                next_at = renewed + self._lease / 3
                if oldest is not None:
                    next_at = min(next_at, oldest.since + ANNOUNCED_AFTER)
                await self._next_change(max(next_at - now, 0.01))

    async def _renew(self, attempts: Sequence[_Running]) -> bool:
        """Tell the servers that these attempts go on, and stop those that are not wanted; whether all servers answered.

        An attempt of which a server says that it has ended is stopped: its lease does not count.
        """
        try:
            for api, some in _by_request(attempts):
                tokens = [running.job.token for running in some]
                beat, limit = WorkerHeartbeat(worker=self.id, tokens=tokens), self._lease * _BEAT_LIMIT
                answer = await api.post(
                    "heartbeat", beat, WorkerHeartbeatAnswer, token=tokens[0], limit=limit, goes_on=self._lease_holds
                )
                for running, status in zip(some, answer.attempts, strict=True):
                    self._unannounced.pop(running.job.id, None)
                    if status.gone and running.job.id in self._running and not running.report.done():
                        running.is_gone = True
                        await self._executor.cancel(running.attempt.key, _GIVEN_UP_GRACE)
                    elif status.stop_grace is not None:
                        await self.cancel(running.job.id, grace=status.stop_grace)
        except (AttemptStopped, ExecutorError) as error:
            logger.error("the lease of this worker could not be renewed: %s", error)
            return False
        return True

    async def _ship_logs(self) -> None:
        while True:
            await asyncio.sleep(LOGS_EVERY)
            for running in list(self._running.values()):
                if not running.report.done():
                    with contextlib.suppress(AttemptGone, ExecutorError, AttemptStopped):
                        await running.logs.ship()

    async def _next_change(self, seconds: float | None) -> None:
        self._changed.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._changed.wait()

    # -- the executor's callbacks

    def _receive(self, report: Report) -> None:
        running = self._by_key.get(report.key)
        if report.outcome is Outcome.STARTED:
            if running is not None:
                running.rendered = report.rendered or running.rendered
            return
        asyncio.get_running_loop().call_soon(self._admit)  # once its slot is free
        if running is not None and not running.attempt.is_async:
            self._throughput.ended(time.monotonic())
        if running is not None and not running.report.done():
            if running.rendered is not None:
                report = msgspec.structs.replace(report, rendered=running.rendered)
            running.report.set_result(report)

    async def get_xcoms(self, run: int, refs: Sequence[XComRef]) -> list[XComPairs]:
        """See TaskServices."""
        call = XComCall(worker=self.id, refs=list(refs))
        answer: XComResult = await self._ask(run, "xcoms", call, XComResult)
        if answer.error is not None:
            raise ExecutorError(answer.error)
        return answer.pairs

    async def call(self, run: int, name: str, args: str) -> str:
        """See TaskServices."""
        if name == "bundle":  # it comes to this machine
            await self._receive_code(run)
            return "{}"
        call = ServiceCall(worker=self.id, id=uuid4(), name=name, args=args)
        answer: ServiceResult = await self._ask(run, "call", call, ServiceResult)
        if answer.error is not None:
            raise error_of_kind(answer.error, answer.kind)
        return answer.answer

    async def _receive_code(self, run: int) -> None:
        info = next((r.attempt.run for r in self._running.values() if r.attempt.key.run == run), None)
        if info is None:
            raise AttemptStopped("asked after it had been given up")
        await self._code.receive(info, lambda: self._ask(run, "code", CodeCall(worker=self.id), bytes))

    async def _ask(self, run: int, name: str, call: msgspec.Struct, answer: type[Any]) -> Any:
        """Ask in the name of an attempt of that run: one of them asks, and others may just have ended."""
        for running in list(self._running.values()):
            if running.attempt.key.run != run or running.is_gone or running.report.done():
                continue
            goes_on = partial(self._goes_on, running.job.id)
            try:
                return await running.at.api.post(name, call, answer, token=running.job.token, goes_on=goes_on)
            except AttemptGone:
                continue
            except AttemptStopped:
                if not self._lease_holds():
                    raise
        raise AttemptStopped("asked after it had been given up")

    def _connection(self, urls: tuple[str, ...]) -> WorkerConnection:
        if urls not in self._connections:
            api = ApiClient(urls, transport=self.transport)
            self._connections[urls] = WorkerConnection(api, self.id, self._lease_holds)
        return self._connections[urls]


def _by_request(attempts: Sequence[_Running]) -> Iterator[tuple[ApiClient, list[_Running]]]:
    """The attempts as one request after the other names them, each to one set of servers."""
    by_api: dict[ApiClient, list[_Running]] = {}
    for running in attempts:
        by_api.setdefault(running.at.api, []).append(running)
    for api, found in by_api.items():
        for first in range(0, len(found), MOST_ATTEMPTS):
            yield api, found[first : first + MOST_ATTEMPTS]


def _lost(report: Report) -> Report:
    """The worker goes away, which is not the task's fault."""
    return msgspec.structs.replace(report, outcome=Outcome.LOST, reason="its worker was told to stop", unattended=False)


_PART: Final = 1_048_576  # bytes


class LogShipping:
    """Sends the log of an attempt to a web server, part by part, while it is written and at its end.

    `send` gets each part with its place in the log, and raises if it is not accepted.

    `begins`: where the file begins in the log, in bytes.
    """

    def __init__(self, path: Path, send: Callable[[int, bytes], Awaitable[None]], begins: int = 0) -> None:
        self._path, self._send, self._begins = path, send, begins
        self._sent = 0
        self._sending = asyncio.Lock()

    async def ship(self) -> None:
        """Send what is new. An error is that of `send`."""
        async with self._sending:
            while part := await asyncio.to_thread(self._read):
                await self._send(self._begins + self._sent, part)
                self._sent += len(part)

    async def last_part(self) -> tuple[int, bytes]:
        """What is left to be sent, and its place in the file. More than one part is sent before, up to the last."""
        if not self._path.exists():
            return 0, b""
        async with self._sending:
            while True:
                part = await asyncio.to_thread(self._read)
                if len(part) < _PART:
                    return self._begins + self._sent, part
                await self._send(self._begins + self._sent, part)
                self._sent += len(part)

    def _read(self) -> bytes:
        try:
            with self._path.open("rb") as file:
                file.seek(self._sent)
                return file.read(_PART)
        except FileNotFoundError:
            return b""

    def remove(self) -> None:
        """Remove the file: all of it was sent, or nobody wants it."""
        with contextlib.suppress(OSError):
            self._path.unlink()
