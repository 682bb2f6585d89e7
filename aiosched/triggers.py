"""What deferred tasks wait for: `from aiosched.triggers import BaseTrigger, TriggerEvent`.

`BaseTrigger` is the base of triggers of your own. A trigger that yields `TaskSuccessEvent`, `TaskSkippedEvent` or
`TaskFailedEvent` ends its task itself. `StartTriggerArgs` lets a task begin in its trigger.
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
