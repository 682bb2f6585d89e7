"""Why a DAG has no run, or gets no further run; with partitions, why a key has none. Source: docs/why.md."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType
from typing import Final, NamedTuple

from aiosched.core.assets.conditions import AssetExpression, AssetStatus, QueuedAsset, why_not_triggered
from aiosched.core.creation.partitions import PartitionProgress
from aiosched.core.creation.run_creation import DagStatus, allows, due_questions
from aiosched.core.values.commands import command_line
from aiosched.core.values.durations import duration
from aiosched.core.values.instants import stamp
from aiosched.core.values.states import RunType
from aiosched.core.why.explanation import (
    MOST_HOLDERS,
    Explanation,
    Gate,
    Holder,
    Owner,
    Verdict,
    commands_of,
    counted,
    earliest,
    gate,
    paused_gate,
    scheduler_gate,
    seconds_since,
    staged,
)
from aiosched.core.why.quarantine import QuarantineFacts, quarantine_gates

_NONE: Final[Mapping[str, Collection[str]]] = MappingProxyType({})
MOST_SHOWN: Final = 5  # keys of partitions that an explanation describes


@dataclass(frozen=True, slots=True, kw_only=True)
class DagFacts:
    """A DAG and the facts that decide about its next run.

    `condition` is that of its assets, `queue` has those with new events; `is_timed`: its schedule creates runs by the
    clock. `active` are its queued and running runs, as far as they are known, `running` and `queued` their numbers;
    `last` is its newest run, as text, None if it never had one.
    """

    now: datetime
    owner: Owner
    status: DagStatus
    quarantine: QuarantineFacts | None = None
    schedule: str | None = None
    is_timed: bool = True
    condition: AssetExpression | None = None
    queue: tuple[QueuedAsset, ...] = ()
    aliases: Mapping[str, Collection[str]] = field(default_factory=lambda: _NONE)
    partitions: PartitionFacts | None = None  # of a DAG whose runs are of partitions
    running: int = 0
    queued: int = 0
    active: tuple[Holder, ...] = ()
    last: str | None = None
    schedules: ScheduleFacts | None = None  # those that are data, if it has any


class ScheduleFacts(NamedTuple):
    """The schedules of a DAG that are data: how many, paused, with an error, and the next that is due."""

    number: int
    paused: int
    failing: int
    next_name: str | None
    next_at: datetime | None


def explain_dag(facts: DagFacts) -> Explanation:
    """Why a DAG does not get a run now."""
    status, now = facts.status, facts.now
    reasons = due_questions(status, now)
    stages = [
        [
            gate("file", reasons["file"], "its file exists"),
            gate("import", reasons["import"], "its file can be imported", commands=("aiosched dags errors",)),
        ],
        [
            scheduler_gate(facts.owner),
            *quarantine_gates(status.dag_id, facts.quarantine, now),
            paused_gate(status.dag_id, is_paused=reasons["paused"] is not None),
        ],
        _schedule_gates(facts, reasons["schedule"]),
        [_limit_gate(facts, reasons["max_active_runs"])],
    ]
    gates = staged(stages)
    closed = [each for each in gates if each.closed]
    because = _because(closed[0]) if closed else "nothing is in the way, it gets a run next"
    at_work = ", ".join(
        words
        for number, words in (
            (facts.running, f"{counted(facts.running, 'run')} running"),
            (facts.queued, f"{counted(facts.queued, 'run')} queued"),
        )
        if number
    )
    if facts.last is None and not at_work:
        summary = f"has never run: {because}"
    elif at_work:
        summary = f"{at_work}; no further one: {because}" if closed else at_work
    else:
        summary = f"nothing runs; the last run was {facts.last}; {because}"
    return Explanation(
        subject=status.dag_id,
        state="running" if facts.running else "queued" if facts.queued else "idle",
        summary=summary,
        gates=gates,
        at=now,
        earliest_start=earliest(gates),
        commands=commands_of(gates),
    )


def _because(gate: Gate) -> str:
    return f"in quarantine {gate.detail}" if gate.name == "quarantine" else gate.detail


def _data_gate(dag_id: str, schedules: ScheduleFacts, now: datetime) -> Gate:
    """When the schedules of a DAG that are data start its next run."""
    name, detail = "schedules", counted(schedules.number, "schedule")
    for number, words in ((schedules.paused, "paused"), (schedules.failing, "with an error")):
        detail += f", {number} {words}" if number else ""
    commands = (
        (command_line("schedules list", options=("--dag", dag_id)),)
        if schedules.failing or schedules.next_at is None
        else ()
    )
    if schedules.next_at is None:
        return Gate(name=name, verdict=Verdict.NEVER, detail=f"{detail}; none is due any more", commands=commands)
    detail += f"; next is {schedules.next_name} at {stamp(schedules.next_at)}"
    if schedules.next_at <= now:
        return Gate(name=name, verdict=Verdict.OK, detail=detail, commands=commands)
    return Gate(name=name, verdict=Verdict.WAIT, detail=detail, opens_at=schedules.next_at, commands=commands)


def _schedule_gates(facts: DagFacts, reason: str | None) -> list[Gate]:
    status = facts.status
    found: list[Gate] = []
    detail: str | None
    commands: tuple[str, ...]
    if facts.condition is not None and not allows(status, RunType.ASSET_TRIGGERED):
        left_out = f"its allowed_run_types leave out {str(RunType.ASSET_TRIGGERED)!r}"
        found.append(Gate(name="assets", verdict=Verdict.NEVER, detail=left_out))
    elif facts.condition is not None and facts.partitions is not None:
        found.append(partition_gate(facts.condition, facts.partitions))
    elif facts.condition is not None:
        waits = why_not_triggered(AssetStatus(facts.condition, 0, 1), facts.queue, facts.aliases)
        names = ", ".join(sorted(row.asset.name for row in facts.queue))
        events = f"there are new events of {names}" if names else "there are no new events"
        found.append(gate("assets", f"{waits}; {events}" if waits else None, events))
    if facts.schedules is not None:
        found.append(_data_gate(status.dag_id, facts.schedules, facts.now))
    elif facts.condition is None and not facts.is_timed:
        if allows(status, RunType.MANUAL):
            can_be = not (status.is_stale or status.has_import_errors)
            verdict, how = Verdict.WAIT, ": it runs only when it is triggered"
            commands = (command_line("dags trigger", status.dag_id),) if can_be else ()
        else:
            verdict, how, commands = Verdict.NEVER, ", and its allowed_run_types leave out 'manual'", ()
        detail = f"it has no schedule{how}"
        found.append(Gate(name="schedule", verdict=verdict, detail=detail, commands=commands))
    elif facts.is_timed:
        what = f"schedule {facts.schedule}" if facts.schedule else "schedule"
        if status.next_run is None:
            found.append(Gate(name=what, verdict=Verdict.NEVER, detail=str(reason)))
        else:
            due = status.next_run.run_after
            wait = seconds_since(facts.now, due)
            detail = None if reason is None else f"{reason}, in {duration(wait)}"
            found.append(gate(what, detail, f"a run has been due since {stamp(due)}", opens_at=due))
    return found


def _limit_gate(facts: DagFacts, reason: str | None) -> Gate:
    status = facts.status
    if reason is None:
        return gate("max_active_runs", None, f"{status.active_runs} of {status.max_active_runs}")
    verdict = Verdict.WAIT if status.max_active_runs > 0 else Verdict.NEVER
    return Gate(name="max_active_runs", verdict=verdict, detail=reason, holders=facts.active[:MOST_HOLDERS])


@dataclass(frozen=True, slots=True)
class PartitionFacts:
    """The newest keys that wait for more events, how many are due, and the events that led to no run."""

    waiting: tuple[PartitionProgress, ...]
    due: int
    refused: int
    newest_refusal: str | None


def partition_gate(condition: AssetExpression, facts: PartitionFacts) -> Gate:
    """The gate of the DAG's assets: open if the run of a key is due."""
    if facts.due:
        return gate("partitions", None, f"{counted(facts.due, 'partition')} due")
    if facts.waiting:
        waits = "; ".join(one.waits_for(condition) for one in facts.waiting[:MOST_SHOWN])
    else:
        waits = f"no event with a partition key of {condition} has arrived"
    if facts.refused:
        waits += f"; {counted(facts.refused, 'event')} led to no run, the newest because {facts.newest_refusal}"
    return gate("partitions", waits, "")
