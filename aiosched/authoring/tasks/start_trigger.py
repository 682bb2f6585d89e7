"""Tasks that start in their trigger: no worker runs until it has fired.

Source: the semantics reference, section 25.6.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from aiosched.authoring.base.protocols import Task
    from aiosched.authoring.triggers.base import BaseTrigger

_SHARED: Final = frozenset({"start_from_trigger", "trigger_kwargs", "next_kwargs", "trigger_timeout"})


@dataclass
class StartTriggerArgs:
    """The trigger in which a task with `start_from_trigger = True` starts, and what follows.

    trigger_cls     the trigger's class, or its import path
    trigger_kwargs  its arguments: plain data, instants, durations; templates are not rendered
    next_method     the method that gets the event, in a worker, unless the trigger ends the task itself
    next_kwargs     more arguments of that method
    timeout         how long to wait for the event: a timedelta or seconds
    """

    trigger_cls: type[BaseTrigger] | str
    next_method: str
    trigger_kwargs: Mapping[str, Any] | None = None
    next_kwargs: Mapping[str, Any] | None = None
    timeout: timedelta | float | None = None

    def copy(self) -> StartTriggerArgs:
        """A copy, so that a task can change what its class declares."""
        kwargs = dict(self.trigger_kwargs) if self.trigger_kwargs is not None else None
        return replace(self, trigger_kwargs=kwargs)


def declared(task: Task, args: StartTriggerArgs | None) -> StartTriggerArgs:
    """The arguments of a task with `start_from_trigger`. Raises DagError without any."""
    if isinstance(args, StartTriggerArgs):
        return args
    raise task.fail(
        f"Task {task.task_id!r} has start_from_trigger=True, but no start_trigger_args that say which trigger. "
        "Give a StartTriggerArgs, or leave start_from_trigger out."
    )


def shared_by_instances(
    task: Task, args: StartTriggerArgs | None, shared: Mapping[str, Any], mapped: Collection[str]
) -> StartTriggerArgs:
    """The trigger of all instances of a mapped task: that of its class, with the arguments of `partial()`.

    These are `trigger_kwargs`, `next_kwargs` and `trigger_timeout`. Raises DagError when one of them is mapped.
    """
    if wrong := sorted(_SHARED.intersection(mapped)):
        raise task.fail(
            f"Task {task.task_id!r} starts in its trigger, the same one for all its instances, so {wrong[0]!r} cannot "
            "be mapped. Give it in partial(), or leave start_from_trigger out and let execute() defer."
        )
    found = declared(task, args)
    return replace(
        found,
        trigger_kwargs=shared.get("trigger_kwargs", found.trigger_kwargs),
        next_kwargs=shared.get("next_kwargs", found.next_kwargs),
        timeout=shared.get("trigger_timeout", found.timeout),
    )
