"""The life of a run as a table, and its instants: what the semantics reference says, for tests to compare with.

Source: the semantics reference, sections 3.1 and 3.2.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from types import MappingProxyType
from typing import Final, NamedTuple

from aiosched.core.values.states import RUN_FINISHED, RunState
from aiosched.errors import InvalidTransition


class RunEvent(StrEnum):
    """What can happen to a DAG run."""

    STARTED = "limits allow it to run"
    SUCCEEDED = "its leaves are done"
    FAILED = "a leaf failed, or nothing can go on"
    TIMED_OUT = "it ran longer than its dagrun_timeout"
    CLEARED = "task instances of it were cleared"
    MARKED_QUEUED = "marked queued"
    MARKED_SUCCESS = "marked success"
    MARKED_FAILED = "marked failed"


R = RunState

RUN_TRANSITIONS: Final = MappingProxyType(
    {
        (R.QUEUED, RunEvent.STARTED): R.RUNNING,
        (R.RUNNING, RunEvent.SUCCEEDED): R.SUCCESS,
        (R.RUNNING, RunEvent.FAILED): R.FAILED,
        (R.RUNNING, RunEvent.TIMED_OUT): R.FAILED,
        (R.QUEUED, RunEvent.CLEARED): R.QUEUED,
        (R.RUNNING, RunEvent.CLEARED): R.RUNNING,
        (R.SUCCESS, RunEvent.CLEARED): R.QUEUED,
        (R.FAILED, RunEvent.CLEARED): R.QUEUED,
        **{(state, RunEvent.MARKED_QUEUED): R.QUEUED for state in R},
        **{(state, RunEvent.MARKED_SUCCESS): R.SUCCESS for state in R},
        **{(state, RunEvent.MARKED_FAILED): R.FAILED for state in R},
    }
)


def advance_run(state: RunState, event: RunEvent) -> RunState:
    """The state of a run after `event`; raises InvalidTransition naming what was possible."""
    try:
        return RUN_TRANSITIONS[state, event]
    except KeyError:
        possible = ", ".join(sorted(e.name for s, e in RUN_TRANSITIONS if s is state))
        raise InvalidTransition(f"{event.name} cannot happen to a {state} run; possible: {possible}") from None


class RunTimes(NamedTuple):
    """The instants of a run's life, aware UTC."""

    queued_at: datetime | None = None
    start_date: datetime | None = None
    end_date: datetime | None = None


def run_times_after(old: RunState, new: RunState, times: RunTimes, now: datetime) -> RunTimes:
    """The instants of a run that goes from `old` to `new` at `now`.

    Source: the semantics reference, section 3.2. A start (queued to running) always
    sets the start date; a finished run that is marked keeps its times.
    """
    if new is R.QUEUED:
        return RunTimes(queued_at=now)
    if new is R.RUNNING:
        kept = times.start_date if old is R.RUNNING else None
        return times._replace(start_date=kept or now, end_date=None)
    return times if old in RUN_FINISHED else times._replace(end_date=now)
