"""Plain-function attempts that wait for a worker process, and their assignment to workers.

An attempt waits here until a worker is free. While attempts are short, it can instead be sent to a worker that still
runs another attempt, and waits in that worker's *line*. This is preferably a worker that has loaded its DAG file, so
that a file is imported by few workers, and no worker waits for the scheduler between two attempts. An attempt that
stays in a line for too long is taken back (claim_pipe.py), and goes to any free worker.
Source: decision 20.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Mapping
from typing import Final, Protocol

from aiosched.core.values.messages import Attempt, AttemptKey, RunInfo
from aiosched.executors.local.affinity import (
    PATIENCE,
    FileKey,
    FileTimes,
    behind,
    choose_for_import,
    code_file,
    match,
)
from aiosched.executors.local.warming import Warming
from aiosched.executors.local.worker_link import WorkerLink
from aiosched.executors.throughput import Throughput
from aiosched.executors.worker.protocol import Ended, Warmed

_IMPORT: Final = 1.0  # seconds that an import is expected to take at least
_MOST_AHEAD: Final = 16  # waiting attempts per slot


class Host(Protocol):
    """Starts the workers and sends them attempts."""

    def spawn(self, *, is_async: bool, team: str | None, user: str | None = None) -> WorkerLink: ...
    def begin(self, link: WorkerLink, attempt: Attempt) -> None: ...
    def taken_back(self, attempts: Iterable[Attempt]) -> None: ...
    def dismiss(self, link: WorkerLink) -> None: ...


class AttemptQueue:
    """The waiting attempts and the idle workers.

    `links` are all workers of the host. `lines`: whether attempts can wait in workers. Idle workers beyond the first
    are dismissed after `idle_time` seconds. Imports take at most `import_timeout`.
    """

    def __init__(
        self,
        host: Host,
        links: Mapping[int, WorkerLink],
        *,
        slots: int,
        lines: bool,
        idle_time: float,
        import_timeout: float = 30.0,
    ) -> None:
        self._host, self._links = host, links
        self._loop = asyncio.get_running_loop()
        self._slots, self._lines, self._idle_time = slots, lines, idle_time
        self._backlog: deque[Attempt] = deque()
        self._own: dict[AttemptKey, str] = {}  # those that wait for a worker of their own, as this user
        self._idle: list[WorkerLink] = []  # idle, most recently used last
        self._busy = 0  # workers that have attempts
        self._sent = 0  # their attempts
        self._passed_over = 0  # consecutive times that the first attempt was passed over
        self._throughput = Throughput()
        self._times = FileTimes()
        self._most_warming = max(1, slots // 2)  # workers that import for runs that are expected; they use no slot
        self.warming: Warming = Warming(self._release, host.dismiss, most=self._most_warming, time_limit=import_timeout)
        self._next_look: asyncio.TimerHandle | None = None  # for a worker that can import what is expected
        self._line_check: asyncio.TimerHandle | None = None
        self._reaper: asyncio.TimerHandle | None = None
        self.closed: bool = False

    def __len__(self) -> int:
        return len(self._backlog) + self.warming.held

    @property
    def room(self) -> int:
        """Free slots, plus those expected to become free in a moment at the current rate (see Throughput)."""
        if self.closed:
            return 0
        ahead = min(self._throughput.ahead(self._loop.time()), _MOST_AHEAD * self._slots)
        return max(0, self._slots + ahead - self._sent - len(self))

    def add(self, attempt: Attempt, user: str | None = None) -> None:
        """Add an attempt at the end of the queue. `pump` assigns it: with a `user`, to a worker of its own."""
        self._backlog.append(attempt)
        if user is not None:
            self._own[attempt.key] = user

    def remove(self, key: AttemptKey) -> bool:
        """Remove an attempt; returns whether it waited here."""
        waiting = next((attempt for attempt in self._backlog if attempt.key == key), None)
        if waiting is not None:
            self._backlog.remove(waiting)
            self._own.pop(key, None)
        return waiting is not None or self.warming.remove(key)

    def close(self) -> list[Attempt]:
        """Stop assigning; returns the attempts that have not begun."""
        self.closed = True
        for link in self._links.values():
            if len(link.attempts) > 1:  # a worker's only attempt begins in a moment, if it has not already
                self.take_back(link)
        for timer in (self._line_check, self._reaper, self._next_look):
            if timer is not None:
                timer.cancel()
        left, self._backlog = [*self.warming.close(), *self._backlog], deque()
        return left

    def prepare(self, runs: Iterable[RunInfo]) -> None:
        """Have workers import the files of runs that are expected, the soonest first, unless one of them has it."""
        if self._lines and not self.closed:
            self.warming.add(runs, self._is_warm)
            self._warm_next()

    def warmed(self, link: WorkerLink, run: RunInfo, warmed: Warmed) -> None:
        """A worker has imported a file for a run that is expected, or could not."""
        if warmed.error is None:
            self._times.observe_import(code_file(run), warmed.took)
        if warmed.retire is not None and link.is_async and link.attempts:
            link.retiring = True
        elif warmed.retire is not None and not link.retiring:
            self._host.dismiss(link)
        elif not link.retiring and not link.is_async:
            self.idle(link)
        is_to_blame = warmed.retire is not None and link.files <= {code_file(run)}
        self.warming.ended(link, run, warmed.retire if is_to_blame else warmed.error)
        self.pump()

    def pump(self, *, patient: bool = True) -> None:
        """Assign waiting attempts, in order.

        Without `patient` a free worker is preferred to one with the file loaded.
        """
        now = self._loop.time()
        while self._backlog and not self.closed:
            spawns = self._busy + len(self._idle) < self._slots
            free = self._busy < self._slots and (spawns or bool(self._idle))
            attempt = self._backlog[0]
            if self._own and attempt.key in self._own:
                if not free:
                    return
                self._send(self._spawn(attempt, spawns=spawns), attempt)
                continue
            if self.warming and self.warming.hold(attempt):
                self._backlog.popleft()
                continue
            link = None
            if self._lines and (patient or not free):
                plain = (link for link in self._links.values() if not (link.is_async or link.retiring or link.warming))
                link = behind(plain, attempt, self._times, free=free, now=now)
            if link is not None:
                self._backlog.popleft()
            elif not free:
                return
            elif (found := match(self._idle, self._backlog, self._passed_over, but=self._own)) is not None:
                worker, position = found
                link = self._idle.pop(worker)
                attempt = self._backlog[position]
                del self._backlog[position]
                self._passed_over = self._passed_over + 1 if position else 0
            else:
                link = self._spawn(attempt, spawns=spawns)
            self._send(link, attempt)
        if self.warming.waiting:
            self._warm_next()

    def _warm_next(self) -> None:
        """Have workers that attempts do not need import what is expected next."""
        while not self._backlog and not self.closed and (run := self.warming.next) is not None:
            workers, now = self._busy + len(self._idle) + self.warming.under_way, self._loop.time()
            place = choose_for_import(
                self._idle, code_file(run), files=self.warming.waiting, spawns=workers < self._slots,
                now=now, until=now + max(_IMPORT, self._times.imports(code_file(run))),
            )  # fmt: skip
            if place is not None:
                link = self._idle.pop(place)
            elif workers < self._slots + self._most_warming:
                link = self._host.spawn(is_async=False, team=run.team)
            else:
                self._warm_later()
                return
            self.warming.begin(link, self._times.imports(code_file(run)))

    def _warm_later(self) -> None:
        if self._next_look is None:
            self._next_look = self._loop.call_later(_IMPORT, self._look_again)

    def _look_again(self) -> None:
        self._next_look = None
        self._warm_next()

    def _is_warm(self, file: FileKey) -> bool:
        """Whether a worker has the file, and will soon be free."""
        patience, now = self._times.patience(file), self._loop.time()
        return any(
            file in link.files
            and not (link.retiring or link.is_async or (link.attempts and now - link.head_since > patience))
            for link in self._links.values()
        )

    def _release(self, attempts: list[Attempt]) -> None:
        """These have waited for an import: they are the next."""
        self._backlog.extendleft(reversed(attempts))
        self._loop.call_soon(self.pump)

    def _spawn(self, attempt: Attempt, *, spawns: bool) -> WorkerLink:
        """A new worker for the first attempt, in the place of an idle one unless there is room for more (`spawns`)."""
        if not spawns:
            self._host.dismiss(self._idle.pop(0))
        self._backlog.popleft()
        user = self._own.pop(attempt.key, None)
        return self._host.spawn(is_async=attempt.is_async, team=attempt.run.team, user=user)

    def ended(self, link: WorkerLink, attempt: Attempt, ended: Ended | None) -> None:
        """An attempt, already removed from its worker, has ended; `ended` None: along with its worker."""
        self._left(link, 1)
        self._throughput.ended(self._loop.time())
        if ended is not None:
            self._times.observe(code_file(attempt.run), ended.took - ended.imported, ended.imported)

    def idle(self, link: WorkerLink) -> None:
        """A worker has become idle."""
        link.idle_since = self._loop.time()
        self._idle.append(link)
        if self._reaper is None and len(self._idle) > 1:
            self._reaper = self._loop.call_later(self._idle_time, self._reap)

    def gone(self, link: WorkerLink) -> None:
        """A worker gets no more attempts."""
        if link in self._idle:
            self._idle.remove(link)
        if link.warming and not self.closed:
            self.warming.gone(link)

    def take_back(self, link: WorkerLink) -> None:
        """Put attempts that a worker has not begun back at the front of the queue."""
        taken = link.take_back()
        if taken:
            self._left(link, len(taken))
            self._host.taken_back(taken)
            self._backlog.extendleft(reversed(taken))
            if not link.attempts and not link.retiring:
                (self.idle if self._lines else self._host.dismiss)(link)

    def _send(self, link: WorkerLink, attempt: Attempt) -> None:
        if not link.attempts:
            self._busy += 1
        elif self._line_check is None:
            self._line_check = self._loop.call_later(PATIENCE, self._check_lines)
        self._sent += 1
        self._host.begin(link, attempt)

    def _left(self, link: WorkerLink, count: int) -> None:
        self._sent -= count
        if not link.attempts:
            self._busy -= 1

    def _check_lines(self) -> None:
        """Take back lines in which an attempt has waited too long, if that can help."""
        now = self._loop.time()
        free = bool(self._idle) or self._busy < self._slots
        slow = []
        for link in self._links.values():
            waited = link.waited(now)
            if waited:
                patience = self._times.patience(code_file(next(reversed(link.attempts.values())).run))
                if waited >= patience and (free or now - link.head_since >= patience):
                    slow.append(link)
        for link in reversed(slow):
            self.take_back(link)
        self._line_check = None
        if slow:
            self.pump(patient=False)
        if self._sent > self._busy and self._line_check is None and not self.closed:
            self._line_check = self._loop.call_later(PATIENCE, self._check_lines)

    def _reap(self) -> None:
        self._reaper = None
        limit = self._loop.time() - self._idle_time
        while len(self._idle) > 1 and self._idle[0].idle_since <= limit:
            self._host.dismiss(self._idle.pop(0))
        if len(self._idle) > 1:
            self._reaper = self._loop.call_at(self._idle[0].idle_since + self._idle_time, self._reap)
