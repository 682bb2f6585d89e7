"""Attempts that do not begin: their executor never starts them, or a worker cannot load their DAG.

Neither is the task's doing, so neither spends its retries at once. What is stuck in an executor's
queue is revoked and queued again with the same try number; where a DAG is missing, the
worker is asked again later. After so many times the attempt fails, with a reason that says what to do.

Everything is counted in memory: a scheduler that starts anew begins to count anew. Only
what stays queued is looked at, and only when the oldest of it may be overdue: an attempt that starts
at once costs nothing. (A timer for each claim would keep ten minutes of claims in the heap.)

Source: the semantics reference, sections 20.4 and 22.6.
"""

from __future__ import annotations

import logging
from collections.abc import Container
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

import msgspec

from aiosched.config import Settings
from aiosched.core.values.instants import later
from aiosched.core.values.messages import AttemptKey, Outcome, Report

logger = logging.getLogger(__name__)

TICK: Final = timedelta(microseconds=1)  # "strictly later than" for a timer
PATIENCE: Final = 10.0  # seconds beyond the clean-up time that a revoked attempt may take to be reported


@dataclass(slots=True)
class StuckAttempts:
    """The limits (in seconds and times), and the attempts that they are counted for."""

    queued_timeout: float = 600.0  # how long an executor may leave an attempt lying
    queued_retries: int = 2  # how often such an attempt is queued again
    cleanup: float = 60.0  # how long the end of a revoked attempt may take
    dag_retries: int = 3  # how often an attempt whose DAG cannot be loaded is called again
    dag_delay: float = 60.0  # ... after so long
    look_at: datetime | None = None  # when the oldest attempt that lies may be overdue
    revoked: dict[AttemptKey, datetime] = field(default_factory=dict)  # since when; their ends are not reported
    _stuck: dict[AttemptKey, int] = field(default_factory=dict)  # how often in a row
    _missing: dict[AttemptKey, int] = field(default_factory=dict)

    @classmethod
    def of(cls, settings: Settings) -> StuckAttempts:
        """As the settings say."""
        scheduler, executor = settings.scheduler, settings.executor
        return cls(
            queued_timeout=scheduler.task_queued_timeout,
            queued_retries=scheduler.num_stuck_in_queued_retries,
            cleanup=settings.core.killed_task_cleanup_time,
            dag_retries=executor.missing_dag_retries,
            dag_delay=executor.missing_dag_retry_delay,
        )

    def handed_out(self, now: datetime) -> None:
        """Attempts were given to the executor."""
        if self.look_at is None:
            self.look_at = later(now, self.queued_timeout) + TICK

    def started(self, key: AttemptKey) -> None:
        """An attempt has begun after all: what is counted is what follows."""
        if self._stuck:
            self._stuck.pop(key, None)

    def judge(self, report: Report) -> Report:
        """What the final report of an attempt means: a second chance, its failure, or just what it says."""
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
        """Count no longer for these runs, which have ended; None: for all."""
        for counted in (self.revoked, self._stuck, self._missing):
            for key in [key for key in counted if runs is None or key.run in runs]:
                del counted[key]

    def _never_began(self, report: Report) -> Report:
        times = self._stuck.pop(report.key, 0) + 1
        reason = f"not started within {self.queued_timeout:g} s of being queued (scheduler.task_queued_timeout)"
        if times > self.queued_retries:
            reason += f", {times} times: see that the workers of its executor run, then clear the task"
            return _failed(report, reason, fail_now=True)
        self._stuck[report.key] = times
        reason += f"; queued again, {times} of {self.queued_retries}"
        return msgspec.structs.replace(report, outcome=Outcome.STUCK, reason=reason, unattended=False)

    def _without_dag(self, report: Report) -> Report:
        times = self._missing.pop(report.key, 0) + 1
        if times > self.dag_retries:
            looked = f" (looked for {times} times, {self.dag_delay:g} s apart)" if times > 1 else ""
            remedy = "put it right where the workers read it, then clear the task"
            return _failed(report, f"{report.reason}{looked}: {remedy}")
        self._missing[report.key] = times
        return msgspec.structs.replace(
            report,
            outcome=Outcome.RESCHEDULED,
            reschedule_at=later(report.at, self.dag_delay),
            reason=f"{report.reason}; looked for again in {self.dag_delay:g} s, {times} of {self.dag_retries}",
        )


def _failed(report: Report, reason: str, *, fail_now: bool = False) -> Report:
    """No worker could tell it: the scheduler asks for the callbacks."""
    return msgspec.structs.replace(report, outcome=Outcome.FAILED, reason=reason, fail_now=fail_now, unattended=True)


def _lost(report: Report) -> Report:
    """It began just when it was revoked: nobody's fault."""
    return msgspec.structs.replace(report, outcome=Outcome.LOST, reason="revoked just when it began", unattended=False)
