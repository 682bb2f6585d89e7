"""What happened in a simulation, for its checker and for people: plain data, no objects of the scheduler."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, NamedTuple

Row = dict[str, Any]
Attempt = tuple[int, int, int, int]  # run, task index, map index, try


class RowChange(NamedTuple):
    """One row of a commit, before and after (None: it is not there)."""

    table: str
    key: Any
    old: Row | None
    new: Row | None


class Commit(NamedTuple):
    at: float
    node: int
    fence: int | None  # incarnation that the transaction was begun for
    changes: list[RowChange]


class Handed(NamedTuple):
    """An executor was given an attempt, or a trigger: the how manieth one of its try, which is negated."""

    at: float
    node: int
    incarnation: int
    attempt: Attempt
    trigger: int | None = None


class Began(NamedTuple):
    """A process began to work on an attempt, or went on with it because of an event, or to fail with an error."""

    at: float
    node: int
    attempt: Attempt
    event: str | None = None
    error: str | None = None


class Fired(NamedTuple):
    """A trigger has ended: by its event (triggered), or without one (lost, forgotten)."""

    at: float
    node: int
    attempt: Attempt
    trigger: int
    outcome: str
    event: str | None


class Ended(NamedTuple):
    """It ended, somehow; an outcome that is reported is named, `cancelled` and `died` are not reported as results."""

    at: float
    node: int
    attempt: Attempt
    outcome: str


class CallbackRan(NamedTuple):
    at: float
    node: int
    number: int
    kind: str
    run: int


class Fault(NamedTuple):
    """What was done to a node."""

    at: float
    node: int
    what: str


class SchedulerRemoved(NamedTuple):
    """A scheduler was declared dead by a peer, because its process was `gone` or its lease had run out."""

    at: float
    incarnation: int
    gone: bool


Event = Commit | Handed | Began | Ended | Fired | CallbackRan | Fault | SchedulerRemoved


@dataclass
class History:
    """Events in the order in which they happened, and how it all ended."""

    seed: int
    events: list[Event] = field(default_factory=list)
    tables: dict[str, dict[Any, Row]] = field(default_factory=dict)  # at the end
    memory: list[str] = field(default_factory=list)  # where a scheduler's memory differs from the rows at the end
    living: set[int] = field(default_factory=set)  # incarnations at the end
    deadlocks: list[str] = field(default_factory=list)
    troubles: list[str] = field(default_factory=list)  # what went wrong with the simulation itself
    seen: Counter[str] = field(default_factory=Counter)

    def trace(self) -> list[str]:
        """Every event as a line."""
        return [_line(event) for event in self.events]


def _line(event: Event) -> str:
    at = f"{event.at:10.6f}"
    if isinstance(event, Commit):
        what = "; ".join(_change(change) for change in event.changes if not change.table.startswith("uq_"))
        return f"{at} n{event.node} commit of {event.fence}: {what}"
    return f"{at} {' '.join(f'{name}={value}' for name, value in event._asdict().items() if name != 'at')}".replace(
        " node=", f" {type(event).__name__.lower()} n"
    )


def _change(change: RowChange) -> str:
    old, new = change.old or {}, change.new or {}
    if change.new is None:
        return f"-{change.table}{change.key}"
    different = {name: value for name, value in new.items() if name not in old or old[name] != value}
    shown = {name: value for name, value in different.items() if name in _SHOWN}
    return f"{'+' if change.old is None else ''}{change.table}{change.key}{shown}"


_SHOWN = (
    "state",
    "try_number",
    "queued_by",
    "used",
    "incarnation",
    "is_paused",
    "dag_id",
    "run_id",
    "reason",
    "outcome",
    "next_method",
    "event",
    "timed_out",
    "logical_date",
)
