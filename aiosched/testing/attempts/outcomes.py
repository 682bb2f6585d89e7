"""The reports of scripted endings, by the rules of the real runner (executors/attempt/runner.py).

Values become XComs or fail the attempt, a value that cannot be mapped over fails it, outlets make
events. Facts about the task that are not in its script (whether it pushes, its outlets) come from the DAG.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from aiosched.authoring.assets.asset_events import OutletEvents
from aiosched.authoring.assets.assets import Asset, AssetAlias, AssetLink, Outlet, outlet_of
from aiosched.authoring.base.settings import defaults
from aiosched.authoring.tasks.nesting import map_length
from aiosched.authoring.triggers.encoding import dump
from aiosched.core.graph.spec import AssetRef, TaskSpec
from aiosched.core.values.messages import Attempt, Outcome, RunInfo
from aiosched.executors.attempt.asset_touches import touches
from aiosched.executors.attempt.failures import details_of, reason_of
from aiosched.executors.attempt.results import collect_xcoms
from aiosched.testing.attempts.endings import Ending

if TYPE_CHECKING:
    from aiosched.authoring.tasks.operator import BaseOperator

_MAX_XCOM_BYTES: Final = 1_048_576

Names = Callable[[], Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class ScriptedTask:
    """The facts about a task that its reports depend on."""

    task_id: str
    spec: TaskSpec
    is_mapped_over: bool
    do_xcom_push: bool = True
    multiple_outputs: bool = False
    outlets: Sequence[Outlet] = ()

    @classmethod
    def of(cls, spec: TaskSpec, task: BaseOperator | None, *, is_mapped_over: bool) -> ScriptedTask:
        """`task` None: only the serialized DAG is known."""
        if task is None:
            return cls(spec.task_id, spec, is_mapped_over, outlets=[_outlet(ref) for ref in spec.outlets])
        outlets = [outlet for value in task.outlets if (outlet := outlet_of(value)) is not None]
        return cls(spec.task_id, spec, is_mapped_over, task.do_xcom_push, task.multiple_outputs, outlets)


def report_fields(ending: Ending, facts: ScriptedTask, attempt: Attempt, names: Names) -> dict[str, Any]:
    """The fields of the report of a try; `names` returns the names of assets by URI."""
    outcome = ending.outcome
    try:
        if outcome is Outcome.SUCCESS:
            return {"outcome": outcome, "skip": ending.skip, **_success(ending, facts, attempt, names)}
        xcoms = _pushed(ending) if ending.pushes else ()
        return {
            "outcome": outcome,
            "reason": ending.reason,
            "fail_now": ending.fail_now,
            "xcoms": xcoms,
            "deferral": ending.deferral,
        }
    except Exception as error:  # a value or an event that the real runner would reject
        return _failure(error)


def trigger_report_fields(ending: Ending, facts: ScriptedTask, attempt: Attempt, names: Names) -> dict[str, Any]:
    """The fields of the report of a trigger."""
    if ending.ends is None:
        event = dump(ending.event, "the event's payload") if ending.outcome is Outcome.TRIGGERED else None
        return {"outcome": ending.outcome, "reason": ending.reason, "event": event}
    try:
        fields: dict[str, Any] = {"outcome": ending.ends.outcome, "xcoms": _pushed(ending.ends), "ends": True}
        if ending.ends.outcome is Outcome.SUCCESS:
            return fields | {"assets": _touched(ending.ends, facts, attempt.run, names)}
        return fields | {"reason": ending.ends.reason or "its trigger ended it"}
    except Exception as error:
        return _failure(error)


def _success(ending: Ending, facts: ScriptedTask, attempt: Attempt, names: Names) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if facts.is_mapped_over:
        found["map_length"] = map_length(ending.returns, facts, attempt.key.map_index, defaults().max_map_length)
    if ending.returns is not None or ending.pushes:
        found["xcoms"] = collect_xcoms(
            ending.returns,
            ending.pushes.items(),
            push_result=facts.do_xcom_push,
            multiple_outputs=facts.multiple_outputs,
            limit=_MAX_XCOM_BYTES,
        )
    if facts.outlets or ending.events:
        found["assets"] = _touched(ending, facts, attempt.run, names)
    return found


def _pushed(ending: Ending) -> Any:
    pushed = ending.pushes.items()
    return collect_xcoms(None, pushed, push_result=False, multiple_outputs=False, limit=_MAX_XCOM_BYTES)


def _touched(ending: Ending, facts: ScriptedTask, run: RunInfo, names: Names) -> Any:
    events = OutletEvents(facts.outlets)
    for event in ending.events:
        events.note(event)
    if ending.partitions:
        for outlet in events.values():
            outlet.add_partitions(ending.partitions)
    by_uri = any(isinstance(outlet, AssetLink) for outlet in facts.outlets)
    return touches(events, names() if by_uri else {}, run, limit=_MAX_XCOM_BYTES)


def _failure(error: Exception) -> dict[str, Any]:
    return {"outcome": Outcome.FAILED, "reason": reason_of(error), "details": details_of(error)}


def _outlet(ref: AssetRef) -> Outlet:
    if ref.is_alias:
        return AssetAlias(ref.name)
    if ref.kind == "asset":
        return Asset(ref.name, ref.uri or None)
    return AssetLink(uri=ref.name) if ref.kind == "uri" else AssetLink(name=ref.name)
