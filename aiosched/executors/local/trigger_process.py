"""The triggers of the local executor, all in one dedicated worker process, without slots.

A trigger has a unique number, so that the last report of a cancelled trigger cannot be mistaken for a report of its
replacement: both have the same attempt key.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from datetime import UTC, datetime

import msgspec

from aiosched.core.values.messages import Attempt, AttemptKey, Outcome, Report
from aiosched.executors.local.worker_link import WorkerLink


class TriggerProcess:
    """The waiting triggers and their worker process. `spawn` starts that process."""

    def __init__(self, spawn: Callable[[], WorkerLink], report: Callable[[Report], None], hostname: str) -> None:
        self._spawn, self._report, self._hostname = spawn, report, hostname
        self._numbers = itertools.count(1)
        self._waiting: dict[AttemptKey, int] = {}
        self._link: WorkerLink | None = None

    def submit(self, attempt: Attempt) -> None:
        """Start a trigger. It replaces a waiting trigger of the same attempt."""
        key = attempt.key
        self._forget(key, kill=False)
        if self._link is None or self._link.retiring:
            self._link = self._spawn()
        number = self._waiting[key] = next(self._numbers)
        self._link.watch(number, msgspec.structs.replace(attempt, is_async=True, execution_timeout=None))

    def cancel(self, key: AttemptKey, reason: str) -> bool:
        """Stop an attempt's trigger, which is reported as FAILED at once; returns whether there was one."""
        if not self._forget(key, kill=True):
            return False
        self._report_end(key, Outcome.FAILED, reason)
        return True

    def forget(self, keys: Iterable[AttemptKey]) -> None:
        """Stop triggers that now wait elsewhere, without a report and without their `on_kill`."""
        for key in keys:
            self._forget(key, kill=False)

    def fired(self, link: WorkerLink, number: int, report: Report) -> None:
        """Take a worker's report of how a trigger ended; ignores a trigger that has been cancelled."""
        attempt = link.triggers.get(number) if report.more else link.triggers.pop(number, None)
        if attempt is not None and self._waiting.get(attempt.key) == number:
            if not report.more:
                del self._waiting[attempt.key]
            self._report(report)

    def worker_gone(self, link: WorkerLink, reason: str, *, again: bool) -> None:
        """The worker has died: its triggers are started in another one (`again`), or reported as LOST."""
        triggers, link.triggers = link.triggers, {}
        if self._link is link:
            self._link = None
        for number, attempt in triggers.items():
            if self._waiting.get(attempt.key) == number:
                del self._waiting[attempt.key]
                if again:
                    self.submit(attempt)
                else:
                    self._report_end(attempt.key, Outcome.LOST, reason)

    def close(self, reason: str) -> None:
        """Stop all triggers as LOST; since they are stored, another scheduler starts them again."""
        for key in list(self._waiting):
            self._forget(key, kill=False)
            self._report_end(key, Outcome.LOST, reason)

    def _forget(self, key: AttemptKey, *, kill: bool) -> bool:
        number = self._waiting.pop(key, None)
        if number is None:
            return False
        if self._link is not None and self._link.triggers.pop(number, None) is not None:
            self._link.unwatch(number, kill=kill)
        return True

    def _report_end(self, key: AttemptKey, outcome: Outcome, reason: str) -> None:
        pid = self._link.pid if self._link is not None else None
        at = datetime.now(UTC)
        self._report(Report(key=key, outcome=outcome, at=at, reason=reason, hostname=self._hostname, pid=pid))
