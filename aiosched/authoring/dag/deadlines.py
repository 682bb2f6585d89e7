"""Deadlines of runs: `DAG(deadline=DeadlineAlert(reference=…, interval=…, callback=…))`.

The scheduler decides when a deadline has passed, and calls the callback. Source: the semantics reference, section 23.4.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar

from aiosched.authoring.base.checks import duration, fail, whole_number
from aiosched.authoring.base.dates import aware
from aiosched.authoring.base.location import Location, author_location
from aiosched.core.graph.spec import DeadlineSpec


@dataclass(frozen=True, slots=True)
class Reference:
    """The instant from which a deadline counts. Use the names of `DeadlineReference`."""

    kind: str
    at: datetime | None = None
    max_runs: int = 10
    min_runs: int | None = None


class DeadlineReference:
    """The instants from which deadlines count.

    DAGRUN_LOGICAL_DATE   the run's logical date; a run without one has no such deadline
    DAGRUN_QUEUED_AT      when the run was last queued
    FIXED_DATETIME(at)    the same instant for all runs
    AVERAGE_RUNTIME(...)  when the run is created, plus how long the latest `max_runs` ended runs took on
                          average; no deadline with fewer than `min_runs` (by default `max_runs`) of them
    """

    DAGRUN_LOGICAL_DATE: ClassVar[Reference] = Reference("logical_date")
    DAGRUN_QUEUED_AT: ClassVar[Reference] = Reference("queued_at")

    @staticmethod
    def FIXED_DATETIME(at: datetime | str) -> Reference:
        """The same instant for all runs."""
        return Reference("fixed", at=aware("FIXED_DATETIME", at, author_location()))

    @staticmethod
    def AVERAGE_RUNTIME(max_runs: int = 10, min_runs: int | None = None) -> Reference:
        """When the run is created, plus the average duration of the latest runs."""
        where = author_location()
        whole_number("max_runs", max_runs, least=1, where=where)
        if min_runs is not None and whole_number("min_runs", min_runs, least=1, where=where) > max_runs:
            raise fail(f"min_runs={min_runs} is more than max_runs={max_runs}. Make it at most that.", where)
        return Reference("average_runtime", max_runs=max_runs, min_runs=min_runs)


class DeadlineAlert:
    """Calls `callback(context)` when a run has not succeeded by `reference` + `interval` (which may be negative).

    The callback is a plain or coroutine function. It is called once for each run that misses the deadline; the state
    of the run does not change.
    """

    def __init__(self, *, reference: Reference, interval: timedelta | float, callback: Callable[..., Any]) -> None:
        where = author_location()
        if not isinstance(reference, Reference):
            remedy = "Use DeadlineReference.DAGRUN_QUEUED_AT, for example."
            raise fail(f"DeadlineAlert(reference={reference!r:.80}) is not a reference. {remedy}", where)
        if not callable(callback):
            raise fail(f"DeadlineAlert(callback={callback!r:.80}) is wrong: give a function.", where)
        self.reference = reference
        self.interval: timedelta = duration("DeadlineAlert's interval", interval, where, may_be_negative=True)
        self.callback = callback

    def to_spec(self) -> DeadlineSpec:
        """The deadline as the scheduler stores it."""
        reference = self.reference
        return DeadlineSpec(
            reference=reference.kind,
            interval=self.interval.total_seconds(),
            at=reference.at.astimezone(UTC) if reference.at is not None else None,
            max_runs=reference.max_runs,
            min_runs=reference.min_runs,
        )

    def __repr__(self) -> str:
        return f"DeadlineAlert({self.reference.kind}, {self.interval})"


def deadlines_of(given: object, where: Location | None) -> list[DeadlineAlert]:
    """The value of `DAG(deadline=…)` (None, one, or several) as a list."""
    listed: Sequence[object] = [] if given is None else given if isinstance(given, list | tuple) else [given]
    found = [one for one in listed if isinstance(one, DeadlineAlert)]
    if len(found) != len(listed):
        raise fail(f"deadline={given!r:.80} is wrong: give a DeadlineAlert, or a list of them.", where)
    return found
