"""Requests as they are stored: the name of the kind (`verb`), and the arguments as a JSON object. Pure.

Rows of released versions stay readable: an argument that is missing or null has its default, a flag can be any value.
A request with a verb or an argument that is not known here is refused: a newer aiosched wrote it, and without the
argument it would be another request. Does not live here: whether a request is possible (its owner decides).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from aiosched.core.creation.backfills import Rerun, rerun_of
from aiosched.core.requests.options import NEEDED, OF_EVERY_REQUEST, Option, options
from aiosched.core.requests.requests import KINDS, Request
from aiosched.core.timetables.days import DayOrInstant
from aiosched.core.values.json_bounds import find_problem
from aiosched.core.values.states import RunState, TaskState
from aiosched.errors import DagError, Refused

R = TypeVar("R", bound=Request)


class _Kind(NamedTuple):
    """A kind of argument: its description, and how it is read; `read` raises TypeError, ValueError or DagError."""

    words: str
    read: Callable[[Any], Any]


def verb_of(kind: type[Request]) -> str:
    """The name of a kind of request."""
    return str(kind.__struct_config__.tag)


def _exactly(*types: type) -> Callable[[Any], Any]:
    """Accept a value of one of these types unchanged."""

    def read(value: Any) -> Any:
        if type(value) not in types:
            raise TypeError
        return value

    return read


def _number(value: Any) -> float:
    if type(value) not in (int, float) or not math.isfinite(value):  # JSON has no other, and null is none
        raise TypeError
    number: float = value
    return number


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return str(value)


def _texts(value: Any) -> tuple[str, ...]:
    if not isinstance(value, (list, tuple)):
        raise TypeError
    return tuple(_text(text) for text in value)


def _day_or_instant(value: Any) -> DayOrInstant:
    try:
        return date.fromisoformat(value)
    except ValueError:
        return datetime.fromisoformat(value)


_KINDS: Final[Mapping[Any, _Kind]] = MappingProxyType(
    {
        bool: _Kind("true or false", bool),
        str: _Kind("text", _text),
        Sequence[str]: _Kind("a list of texts", _texts),
        int: _Kind("a whole number", _exactly(int)),
        float: _Kind("a number of seconds", _number),
        Mapping[str, Any]: _Kind("a JSON object", _exactly(dict)),
        DayOrInstant: _Kind("a day like 2026-01-31, or an instant like 2026-01-31T00:00:00+00:00", _day_or_instant),
        datetime: _Kind("an instant like 2026-01-31T00:00:00+00:00", datetime.fromisoformat),
        RunState: _Kind("success, failed or queued", RunState),
        RunState | str: _Kind("success, failed or queued", RunState),
        TaskState | str: _Kind("success, failed or skipped", TaskState),
        Rerun | str: _Kind("missing, failed or all", lambda value: rerun_of(_text(value))),
    }
)


REQUESTS: Final[Mapping[str, type[Request]]] = MappingProxyType({verb_of(kind): kind for kind in KINDS})
_ARGUMENTS: Final = MappingProxyType(
    {verb: [each for each in options(kind) if each.name not in OF_EVERY_REQUEST] for verb, kind in REQUESTS.items()}
)
_NAMES: Final = MappingProxyType({verb: {each.stored for each in found} for verb, found in _ARGUMENTS.items()})

_NEWER: Final = (
    "If a newer aiosched sent it, send it again when the scheduler of its DAG is upgraded (`aiosched schedulers list`)."
)


def encode(request: Request) -> tuple[str, dict[str, Any]]:
    """The name of the kind of a request and its arguments for a JSON object; arguments with their default are left out.

    Raises Refused, with exit code 2, for a JSON object out of bounds.
    """
    verb = verb_of(type(request))
    args: dict[str, Any] = {}
    for argument in _ARGUMENTS[verb]:
        value = getattr(request, argument.name)
        if argument.default is NEEDED or value != argument.default:
            args[argument.stored] = value.isoformat() if isinstance(value, date) else value
            _check_bounds(verb, argument, value)
    return verb, args


def decode(verb: str, args: object) -> Request:
    """The request of this verb and these arguments, which somebody has stored as JSON.

    Raises Refused for an unknown verb or argument and, with exit code 2, for an invalid argument.
    """
    kind = REQUESTS.get(verb)
    if kind is None:
        raise Refused(f"There is no request {verb!r}; known are {', '.join(sorted(REQUESTS))}. {_NEWER}")
    if not isinstance(args, Mapping):
        error = Refused(f"{verb}: unusable arguments: a JSON object is needed, not {str(args)[:80]!r}.")
        error.exit_code = 2
        raise error
    known = _NAMES[verb]
    given_too = (name for name, value in args.items() if name not in known and value is not None and value is not False)
    if unknown := ", ".join(sorted(given_too)):
        raise Refused(f"{verb}: unknown arguments: {unknown}; known are {', '.join(sorted(known)) or 'none'}. {_NEWER}")
    given: dict[str, Any] = {}
    for argument in _ARGUMENTS[verb]:
        value = args.get(argument.stored)
        if value is not None:
            given[argument.name] = _read(verb, argument, value)
        elif argument.default is NEEDED:
            raise _unusable(verb, argument, "is missing")
    return kind(**given)


def args_of(request: Request) -> dict[str, Any]:
    """The arguments of a request that its owner can read. Raises Refused as `encode` and `decode` do."""
    verb, args = encode(request)
    decode(verb, args)
    return args


def checked(request: R) -> R:
    """The request as its owner reads it, with words of a user's text. Raises Refused as `encode` and `decode` do."""
    read = decode(*encode(request))
    assert isinstance(read, type(request))
    return msgspec.structs.replace(read, reason=request.reason, key=request.key)


def _read(verb: str, argument: Option, value: Any) -> Any:
    try:
        found = _KINDS[argument.type].read(value)
    except (TypeError, ValueError, DagError):
        raise _unusable(verb, argument, f"is {str(value)[:80]!r}") from None
    _check_bounds(verb, argument, found)
    return found


def _check_bounds(verb: str, argument: Option, value: Any) -> None:
    """Raise Refused for a JSON object that cannot be stored, or that a worker cannot be sent."""
    if isinstance(value, dict) and (problem := find_problem(value, argument.stored)) is not None:
        error = Refused(f"{verb}: {problem}.")
        error.exit_code = 2
        raise error


def _unusable(verb: str, argument: Option, problem: str) -> Refused:
    error = Refused(f"{verb}: unusable arguments: {argument.stored!r} {problem}; give {_KINDS[argument.type].words}.")
    error.exit_code = 2
    return error
