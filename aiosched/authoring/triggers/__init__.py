"""Triggers, which deferred tasks wait for: coroutines outside the workers, thousands in one process.

base.py      the base class           temporal.py  an instant, a duration
endings.py   events that end a task   external.py  runs and tasks of other DAGs
file.py      a file                   http.py      an HTTP response
human_input.py  answers of people
encoding.py  triggers and events as JSON
"""

from aiosched.authoring.triggers.base import BaseTrigger, TriggerEvent
from aiosched.authoring.triggers.endings import TaskFailedEvent, TaskSkippedEvent, TaskSuccessEvent
from aiosched.authoring.triggers.external import DagStateTrigger, ExternalTaskTrigger
from aiosched.authoring.triggers.file import DirectoryFileDeleteTrigger, FileDeleteTrigger, FileTrigger
from aiosched.authoring.triggers.http import HttpTrigger
from aiosched.authoring.triggers.temporal import DateTimeTrigger, TimeDeltaTrigger

__all__ = [
    "BaseTrigger",
    "DagStateTrigger",
    "DateTimeTrigger",
    "DirectoryFileDeleteTrigger",
    "ExternalTaskTrigger",
    "FileDeleteTrigger",
    "FileTrigger",
    "HttpTrigger",
    "TaskFailedEvent",
    "TaskSkippedEvent",
    "TaskSuccessEvent",
    "TimeDeltaTrigger",
    "TriggerEvent",
]
