"""Checks of what authors write: names, values and durations. Errors name the author's line and what to do."""

from __future__ import annotations

import difflib
import functools
import math
import warnings
from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import timedelta
from typing import Any, Final

from aiosched.authoring.base import building, dialects
from aiosched.authoring.base.argument_lines import point_at_argument
from aiosched.authoring.base.location import Location, author_location
from aiosched.authoring.base.signatures import named, takes_any_name
from aiosched.core.values.ids import display_name_fault, key_fault
from aiosched.core.values.states import RunType
from aiosched.core.values.texts import a_type
from aiosched.errors import DagError
from aiosched.signatures import signature_of

_LONGEST: Final = timedelta(days=36_500)  # timers of the system hold less than 300 years

RENAMED: Final = {
    "schedule_interval": "schedule",
    "timetable": "schedule",
    "concurrency": "max_active_tasks",
    "task_concurrency": "max_active_tis_per_dag",
    "fail_stop": "fail_fast",
    "default_arguments": "default_args",
    "provide_context": "a parameter of the function with the name of a context value, or **kwargs",
}

IGNORED: Final = {  # name -> why it has no effect; without a reason there is no warning
    "ui_color": "",
    "ui_fgcolor": "",
    "default_view": "the web UI decides what it shows",
    "orientation": "the web UI decides what it shows",
    "email_on_failure": "mails are sent by callbacks, use on_failure_callback=send_email(to=…)",
    "email_on_retry": "mails are sent by callbacks, use on_retry_callback=send_email(to=…)",
    "resources": "use executor_config",
    "disable_bundle_versioning": "a run always stays with the version it was created with",
}


class AuthoringWarning(UserWarning):
    """Something in a DAG file that works, but perhaps not as its author expects."""


def fail(message: str, where: Location | None = None, *, kind: type[DagError] = DagError) -> DagError:
    """The error to raise, with the author's file and line (by default of the call that is running)."""
    where = where or author_location()
    return kind(message, file=where.file if where else None, line=where.line if where else None)


def warn(message: str, where: Location | None = None) -> None:
    """Show a warning at the author's line; the loader collects it for the DAG file."""
    where = where or author_location() or Location("<unknown>", 1)
    warnings.warn_explicit(message, AuthoringWarning, where.file, where.line)


def warn_once(message: str, where: Location | None = None) -> None:
    """As `warn`, but only the first time for this message and file, while a DAG file is imported."""
    where = where or author_location() or Location("<unknown>", 1)
    collector = building.collector.get()
    if collector is not None:
        if (where.file, message) in collector.said:
            return
        collector.said.add((where.file, message))
    warn(message, where)


class NamesItsParameters(type):
    """Metaclass of classes that authors call: reports unknown and missing parameters at the author's line."""

    def __new__(
        mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **kwargs: Any
    ) -> NamesItsParameters:
        if "__init__" in namespace:
            kind = name if namespace.get("__module__", "").startswith("aiosched.") else None
            namespace["__init__"] = _naming(namespace["__init__"], kind)
        return super().__new__(mcs, name, bases, namespace, **kwargs)

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        try:
            return super().__call__(*args, **kwargs)
        except DagError as error:
            point_at_argument(error, dict.fromkeys(kwargs))
            raise


def _naming(init: Callable[..., None], kind: str | None) -> Callable[..., None]:
    """`init` of the class `kind` (None: not one of ours), with named parameters, and translated ones."""
    parameters = list(signature_of(init).parameters.values())[1:]
    known = {p.name: p.default is p.empty for p in named(parameters)}
    takes_any = takes_any_name(parameters)
    positions = [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]

    @functools.wraps(init)
    def wrapper(self: Any, *args: Any, **kwargs: Any) -> None:
        by_position = dict(zip(positions, args, strict=False))
        dialect = None if kind is None else dialects.author_dialect()
        if kind is not None and dialect is not None and not by_position.keys() & kwargs.keys():
            args, kwargs = args[len(by_position) :], dialect.translated(kind, by_position | kwargs, None)
        label = args[0] if args else kwargs.get(next(iter(known), ""))
        if not takes_any:
            known_names_only(f"{type(self).__name__}({label!r})", kwargs, known)
        for name, is_required in list(known.items())[len(args) :]:
            if is_required and name not in kwargs:
                raise missing(type(self).__name__, name, kwargs.keys() - known.keys())
        init(self, *args, **kwargs)

    return wrapper


def known_names_only(owner: str, given: dict[str, Any], known: Collection[str], where: Location | None = None) -> None:
    """Raise DagError for the first name of `given` that is not in `known`. Drops the names in IGNORED."""
    for name in [name for name in given if name not in known]:
        if name in IGNORED:
            value = given.pop(name)
            if value and IGNORED[name]:
                warn(f"{owner}: {name!r} has no effect, {IGNORED[name]}. Remove it.", where)
            continue
        raise fail(f"{owner} has no parameter {name!r}. {suggestion(name, known)}", where)


def without_effect(task: Any, options: Iterable[str], where: Location | None = None) -> None:
    """Warn of those attributes of `task` that are set and do nothing; see IGNORED."""
    for name in options:
        if getattr(task, name):
            warn(
                f"{type(task).__name__}(task_id={task.label!r}): {name!r} has no effect, {IGNORED[name]}. Remove it.",
                where,
            )


def missing(owner: str, name: str, given: Iterable[str], where: Location | None = None) -> DagError:
    """The error for a required parameter. `given`: names among which it may have been misspelt."""
    near = difflib.get_close_matches(name, given, n=1)
    remedy = f"Write {name}=… instead of {near[0]}=…" if near else f"Add {name}=… to the call"
    return fail(f"{owner} needs {name!r}. {remedy}.", where)


def suggestion(name: str, known: Iterable[str]) -> str:
    """A sentence that suggests what to write instead of `name`."""
    known = sorted(known)
    if name in RENAMED:
        return f"Use {RENAMED[name]!r} instead." if RENAMED[name] in known else f"Use {RENAMED[name]}."
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.6) or [one for one in known if one.startswith(name)]
    if near:
        return f"Did you mean {near[0]!r}?"
    return f"Remove it, or use one of: {', '.join(known)}."


def valid_key(kind: str, key: object, where: Location | None = None) -> str:
    """`key` if it may be a DAG id, task id or group id."""
    fault = key_fault(key if isinstance(key, str) else "")
    if isinstance(key, str) and fault is None:
        return key
    raise fail(f"{key!r} cannot be a {kind}: {fault}.", where)


def display_name(kind: str, name: object, ids: Collection[str], where: Location | None = None) -> str:
    """What people are shown in place of an id; empty if it is one of `ids` or nothing, so that the id is shown."""
    if name is None or name == "" or (isinstance(name, str) and name in ids):
        return ""
    fault = display_name_fault(name) if isinstance(name, str) else f"give a text, not {a_type(name)}"
    if isinstance(name, str) and fault is None:
        return name
    raise fail(f"{kind}={name!r:.80} cannot be shown: {fault}.", where)


def one_of(name: str, value: str, allowed: Collection[str], where: Location | None = None) -> str:
    """`value` if it is allowed for the parameter `name`."""
    if value in allowed:
        return str(value)
    near = difflib.get_close_matches(str(value), sorted(allowed), n=1)
    hint = f"Did you mean {near[0]!r}?" if near else f"Use one of: {', '.join(sorted(allowed))}."
    raise fail(f"{name}={value!r} does not exist. {hint}", where)


def run_types(name: str, value: object, where: Location | None = None) -> tuple[str, ...] | None:
    """Run types by name, each once, in the order of `RunType`; None for None."""
    if value is None:
        return None
    listed = [value] if isinstance(value, str) else list(value) if isinstance(value, Collection) else None
    known = [run_type.value for run_type in RunType]
    if not listed:
        raise fail(f"{name}={value!r} allows no run: name some of {', '.join(known)}, or leave it out.", where)
    named = {one_of(name, str(one), known, where) for one in listed}
    return tuple(run_type for run_type in known if run_type in named)


def whole_number(
    name: str, value: object, *, least: int | None = None, most: int = 2**31 - 1, where: Location | None = None
) -> int:
    """`value` if it is an integer of at least `least` (None: minus `most`) and at most `most`."""
    lowest, bound = -most if least is None else least, "" if least is None else f" of at least {least}"
    if isinstance(value, int) and not isinstance(value, bool):
        if lowest <= value <= most:
            return value
        bound = f" of at most {most}" if value > most else f" of at least {lowest}"
    raise fail(f"{name}={value!r} is wrong: give a whole number{bound}.", where)


def optional_number(name: str, value: object, *, least: int, where: Location | None = None) -> int | None:
    """As `whole_number`, but None is allowed too."""
    return None if value is None else whole_number(name, value, least=least, where=where)


def optional_text(name: str, value: object, where: Location | None = None) -> str | None:
    """A text that is not empty, or None."""
    if value is not None and not (isinstance(value, str) and value.strip()):
        raise fail(f"{name} is a text, not {value!r}.", where)
    return value


def duration(name: str, value: object, where: Location | None = None, *, may_be_negative: bool = False) -> timedelta:
    """`value` as a timedelta of at most a hundred years; plain numbers are seconds; negative is refused unless it may
    be."""
    span = value
    if isinstance(value, int | float) and not isinstance(value, bool) and not math.isnan(value):
        span = timedelta(seconds=max(-_LONGEST.total_seconds(), min(value, _LONGEST.total_seconds())))
    if isinstance(span, timedelta) and (may_be_negative or span >= timedelta(0)):
        return max(-_LONGEST, min(span, _LONGEST))
    least = "" if may_be_negative else ", not below zero"
    raise fail(f"{name}={value!r} is wrong: give a timedelta, or seconds as a number{least}.", where)


def optional_duration(name: str, value: object, where: Location | None = None) -> timedelta | None:
    """As `duration`, but None is allowed too."""
    return None if value is None else duration(name, value, where)


def callbacks(name: str, value: object, where: Location | None = None) -> list[Callable[..., Any]]:
    """One function, a list of them or None, as a list."""
    if value is None:
        return []
    listed: Sequence[object] = list(value) if isinstance(value, list | tuple) else [value]
    functions: list[Callable[..., Any]] = [function for function in listed if callable(function)]
    if len(functions) != len(listed):
        raise fail(f"{name}={value!r} is wrong: give a function, or a list of functions.", where)
    return functions


def mail_addresses(name: str, value: object, where: Location | None = None) -> str | list[str]:
    """Mail addresses as given: a string with commas or semicolons, or a list; an empty list for None.

    None in a list is left out: an address that is in the environment, or is not.
    """
    if value is None:
        return []
    if isinstance(value, str):
        return value
    listed = [one for one in value if one is not None] if isinstance(value, Iterable) else [value]
    found = [one for one in listed if isinstance(one, str)]
    if len(found) == len(listed):
        return found
    raise fail(f"{name}={value!r:.80} is wrong: give an address, or a list of addresses.", where)


def states(name: str, given: Iterable[object], known: Iterable[str], where: Location | None = None) -> list[str]:
    """The names of states, given as texts or as members of an enum; each must be one of `known`."""
    names = [str(getattr(state, "value", state)) for state in given]
    return [one_of(name, state, set(map(str, known)), where) for state in names]
