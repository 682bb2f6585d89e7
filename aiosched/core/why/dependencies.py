"""What a task instance depends on, as gates: the previous run, lengths, upstreams, times, triggers.

The verdicts are those of the board and its upstream counts. Source: the semantics reference, sections 4 to 8, 22, 25
and 26.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from aiosched.core.graph.human_input import InputRequest
from aiosched.core.graph.instances import is_due
from aiosched.core.graph.previous_run import PASSED
from aiosched.core.graph.trigger_rules import TriggerVerdict as Judgement
from aiosched.core.graph.trigger_rules import explain as explain_rule
from aiosched.core.run.board import Board, Instance
from aiosched.core.values.commands import command_line
from aiosched.core.values.instants import stamp
from aiosched.core.values.states import (
    FAILURES,
    FINISHED,
    HOLDING_SLOT,
    RUN_FINISHED,
    SCHEDULABLE,
    SUCCEEDED,
    TaskState,
)
from aiosched.core.why.commands import clear_failed, explain, rerun
from aiosched.core.why.ends import holder_of, name_of, roots_of
from aiosched.core.why.explanation import MOST_HOLDERS, Gate, Holder, Verdict, ago, counted, gate, seconds_since
from aiosched.core.why.run import Usual

_MOST_ANSWERS = 4  # commands that answer a question
_SETTLES = {
    Judgement.SKIPPED: "it is skipped at the next pass of its scheduler",
    Judgement.UPSTREAM_FAILED: "it fails with its upstreams at the next pass of its scheduler",
}


def dependency_gates(
    board: Board,
    instance: Instance,
    now: datetime,
    usual: Usual,
    *,
    previous: Board | None = None,
    deferred_since: datetime | None = None,
    question: InputRequest | None = None,
) -> list[Gate]:
    """The gates that must be open before an instance is ready; only those that apply to its task.

    `previous` is the previous run, if the instance waits for it and it is known.
    """
    graph, task, upstream_counts = board.graph, instance.task, board.upstream_counts
    asks = instance.state in SCHEDULABLE  # all others have passed them
    held = _Holders(board, now, usual)
    found: list[Gate] = []
    spec = graph.tasks[task]
    if spec.depends_on_past or spec.wait_for_downstream:
        reason = board.waits_for_past(task) if asks else None
        if reason is None or previous is None:
            found.append(gate("previous run", reason, "does not hold it back"))
        else:
            found.append(_past_gate(board, task, reason, previous, now, usual))
    if graph.mappings is not None and (graph.mappings.producers[task] or graph.mappings.units[task]):
        found.append(_mapping_gate(board, instance, held, asks=asks))
    if graph.indirect_setups[task]:
        judged = upstream_counts.judge_setups(instance) if asks else Judgement.RUN
        setups = [s for other in graph.indirect_setups[task] for s in upstream_counts.counterparts(other, instance)]
        done = sum(each.state in SUCCEEDED for each in setups)
        found.append(_judged("setups", judged, f"{done} of {len(setups)} succeeded", held.of(setups)))
    found.append(_upstream_gate(board, instance, held, asks=asks))
    if graph.teardown_scopes[task]:
        unfinished = list(upstream_counts.unfinished_scope(instance)) if asks else []
        number = counted(len(unfinished), "task instance") if unfinished else "nothing"
        judged = Judgement.WAIT if unfinished else Judgement.RUN
        detail = f"{number} between its setup and it is unfinished"
        found.append(_judged("teardown scope", judged, detail, held.of(unfinished)))
    if instance.next_at is not None and asks:
        found.append(_time_gate(instance, now))
    if (trigger := _trigger_gate(board, instance, now, deferred_since, question)) is not None:
        found.append(trigger)
    return found


class _Holders:
    """Unfinished instances as holders."""

    def __init__(self, board: Board, now: datetime, usual: Usual) -> None:
        self._board, self._now, self._usual = board, now, usual

    def of(self, instances: Iterable[Instance]) -> tuple[Holder, ...]:
        ids = self._board.graph.task_ids
        unfinished = [each for each in instances if each.state not in FINISHED][:MOST_HOLDERS]
        return tuple(holder_of(self._board, each, self._now, self._usual(ids[each.task])) for each in unfinished)


def _past_gate(board: Board, task: int, reason: str, previous: Board, now: datetime, usual: Usual) -> Gate:
    """What of the previous run holds a task back, and the command that lets it pass unless time does."""
    assert board.graph.lookback is not None
    ids, run = previous.graph.task_ids, previous.run
    watched = {task_id for task_id, waiting in board.graph.lookback.concerned.items() if task in waiting}
    holding = [each for each in previous if ids[each.task] in watched and each.state not in PASSED]
    failed = [each for each in holding if each.state in FAILURES]
    verdict = Verdict.NEVER
    commands: tuple[str, ...] = ()
    if failed:
        roots = dict.fromkeys(root for each in failed for root in roots_of(previous, each))
        commands = (clear_failed(previous, list(roots) or failed),)
    elif run.state in RUN_FINISHED:
        commands = (rerun(previous),)
    elif holding:
        verdict = Verdict.WAIT
        commands = () if holding[0].state in HOLDING_SLOT else (explain(previous, holding[0]),)
    holding.sort(key=lambda each: each.state not in FAILURES)
    return Gate(
        name="previous run",
        verdict=verdict,
        detail=f"{reason}: {run.run_id} ({run.state})",
        holders=tuple(holder_of(previous, each, now, usual(ids[each.task])) for each in holding[:MOST_HOLDERS]),
        commands=commands,
    )


def _judged(name: str, judged: Judgement, detail: str, holders: tuple[Holder, ...]) -> Gate:
    if judged is Judgement.RUN:
        return gate(name, None, detail)
    if judged is Judgement.WAIT:
        return Gate(name=name, verdict=Verdict.WAIT, detail=detail, holders=holders)
    return Gate(name=name, verdict=Verdict.NEVER, detail=f"{detail}: {_SETTLES[judged]}")


def _upstream_gate(board: Board, instance: Instance, held: _Holders, *, asks: bool) -> Gate:
    """The trigger rule, and the decisions of branches."""
    graph, upstream_counts = board.graph, board.upstream_counts
    if asks and (branch := board.branch_against(instance)) is not None:
        detail = f"{name_of(board, branch)} decided against it: {_SETTLES[Judgement.SKIPPED]}"
        return Gate(name="upstream", verdict=Verdict.NEVER, detail=detail)
    detail = explain_rule(graph.rules[instance.task], *upstream_counts.upstreams(instance), noun="")
    judged = upstream_counts.judge_rule(instance) if asks else Judgement.RUN
    upstreams = [up for other in graph.upstream[instance.task] for up in upstream_counts.counterparts(other, instance)]
    return _judged("upstream", judged, detail, held.of(upstreams))


def _mapping_gate(board: Board, instance: Instance, held: _Holders, *, asks: bool) -> Gate:
    """Whether the number of instances of the task is known."""
    graph, upstream_counts = board.graph, board.upstream_counts
    assert graph.mappings is not None
    producers = [each for other in graph.mappings.producers[instance.task] for each in upstream_counts.of(other)]
    if not asks or instance.map_index >= 0:
        fine = (
            f"map index {instance.map_index} of {len(upstream_counts.of(instance.task))} instances"
            if instance.map_index >= 0
            else ""
        )
        return gate("mapping", None, fine or "is not mapped itself")
    judged = upstream_counts.judge_producers(instance)
    if judged.settles:
        return _judged("mapping", judged, "a task that it is mapped over did not succeed", ())
    mapped = bool(graph.mappings.units[instance.task])
    if (mapped and not board.is_countable(instance.task)) or judged is Judgement.WAIT:
        names = ", ".join(dict.fromkeys(graph.task_ids[each.task] for each in producers)) or "its inputs"
        return _judged(
            "mapping", Judgement.WAIT, f"its number of instances is known once {names} has returned", held.of(producers)
        )
    return gate("mapping", None, "the length is known" if mapped else "the values it is mapped over are known")


def _time_gate(instance: Instance, now: datetime) -> Gate:
    name = "retry delay" if instance.state is TaskState.UP_FOR_RETRY else "reschedule"
    assert instance.next_at is not None
    if is_due(instance, now):
        return gate(name, None, f"ended at {stamp(instance.next_at)}")
    detail = f"until {stamp(instance.next_at)}" + (f": {instance.reason}" if instance.reason else "")
    return Gate(name=name, verdict=Verdict.WAIT, detail=detail, opens_at=instance.next_at)


def _trigger_gate(
    board: Board, instance: Instance, now: datetime, since: datetime | None, question: InputRequest | None
) -> Gate | None:
    waited = board.deferrals.get(instance)
    if instance.state is not TaskState.DEFERRED:
        return None if waited is None or waited.resume is None else gate("trigger", None, "has fired")
    if waited is None:
        return Gate(name="trigger", verdict=Verdict.UNKNOWN, detail="its trigger is not stored (any longer)")
    if waited.resume is not None:
        return gate("trigger", None, "has fired; the task resumes at the next pass of its scheduler")
    asks = board.deferrals.asks(instance)
    what = "the answer of a person" if asks else waited.deferral.classpath
    if asks and question is not None:
        what += f" to {question.subject!r}"
    detail = f"waits for {what}{ago(seconds_since(since, now))}"
    if waited.timeout_at is not None:
        detail += f", until {stamp(waited.timeout_at)} at the latest"
    commands = _answers(board, instance, question) if asks else ()
    return Gate(name="trigger", verdict=Verdict.WAIT, detail=detail, commands=commands)


def _answers(board: Board, instance: Instance, question: InputRequest | None) -> tuple[str, ...]:
    """A command for each option; if a param needs a value, the one that shows the question."""
    run, task_id = board.run, board.graph.task_ids[instance.task]
    if question is None or any(param.required for param in question.params.values()):
        return (command_line("inputs list", options=("--dag", run.dag_id)),)
    index = () if instance.map_index < 0 else ("--map-index", instance.map_index)
    return tuple(
        command_line("inputs answer", run.dag_id, run.run_id, task_id, option, options=index)
        for option in question.options[:_MOST_ANSWERS]
    )
