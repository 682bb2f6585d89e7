"""Why a task instance does not run, or what it is doing. Source: docs/why.md.

The gates form stages, like the decisions: the fleet, the DAG and the run; the task's dependencies; the limits under
which it gets a slot; the executor; the worker. A stage is checked if all stages before it are open.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final

from aiosched.core.graph.human_input import InputRequest
from aiosched.core.run.board import Board, Instance
from aiosched.core.slots.allocation import Candidate, Room
from aiosched.core.slots.rates import RecentStarts
from aiosched.core.values.commands import command_line
from aiosched.core.values.durations import duration
from aiosched.core.values.instants import stamp
from aiosched.core.values.states import FINISHED, HOLDING_SLOT, SCHEDULABLE, TaskState
from aiosched.core.why.dependencies import dependency_gates
from aiosched.core.why.ends import explain_end, name_of, since_of
from aiosched.core.why.explanation import (
    CLOSED,
    Explanation,
    Gate,
    Holder,
    Verdict,
    ago,
    commands_of,
    counted,
    earliest,
    free_at,
    gate,
    paused_gate,
    run_label,
    scheduler_gate,
    seconds_since,
    staged,
)
from aiosched.core.why.quarantine import quarantine_gates
from aiosched.core.why.run import RunFacts, Usual, run_gates, unknown_duration

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockedLoop:
    """The event loop of the attempt's worker process is blocked, by `who` if known."""

    since: datetime
    who: str
    where: str  # the line; empty if unknown
    by_itself: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class OnEngine:
    """An attempt that an engine was given; `begun_at` is None until one of its workers has claimed it."""

    name: str  # the engine, as tasks choose it
    sent_at: datetime
    begun_at: datetime | None = None
    alive_until: datetime | None = None  # the end of its worker's lease
    hostname: str | None = None
    pid: int | None = None
    unserved: str | None = None  # its queue on the engine, if no worker takes from it


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFacts:
    """A task instance and the facts that decide when it runs.

    `board` is its run according to the rows. `candidate` has its needs, `room` the room; without `has_figures` the room
    of its scheduler's executors and parallelism is unknown (known figures are at least a second old). The holders are
    those of slots of its pool, and those that are active in its DAG. `ahead` is how many task instances of the fleet go
    before it in its pool and how many slots they need; None if unknown. `executor` is the default one.
    `previous` is the previous run, if the instance waits for it and it is known. `is_gone`: its run uses the newest
    code, which does not have the task any more.
    """

    run: RunFacts
    board: Board
    instance: Instance
    candidate: Candidate
    room: Room
    previous: Board | None = None
    is_gone: bool = False
    has_figures: bool = True
    executor: str | None = None
    troubles: Mapping[str, str] = field(default_factory=dict)  # of engines that its scheduler cannot reach, by executor
    pool_used: int = 0
    pool_holders: tuple[Holder, ...] = ()
    dag_holders: tuple[Holder, ...] = ()
    ahead: tuple[int, int] | None = None
    queued_by: str | None = None  # name of the scheduler that claimed it
    on_engine: OnEngine | None = None  # where its attempt is, if an engine was given it
    deferred_since: datetime | None = None
    question: InputRequest | None = None  # what it asked people last
    blocked: BlockedLoop | None = None
    usual: Usual = unknown_duration


def explain_task(facts: TaskFacts) -> Explanation:
    """Why a task instance is in its state."""
    run, board, instance, now = facts.run.run, facts.board, facts.instance, facts.run.now
    subject = f"{run.dag_id} · {run_label(run.run_id, run.logical_date)} · {name_of(board, instance)}"
    if instance.state in FINISHED:
        return explain_end(board, instance, subject, now, is_gone=facts.is_gone)
    state = instance.state
    deferred_since = facts.deferred_since if state is TaskState.DEFERRED else None
    stages = [
        [
            scheduler_gate(facts.run.owner),
            *quarantine_gates(run.dag_id, facts.run.quarantine, now, has_slot=state in HOLDING_SLOT),
            paused_gate(run.dag_id, is_paused=facts.run.is_paused and state not in HOLDING_SLOT),
            *run_gates(facts.run, board),
        ],
        dependency_gates(
            board,
            instance,
            now,
            facts.usual,
            previous=facts.previous,
            deferred_since=deferred_since,
            question=facts.question,
        ),
        _slot_gates(facts),
        [_parallelism_gate(facts), _executor_gate(facts)],
        [_worker_gate(facts)],
    ]
    gates = staged(stages)
    if state in HOLDING_SLOT:  # whatever the state of the fleet: it has passed all gates but the last
        gates = (*map(_opened, gates[:-1]), _worker_gate(facts))
    since = deferred_since or since_of(instance) or (run.start_date if state is TaskState.NONE else None)
    seconds = seconds_since(since, now)
    first = next((each for each in gates if each.closed), None)
    free = None
    if state is TaskState.SCHEDULED and first is not None and first.holders:
        ahead = facts.ahead[1] if facts.ahead is not None else 0
        need = ahead + max(facts.candidate.pool_slots, 1) if first.name.startswith("pool ") else 1
        free = free_at(first.holders, max(need - _open_slots(facts, first), 1), now)
    return Explanation(
        subject=subject,
        state=state.value,
        summary=_summary(facts, seconds, is_open=first is None),
        gates=gates,
        at=now,
        since=since,
        waiting_seconds=seconds,
        rank=facts.ahead[0] + 1 if facts.ahead is not None and state is TaskState.SCHEDULED else None,
        likely_free_at=free,
        earliest_start=earliest(gates),
        commands=commands_of(gates),
    )


def _open_slots(facts: TaskFacts, first: Gate) -> int:
    pool = facts.room.pools.get(facts.candidate.pool)
    return pool.open if pool is not None and first.name.startswith("pool ") else 0


def _opened(gate: Gate) -> Gate:
    """A gate that was passed."""
    if gate.verdict not in CLOSED and gate.verdict is not Verdict.NOT_REACHED:
        return gate
    return Gate(name=gate.name, verdict=Verdict.OK, detail="passed")


# -- what it says first -------------------------------------------------------------------------


def _summary(facts: TaskFacts, seconds: float | None, *, is_open: bool) -> str:
    instance, task_id = facts.instance, facts.board.graph.task_ids[facts.instance.task]
    state, usual = instance.state, facts.usual(task_id)
    tries = f"try {instance.try_number} of {instance.max_tries + 1}"
    match state:
        case TaskState.RUNNING:
            text = f"running{ago(seconds)}" + (f", usually {duration(usual)}" if usual is not None else "")
            return f"{text}, {tries}" if instance.max_tries else text
        case TaskState.QUEUED:
            return f"queued{ago(seconds)}, no worker has reported its start"
        case TaskState.RESTARTING | TaskState.SHUTDOWN:
            again = ", then it runs again" if state is TaskState.RESTARTING else ""
            return f"{state}: its attempt was asked to stop{again}"
        case TaskState.UP_FOR_RETRY:
            text = f"try {instance.try_number} of {instance.max_tries + 1} failed"
            text += f" ({instance.reason})" if instance.reason else ""
            return f"{text}, retrying at {stamp(instance.next_at)}" if instance.next_at else text
        case TaskState.UP_FOR_RESCHEDULE:
            at = f", next check at {stamp(instance.next_at)}" if instance.next_at else ""
            return f"{instance.reason or 'waiting for its condition'}{at}"
        case TaskState.DEFERRED:
            return f"deferred{ago(seconds)}, not running"
        case TaskState.SCHEDULED:
            text = f"scheduled{ago(seconds)}, not running"
        case _:
            text = f"waiting{ago(seconds)}, not running"
    if not is_open:
        return text
    ahead = facts.ahead[0] if facts.ahead is not None else 0
    turn = f"{counted(ahead, 'task')} of its pool before it" if ahead else "it is next"
    return f"{text}; nothing is in the way, {turn}"


# -- the limits ---------------------------------------------------------------------------------


def _slot_gates(facts: TaskFacts) -> list[Gate]:
    """Pool, DAG, run and task: the limits under which a ready instance gets a slot."""
    candidate, room = facts.candidate, facts.candidate.dag
    run, has_slot = candidate.key.run, facts.instance.state in HOLDING_SLOT
    holders = facts.dag_holders
    of_run = tuple(holder for holder in holders if holder.run_id == facts.run.run.run_id)
    found = [_pool_gate(facts)]
    if not candidate.defers:
        reason = None if has_slot else room.limit_refusal()
        fine = f"{room.active} of {room.limit}"
        found.append(_limit("DAG limit", reason, fine, "max_active_tasks", room.limit, holders))
        if room.per_run is not None:
            reason, active = None if has_slot else room.run_refusal(run), room.by_run.get(run, 0)
            fine = f"{active} of {room.per_run}"
            found.append(_limit("run limit", reason, fine, "max_active_tasks_per_run", room.per_run, of_run))
    if (task := candidate.task) is not None:
        mine = tuple(holder for holder in holders if holder.task_id == task.task_id)
        for limit, active, option, who in (
            (task.per_dag, task.active, "max_active_tis_per_dag", mine),
            (task.per_run, task.by_run.get(run, 0), "max_active_tis_per_dagrun", tuple(h for h in mine if h in of_run)),
        ):
            if limit is not None:
                reason = task.refusal(run) if active >= limit and not has_slot else None
                found.append(_limit(f"task limit {option}", reason, f"{active} of {limit}", option, limit, who))
    return found


def _limit(
    name: str, reason: str | None, figures: str, option: str, limit: int, holders: tuple[Holder, ...]
) -> Gate:  # fmt: skip
    if reason is None:
        return gate(name, None, figures)
    detail = f"{figures} active" + ("" if option in name else f" ({option})")
    return Gate(name=name, verdict=Verdict.WAIT if limit > 0 else Verdict.NEVER, detail=detail, holders=holders)


def _pool_gate(facts: TaskFacts) -> Gate:
    candidate, room = facts.candidate, facts.room
    name, needs = candidate.pool, candidate.pool_slots
    pool = room.pools.get(name)
    team = candidate.dag.team
    reason = room.pool_refusal(candidate.needs)
    if pool is None:
        command = command_line("pools set", name, max(needs, 1))
        detail = "there is no such pool"
        return Gate(name=f"pool {name}", verdict=Verdict.NEVER, detail=detail, commands=(command,))
    figures = f"{facts.pool_used} of {pool.total} slots held" if pool.total >= 0 else "no limit"
    if pool.starts is not None:
        figures = f"{pool.starts.summary}, {figures}"
    if facts.instance.state in HOLDING_SLOT:
        return gate(f"pool {name}", None, f"{figures}, {needs} by this task")
    if reason is None:
        ahead = "" if not facts.ahead or not facts.ahead[0] else f", {counted(facts.ahead[0], 'task')} before it"
        return gate(f"pool {name}", None, f"{figures}, needs {needs}{ahead}")
    if pool.is_foreign(team):
        detail = "it belongs to another team: choose a pool that this DAG may use"
        return Gate(name=f"pool {name}", verdict=Verdict.NEVER, detail=detail)
    if pool.starts is not None and pool.has_slots(needs):
        return _rate_gate(f"pool {name}", pool.starts, facts.ahead[0] if facts.ahead else 0)
    if needs > pool.total:
        detail = f"needs {needs}, has {counted(pool.total, 'slot')} in all"
        command = command_line("pools set", name, needs)
        return Gate(name=f"pool {name}", verdict=Verdict.NEVER, detail=detail, commands=(command,))
    detail, ahead_slots = f"{figures}, needs {needs}", 0
    if facts.ahead is not None and facts.ahead[0]:
        detail += f"; {counted(facts.ahead[0], 'task')} before it"
        ahead_slots = facts.ahead[1]
    command = command_line("pools set", name, facts.pool_used + ahead_slots + needs)
    return Gate(
        name=f"pool {name}", verdict=Verdict.WAIT, detail=detail, holders=facts.pool_holders, commands=(command,)
    )  # fmt: skip


def _rate_gate(name: str, starts: RecentStarts, ahead: int) -> Gate:
    """The pool has room, but as much has started in it as its rate allows."""
    turn = _EPOCH + timedelta(microseconds=starts.next_at(ahead))
    who = f"the next start is at {stamp(turn)}"
    if ahead:
        who = f"{counted(ahead, 'task')} before it, so that it starts at {stamp(turn)} at the earliest"
    return Gate(name=name, verdict=Verdict.WAIT, detail=f"{starts.summary}, its rate; {who}", opens_at=turn)


def _parallelism_gate(facts: TaskFacts) -> Gate:
    room, name = facts.room, "parallelism"
    if facts.candidate.defers or facts.instance.state in HOLDING_SLOT:
        return gate(name, None, "does not apply")
    if not facts.has_figures:
        return Gate(
            name=name, verdict=Verdict.UNKNOWN, detail="its scheduler has not reported how many attempts it runs"
        )
    return gate(name, room.parallelism_refusal(), f"{room.parallelism - room.open} of {room.parallelism}")


def _executor_gate(facts: TaskFacts) -> Gate:
    candidate, room = facts.candidate, facts.room
    wanted = candidate.executor or facts.executor
    name = f"executor {wanted}" if wanted else "executor"
    if candidate.defers:
        return gate(name, None, "does not apply: it starts in its trigger")
    if facts.instance.state in HOLDING_SLOT:
        return gate(name, None, "has it")
    if not facts.has_figures:
        return Gate(name=name, verdict=Verdict.UNKNOWN, detail="its scheduler has not reported how many slots are open")
    reason = room.executor_refusal(candidate.needs)
    executor = room.executors.get(candidate.executor)
    if executor is None:
        return Gate(name=name, verdict=Verdict.NEVER, detail=str(reason))
    open_ = executor.open_async if candidate.is_async else executor.open
    if reason is not None and wanted is not None and wanted in facts.troubles:
        reason = f"{reason}: {facts.troubles[wanted]}"
    return gate(name, reason, f"{counted(open_, 'slot')} open")


def _worker_gate(facts: TaskFacts) -> Gate:
    instance, now = facts.instance, facts.run.now
    who = f"scheduler {facts.queued_by}" if facts.queued_by else "its executor"
    if facts.on_engine is not None and instance.state in HOLDING_SLOT:
        return _engine_gate(facts.on_engine, facts.troubles.get(facts.on_engine.name), now)
    if facts.blocked is not None:
        return Gate(name="worker", verdict=Verdict.WAIT, detail=_blocked_detail(facts.blocked, now))
    match instance.state:
        case TaskState.QUEUED:
            detail = f"{who} has it{ago(seconds_since(instance.queued_at, now))}, no worker has reported its start"
            return Gate(name="worker", verdict=Verdict.WAIT, detail=detail)
        case TaskState.RUNNING:
            return gate("worker", None, f"runs it{ago(seconds_since(instance.start_date, now))}, submitted by {who}")
        case TaskState.RESTARTING | TaskState.SHUTDOWN:
            return Gate(name="worker", verdict=Verdict.WAIT, detail="its attempt was asked to stop, and has not ended")
    if instance.state in SCHEDULABLE or instance.state is TaskState.DEFERRED:
        return gate("worker", None, "is not needed yet")
    return gate("worker", None, "it is submitted at the next pass of its scheduler")


def _engine_gate(engine: OnEngine, trouble: str | None, now: datetime) -> Gate:
    """What is known of an attempt that an engine was given."""
    name = f"engine {engine.name!r}"
    if engine.begun_at is None and trouble is not None:
        since = ago(seconds_since(engine.sent_at, now))
        detail = f"its scheduler cannot reach {name}, which is to have it{since}: {trouble}"
        return Gate(name="worker", verdict=Verdict.WAIT, detail=detail)
    if engine.begun_at is None:
        since = ago(seconds_since(engine.sent_at, now))
        help_ = "see that they run and have room"
        if engine.unserved is not None:
            help_ = f"none takes from the queue {engine.unserved!r}, so start one that does"
        detail = f"{name} has it{since}, none of its workers has begun it: {help_}"
        return Gate(name="worker", verdict=Verdict.WAIT, detail=detail)
    where = f"a worker of {name} on {engine.hostname} (process {engine.pid})"
    if engine.alive_until is not None and engine.alive_until < now:
        ended = duration((now - engine.alive_until).total_seconds())
        detail = f"{where} is silent, and its lease ended {ended} ago: the attempt is lost, and the task runs again"
        return Gate(name="worker", verdict=Verdict.WAIT, detail=detail)
    return gate("worker", None, f"{where} runs it{ago(seconds_since(engine.begun_at, now))}")


def _blocked_detail(blocked: BlockedLoop, now: datetime) -> str:
    lasts = ago(seconds_since(blocked.since, now))
    where = f" at {blocked.where}" if blocked.where else ", holding the interpreter, so the line is not known"
    if blocked.by_itself:
        return f"it blocks the event loop of its worker process{lasts}{where}: await, or use asyncio.to_thread"
    return f"cannot continue: {blocked.who} blocks the event loop of its worker process{lasts}{where}"
