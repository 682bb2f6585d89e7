"""Why a run has not started, or makes no progress. Source: docs/why.md."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from aiosched.core.creation.awaited import NONE_AWAITED, AwaitedRuns
from aiosched.core.creation.run_creation import runs_to_start
from aiosched.core.creation.run_keys import PER_KEY, KeyRoom
from aiosched.core.graph.instances import is_undone
from aiosched.core.run.board import Board, Instance, Run
from aiosched.core.values.durations import duration
from aiosched.core.values.instants import stamp
from aiosched.core.values.states import FINISHED, HOLDING_SLOT, RUN_FINISHED, RunState, TaskState
from aiosched.core.why.commands import explain, rerun, show_log
from aiosched.core.why.ends import failures_of, holder_of, named
from aiosched.core.why.explanation import (
    MOST_HOLDERS,
    Explanation,
    Gate,
    Holder,
    Owner,
    Verdict,
    ago,
    commands_of,
    counted,
    earliest,
    free_at,
    paused_gate,
    run_label,
    scheduler_gate,
    seconds_since,
    staged,
)
from aiosched.core.why.quarantine import QuarantineFacts, quarantine_gates

Usual = Callable[[str], float | None]  # task id -> seconds that its successes usually take

_REASONS = {
    "task_failure": "a task failed",
    "all_tasks_deadlocked": "no task can start any more",
    "timed_out": "it ran longer than its dagrun_timeout",
    "cancelled": "a user cancelled it",
    "expired": "it had not started when it expired",
}


def unknown_duration(task_id: str) -> None:
    """A `Usual` that knows no durations."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFacts:
    """A run and the facts that decide when it starts.

    `limit` and `running` are those of its group: the DAG's runs, or the runs of its backfill. `queued` are the queued
    runs of the group, including itself, that may go before it. `active` are the running ones, as far as known.
    `awaited` are the queued runs that running ones wait for, `waiting` is a running run that waits for this run.
    `beyond` says which run was started although the limit was reached, and why. `missing` is the number of its task
    instances that are not stored yet. `keys` is the room for runs by key, and `same_key` are the
    running runs that have the key of this one.
    """

    now: datetime
    owner: Owner
    run: Run
    quarantine: QuarantineFacts | None = None
    is_paused: bool = False
    limit: int = 16
    running: int = 0
    queued: tuple[Run, ...] = ()
    active: tuple[Holder, ...] = ()
    backfill_is_paused: bool = False
    awaited: AwaitedRuns = NONE_AWAITED
    waiting: str | None = None
    beyond: str | None = None
    missing: int = 0
    keys: KeyRoom | None = None
    same_key: tuple[Holder, ...] = ()


def run_gates(facts: RunFacts, board: Board) -> list[Gate]:
    """Whether the run, which `board` holds, is under way, and if not, why."""
    run = facts.run
    if run.state in RUN_FINISHED:
        why = f" ({_REASONS.get(run.reason, run.reason)})" if run.reason else ""
        detail = f"the run has ended: {run.state}{why}"
        return [Gate(name="run is running", verdict=Verdict.NEVER, detail=detail, commands=(rerun(board),))]
    if run.state is RunState.RUNNING:
        detail = f"{facts.running} of {facts.limit} active runs"
        if facts.beyond is not None:
            detail += f": {facts.beyond}"
        if run.reason is not None:
            detail += f"; only its teardowns still run: {_REASONS.get(run.reason, run.reason)}"
        return [Gate(name="run is running", verdict=Verdict.OK, detail=detail)]
    return [_with_expiry(run, _queued_gate(facts))]


def _with_expiry(run: Run, gate: Gate) -> Gate:
    """The gate, with the instant until which the run may start."""
    if run.expires_at is None or run.clear_number:
        return gate
    return replace(gate, detail=f"{gate.detail}; it expires at {stamp(run.expires_at)}")


def _queued_gate(facts: RunFacts) -> Gate:
    """Why a queued run does not start."""
    run, reason = facts.run, why_queued(facts)
    if reason is None and facts.missing:
        detail = f"{facts.missing:,} of its task instances are not stored yet; it starts when all are"
        return Gate(name="task instances", verdict=Verdict.WAIT, detail=detail)
    if reason is None:
        return Gate(name="run may start", verdict=Verdict.OK, detail="it starts at the next pass of its scheduler")
    if run.run_after > facts.now:
        return Gate(name="start time", verdict=Verdict.WAIT, detail=reason, opens_at=run.run_after)
    if facts.backfill_is_paused:
        command = f"aiosched backfill resume {run.backfill_id}"
        return Gate(name="backfill", verdict=Verdict.WAIT, detail=reason, commands=(command,))
    if reason.startswith(PER_KEY):
        return Gate(name=PER_KEY, verdict=Verdict.WAIT, detail=reason, holders=facts.same_key[:MOST_HOLDERS])
    before = sum(other.key != run.key and other.run_after <= facts.now for other in facts.queued)
    detail = reason if facts.beyond is None else f"{reason} ({facts.beyond})"
    if before:
        detail += f", {counted(before, 'run')} queued before it"
    if facts.waiting is not None:
        detail += f"; {facts.waiting} waits for it, so it starts before others"
    verdict = Verdict.WAIT if facts.limit > 0 else Verdict.NEVER
    holders = facts.active[:MOST_HOLDERS]
    return Gate(name="max_active_runs", verdict=verdict, detail=detail, holders=holders)


def why_queued(facts: RunFacts) -> str | None:
    """What keeps the run queued, apart from the pause of its DAG; None: it can start."""
    run, group = facts.run, facts.run.backfill_id
    decision = runs_to_start(
        facts.queued or (run,),
        now=facts.now,
        limits={group: facts.limit},
        running={group: facts.running},
        paused_backfills=[group] if group is not None and facts.backfill_is_paused else (),
        backfill_order={each.key: each.backfill_order or 0 for each in facts.queued} if group is not None else {},
        awaited=facts.awaited,
        keys=facts.keys and facts.keys.copy(),
    )
    return decision.waiting.get(run.key)


def explain_run(facts: RunFacts, board: Board, usual: Usual = unknown_duration) -> Explanation:
    """Why a run is in its state. `usual` returns how long a task usually takes, in seconds."""
    run, now = facts.run, facts.now
    subject = f"{run.dag_id} · {run_label(run.run_id, run.logical_date)}"
    if run.state in RUN_FINISHED:
        return _explain_end(facts, board, subject)
    stages = [
        [
            scheduler_gate(facts.owner),
            *quarantine_gates(run.dag_id, facts.quarantine, now),
            paused_gate(run.dag_id, is_paused=facts.is_paused),
        ],
        run_gates(facts, board),
    ]
    if run.state is RunState.QUEUED:
        gates = staged(stages)
        since, seconds = run.queued_at, seconds_since(run.queued_at, now)
        closed = [gate for gate in gates if gate.closed]
        summary = f"queued{ago(seconds)}, not started"
        needs = max(len(facts.queued), 1) - max(facts.limit - facts.running, 0)
        full = bool(closed) and closed[0].name == "max_active_runs"
        return Explanation(
            subject=subject,
            state=run.state.value,
            summary=summary if closed else f"{summary}; nothing is in the way, it starts next",
            gates=gates,
            at=now,
            since=since,
            waiting_seconds=seconds,
            likely_free_at=free_at(facts.active, needs, now) if full else None,
            earliest_start=earliest(gates),
            commands=commands_of(gates),
        )
    gates = staged([*stages, [_tasks_gate(board, now, usual)]])
    return Explanation(
        subject=subject,
        state=run.state.value,
        summary=f"running{ago(seconds_since(run.start_date, now))}, {_progress(board)}",
        gates=gates,
        at=now,
        since=run.start_date,
        waiting_seconds=seconds_since(run.start_date, now),
        commands=commands_of(gates),
    )


def _progress(board: Board) -> str:
    done = sum(each.state in FINISHED and not is_undone(each) for each in board)
    return f"{done} of {counted(board.total, 'task instance')} done"


def _counted_states(instances: Sequence[Instance]) -> list[str]:
    """`2 skipped`, one for each state, the most frequent first."""
    return [f"{number} {_word(state)}" for state, number in Counter(each.state for each in instances).most_common()]


def _tasks_gate(board: Board, now: datetime, usual: Usual) -> Gate:
    """Which tasks of the run are under way, or what they wait for."""
    states = Counter(each.state for each in board if each.state not in FINISHED)
    words = ", ".join(f"{number} {_word(state)}" for state, number in sorted(states.items(), key=lambda e: _turn(e[0])))
    unfinished = sorted((each for each in board if each.state not in FINISHED), key=lambda each: _turn(each.state))
    shown = [each for each in unfinished if each.state is not TaskState.NONE] or unfinished
    holders = tuple(
        holder_of(board, each, now, usual(board.graph.task_ids[each.task])) for each in shown[:MOST_HOLDERS]
    )
    if any(state in HOLDING_SLOT for state in states) or not unfinished:
        return Gate(name="tasks", verdict=Verdict.OK, detail=words or "all are done", holders=holders)
    command = explain(board, shown[0])
    detail = f"no task runs: {words}"
    times = [each.next_at for each in unfinished if each.next_at is not None]
    opens_at = min(times, default=None) if all(each.next_at is not None for each in shown) else None
    return Gate(
        name="tasks", verdict=Verdict.WAIT, detail=detail, holders=holders, opens_at=opens_at, commands=(command,)
    )


def _word(state: TaskState) -> str:
    return "waiting" if state is TaskState.NONE else state.value


def _turn(state: TaskState) -> int:
    order = (TaskState.RUNNING, TaskState.QUEUED, TaskState.SCHEDULED, TaskState.DEFERRED, TaskState.UP_FOR_RETRY)
    return order.index(state) if state in order else len(order) + (state is TaskState.NONE)


def _explain_end(facts: RunFacts, board: Board, subject: str) -> Explanation:
    run, now = facts.run, facts.now
    took = None if not (run.start_date and run.end_date) else (run.end_date - run.start_date).total_seconds()
    if run.state is RunState.SUCCESS:
        # What did not run, or failed without failing the run, is named: a success is not always all of the work.
        other = [each for each in board if each.state not in (TaskState.SUCCESS, TaskState.REMOVED)]
        words = "".join(f", {counts}" for counts in _counted_states(other))
        summary = "succeeded" + (f" in {duration(took)}" if took is not None else "") + words
        holders = tuple(holder_of(board, each, now) for each in other[:MOST_HOLDERS])
        done = Gate(name="tasks", verdict=Verdict.OK, detail=_progress(board) + words, holders=holders)
        return Explanation(
            subject=subject,
            state=run.state.value,
            summary=summary,
            gates=(done,),
            at=now,
            since=run.end_date,
            commands=tuple(explain(board, each) for each in other[:1]),
        )
    failures = failures_of(board)
    reason = _REASONS.get(run.reason or "", run.reason or "no reason is known")
    at = f" at {stamp(run.end_date)}" if run.end_date else ""
    undone = [each for each in board if is_undone(each)]
    left = f"; its stop left {counted(len(undone), 'task instance')} undone" if undone else ""
    to_do = dict.fromkeys([*failures, *undone])
    holders = tuple(holder_of(board, each, now) for each in list(to_do)[:MOST_HOLDERS])
    commands = [show_log(board, each) for each in failures[:1]] + [rerun(board)]
    return Explanation(
        subject=subject,
        state=run.state.value,
        summary=f"failed{at}: {reason}" + (f": {named(board, failures)}" if failures else "") + left,
        gates=(Gate(name="tasks", verdict=Verdict.NEVER, detail=_progress(board), holders=holders),),
        at=now,
        since=run.end_date,
        commands=tuple(commands),
    )
