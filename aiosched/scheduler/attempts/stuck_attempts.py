"""Attempts that do not begin: their executor never starts them, or a worker cannot load their DAG.

Neither is the task's fault, so neither costs a retry at once. An attempt that is stuck in an executor's
queue is revoked and queued again with the same try number; if its DAG is missing, the worker is
asked again later. After a limited number of times the attempt fails, with a reason that says what to do.

The counts are kept in memory, so a restarted scheduler counts from zero. Only queued attempts are
checked, and only once the oldest of them may be overdue: an attempt that starts at once costs
nothing. (A timer for each claim would keep ten minutes of claims in the heap.)

Source: the semantics reference, sections 20.4 and 22.6.
"""

from __future__ import annotations

import logging
from collections.abc import Container
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

import msgspec

from aiosched.config import Settings
from aiosched.core.values.instants import just_after, later
from aiosched.core.values.messages import AttemptKey, Outcome, Report

logger: logging.Logger = logging.getLogger(__name__)

PATIENCE: Final = 10.0  # seconds beyond the clean-up time that a revoked attempt may take to be reported


@dataclass(slots=True)
class StuckAttempts:
    """The limits (in seconds and times), and the attempts that they are counted for."""

    queued_timeout: float = 600.0  # how long an executor may keep an attempt queued
    queued_retries: int = 2  # how often such an attempt is queued again
    cleanup: float = 60.0  # how long a revoked attempt may take to end
    dag_retries: int = 3  # how often an attempt whose DAG cannot be loaded is tried again
    dag_delay: float = 60.0  # ... after how long
    check_at: datetime | None = None  # when the oldest queued attempt may be overdue
    revoked: dict[AttemptKey, datetime] = field(default_factory=dict)  # since when; their ends are not reported yet
    _stuck: dict[AttemptKey, int] = field(default_factory=dict)  # consecutive times
    _missing: dict[AttemptKey, int] = field(default_factory=dict)

    @classmethod
    def of(cls, settings: Settings) -> StuckAttempts:
        """The limits of the settings."""
        scheduler, executor = settings.scheduler, settings.executor
        return cls(
            queued_timeout=scheduler.task_queued_timeout,
            queued_retries=scheduler.num_stuck_in_queued_retries,
            cleanup=settings.core.killed_task_cleanup_time,
            dag_retries=executor.missing_dag_retries,
            dag_delay=executor.missing_dag_retry_delay,
        )

    def handed_out(self, now: datetime) -> None:
        """Attempts were handed to the executor."""
        if self.check_at is None:
            self.check_at = just_after(later(now, self.queued_timeout))

    def started(self, key: AttemptKey) -> None:
        """An attempt has started after all: reset its count."""
        if self._stuck:
            self._stuck.pop(key, None)

    def judge(self, report: Report) -> Report:
        """The final report of an attempt: turned into another chance or a failure, or unchanged."""
        if not (report.dag_missing or self.revoked or self._stuck or self._missing):
            return report
        key, failed = report.key, report.outcome in (Outcome.FAILED, Outcome.LOST)
        if self.revoked.pop(key, None) is not None and failed:
            return self._never_began(report) if report.started_at is None else _lost(report)
        self._stuck.pop(key, None)
        if report.dag_missing and report.outcome is Outcome.FAILED:
            return self._without_dag(report)
        if report.outcome is not Outcome.LOST:
            self._missing.pop(key, None)
        return report

    def forget(self, runs: Container[int] | None = None) -> None:
        """Drop the counts of these runs, which have ended; None: of all."""
        for counted in (self.revoked, self._stuck, self._missing):
            for key in [key for key in counted if runs is None or key.run in runs]:
                del counted[key]

    def _never_began(self, report: Report) -> Report:
        times = self._stuck.pop(report.key, 0) + 1
        reason = f"not started within {self.queued_timeout:g} s of being queued (scheduler.task_queued_timeout)"
        if times > self.queued_retries:
            reason += f", {times} times: make sure that the workers of its executor run, then clear the task"
            return _failed(report, reason, fail_now=True)
        self._stuck[report.key] = times
        reason += f"; queued again, {times} of {self.queued_retries}"
        return msgspec.structs.replace(report, outcome=Outcome.STUCK, reason=reason, unattended=False)

    def _without_dag(self, report: Report) -> Report:
        times = self._missing.pop(report.key, 0) + 1
        if times > self.dag_retries:
            searched = f" (tried {times} times, {self.dag_delay:g} s apart)" if times > 1 else ""
            remedy = "fix it where the workers read it, then clear the task"
            return _failed(report, f"{report.reason}{searched}: {remedy}")
        self._missing[report.key] = times
        return msgspec.structs.replace(
            report,
            outcome=Outcome.RESCHEDULED,
            reschedule_at=later(report.at, self.dag_delay),
            reason=f"{report.reason}; tried again in {self.dag_delay:g} s, {times} of {self.dag_retries}",
        )


def _failed(report: Report, reason: str, *, fail_now: bool = False) -> Report:
    """A failure that no worker handled: the scheduler requests the callbacks."""
    return msgspec.structs.replace(report, outcome=Outcome.FAILED, reason=reason, fail_now=fail_now, unattended=True)


def _lost(report: Report) -> Report:
    """It began just as it was revoked: not the task's fault."""
    return msgspec.structs.replace(report, outcome=Outcome.LOST, reason="revoked just when it began", unattended=False)
