"""Requests as they are stored: a verb, and its arguments as a JSON object. Pure.

Rows of released versions stay readable: an argument that is missing or null has its default, a flag can be any value.
A request with a verb or an argument that is not known here is refused: a newer aiosched wrote it, and without the
argument it would be another request. Does not live here: whether a request is possible (its owner decides).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Any, Final, NamedTuple, get_args

import msgspec

from aiosched.core.creation.backfills import Rerun, rerun_of
from aiosched.core.requests.requests import (
    AnswerInput,
    BackfillCancel,
    BackfillCreate,
    BackfillPause,
    BackfillResume,
    CancelRun,
    Clear,
    ContinueSchedule,
    DeleteDag,
    EmitAsset,
    MarkRun,
    MarkTasks,
    Pause,
    ReleaseDag,
    Render,
    Request,
    SetNote,
    Trigger,
    Unpause,
)
from aiosched.core.values.json_bounds import find_problem
from aiosched.core.values.states import RunState, TaskState
from aiosched.errors import DagError, Refused


class _Kind(NamedTuple):
    """A kind of argument: its description, and how it is read; `read` raises TypeError, ValueError or DagError."""

    words: str
    read: Callable[[Any], Any]


class _Argument(NamedTuple):
    """An argument of a verb: its field, the name under which it is stored, and its kind."""

    field: str
    name: str
    kind: _Kind
    is_needed: bool
    default: Any


def verb_of(kind: type[Request]) -> str:
    """The verb of a kind of request."""
    return str(kind.__struct_config__.tag)


def _exactly(*types: type) -> Callable[[Any], Any]:
    """Accept a value of one of these types unchanged."""

    def read(value: Any) -> Any:
        if type(value) not in types:
            raise TypeError
        return value

    return read


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return str(value)


def _texts(value: Any) -> tuple[str, ...]:
    if not isinstance(value, (list, tuple)):
        raise TypeError
    return tuple(_text(text) for text in value)


_KINDS: Final[Mapping[Any, _Kind]] = MappingProxyType(
    {
        bool: _Kind("true or false", bool),
        str: _Kind("text", _text),
        tuple[str, ...]: _Kind("a list of texts", _texts),
        int: _Kind("a whole number", _exactly(int)),
        dict[str, Any]: _Kind("a JSON object", _exactly(dict)),
        datetime: _Kind("an instant like 2026-01-31T00:00:00+00:00", datetime.fromisoformat),
        RunState: _Kind("success, failed or queued", RunState),
        TaskState: _Kind("success, failed or skipped", TaskState),
        Rerun: _Kind("missing, failed or all", lambda value: rerun_of(_text(value))),
    }
)


def _arguments(kind: type[Request]) -> tuple[_Argument, ...]:
    found = []
    for field in msgspec.structs.fields(kind):
        type_ = field.type if field.type in _KINDS else get_args(field.type)[0]  # of `… | None`
        default = field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()
        found.append(_Argument(field.name, field.encode_name, _KINDS[type_], field.required, default))
    return tuple(found)


REQUESTS: Final[Mapping[str, type[Request]]] = MappingProxyType(
    {
        verb_of(kind): kind
        for kind in (
            Trigger, Pause, Unpause, CancelRun, DeleteDag, ReleaseDag, EmitAsset, Clear, MarkTasks, MarkRun, SetNote,
            AnswerInput, Render, BackfillCreate, BackfillPause, BackfillResume, BackfillCancel, ContinueSchedule,
        )
    }
)  # fmt: skip

_ARGUMENTS: Final = MappingProxyType({verb: _arguments(kind) for verb, kind in REQUESTS.items()})


_NEWER: Final = (
    "If a newer aiosched sent it, send it again when the scheduler of its DAG is upgraded (`aiosched schedulers list`)."
)


def encode(request: Request) -> tuple[str, dict[str, Any]]:
    """The verb of a request and its arguments for a JSON object; arguments with their default are left out.

    Raises Refused, with exit code 2, for a JSON object out of bounds.
    """
    verb = verb_of(type(request))
    args: dict[str, Any] = {}
    for argument in _ARGUMENTS[verb]:
        value = getattr(request, argument.field)
        if argument.is_needed or value != argument.default:
            args[argument.name] = value.isoformat() if isinstance(value, datetime) else value
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
    known = {argument.name for argument in _ARGUMENTS[verb]}
    given_too = (name for name, value in args.items() if name not in known and value is not None and value is not False)
    if unknown := ", ".join(sorted(given_too)):
        raise Refused(f"{verb}: unknown arguments: {unknown}; known are {', '.join(sorted(known)) or 'none'}. {_NEWER}")
    given: dict[str, Any] = {}
    for argument in _ARGUMENTS[verb]:
        value = args.get(argument.name)
        if value is not None:
            given[argument.field] = _read(verb, argument, value)
        elif argument.is_needed:
            raise _unusable(verb, argument, "is missing")
    return kind(**given)


def read_argument(kind: type[Request], field: str, value: object) -> Any:
    """The value of one field of a request that is built from a user's text. Raises Refused as `decode` does."""
    verb = verb_of(kind)
    (argument,) = [each for each in _ARGUMENTS[verb] if each.field == field]
    return _read(verb, argument, value)


def _read(verb: str, argument: _Argument, value: Any) -> Any:
    try:
        found = argument.kind.read(value)
    except (TypeError, ValueError, DagError):
        raise _unusable(verb, argument, f"is {str(value)[:80]!r}") from None
    _check_bounds(verb, argument, found)
    return found


def _check_bounds(verb: str, argument: _Argument, value: Any) -> None:
    """Raise Refused for a JSON object that cannot be stored, or that a worker cannot be sent."""
    if isinstance(value, dict) and (problem := find_problem(value, argument.name)) is not None:
        error = Refused(f"{verb}: {problem}.")
        error.exit_code = 2
        raise error


def _unusable(verb: str, argument: _Argument, problem: str) -> Refused:
    error = Refused(f"{verb}: unusable arguments: {argument.name!r} {problem}; give {argument.kind.words}.")
    error.exit_code = 2
    return error
