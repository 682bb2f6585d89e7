"""The attempts in this process's executor, and the reports that are not stored yet."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field

from aiosched.core.run.deferral import is_trigger
from aiosched.core.values.messages import AttemptKey, Outcome, Report
from aiosched.executors.attempt.failures import storable_report
from aiosched.scheduler.state.metrics import Metrics
from aiosched.scheduler.state.running_watchers import Watchers
from aiosched.scheduler.state.stuck_attempts import StuckAttempts


@dataclass(slots=True)
class Attempts:
    """Outlives sessions. Triggers and callbacks hold no slot and count against no limit."""

    metrics: Metrics
    stuck_attempts: StuckAttempts = field(default_factory=StuckAttempts)
    in_flight: dict[AttemptKey, float] = field(default_factory=dict)  # key -> monotonic second of its dispatch
    begun: dict[AttemptKey, Report] = field(default_factory=dict)  # their start reports, which may not be stored yet
    triggers: set[AttemptKey] = field(default_factory=set)
    callbacks: dict[int, int] = field(default_factory=dict)  # id -> partition; until their reports are stored
    reports: deque[Report] = field(default_factory=deque)
    callback_reports: deque[Report] = field(default_factory=deque)
    on_report: Callable[[], None] = lambda: None
    on_callback: Callable[[], None] = lambda: None
    remote_attempts: dict[AttemptKey, int] = field(default_factory=dict)  # run here, for the owners of these partitions
    outgoing: deque[Report] = field(default_factory=deque)  # their reports that are not sent yet
    recheck_at: float | None = None  # monotonic second at which to check whether they are still wanted; None: now
    on_remote_attempts: Callable[[], None] = lambda: None
    watchers: Watchers = field(default_factory=Watchers)
    drop: Callable[[Sequence[AttemptKey]], None] = lambda keys: None  # has the executor drop triggers
    revoke: Callable[[AttemptKey], None] = lambda key: None  # has the executor give up an attempt

    def known(self) -> set[AttemptKey]:
        """The attempts that run here, and those that have ended but are not stored as ended yet."""
        return self.in_flight.keys() | {r.key for r in self.reports if r.outcome is not Outcome.STARTED}

    def hand_over(self, runs: Mapping[int, int]) -> None:
        """These runs (with their partitions) belong to other schedulers now: their attempts here become remote ones.

        Reports from other schedulers that are not applied yet are left to the new owner.
        """
        unapplied = [r for r in self.reports if r.key.run in runs and r.inbox_id is None and not is_trigger(r.key)]
        remote_attempts = {report.key for report in unapplied} | {key for key in self.in_flight if key.run in runs}
        self.remote_attempts.update((key, runs[key.run]) for key in remote_attempts)
        self.outgoing.extend(unapplied)
        self.reports = deque(report for report in self.reports if report.key.run not in runs)
        self.forget_triggers(runs)
        if self.remote_attempts:
            self.on_remote_attempts()

    def reclaim(self, partitions: Container[int]) -> None:
        """These partitions are ours again, and so are the reports of their attempts."""
        back = {key for key, partition in self.remote_attempts.items() if partition in partitions}
        self.reports.extend(report for report in self.outgoing if report.key in back)
        self.outgoing = deque(report for report in self.outgoing if report.key not in back)
        for key in back:
            del self.remote_attempts[key]

    def sent(self, reports: Sequence[Report]) -> None:
        """These reports, the first of the outgoing ones, are stored. An attempt stays remote until its end is sent."""
        for report in reports:
            self.outgoing.popleft()
            if report.outcome is not Outcome.STARTED:
                self.remote_attempts.pop(report.key, None)

    def recheck_due(self, now: float, every: float) -> bool:
        """Whether it is time to check if remote attempts are still wanted; if so, the next period begins."""
        if self.recheck_at is not None and now < self.recheck_at:
            return False
        self.recheck_at = now + every
        return True

    def abandon(self) -> None:
        """This incarnation has ended and peers run its attempts again: forget them all."""
        self.in_flight.clear()
        self.begun.clear()
        self.stuck_attempts.forget()
        self.drop([*self.triggers, *self.watchers.running])
        self.watchers.running.clear()
        self.triggers.clear()
        self.reports.clear()
        self.remote_attempts.clear()
        self.outgoing.clear()

    def forget_triggers(self, runs: Container[int]) -> None:
        """Drop the triggers of these runs without a report. Their owner (perhaps this scheduler) runs them again."""
        gone = [key for key in self.triggers if key.run in runs]
        self.triggers.difference_update(gone)
        self.drop(gone)

    def receive(self, report: Report) -> None:
        """Called by executors. A report of an attempt that is not (or no longer) known is dropped."""
        report = storable_report(report)
        key, started = report.key, report.outcome is Outcome.STARTED
        if key.run < 0:
            self.watchers.receive(report)
            return
        if key.task_index < 0 and key.try_number in self.callbacks:
            if not started:
                self.callback_reports.append(report)
                self.on_callback()
            return
        if is_trigger(key) and key in self.triggers:
            if started:
                return
            self.triggers.discard(key)
        elif key not in self.in_flight:
            self.metrics.stale_reports += 1
            return
        elif not started:
            del self.in_flight[key]
            self.begun.pop(key, None)
            report = self.stuck_attempts.judge(report)
        else:
            self.begun[key] = report
            self.stuck_attempts.started(key)
        if key in self.remote_attempts:
            self.outgoing.append(report)
            self.on_remote_attempts()
            return
        self.reports.append(report)
        self.on_report()
