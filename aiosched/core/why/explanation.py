"""Why something does not run: the vocabulary of explanations, and their common parts.

An *explanation* lists the gates that a DAG, a run or a task instance must pass to run, in the order in which they are
decided. Whether a gate is open is decided by the functions that schedule; these modules add only text, and the holders
of missing resources. Pure: the facts are arguments (scheduler/why/why.py reads them).

    explanation.py   gates, holders, explanations; the scheduler's gate; when something may be free
    commands.py      the commands that an explanation suggests
    dag.py    a DAG              run.py    a run
    task.py   a task instance    ends.py   how task instances ended, and the roots of failures
    quarantine.py                the gate of a DAG in quarantine
    partitions.py                the gate of a DAG whose runs are of partitions of assets

Source: docs/why.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Final

from aiosched.core.values.commands import command_line
from aiosched.core.values.durations import duration
from aiosched.core.values.ids import instance_name

MOST_HOLDERS: Final = 20  # that a gate names


class Verdict(StrEnum):
    """The state of a gate."""

    OK = "ok"
    WAIT = "wait"  # closed now
    NEVER = "never"  # closed for good, by definitions or because something has ended
    NOT_REACHED = "not-reached"  # checked only if the gates before it are open
    UNKNOWN = "unknown"


CLOSED: Final = frozenset({Verdict.WAIT, Verdict.NEVER})


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """The run or task instance that holds, or will provide, a missing resource.

    `seconds` is how long it has been in `state`, `usual_seconds` the median duration of its latest successes. A run has
    no `task_id`. `slots` are those of a pool, otherwise 1.
    """

    dag_id: str
    run_id: str
    task_id: str | None = None
    map_index: int = -1
    state: str = "running"
    slots: int = 1
    seconds: float | None = None
    usual_seconds: float | None = None
    logical_date: datetime | None = None

    @property
    def label(self) -> str:
        """The shortest text that identifies it."""
        words = [self.dag_id, run_label(self.run_id, self.logical_date)]
        if self.task_id is not None:
            words.append(instance_name(self.task_id, self.map_index))
        return " ".join(words)

    @property
    def left(self) -> float | None:
        """Seconds that it still needs if it takes as long as usual; None: unknown, or already exceeded."""
        if self.usual_seconds is None or self.seconds is None or self.state != "running":
            return None
        return self.usual_seconds - self.seconds if self.usual_seconds > self.seconds else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """One check on the way to running, and its result. `opens_at`: the instant at which it opens by itself."""

    name: str
    verdict: Verdict
    detail: str = ""
    holders: tuple[Holder, ...] = ()
    opens_at: datetime | None = None
    commands: tuple[str, ...] = ()

    @property
    def closed(self) -> bool:
        return self.verdict in CLOSED


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """The whole explanation, as of `at`. Instants are aware UTC.

    `since` and `waiting_seconds`: since when, and for how long, it has been in `state` (no seconds if it has ended).
    `rank` is its place, from 1, among all task instances of the fleet that wait for slots of its pool. `likely_free_at`
    is a guess from usual durations, `earliest_start` an instant before which it does not start. `notes`: what was not
    checked, and what of its logs is lost.
    """

    subject: str
    state: str
    summary: str
    gates: tuple[Gate, ...]
    at: datetime
    since: datetime | None = None
    waiting_seconds: float | None = None
    rank: int | None = None
    likely_free_at: datetime | None = None
    earliest_start: datetime | None = None
    commands: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def likely_free_in(self) -> float | None:
        """Seconds from `at` to `likely_free_at`."""
        return None if self.likely_free_at is None else (self.likely_free_at - self.at).total_seconds()

    def in_the_way(self) -> tuple[Gate, ...]:
        """The gates that are closed, in order."""
        return tuple(gate for gate in self.gates if gate.closed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """The scheduler that owns the partition of the DAG. No `name`: it has no owner.

    `others` is how many other schedulers are alive and take over DAGs, `draining_others` how many are alive and do not.
    """

    name: str | None = None
    is_alive: bool = False
    is_draining: bool = False
    others: int = 0
    draining_others: int = 0


def scheduler_gate(owner: Owner) -> Gate:
    """Whether a living scheduler owns the DAG."""
    verdict, commands = Verdict.WAIT, () if owner.others else ("aiosched serve",)
    if owner.is_alive and not owner.is_draining:
        verdict, detail, commands = Verdict.OK, f"{owner.name} is alive", ()
    elif owner.is_alive:
        detail = f"{owner.name} is draining: it starts nothing new, {_successor(owner)}"
    elif not owner.others:
        drain = "every scheduler that is alive is draining: none starts anything new"
        detail = drain if owner.draining_others else "no scheduler is alive"
    elif owner.name is None:
        detail = "no living scheduler owns its partition yet"
    else:
        detail = f"{owner.name} does not respond; another one takes over when its lease ends"
    return Gate(name="scheduler", verdict=verdict, detail=detail, commands=commands)


def _successor(owner: Owner) -> str:
    if owner.others:
        return "another one takes over its DAGs"
    return "every other one is draining, too" if owner.draining_others else "no other one is alive"


def paused_gate(dag_id: str, *, is_paused: bool) -> Gate:
    """Whether the DAG is active."""
    if not is_paused:
        return Gate(name="DAG is active", verdict=Verdict.OK)
    detail, command = "the DAG is paused: none of its tasks start", command_line("dags unpause", dag_id)
    return Gate(name="DAG is active", verdict=Verdict.WAIT, detail=detail, commands=(command,))


def gate(name: str, reason: str | None, fine: str = "", **more: object) -> Gate:
    """A gate that is closed because of `reason`, or open (None) and described by `fine`."""
    if reason is None:
        return Gate(name=name, verdict=Verdict.OK, detail=fine)
    return Gate(name=name, verdict=Verdict.WAIT, detail=reason, **more)  # type: ignore[arg-type]


def staged(stages: Iterable[Sequence[Gate]]) -> tuple[Gate, ...]:
    """All gates in order; those of stages after a closed gate are not reached.

    A gate that can never open is shown nevertheless: it must be fixed in any case.
    """
    found: list[Gate] = []
    is_closed = False
    for stage in stages:
        if is_closed:
            found += [each if each.verdict is Verdict.NEVER else _not_reached(each) for each in stage]
        else:
            found += stage
            is_closed = any(each.closed for each in stage)
    return tuple(found)


def _not_reached(gate: Gate) -> Gate:
    return Gate(name=gate.name, verdict=Verdict.NOT_REACHED, detail="not reached")


# -- when ---------------------------------------------------------------------------------------


def free_at(holders: Iterable[Holder], needs: int, now: datetime) -> datetime | None:
    """When the holders will have released `needs` slots if they take as long as usual; None: unknown."""
    for left, slots in sorted((holder.left, holder.slots) for holder in holders if holder.left is not None):
        needs -= slots
        if needs <= 0:
            return now + timedelta(seconds=left or 0.0)
    return None


def earliest(gates: Iterable[Gate]) -> datetime | None:
    """The instant before which closed gates prevent its start, as far as they are known."""
    return max((gate.opens_at for gate in gates if gate.closed and gate.opens_at is not None), default=None)


def seconds_since(since: datetime | None, now: datetime) -> float | None:
    """How long ago that was; never negative."""
    return None if since is None else max((now - since).total_seconds(), 0.0)


def commands_of(gates: Iterable[Gate]) -> tuple[str, ...]:
    """The commands that the closed gates suggest, each once."""
    return tuple(dict.fromkeys(command for gate in gates if gate.closed for command in gate.commands))


# -- words --------------------------------------------------------------------------------------


def run_label(run_id: str, logical_date: datetime | None) -> str:
    """A run to display: its logical date in UTC, as short as is exact, else its run id."""
    if logical_date is None:
        return run_id
    text = logical_date.astimezone(UTC).replace(tzinfo=None).isoformat()
    return text.removesuffix(":00")


def ago(seconds: float | None) -> str:
    """` for 4 m 12 s`, or empty if unknown."""
    return "" if seconds is None else f" for {duration(seconds)}"


def counted(number: int, noun: str) -> str:
    """`1 slot`, `2 slots`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
