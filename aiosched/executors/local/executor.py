"""The local executor: attempts run in warm worker processes of this machine.

    scheduler ── guard ── forkserver ── workers      guard.py, forkserver.py, forkserver_client.py
        └───────────── a socket each ──────┘         worker_link.py; worker/

Plain functions run one to a process at a time, `async def` tasks many to a process. Lives here: the fate of attempts,
including when their process ends. Does not live here: assigning plain functions to workers (queueing.py). When an
attempt's process ends (the semantics reference, section 22.2, and decision 17): a crash while a single task ran is an
ordinary failure of that task; attempts that died through no fault of their own are lost; attempts that had not begun go
to another worker.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import Final

import msgspec

from aiosched.core.values.messages import Attempt, AttemptKey, Outcome, Report, RunInfo, TaskServices, Upcoming
from aiosched.core.values.received_reports import received
from aiosched.errors import ConfigError
from aiosched.executors.attempt.failures import timeout_reason
from aiosched.executors.attempt.logs import AttemptLog
from aiosched.executors.attempt.start_notices import StartNotices
from aiosched.executors.local.blocked_loops import BlockedLoops
from aiosched.executors.local.code_workers import CodeWorkers
from aiosched.executors.local.forkservers import Forkservers
from aiosched.executors.local.memory_watch import MemoryWatch
from aiosched.executors.local.options import LocalOptions
from aiosched.executors.local.queueing import AttemptQueue
from aiosched.executors.local.service_calls import ServiceCalls
from aiosched.executors.local.trigger_process import TriggerProcess
from aiosched.executors.local.worker_link import WorkerLink
from aiosched.executors.worker.claim_pipe import ClaimPipe
from aiosched.executors.worker.lease_deadline import LeaseDeadline
from aiosched.executors.worker.loop_heartbeat import LoopHeartbeat
from aiosched.executors.worker.processes import describe_exit, signal_group
from aiosched.executors.worker.protocol import (
    Ended,
    Exited,
    FieldsRendered,
    Fired,
    ServiceCall,
    Warmed,
    Withdraw,
    XComCall,
)
from aiosched.timeouts import clean_up_timeout

__all__ = ["LocalExecutor", "LocalOptions"]

log: logging.Logger = logging.getLogger(__name__)

_MOST_FAILED_STARTS: Final = 3  # consecutive failures before waiting attempts are reported as lost
_STOPPED: Final = "the scheduler stopped"
_ON_REQUEST: Final = "was stopped on request"
_PATIENCE: Final = 0.5  # seconds to read the last messages of a dead worker whose child holds the socket open


class LocalExecutor:
    """Runs attempts in worker processes. Implements the Executor protocol; runs on the event loop of `start`."""

    name = "local"

    def __init__(self, options: LocalOptions) -> None:
        if options.isolation not in {"warm", "fresh"}:
            raise ConfigError(f"executor.isolation is {options.isolation!r}: use 'warm' or 'fresh'.")
        cores = os.cpu_count() or 1
        self._options = options
        self._slots = options.slots or 4 * cores
        self._async_workers = options.async_workers or max(1, cores // 2)
        self._fresh = options.isolation == "fresh"
        self._hostname = socket.gethostname()
        self._links: dict[int, WorkerLink] = {}  # all workers whose end has not been handled
        self.lease_deadline: LeaseDeadline = LeaseDeadline()  # the lease thread writes the lease's end there
        self._forkservers = Forkservers(options, self, self.lease_deadline)
        self._where: dict[AttemptKey, WorkerLink] = {}  # sent but not yet reported
        self._verdicts: dict[AttemptKey, tuple[Outcome, str]] = {}  # the future report of an attempt told to stop
        self._timers: dict[AttemptKey, asyncio.TimerHandle] = {}  # for those with an execution timeout
        self._kills: dict[AttemptKey, asyncio.TimerHandle] = {}  # for those told to stop
        self._connecting: set[asyncio.Task[None]] = set()
        self._endings: set[asyncio.Task[str]] = set()  # of ended forkservers
        self._async_running = 0
        self._last_number = 0
        self._failed_starts = 0
        self._started = self._stopping = False
        self._quiet = asyncio.Event()  # all accepted attempts are reported
        self._quiet.set()

    @property
    def slots(self) -> int:
        """The number of plain-function attempts it runs at a time."""
        return self._slots

    @property
    def open_slots(self) -> int:
        """Free slots, plus those expected to become free in a moment at the current rate (see Throughput)."""
        return 0 if self._stopping else self._queue.room

    @property
    def open_async_slots(self) -> int:
        """How many more `async def` attempts it accepts; with isolation "fresh" they use ordinary slots."""
        if self._fresh:
            return self.open_slots
        return 0 if self._stopping else max(0, self._options.async_slots - self._async_running)

    async def start(self, report: Callable[[Report], None], services: TaskServices) -> None:
        """Start the forkserver; workers are forked on demand."""
        self._loop = asyncio.get_running_loop()
        self._report, self._answers = report, ServiceCalls(services)
        self._starts = StartNotices(self._loop, report, hostname=self._hostname, delay=self._options.notice_delay)
        idle_time = self._options.idle_time
        times = {"idle_time": idle_time, "import_timeout": self._options.import_timeout}
        self._queue = AttemptQueue(self, self._links, slots=self._slots, lines=not self._fresh, **times)
        await self._forkservers.start()
        self.blocked_loops: BlockedLoops = BlockedLoops(self._links, limit=self._options.blocked_limit)
        self._code_workers = CodeWorkers(
            self, self._links, self.blocked_loops, most=self._async_workers, idle_time=idle_time
        )
        most = self._options.max_xcom_bytes
        self._triggers = TriggerProcess(self._code_workers, report, self._hostname, most=most)
        self._memory = MemoryWatch(self._links, self._options.memory_limit, self._kill_because)
        self._started = True

    def submit(self, attempts: Sequence[Attempt]) -> None:
        """Accept the attempts, in order; those without a free worker wait."""
        for attempt in attempts:
            user = self._forkservers.own_user(attempt)
            if self._stopping:
                self._loop.call_soon(self._finish, self._report_of(attempt.key, Outcome.LOST, _STOPPED))
            elif attempt.trigger is not None:
                self._triggers.submit(attempt)
            elif user is not None and (refusal := self._forkservers.refusal(attempt, user)) is not None:
                self._note(attempt, refusal)
                self._loop.call_soon(self._finish, self._report_of(attempt.key, Outcome.FAILED, refusal))
            elif attempt.is_async and not self._fresh and user is None:
                self._async_running += 1
                self.begin(self._code_workers.for_coroutine(attempt.run), attempt)
            else:
                self._queue.add(attempt, user)
        if self._where or self._queue:
            self._quiet.clear()
        self._queue.pump()

    def prepare(self, upcoming: Sequence[Upcoming]) -> None:
        """Have workers import the files of runs that are expected; with isolation "fresh" none would keep them."""
        if not (self._stopping or self._fresh):
            self._queue.prepare(each.run for each in upcoming if not each.is_async)
            self._code_workers.prepare((each.run for each in upcoming if each.is_async), self._queue.warming)

    async def cancel(self, attempt: AttemptKey, grace: float) -> None:
        """Ask an attempt to stop and return at once; its report (FAILED) follows within about `grace` seconds.

        An `async def` attempt that ignores its cancellation is killed with its worker: the other attempts in that
        worker are then lost.
        """
        if not self._triggers.cancel(attempt, _ON_REQUEST):
            self._stop_attempt(attempt, grace, Outcome.FAILED, _ON_REQUEST)

    def forget(self, triggers: Sequence[AttemptKey]) -> None:
        """Stop triggers that wait elsewhere from now on."""
        self._triggers.forget(triggers)

    async def stop(self, grace: float) -> None:
        """Wait up to `grace` seconds for running attempts, then TERM or cancel, then KILL; ends all processes.

        Attempts that had not begun or had to be stopped are reported as LOST: this uses no retry. A second call with a
        shorter grace shortens a stop in progress.
        """
        self._stopping = True
        if not self._started:
            return
        self._triggers.close(_STOPPED)
        for attempt in self._queue.close():
            self._finish(self._report_of(attempt.key, Outcome.LOST, _STOPPED))
        self._settle()
        for end in (grace, self._options.kill_after, _PATIENCE):
            with contextlib.suppress(TimeoutError):
                async with clean_up_timeout(end):
                    await self._quiet.wait()
            if self._quiet.is_set():
                break
            for key in list(self._where):
                self._stop_attempt(key, self._options.kill_after, Outcome.LOST, _STOPPED)
        await self._release()

    # Handing out work

    def spawn(self, *, is_async: bool, team: str | None, watches: bool = False, user: str | None = None) -> WorkerLink:
        """Start a worker for attempts of a team. A failure to start is handled in the next loop iteration."""
        self._last_number += 1
        link = WorkerLink(self._last_number, is_async=is_async, watches=watches, user=user, team=team, listener=self)
        self._links[link.number] = link
        try:
            if is_async:
                link.sign = LoopHeartbeat()
                shared = link.sign.descriptor
            else:
                link.claim_pipe = ClaimPipe()
                shared = link.claim_pipe.descriptor
            ours = self._forkservers.fork(link, shared)
        except OSError as error:  # out of file descriptors or processes
            link.exit, link.retiring = str(error), True
            self._loop.call_soon(self._judge, link)
            return link
        task = self._loop.create_task(link.connect(ours))
        self._connecting.add(task)
        task.add_done_callback(self._connecting.discard)
        return link

    def begin(self, link: WorkerLink, attempt: Attempt) -> None:
        """Send an attempt to a worker: it begins now, or waits in the worker's line."""
        self._where[attempt.key] = link
        link.run(attempt)
        if link.ready and (link.is_async or len(link.attempts) == 1):
            self._began(link, attempt)

    def taken_back(self, attempts: Iterable[Attempt]) -> None:
        """These attempts were taken back from a worker before they began."""
        for attempt in attempts:
            del self._where[attempt.key]
            self._starts.withdrawn(attempt.key)
            if (timer := self._timers.pop(attempt.key, None)) is not None:
                timer.cancel()

    def _began(self, link: WorkerLink, attempt: Attempt) -> None:
        self._memory.began(link)
        key, timeout = attempt.key, attempt.execution_timeout
        if attempt.callback is None:
            self._starts.began(key, link)
        if timeout is not None:
            patience = timeout + self._options.cleanup_time
            self._timers[key] = self._loop.call_later(patience, self._overdue, key, timeout)

    # Messages from workers

    def worker_ready(self, link: WorkerLink) -> None:
        """A worker has started: its attempts begin now; of plain functions, only the first one."""
        attempts = list(link.attempts.values())
        link.head_since = self._loop.time()
        for attempt in attempts if link.is_async else attempts[:1]:
            self._began(link, attempt)

    def attempts_ended(self, link: WorkerLink, ended: Ended) -> None:
        """Some attempts of a worker have ended."""
        head = None if link.is_async else next(iter(link.attempts), None)
        most = self._options.max_xcom_bytes
        reports = [
            received(report, attempt, most)
            for report in ended.reports
            if (attempt := self._leave(link, report.key, ended)) is not None
        ]
        self._failed_starts = 0
        if ended.retire is not None or self._fresh:
            link.retiring = True
        if link.retiring:
            self._queue.take_back(link)
            if not link.attempts:
                self.dismiss(link)
        elif link.is_async:
            self._code_workers.ended(link)
        elif reports:
            if not link.attempts:
                self._queue.idle(link)
            elif link.ready and head not in link.attempts:
                link.head_since = self._loop.time()
                self._began(link, next(iter(link.attempts.values())))
        for report in reports:
            self._finish(report)
        self._queue.pump()

    def attempt_unsendable(self, link: WorkerLink, attempt: Attempt, reason: str) -> None:
        """A worker cannot be sent an attempt: it fails, and holds up no other one."""
        if attempt.trigger is not None:
            self._loop.call_soon(self._triggers.cancel, attempt.key, reason)
            return
        self._note(attempt, reason)
        self.attempts_ended(link, Ended([self._report_of(attempt.key, Outcome.FAILED, reason)]))

    def fields_rendered(self, rendered: FieldsRendered) -> None:
        """A worker has rendered the template fields of an attempt: stored with its start, or with its end."""
        self._starts.rendered(rendered.key, rendered.fields)

    def file_warmed(self, link: WorkerLink, run: RunInfo, warmed: Warmed) -> None:
        """A worker has imported a file for a run that is expected, or could not."""
        self._queue.warmed(link, run, warmed)
        self._code_workers.ended(link)

    def trigger_fired(self, link: WorkerLink, fired: Fired) -> None:
        """A trigger has fired or failed."""
        self._failed_starts = 0
        self._triggers.fired(link, fired.number, fired.report)

    def worker_asks(self, link: WorkerLink, call: XComCall | ServiceCall | Withdraw) -> None:
        """A task in a worker requests XComs, calls a service, or withdraws a request."""
        self._answers.give(link, call)

    # Ends of processes

    def worker_forked(self, worker: int, pid: int) -> None:
        """A worker's process has started."""
        if (link := self._links.get(worker)) is not None:
            link.pid = pid

    def worker_exited(self, exited: Exited) -> None:
        """A worker's process has ended. Its last messages may still be in the socket and are processed."""
        if (link := self._links.get(exited.worker)) is not None:
            why_killed = link.why_killed if exited.code == -signal.SIGKILL else None
            link.exit = exited.reason or f"the worker process {why_killed or describe_exit(exited.code)}"
            link.left, link.output = exited.left, exited.output
            self._judge_soon(link)

    def link_lost(self, link: WorkerLink) -> None:
        """A worker's socket is closed."""
        link.retiring = True
        self._answers.gone(link)
        self._queue.gone(link)
        if link.exit is not None:
            self._judge(link)
        elif link.attempts or link.triggers:  # it ends just now, or cannot be reached any more
            self._loop.call_later(_PATIENCE, self._kill_because, link, "closed its connection to the scheduler")

    def forkserver_lost(self, user: str | None, ended: asyncio.Task[str]) -> None:
        """A forkserver has ended, with its workers. Their attempts are reported once no process is left."""
        links = [link for link in self._links.values() if link.user == user]
        for link in links:
            if link.pid is not None:
                signal_group(link.pid, signal.SIGKILL)
            link.blameless = link.retiring = True
            self._queue.gone(link)
        self._endings.add(ended)
        ended.add_done_callback(lambda ended: self._forkserver_ended(ended, links))

    def _forkserver_ended(self, ended: asyncio.Task[str], links: Sequence[WorkerLink]) -> None:
        self._endings.discard(ended)
        if ended.cancelled():  # the loop is shutting down
            return
        reason = ended.result()
        for link in links:
            if not link.judged:
                link.exit = f"the forkserver {reason}, along with its workers"
                self._judge_soon(link)

    def _judge_soon(self, link: WorkerLink) -> None:
        link.retiring = True
        self._queue.gone(link)
        if link.lost.done():
            self._judge(link)
        else:
            self._loop.call_later(_PATIENCE, self._judge, link)

    def _judge(self, link: WorkerLink) -> None:
        """Decide, once, the outcome of a dead worker's attempts."""
        if link.judged:
            return
        link.judged = True
        self._links.pop(link.number, None)
        self._queue.gone(link)
        if link.ready:
            self._queue.take_back(link)
        link.close()
        attempts = dict(link.attempts)
        if not link.ready and not self._stopping and (link.triggers or attempts.keys() - self._verdicts.keys()):
            self._failed_starts += 1
        alone = len(attempts) == 1
        again: list[Attempt] = []
        for key, attempt in attempts.items():
            self._leave(link, key)
            outcome, reason = Outcome.LOST, link.exit or "the worker process is gone"
            if key in self._verdicts:
                how = "and its process was killed" if link.ready else "before it began"
                reason = f"{self._verdicts[key][1]}, {how}"
            elif not link.ready:
                if self._failed_starts < _MOST_FAILED_STARTS:
                    again.append(attempt)
                    continue
                reason = f"no worker could be started: {reason}"
            elif not link.blameless and alone:
                outcome = Outcome.FAILED
            elif not link.blameless:
                reason = f"{reason}, which ran {len(attempts)} attempts at a time"
            self._note(attempt, reason, link.left, link.output if alone else b"")
            self._finish(self._report_of(key, outcome, reason, link))
        fresh_start = not link.ready and self._failed_starts < _MOST_FAILED_STARTS
        self._triggers.worker_gone(link, link.exit or "the worker process is gone", again=fresh_start)
        if again:
            self.submit(again)
        self._queue.pump()

    def _note(self, attempt: Attempt, reason: str, left: str | None = None, output: bytes = b"") -> None:
        """Write the last lines of a log on behalf of a dead process."""
        options = self._options
        file = AttemptLog(options.logs_folder, attempt, options.max_log_bytes, uploaded=options.uploads_logs)
        file.raw(output)
        if left is not None:
            file.line("WARNING", "aiosched", left)
        file.line("ERROR", "aiosched", reason)
        file.close()
        if file.unwritten is not None:
            self._answers.tell(file.unwritten, attempt)

    def _leave(self, link: WorkerLink, key: AttemptKey, ended: Ended | None = None) -> Attempt | None:
        """Remove the attempt from the worker, and return it, if the worker had it."""
        if (attempt := link.attempts.pop(key, None)) is None:
            return None
        del self._where[key]
        if link.is_async and not self._fresh and link.user is None:
            self._async_running -= 1
        else:
            self._queue.ended(link, attempt, ended)
        return attempt

    def _finish(self, report: Report) -> None:
        key, report = report.key, self._starts.with_fields(report)
        began = self._starts.ended(key)
        if report.started_at is None and began is not None:
            report = msgspec.structs.replace(report, started_at=began)
        for timers in (self._timers, self._kills):
            if (timer := timers.pop(key, None)) is not None:
                timer.cancel()
        verdict = self._verdicts.pop(key, None)
        if report.outcome is Outcome.LOST and verdict is not None:
            outcome, reason = verdict
            reason = report.reason if report.reason and report.reason.startswith(reason) else reason
            failed = outcome is Outcome.FAILED
            report = msgspec.structs.replace(report, outcome=outcome, reason=reason, unattended=failed)
        elif report.outcome is Outcome.LOST and report.reason == "was told to stop by SIGTERM":
            ended = {"outcome": Outcome.FAILED, "reason": "got SIGTERM from outside", "unattended": True}
            report = msgspec.structs.replace(report, **ended)
        self._report(report)
        self._settle()

    def _settle(self) -> None:
        if not self._where and not self._queue:
            self._quiet.set()

    # Stopping

    def _stop_attempt(self, key: AttemptKey, grace: float, outcome: Outcome, reason: str) -> None:
        if (link := self._where.get(key)) is not None:
            self._queue.take_back(link)
        if self._queue.remove(key):
            self._finish(self._report_of(key, outcome, f"{reason}, before it began"))
        elif link is not None and (link.is_async or key == next(reversed(link.attempts))):
            self._stop_running(key, link, grace, outcome, reason)
        self._queue.pump()

    def _stop_running(self, key: AttemptKey, link: WorkerLink, grace: float, outcome: Outcome, reason: str) -> None:
        again = key in self._verdicts
        self._verdicts.setdefault(key, (outcome, reason))
        if link.is_async:
            link.cancel(key)
        elif not again:
            link.retiring = True
            self._forkservers.signal(link, signal.SIGTERM)
        if (patient := self._kills.pop(key, None)) is not None:
            patient.cancel()
        self._kills[key] = self._loop.call_later(grace, self._kill, key, link)

    def _kill(self, key: AttemptKey, link: WorkerLink) -> None:
        if link.killed:
            return
        link.killed = True
        others = len(link.attempts) - 1
        log.warning(
            "attempt %s does not stop: its worker process %s is killed%s",
            key, link.pid, f", with {others} other attempts" if others else "",
        )  # fmt: skip
        self._forkservers.signal(link, signal.SIGKILL)

    def _kill_because(self, link: WorkerLink, reason: str) -> None:
        """Kill a worker for what its attempts did, unless it has ended."""
        if link.exit is None and not link.killed:
            link.killed, link.why_killed = True, f"{reason} and was killed"
            log.warning("worker process %s, with %d attempts, %s", link.pid, len(link.attempts), link.why_killed)
            self._forkservers.signal(link, signal.SIGKILL)

    def _overdue(self, key: AttemptKey, seconds: float) -> None:
        self._timers.pop(key, None)
        self._stop_attempt(key, self._options.kill_after, Outcome.FAILED, timeout_reason(seconds))

    def dismiss(self, link: WorkerLink) -> None:
        """End an idle worker; kill it if it does not end."""
        link.retiring = True
        link.close()
        self._loop.call_later(self._options.kill_after, self._make_sure, link)

    def _make_sure(self, link: WorkerLink) -> None:
        if link.number in self._links and link.exit is None:
            self._forkservers.signal(link, signal.SIGKILL)

    async def _release(self) -> None:
        self._starts.close()
        self.blocked_loops.close()
        await self._memory.close()
        links = list(self._links.values())
        await asyncio.gather(*self._connecting, return_exceptions=True)
        await self._answers.close()
        for link in links:
            link.close()
        await self._forkservers.close()
        await asyncio.gather(*self._endings, return_exceptions=True)
        await asyncio.gather(*(asyncio.wait_for(link.lost, _PATIENCE) for link in links), return_exceptions=True)
        for link in links:
            link.exit = link.exit or "the worker process was stopped with its scheduler"
            self._judge(link)

    def _report_of(self, key: AttemptKey, outcome: Outcome, reason: str, link: WorkerLink | None = None) -> Report:
        """The executor's own report about an attempt whose process could not report."""
        return Report(
            key=key,
            outcome=outcome,
            at=datetime.now(UTC),
            reason=reason,
            unattended=outcome is Outcome.FAILED,
            hostname=self._hostname,
            pid=link.pid if link is not None else None,
        )
