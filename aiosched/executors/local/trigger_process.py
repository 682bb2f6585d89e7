"""The triggers of the local executor, in dedicated worker processes, without slots: one for each team and version of
the code.

A trigger has a unique number, so that the last report of a cancelled trigger cannot be mistaken for a report of its
replacement: both have the same attempt key.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from datetime import UTC, datetime

import msgspec

from aiosched.bundles.places import CodeKey
from aiosched.core.values.messages import Attempt, AttemptKey, Outcome, Report
from aiosched.core.values.received_reports import received
from aiosched.executors.local.code_workers import CodeWorkers
from aiosched.executors.local.worker_link import WorkerLink

_Place = tuple[str | None, CodeKey]  # a team and its code


class TriggerProcess:
    """The waiting triggers and their worker processes, which `workers` starts and ends.

    `most`: bytes of a value that the task of a trigger leaves.
    """

    def __init__(self, workers: CodeWorkers, report: Callable[[Report], None], hostname: str, *, most: int) -> None:
        self._workers, self._report, self._hostname, self._most = workers, report, hostname, most
        self._numbers = itertools.count(1)
        self._waiting: dict[AttemptKey, tuple[int, _Place]] = {}
        self._links: dict[_Place, WorkerLink] = {}

    def submit(self, attempt: Attempt) -> None:
        """Start a trigger. It replaces a waiting trigger of the same attempt."""
        key = attempt.key
        self._forget(key, kill=False)
        place, number = (attempt.run.team, attempt.run.code), next(self._numbers)
        link = self._links.get(place)
        if link is None or link.retiring:
            link = self._links[place] = self._workers.for_triggers(attempt.run)
        self._waiting[key] = (number, place)
        link.watch(number, msgspec.structs.replace(attempt, is_async=True, execution_timeout=None))

    def cancel(self, key: AttemptKey, reason: str) -> bool:
        """Stop an attempt's trigger, which is reported as FAILED at once; returns whether there was one."""
        link = self._link_of(key)
        if not self._forget(key, kill=True):
            return False
        self._report_end(key, Outcome.FAILED, reason, link)
        return True

    def forget(self, keys: Iterable[AttemptKey]) -> None:
        """Stop triggers that now wait elsewhere, without a report and without their `on_kill`."""
        for key in keys:
            self._forget(key, kill=False)

    def fired(self, link: WorkerLink, number: int, report: Report) -> None:
        """Take a worker's report of how a trigger ended; ignores a trigger that has been cancelled."""
        attempt = link.triggers.get(number) if report.more else link.triggers.pop(number, None)
        if attempt is not None and self._waiting.get(attempt.key) == (number, _place(link)):
            if not report.more:
                del self._waiting[attempt.key]
            self._report(received(report, attempt, self._most))
        self._workers.ended(link)

    def worker_gone(self, link: WorkerLink, reason: str, *, again: bool) -> None:
        """The worker has died: its triggers are started in another one (`again`), or reported as LOST."""
        triggers, link.triggers = link.triggers, {}
        if self._links.get(_place(link)) is link:
            del self._links[_place(link)]
        for number, attempt in triggers.items():
            if self._waiting.get(attempt.key) == (number, _place(link)):
                del self._waiting[attempt.key]
                if again:
                    self.submit(attempt)
                else:
                    self._report_end(attempt.key, Outcome.LOST, reason, link)

    def close(self, reason: str) -> None:
        """Stop all triggers as LOST; since they are stored, another scheduler starts them again."""
        for key in list(self._waiting):
            link = self._link_of(key)
            self._forget(key, kill=False)
            self._report_end(key, Outcome.LOST, reason, link)

    def _link_of(self, key: AttemptKey) -> WorkerLink | None:
        found = self._waiting.get(key)
        return None if found is None else self._links.get(found[1])

    def _forget(self, key: AttemptKey, *, kill: bool) -> bool:
        found = self._waiting.pop(key, None)
        if found is None:
            return False
        number, place = found
        link = self._links.get(place)
        if link is not None and link.unwatch(number, kill=kill):
            self._workers.ended(link)
        return True

    def _report_end(self, key: AttemptKey, outcome: Outcome, reason: str, link: WorkerLink | None) -> None:
        pid = link.pid if link is not None else None
        at = datetime.now(UTC)
        self._report(Report(key=key, outcome=outcome, at=at, reason=reason, hostname=self._hostname, pid=pid))


def _place(link: WorkerLink) -> _Place:
    return link.team, link.code
