"""The worker's side of engines: claims attempts, runs them in processes of this machine, and reports their outcomes.

Attempts run as with the executor `local`, by the same processes. Instead of a scheduler's lease there is that of this
worker: it is renewed by heartbeats, and if no server can be reached for as long as it lasts, all processes end, so that
no attempt overlaps with its next try. Source: docs/decisions/0036-attempts-on-engines.md.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import msgspec

from aiosched.core.values.messages import Attempt, Outcome, Report, XComPairs, XComRef
from aiosched.core.values.service_errors import error_of_kind
from aiosched.core.values.worker_messages import (
    FinalReports,
    FinalReportsAnswer,
    Job,
    ServiceAnswer,
    ServiceCall,
    Start,
    StartClaim,
    WorkerHeartbeat,
    WorkerHeartbeatAnswer,
    XComAnswer,
    XComQuestion,
)
from aiosched.errors import AttemptStopped, ExecutorError
from aiosched.executors.attempt.log_files import log_path
from aiosched.executors.engines.api_client import ApiClient, AttemptGone, BegunElsewhere
from aiosched.executors.engines.log_shipping import LogShipping
from aiosched.executors.local.executor import LocalExecutor
from aiosched.executors.local.options import LocalOptions

logger = logging.getLogger(__name__)

_CLAIM_PATIENCE: Final = 60.0  # seconds in which a start is claimed; the job ends if no server answers
_ANNOUNCED_AFTER: Final = 1.0  # seconds after which a start is reported; shorter attempts only report their end
_LOGS_EVERY: Final = 2.0  # seconds between two parts of a log
_TRUSTED: Final = 0.9  # of the lease: the rest is for ending processes
_GIVEN_UP_GRACE: Final = 1.0  # seconds for an attempt whose result nobody wants any more


@dataclass(slots=True, eq=False)
class _Running:
    """An attempt that this worker has claimed, until its report is stored."""

    job: Job
    attempt: Attempt
    api: ApiClient
    logs: LogShipping
    since: float  # monotonic second
    report: asyncio.Future[Report]
    is_announced: bool = False
    is_stopping: bool = False
    is_gone: bool = False  # it has been given up


@dataclass
class WorkerAgent:
    """Runs the jobs that an engine delivers to this machine. Call everything on one event loop.

    `options.slots` plain functions run at a time; further ones wait. `transport` is httpx2's, for tests.
    """

    options: LocalOptions
    transport: Any = None
    id: str = field(default_factory=lambda: uuid4().hex)
    _is_stopping: bool = False
    _claiming: set[int] = field(default_factory=set)  # the ids of the jobs
    _running: dict[int, _Running] = field(default_factory=dict)  # by the id of the job
    _clients: dict[tuple[str, ...], ApiClient] = field(default_factory=dict)
    _until: float = 0.0  # monotonic second at which the lease ends; meaningless while nothing runs
    _lease: float = 30.0
    _loops: list[asyncio.Task[None]] = field(default_factory=list)

    async def start(self) -> None:
        """Start the processes below which attempts run."""
        self._scratch = tempfile.TemporaryDirectory(prefix="aiosched-worker-")
        self._logs_folder = Path(self._scratch.name)
        self._executor = LocalExecutor(replace(self.options, logs_folder=self._logs_folder, uploads_logs=False))
        self._hostname = socket.gethostname()
        self._changed = asyncio.Event()
        await self._executor.start(self._receive, self)
        self._loops = [
            asyncio.create_task(self._beat(), name="heartbeats of attempts"),
            asyncio.create_task(self._ship_logs(), name="logs of attempts"),
        ]

    async def stop(self, grace: float) -> None:
        """Wait up to `grace` seconds for attempts, end the others as lost, and report them all."""
        self._is_stopping = True
        await self._executor.stop(grace)
        waiting = [each.report for each in self._running.values()]
        if waiting:
            await asyncio.wait(waiting, timeout=5.0)
        while self._running and self._lease_holds():  # their reports are being stored
            await self._next_change(0.2)
        for loop in self._loops:
            loop.cancel()
        await asyncio.gather(*self._loops, return_exceptions=True)
        for client in self._clients.values():
            await client.close()
        self._scratch.cleanup()

    @property
    def running(self) -> int:
        """How many attempts have been claimed and not reported yet."""
        return len(self._running)

    # -- jobs

    async def run(self, job: Job) -> Outcome | None:
        """Run the attempt of a job to its end; returns its outcome once that is stored, None if it did not begin here.

        Cancel it to stop the attempt as lost: the worker is going away.
        """
        if job.id in self._claiming or job.id in self._running:  # delivered twice to this worker
            return None
        self._claiming.add(job.id)
        try:
            running = await self._claim(job)
        finally:
            self._claiming.discard(job.id)
        if running is None:
            return None
        try:
            return await self._finish(running)
        finally:
            del self._running[job.id]
            self._lease_may_end()
            self._changed.set()

    async def _claim(self, job: Job) -> _Running | None:
        """Claim the start of a job's attempt and begin it; None if it is not to be begun here."""
        api = self._client(job.urls)
        asked = time.monotonic()
        claim = StartClaim(worker=self.id, hostname=self._hostname, pid=os.getpid())
        try:
            begin = await api.post(
                "start", claim, Start, token=job.token, goes_on=lambda: time.monotonic() < asked + _CLAIM_PATIENCE
            )
        except BegunElsewhere:
            logger.info("%s: another worker has begun it", job.title or job.name)
            return None
        except AttemptGone:
            logger.info("%s: it has been given up before it began", job.title or job.name)
            return None
        except AttemptStopped as stopped:
            logger.error("%s: it is not begun here: this worker %s", job.title or job.name, stopped)
            return None
        return self._begin(job, begin, api, asked)

    def _begin(self, job: Job, begin: Start, api: ApiClient, asked: float) -> _Running:
        def send(offset: int, part: bytes) -> Any:
            where = f"?offset={begin.log_offset + offset}"
            return api.post(
                "log", part, dict, token=job.token, worker=self.id, query=where, goes_on=lambda: self._goes_on(job.id)
            )

        until = asked + _TRUSTED * begin.lease
        self._until = min(self._until, until) if self._running else until
        self._lease = begin.lease
        self._executor.lease_deadline.until = self._until
        logs = LogShipping(log_path(self._logs_folder, begin.attempt), send)
        report = asyncio.get_running_loop().create_future()
        running = _Running(job, begin.attempt, api, logs, time.monotonic(), report)
        self._running[job.id] = running
        self._executor.submit([begin.attempt])
        self._changed.set()
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
        """Send the rest of the log, then the report; returns whether it was stored."""
        job = running.job
        try:
            if running.is_gone:
                return False
            with contextlib.suppress(AttemptGone, ExecutorError):
                await running.logs.ship()
            final = FinalReports(worker=self.id, reports=[(job.token, report)])
            answer = await running.api.post("reports", final, FinalReportsAnswer, goes_on=lambda: self._goes_on(job.id))
        except AttemptStopped as stopped:
            logger.error("%s: its result %s could not be stored: this worker %s", job.title, report.outcome, stopped)
            return False
        finally:
            running.logs.remove()
        return answer.stored[0]

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

    def _lease_may_end(self) -> None:
        if not self._running:
            self._executor.lease_deadline.until = 0.0

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
                    self._until = now + _TRUSTED * self._lease
                    self._executor.lease_deadline.until = self._until if self._running else 0.0
            elif new := [r for r in self._running.values() if self._is_new(r, now)]:
                await self._renew(new)
            else:
                soon = [r.since + _ANNOUNCED_AFTER for r in self._running.values() if not r.is_announced]
                await self._next_change(max(min([renewed + self._lease / 3, *soon]) - now, 0.01))

    def _is_new(self, running: _Running, now: float) -> bool:
        return not running.is_announced and now >= running.since + _ANNOUNCED_AFTER

    async def _renew(self, attempts: Sequence[_Running]) -> bool:
        """Tell the servers that these attempts go on, and stop those that are not wanted; whether all servers answered.

        An attempt of which a server says that it has ended is stopped: its lease does not count.
        """
        by_api: dict[ApiClient, list[_Running]] = {}
        for running in attempts:
            by_api.setdefault(running.api, []).append(running)
        try:
            for api, some in by_api.items():
                beat = WorkerHeartbeat(worker=self.id, tokens=[running.job.token for running in some])
                answer = await api.post("heartbeat", beat, WorkerHeartbeatAnswer, goes_on=self._lease_holds)
                for running, status in zip(some, answer.attempts, strict=True):
                    running.is_announced = True
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
            await asyncio.sleep(_LOGS_EVERY)
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
        if report.outcome is Outcome.STARTED:
            return
        for running in self._running.values():
            if running.attempt.key == report.key and not running.report.done():
                running.report.set_result(report)
                return

    async def get_xcoms(self, run: int, refs: Sequence[XComRef]) -> list[XComPairs]:
        """See TaskServices."""
        return await self._xcoms(run, refs, previous=False)

    async def get_previous_xcoms(self, run: int, ref: XComRef) -> XComPairs:
        """See TaskServices."""
        return (await self._xcoms(run, [ref], previous=True))[0]

    async def _xcoms(self, run: int, refs: Sequence[XComRef], *, previous: bool) -> list[XComPairs]:
        question = XComQuestion(worker=self.id, refs=list(refs), previous=previous)
        answer: XComAnswer = await self._ask(run, "xcoms", question, XComAnswer)
        if answer.error is not None:
            raise ExecutorError(answer.error)
        return answer.pairs

    async def call(self, run: int, name: str, args: str) -> str:
        """See TaskServices."""
        question = ServiceCall(worker=self.id, id=uuid4(), name=name, args=args)
        answer: ServiceAnswer = await self._ask(run, "call", question, ServiceAnswer)
        if answer.error is not None:
            raise error_of_kind(answer.error, answer.kind)
        return answer.answer

    async def _ask(self, run: int, name: str, question: msgspec.Struct, answer: type[Any]) -> Any:
        """Ask in the name of an attempt of that run: one of them asks, and others may just have ended."""
        for running in list(self._running.values()):
            if running.attempt.key.run != run or running.is_gone or running.report.done():
                continue
            goes_on = partial(self._goes_on, running.job.id)
            try:
                return await running.api.post(name, question, answer, token=running.job.token, goes_on=goes_on)
            except AttemptGone:
                continue
            except AttemptStopped:
                if not self._lease_holds():
                    raise
        raise AttemptStopped("asked after it had been given up")

    def _client(self, urls: tuple[str, ...]) -> ApiClient:
        if urls not in self._clients:
            self._clients[urls] = ApiClient(urls, transport=self.transport)
        return self._clients[urls]


def _lost(report: Report) -> Report:
    """The worker goes away, which is not the task's fault."""
    return msgspec.structs.replace(report, outcome=Outcome.LOST, reason="its worker was told to stop", unattended=False)
