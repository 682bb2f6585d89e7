"""What a backfill does at each of its dates. Source: the semantics reference, section 29.1."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from aiosched.core.timetables.base import NextRun
from aiosched.core.values.states import RunState
from aiosched.errors import DagError, Refused


class Rerun(StrEnum):
    """Which existing runs a backfill reruns."""

    MISSING = "missing"
    FAILED = "failed"
    ALL = "all"


class BackfillOutcome(StrEnum):
    """The fate of one date."""

    CREATE = "create"
    RERUN = "rerun"
    IN_FLIGHT = "in flight"
    EXISTS = "already exists"


_FATES: Final[Mapping[tuple[RunState, Rerun], BackfillOutcome]] = MappingProxyType(
    {
        (RunState.SUCCESS, Rerun.ALL): BackfillOutcome.RERUN,
        (RunState.FAILED, Rerun.FAILED): BackfillOutcome.RERUN,
        (RunState.FAILED, Rerun.ALL): BackfillOutcome.RERUN,
        **{
            (state, rerun): BackfillOutcome.IN_FLIGHT
            for state in (RunState.QUEUED, RunState.RUNNING)
            for rerun in Rerun
        },
    }
)


@dataclass(frozen=True, slots=True)
class BackfillDate:
    """One date of a backfill; `order` is 1 for the first that runs."""

    run: NextRun
    fate: BackfillOutcome
    order: int | None


def fate_of(existing: RunState | None, rerun: Rerun) -> BackfillOutcome:
    """The fate of a date whose run is in state `existing` (None: it has no run)."""
    return BackfillOutcome.CREATE if existing is None else _FATES.get((existing, rerun), BackfillOutcome.EXISTS)


def plan_backfill(
    runs: Sequence[NextRun], existing: Mapping[datetime, RunState], rerun: Rerun, *, depends_on_past: bool
) -> list[BackfillDate]:
    """The dates of a backfill, in the order of `runs`; those that run are numbered.

    Raises Refused when a task depends on its past and existing runs would be left out.
    """
    if depends_on_past and rerun is Rerun.MISSING:
        raise Refused(
            "A task of this DAG depends on its past, so a backfill that leaves existing runs out has gaps; "
            "use --rerun failed or --rerun all."
        )
    planned: list[BackfillDate] = []
    order = 0
    for run in runs:
        fate = fate_of(existing.get(run.logical_date), rerun)
        order += fate in (BackfillOutcome.CREATE, BackfillOutcome.RERUN)
        planned.append(
            BackfillDate(run, fate, order if fate in (BackfillOutcome.CREATE, BackfillOutcome.RERUN) else None)
        )
    return planned


def rerun_of(name: str) -> Rerun:
    """The rerun behaviour with this name; Airflow's names are accepted, too."""
    try:
        return Rerun({"none": "missing", "completed": "all"}.get(name, name))
    except ValueError:
        raise DagError(f"There is no rerun behaviour {name!r}: use missing, failed or all.") from None
