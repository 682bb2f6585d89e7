"""JSON for the arguments of triggers and resumed methods, and for events, with instants and durations.

    datetime    {"__datetime__": "2026-01-02T03:04:05+00:00"}      date  {"__date__": "2026-01-02"}
    timedelta   {"__timedelta__": 90.0}, in seconds                time  {"__time__": "12:30:00"}

Tuples and sets are read back as lists. Anything else that JSON cannot hold raises TypeError.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import date, datetime, time, timedelta
from enum import Enum
from pathlib import PurePath
from types import MappingProxyType
from typing import Any, Final

from aiosched.authoring.triggers.base import BaseTrigger
from aiosched.core.values.json_bounds import find_problem, is_bounded
from aiosched.core.values.messages import Deferral
from aiosched.core.values.texts import a_type
from aiosched.errors import AioschedError, TaskDeferred

_READERS: Final[Mapping[str, Callable[[Any], Any]]] = MappingProxyType(
    {
        "__datetime__": datetime.fromisoformat,
        "__date__": date.fromisoformat,
        "__time__": time.fromisoformat,
        "__timedelta__": lambda seconds: timedelta(seconds=seconds),
    }
)


def dump(value: Any, what: str = "value") -> str:
    """`value` as JSON text; raises TypeError naming the part of `what` that it cannot hold."""
    try:
        plain = _plain(value, what)
        text = json.dumps(plain, allow_nan=False)
    except RecursionError:
        raise TypeError(f"{what} is nested too deeply, or contains itself: give plain data.") from None
    if not is_bounded(text.encode()):
        raise TypeError(f"{find_problem(plain, what)}.")
    return text


def load(text: str) -> Any:
    """The value of a text made by `dump`."""
    return json.loads(text, object_hook=_revived)


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


def _plain(value: Any, where: str) -> Any:
    if isinstance(value, Enum):
        return _plain(value.value, where)
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, datetime):
        return {"__datetime__": value.isoformat()}
    if isinstance(value, date):
        return {"__date__": value.isoformat()}
    if isinstance(value, time):
        return {"__time__": value.isoformat()}
    if isinstance(value, timedelta):
        return {"__timedelta__": value.total_seconds()}
    if isinstance(value, PurePath):
        return str(value)
    if isinstance(value, Mapping):
        return {_key(key, where): _plain(item, f"{where}[{key!r}]") for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item, f"{where}[{number}]") for number, item in enumerate(value)]
    if isinstance(value, set | frozenset):
        return [_plain(item, where) for item in sorted(value, key=repr)]
    raise TypeError(f"{where} is {a_type(value)}, which JSON cannot hold: give plain data.")


def _key(key: Any, where: str) -> str:
    if isinstance(key, str):
        return key
    raise TypeError(f"The key {key!r} of {where} is not a string: JSON has only those.")


def _revived(found: dict[str, Any]) -> Any:
    if len(found) == 1:
        (name,) = found
        if name in _READERS:
            return _READERS[name](found[name])
    return found
