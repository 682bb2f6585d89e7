"""Events that a scheduler reports to its listener, such as the screen of `serve`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class SchedulerEvent:
    """Something worth showing to people. Sent after the commit that made it true."""

    kind: str  # run_started, run_finished, dag_quarantined (without a run)
    at: datetime
    dag_id: str
    run_id: str
    state: str
    seconds: float | None = None  # how long the run took
    done: int = 0  # task instances that succeeded
    total: int = 0
    reason: str | None = None
    error: str | None = None  # of a run that has failed: its first failed task, with the error


Listener = Callable[[SchedulerEvent], None]
