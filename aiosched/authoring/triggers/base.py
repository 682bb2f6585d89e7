"""The base class of triggers. Source: the semantics reference, section 25."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import AsyncIterator, Mapping
from functools import cached_property
from typing import Any

from aiosched.authoring.base.signatures import init_parameters, named


class TriggerEvent:
    """What a trigger yields when it fires. `payload` (plain data, instants, durations) goes to the task."""

    __slots__ = ("payload",)

    def __init__(self, payload: Any = None) -> None:
        self.payload: Any = payload

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and isinstance(other, TriggerEvent) and other.payload == self.payload

    def __hash__(self) -> int:
        return hash(repr(self.payload))

    def __repr__(self) -> str:
        return f"TriggerEvent({self.payload!r})"


class BaseTrigger:
    """Waits for a condition in `run`, an async generator, and yields one `TriggerEvent` when it holds.

    A trigger is created again from its serialized form, in another process and perhaps after a restart, and it may
    run twice at the same time: it must keep no state. It shares an event loop with thousands of others, so it must
    never block. Only its first event counts. Define the class at the top level of a module. An event of endings.py
    ends the task itself.

    While it waits, `task_instance` is the try that waits for it. `template_fields` name attributes that the task
    renders before it defers.
    """

    supports_triggerer_queue: bool = True
    task_instance: Any = None

    def __init__(self, **kwargs: Any) -> None:
        """Takes any arguments from subclasses; a class without an `__init__` of its own takes none."""
        if kwargs and type(self).__init__ is BaseTrigger.__init__:
            raise TypeError(f"{type(self).__name__} takes no arguments, and was given {', '.join(kwargs)}.")

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Wait, then yield the event."""
        raise NotImplementedError(f"{type(self).__name__} has no run(self): implement it as an async generator.")
        yield TriggerEvent()

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """The path of the class, and the arguments that create an equal trigger.

        Unless overridden, each parameter of `__init__` is read from the attribute of the same name.
        """
        cls = type(self)
        if "<locals>" in cls.__qualname__:
            raise TypeError(
                f"The trigger class {cls.__qualname__} is local to a function: move it to the module's top level."
            )
        return f"{cls.__module__}.{cls.__qualname__}", {name: getattr(self, name) for name in _parameters(cls)}

    async def on_kill(self) -> None:
        """Called when the task was ended by a user while it waited. Override it to stop what the trigger waits for."""

    async def cleanup(self) -> None:
        """Called at the end in every case: after an event, an error, a stop, or a move to another process."""

    @cached_property
    def log(self) -> logging.Logger:
        """The logger. Its messages are in the log of the task's attempt."""
        return logging.getLogger(f"aiosched.task.{type(self).__module__}.{type(self).__name__}")

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"


class BaseEventTrigger(BaseTrigger):
    """Base of triggers that asset watchers may use: each of their events is told to the asset."""

    @staticmethod
    def hash(classpath: str, kwargs: Mapping[str, Any]) -> int:
        """A number that is the same for equal triggers, in every process."""
        text = repr((classpath, sorted(kwargs.items(), key=repr)))
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], signed=True)


def _parameters(cls: type) -> list[str]:
    if cls.__init__ in {object.__init__, BaseTrigger.__init__}:  # type: ignore[misc]
        return []
    return [p.name for p in named(init_parameters(cls))]
