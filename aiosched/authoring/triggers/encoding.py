"""JSON for the arguments of triggers and resumed methods, and for events: they come back equal and of the same type.

How: core/values/typed_json.py. What cannot come back raises TypeError.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

from aiosched.authoring.runtime.xcom_values import find_module, write_xcom
from aiosched.authoring.triggers.base import BaseTrigger
from aiosched.core.values.messages import Deferral
from aiosched.core.values.typed_json import NotJson
from aiosched.core.values.typed_objects import untyped
from aiosched.errors import AioschedError, TaskDeferred


def dump(value: Any, what: str = "value") -> str:
    """`value` as JSON text; raises TypeError naming the part of `what` that it cannot hold."""
    try:
        return json.dumps(json.loads(write_xcom(value)))  # the spelling that is stored: versions of DAGs compare it
    except NotJson as error:
        raise TypeError(f"{what}{error.place} {error.what}.") from None


def load(text: str) -> Any:
    """The value of a text made by `dump`."""
    return untyped(text, find_module)


def deferral_of(signal: TaskDeferred) -> Deferral:
    """The deferral that a task raised, with JSON arguments. Raises TypeError for arguments that JSON cannot hold."""
    trigger, timeout = signal.trigger, signal.timeout
    if not isinstance(trigger, BaseTrigger):
        raise TypeError(f"defer(trigger=…) needs a trigger, not {trigger!r}: give an instance of a BaseTrigger.")
    if not isinstance(signal.method_name, str):
        raise TypeError(f"defer(method_name=…) needs the name of a method, not {signal.method_name!r}.")
    classpath, kwargs = trigger.serialize()
    return deferral(classpath, kwargs, signal.method_name, signal.kwargs, timeout)


def deferral(
    classpath: str,
    kwargs: Mapping[str, Any],
    next_method: str,
    next_kwargs: Mapping[str, Any],
    timeout: timedelta | float | None,
) -> Deferral:
    """A deferral with JSON arguments. Raises TypeError for arguments that JSON cannot hold."""
    return Deferral(
        classpath=classpath,
        kwargs=dump(dict(kwargs), f"kwargs of {classpath.rpartition('.')[2]}"),
        next_method=next_method,
        next_kwargs=dump(dict(next_kwargs), "kwargs of defer()"),
        timeout=timeout.total_seconds() if isinstance(timeout, timedelta) else timeout,
    )


def class_of(classpath: str, find_module: Callable[[str], Any]) -> type[BaseTrigger]:
    """The trigger class at `classpath`; `find_module` imports a module. Raises AioschedError."""
    module_name, _, name = classpath.rpartition(".")
    found = getattr(find_module(module_name), name, None)
    if not (isinstance(found, type) and issubclass(found, BaseTrigger)):
        raise AioschedError(f"There is no trigger {classpath!r}: a trigger is a class at the top of a module.")
    return found
