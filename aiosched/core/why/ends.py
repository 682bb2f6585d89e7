"""How task instances ended, and the roots of failures. Source: docs/why.md."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from aiosched.core.graph.instances import is_undone
from aiosched.core.run.board import Board, Instance
from aiosched.core.values.durations import duration
from aiosched.core.values.ids import instance_name
from aiosched.core.values.states import FAILURES, TaskState
from aiosched.core.why.commands import clear_failed, clear_onto_newest, clear_with_downstream, rerun, show_log
from aiosched.core.why.explanation import MOST_HOLDERS, Explanation, Gate, Holder, Verdict, seconds_since

_NAMED = 3  # root failures that a summary names


def roots_of(board: Board, instance: Instance) -> list[Instance]:
    """The failures that made `instance` upstream-failed: failed instances, however far upstream.

    An upstream-failed instance without a failed upstream (no values to map over were returned) is a root itself.
    """
    roots: dict[Instance, None] = {}
    seen = {instance}
    to_visit = [instance]
    while to_visit:
        each = to_visit.pop()
        if each.state is TaskState.FAILED:
            roots[each] = None
            continue
        behind = [up for up in dependencies_of(board, each) if up.state in FAILURES]
        if not behind and each is not instance:
            roots[each] = None
        to_visit += (up for up in behind if up not in seen)
        seen.update(behind)
    return sorted(roots, key=lambda each: (each.task, each.map_index))


def failures_of(board: Board) -> list[Instance]:
    """The failures of a run that no other failure explains."""
    return [each for each in board if each.state is TaskState.FAILED]


def dependencies_of(board: Board, instance: Instance) -> list[Instance]:
    """What `instance` depends on: direct upstreams, indirect setups, and its producers."""
    graph, task = board.graph, instance.task
    others = dict.fromkeys((*graph.upstream[task], *graph.indirect_setups[task]))
    if graph.mappings is not None:
        others.update(dict.fromkeys(graph.mappings.producers[task]))
    return [found for other in others for found in board.upstream_counts.counterparts(other, instance)]


def holder_of(board: Board, instance: Instance, now: datetime, usual: float | None = None) -> Holder:
    """An instance of the run as a holder: others wait for it, or failed because of it."""
    since = since_of(instance)
    return Holder(
        dag_id=board.run.dag_id,
        run_id=board.run.run_id,
        task_id=board.graph.task_ids[instance.task],
        map_index=instance.map_index,
        state=instance.state.value,
        seconds=seconds_since(since, now),
        usual_seconds=usual,
        logical_date=board.run.logical_date,
    )


def since_of(instance: Instance) -> datetime | None:
    """Since when an instance has been in its state, as far as its row shows."""
    match instance.state:
        case TaskState.SCHEDULED:
            return instance.scheduled_at
        case TaskState.QUEUED:
            return instance.queued_at
        case TaskState.RUNNING | TaskState.RESTARTING | TaskState.SHUTDOWN:
            return instance.start_date
        case TaskState.DEFERRED | TaskState.UP_FOR_RESCHEDULE:
            return instance.start_date
    return instance.end_date


def name_of(board: Board, instance: Instance) -> str:
    """`load`, or `load[3]` for a mapped task."""
    return instance_name(board.graph.task_ids[instance.task], instance.map_index)


def explain_end(
    board: Board, instance: Instance, subject: str, now: datetime, *, is_gone: bool = False
) -> Explanation:  # fmt: skip
    """Why a finished task instance ended as it did. `is_gone`: see `TaskFacts`."""
    name, state, reason = name_of(board, instance), instance.state, instance.reason
    end = instance.end_date
    gates: tuple[Gate, ...] = ()
    commands: tuple[str, ...] = ()
    match state:
        case TaskState.SUCCESS:
            took = None
            if instance.start_date is not None and end is not None:
                took = (end - instance.start_date).total_seconds()
            summary = "succeeded" + (f" in {duration(took)}" if took is not None else "")
            gates = (Gate(name="worker", verdict=Verdict.OK, detail=f"try {instance.try_number}"),)
        case TaskState.FAILED:
            summary = f"failed: {reason or 'see its log'}"
            detail = f"try {instance.try_number} of {instance.max_tries + 1}"
            gates = (Gate(name="worker", verdict=Verdict.NEVER, detail=detail),)
            clear = clear_onto_newest(board) if is_gone else clear_failed(board, [instance])
            commands = (show_log(board, instance), clear)
        case TaskState.UPSTREAM_FAILED:
            roots = roots_of(board, instance)
            summary = f"upstream failed: {_root_words(board, roots) or reason or 'an upstream cannot succeed any more'}"
            holders = tuple(holder_of(board, root, now) for root in roots[:MOST_HOLDERS])
            gates = (Gate(name="upstream", verdict=Verdict.NEVER, detail=reason or "", holders=holders),)
            commands = (clear_failed(board, roots),) if roots else ()
        case TaskState.SKIPPED:
            skipped_by = reason if reason is None or reason.startswith("skipped") else f"skipped: {reason}"
            summary = skipped_by or f"skipped: {name} asked for it"
            detail = reason or "it skipped itself"
            commands = (clear_with_downstream(board, instance),)
            if is_undone(instance):
                detail += "; a stop of the run left it undone: it runs when anything in the run is cleared"
                commands = (rerun(board),)
            gates = (Gate(name="upstream", verdict=Verdict.NEVER, detail=detail),)
        case _:
            summary = f"removed: {reason or 'its task is no longer in the DAG'}"
            gates = (Gate(name="mapping", verdict=Verdict.NEVER, detail=reason or ""),)
    return Explanation(
        subject=subject, state=state.value, summary=summary, gates=gates, at=now, since=end, commands=commands
    )  # fmt: skip


def _root_words(board: Board, roots: Sequence[Instance]) -> str:
    verb = "the root is" if len(roots) == 1 else "the roots are"
    return f"{verb} {named(board, roots)}" if roots else ""


def named(board: Board, failed: Sequence[Instance]) -> str:
    """The first of some failures by their names, with the reasons."""
    names = [name_of(board, each) + (f" ({each.reason})" if each.reason else "") for each in failed[:_NAMED]]
    return ", ".join(names) + (f" and {len(failed) - _NAMED} more" if len(failed) > _NAMED else "")
