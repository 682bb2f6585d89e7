"""The attempts in this process's executor, and the reports that are not stored yet."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from aiosched.core.figures.metrics import Metrics
from aiosched.core.run.deferral import is_trigger
from aiosched.core.values.messages import RENDERING, AttemptKey, Outcome, Report
from aiosched.executors.attempt.failures import storable_report
from aiosched.scheduler.attempts.ending_attempts import EndingAttempts
from aiosched.scheduler.attempts.running_callbacks import RunningCallbacks, RunningRenderings
from aiosched.scheduler.attempts.running_watchers import Watchers
from aiosched.scheduler.attempts.stuck_attempts import StuckAttempts
from aiosched.scheduler.concurrency.period import Period


@dataclass(slots=True)
class RemoteAttempts:
    """Attempts that run here for the schedulers that own their partitions now, and their reports.

    The reports are sent as rows of `task_report` (loops/remote_attempts.py). An attempt stays here until the report of
    its end is sent. Source: docs/decisions/0017-attempts-stay-when-partitions-move.md.
    """

    partitions: dict[AttemptKey, int] = field(default_factory=dict)  # of the attempts
    outgoing: deque[Report] = field(default_factory=deque)  # reports that are not sent yet
    recheck: Period = field(default_factory=Period)  # of checking whether they are still wanted
    on_change: Callable[[], None] = lambda: None

    def add_report(self, report: Report) -> None:
        self.outgoing.append(report)
        self.on_change()

    def take_back(self, partitions: Container[int]) -> list[Report]:
        """These partitions are ours again: remove their attempts, and return the reports that were not sent."""
        back = {key for key, partition in self.partitions.items() if partition in partitions}
        reports = [report for report in self.outgoing if report.key in back]
        self.outgoing = deque(report for report in self.outgoing if report.key not in back)
        for key in back:
            del self.partitions[key]
        return reports

    def sent(self, reports: Sequence[Report], *, instead: Sequence[Report] = ()) -> None:
        """These reports, the first of the outgoing ones, are stored, or others are sent `instead` of them."""
        still = {report.key: self.partitions[report.key] for report in instead}
        for report in reports:
            self.outgoing.popleft()
            if report.outcome is not Outcome.STARTED:
                self.partitions.pop(report.key, None)
        self.partitions |= still
        self.outgoing.extend(instead)

    def clear(self) -> None:
        self.partitions.clear()
        self.outgoing.clear()


@dataclass(slots=True)
class Attempts:
    """See the module docstring. Outlives sessions; triggers and callbacks hold no slot and count against no limit."""

    metrics: Metrics
    stuck_attempts: StuckAttempts = field(default_factory=StuckAttempts)
    ending: EndingAttempts = field(default_factory=EndingAttempts)
    in_flight: dict[AttemptKey, float] = field(default_factory=dict)  # key -> monotonic second of its dispatch
    begun: dict[AttemptKey, Report] = field(default_factory=dict)  # their start reports, which may not be stored yet
    on_engines: set[AttemptKey] = field(default_factory=set)  # those in flight that outlive this scheduler
    triggers: set[AttemptKey] = field(default_factory=set)
    callbacks: RunningCallbacks = field(default_factory=RunningCallbacks)
    renderings: RunningRenderings = field(default_factory=RunningRenderings)
    reports: deque[Report] = field(default_factory=deque)
    on_report: Callable[[], None] = lambda: None
    remote: RemoteAttempts = field(default_factory=RemoteAttempts)
    watchers: Watchers = field(default_factory=Watchers)
    drop: Callable[[Sequence[AttemptKey]], None] = lambda keys: None  # has the executor drop triggers
    release: Callable[[AttemptKey], None] = lambda key: None  # tells an engine's executor that an attempt has ended
    revoke: Callable[[AttemptKey], None] = lambda key: None  # has the executor give up an attempt

    def known(self) -> set[AttemptKey]:
        """The attempts that run here, and those that have ended but are not stored as ended yet."""
        return self.in_flight.keys() | {r.key for r in self.reports if r.outcome is not Outcome.STARTED}

    def hand_over(self, runs: Mapping[int, int]) -> None:
        """These runs (with their partitions) belong to other schedulers now: their attempts here become remote ones.

        Reports from other schedulers that are not applied yet are left to the new owner.
        """
        unapplied = [r for r in self.reports if r.key.run in runs and r.inbox_id is None and not is_trigger(r.key)]
        self.leave_to_owner([key for key in self.on_engines if key.run in runs])
        moved = {report.key for report in unapplied} | {key for key in self.in_flight if key.run in runs}
        self.remote.partitions.update((key, runs[key.run]) for key in moved)
        self.remote.outgoing.extend(unapplied)
        self.reports = deque(report for report in self.reports if report.key.run not in runs)
        self.forget_triggers(runs)
        if self.remote.partitions:
            self.remote.on_change()

    def leave_to_owner(self, keys: Sequence[AttemptKey]) -> None:
        """These attempts on engines are another scheduler's now: whoever owns their partitions adopts them."""
        for key in keys:
            self.on_engines.discard(key)
            self.in_flight.pop(key, None)
            self.begun.pop(key, None)
            self.ending.ended(key)
        self.drop(keys)

    def adopt(self, key: AttemptKey, now: float, begun: Report | None) -> None:
        """An attempt on an engine that another scheduler has sent, or this one earlier. `begun`: it has started."""
        self.in_flight.setdefault(key, now)
        self.on_engines.add(key)
        if begun is not None:
            self.begun.setdefault(key, begun)

    def reclaim(self, partitions: Container[int]) -> None:
        """These partitions are ours again, and so are the reports of their attempts."""
        self.reports.extend(self.remote.take_back(partitions))

    def abandon(self) -> None:
        """This incarnation has ended and peers run its attempts again, or adopt them: forget them all."""
        self.leave_to_owner(list(self.on_engines))
        self.in_flight.clear()
        self.begun.clear()
        self.ending.clear()
        self.stuck_attempts.forget()
        self.drop([*self.triggers, *self.watchers.running])
        self.watchers.running.clear()
        self.triggers.clear()
        self.reports.clear()
        self.remote.clear()

    def forget_triggers(self, runs: Container[int]) -> None:
        """Drop the triggers of these runs without a report. Their owner (perhaps this scheduler) runs them again."""
        gone = [key for key in self.triggers if key.run in runs]
        self.triggers.difference_update(gone)
        self.drop(gone)

    def forget_all_triggers(self) -> None:
        """Drop all triggers without a report, since this scheduler stops."""
        self.drop([*self.triggers])
        self.triggers.clear()

    def receive_stored(self, reports: Iterable[Report]) -> None:
        """Reports from the inbox: of attempts on engines, and of those that run in other schedulers."""
        for report in reports:
            if report.key in self.on_engines:
                report = self._account(report)
            elif self.ending and report.outcome is not Outcome.STARTED:
                self.ending.ended(report.key)
            self.reports.append(report)

    def _account(self, report: Report) -> Report:
        """Record what a report says about an attempt that is in flight; returns what it means."""
        key = report.key
        if report.outcome is Outcome.STARTED:
            self.begun[key] = report
            self.stuck_attempts.started(key)
            return report
        del self.in_flight[key]
        self.begun.pop(key, None)
        if self.ending:
            self.ending.ended(key)
        if key in self.on_engines:
            self.on_engines.discard(key)
            self.release(key)
        return self.stuck_attempts.judge(report)

    def receive(self, report: Report) -> None:
        """Called by executors. A report of an attempt that is not (or no longer) known is dropped."""
        report = storable_report(report)
        key, started = report.key, report.outcome is Outcome.STARTED
        if key in self.in_flight:
            report = self._account(report)
        elif key.run < 0:
            self.watchers.receive(report)
            return
        elif key.task_index == RENDERING:
            self.renderings.receive(report)
            return
        elif key.task_index < 0 and key.try_number in self.callbacks:
            self.callbacks.receive(report)
            return
        elif key not in self.triggers:
            self.metrics.stale_reports += 1
            return
        elif started:
            return
        else:
            self.triggers.discard(key)
        if key in self.remote.partitions:
            self.remote.add_report(report)
            return
        self.reports.append(report)
        self.on_report()
