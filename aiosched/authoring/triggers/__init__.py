"""What deferred tasks wait for: coroutines that run beside the tasks, many thousands in one process.

base.py      what a trigger is        temporal.py  a moment, a span of time
endings.py   events that end a task
file.py      a file                   external.py  runs and tasks of other DAGs
http.py      the answer of a server   encoding.py  how triggers and events become JSON
"""

from aiosched.authoring.triggers.base import BaseTrigger, TriggerEvent
from aiosched.authoring.triggers.endings import TaskFailedEvent, TaskSkippedEvent, TaskSuccessEvent
from aiosched.authoring.triggers.external import DagStateTrigger, ExternalTaskTrigger
from aiosched.authoring.triggers.file import FileTrigger
from aiosched.authoring.triggers.http import HttpTrigger
from aiosched.authoring.triggers.temporal import DateTimeTrigger, TimeDeltaTrigger

__all__ = [
    "BaseTrigger",
    "DagStateTrigger",
    "DateTimeTrigger",
    "ExternalTaskTrigger",
    "FileTrigger",
    "HttpTrigger",
    "TaskFailedEvent",
    "TaskSkippedEvent",
    "TaskSuccessEvent",
    "TimeDeltaTrigger",
    "TriggerEvent",
]
