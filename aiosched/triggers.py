"""Triggers that deferred tasks wait for: `from aiosched.triggers import BaseTrigger, TriggerEvent`.

`BaseTrigger` is the base class of custom triggers. A trigger that yields `TaskSuccessEvent`, `TaskSkippedEvent` or
`TaskFailedEvent` ends its task itself. `StartTriggerArgs` lets a task start in its trigger.
"""

from aiosched.authoring.tasks.start_trigger import StartTriggerArgs
from aiosched.authoring.triggers import (
    BaseTrigger,
    DagStateTrigger,
    DateTimeTrigger,
    ExternalTaskTrigger,
    FileTrigger,
    HttpTrigger,
    TaskFailedEvent,
    TaskSkippedEvent,
    TaskSuccessEvent,
    TimeDeltaTrigger,
    TriggerEvent,
)

__all__ = [
    "BaseTrigger",
    "DagStateTrigger",
    "DateTimeTrigger",
    "ExternalTaskTrigger",
    "FileTrigger",
    "HttpTrigger",
    "StartTriggerArgs",
    "TaskFailedEvent",
    "TaskSkippedEvent",
    "TaskSuccessEvent",
    "TimeDeltaTrigger",
    "TriggerEvent",
]
