"""Events with which a trigger ends its task, without another worker. Source: the semantics reference, section 25.6.

    TaskSuccessEvent(xcoms={"return_value": 3})   success, with values for XCom
    TaskSkippedEvent()                            skipped
    TaskFailedEvent(reason="the job was refused") failed: the task's retries apply, its `retry_policy` is not called

The callback of the task for that state runs in a worker; `on_execute_callback` and `post_execute` are not called.
A success is like any other: it creates events of the task's outlets, and tasks can be mapped over the pushed value.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from aiosched.authoring.triggers.base import TriggerEvent
from aiosched.core.values.messages import Outcome


class TaskEndEvent(TriggerEvent):
    """Base of the three. `xcoms` are pushed by key, `reason` is one line of text."""

    __slots__ = ("reason", "xcoms")
    outcome: ClassVar[Outcome]

    def __init__(self, *, xcoms: Mapping[str, Any] | None = None, reason: str | None = None) -> None:
        super().__init__(self.outcome.value)
        self.xcoms: dict[str, Any] = dict(xcoms or {})
        self.reason: str | None = reason

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TaskEndEvent) or type(other) is not type(self):
            return False
        return (other.xcoms, other.reason) == (self.xcoms, self.reason)

    __hash__ = TriggerEvent.__hash__

    def __repr__(self) -> str:
        return f"{type(self).__name__}(xcoms={self.xcoms!r}, reason={self.reason!r})"


class TaskSuccessEvent(TaskEndEvent):
    """The task has succeeded."""

    outcome = Outcome.SUCCESS


class TaskSkippedEvent(TaskEndEvent):
    """The task is skipped."""

    outcome = Outcome.SKIPPED


class TaskFailedEvent(TaskEndEvent):
    """The try has failed; another one follows while there are retries left."""

    outcome = Outcome.FAILED
