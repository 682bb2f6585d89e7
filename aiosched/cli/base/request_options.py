"""Options of commands that are made from requests: one for each field of the struct, with its help and limits.

    @with_options(Clear, without=("run_ids",))
    def clear(dag_id: DagId, run: RunRef, request: Callable[..., Clear], dsn: Dsn = None) -> None: ...

is a command with the options of clear in the place of `request`, and with `--reason` before `--dsn`. The fields in
`without` are spelled by the command itself, which gives them to `request`: that makes the `Clear` of all options.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, Final

import typer

from aiosched.cli.base.options import Conf, Param, Reason, read_conf, read_day_or_instant, read_instant
from aiosched.core.creation.backfills import Rerun
from aiosched.core.requests.options import Option, options
from aiosched.core.requests.requests import Request
from aiosched.core.timetables.days import DayOrInstant

_METAVARS: Final[Mapping[Any, str]] = {int: "N", DayOrInstant: "T", datetime: "T"}
_TYPES: Final[Mapping[Any, Any]] = {DayOrInstant: str, datetime: str, Sequence[str]: list[str], Rerun | str: Rerun}
_READERS: Final[Mapping[Any, Callable[[str, str], Any]]] = {DayOrInstant: read_day_or_instant, datetime: read_instant}


def with_options(kind: type[Request], *, without: Sequence[str] = ()) -> Callable[[Callable[..., None]], Any]:
    """Give a command the options of a request, but for those in `without`, in place of its parameter `request`."""
    shown = [option for option in options(kind) if option.name not in (*without, "key")]

    def add(command: Callable[..., None]) -> Callable[..., None]:
        parameters = list(_parameters(inspect.signature(command, eval_str=True), shown))
        signature = inspect.Signature(parameters)

        @functools.wraps(command)
        def with_request(**given: Any) -> None:
            bound = signature.bind(**given)
            bound.apply_defaults()
            values = bound.arguments
            fields = {option.name: _read(option, values) for option in shown}
            command(request=functools.partial(kind, **fields), **values)

        with_request.__signature__ = signature  # type: ignore[attr-defined]  # what typer reads
        with_request.__annotations__ = {each.name: each.annotation for each in parameters}
        return with_request

    return add


def typed_conf(request: Callable[..., Request]) -> Mapping[str, Any]:
    """The conf that was typed for a request of `with_options`; a request itself forgets how it was typed."""
    found: Mapping[str, Any] = request.keywords["conf"] if isinstance(request, functools.partial) else {}
    return found


def _parameters(own: inspect.Signature, shown: Sequence[Option]) -> Iterator[inspect.Parameter]:
    """The parameters of a command and of the options, all by keyword."""
    for parameter in own.parameters.values():
        if parameter.name == "dsn" and any(option.name == "reason" for option in shown):
            yield _parameter("reason", Reason, None)
        if parameter.name == "request":
            for option in shown:
                yield from _parameters_of(option)
        else:
            yield _parameter(parameter.name, parameter.annotation, parameter.default)


def _parameters_of(option: Option) -> Iterator[inspect.Parameter]:
    if option.name == "reason":
        return
    if option.type == Mapping[str, Any]:
        yield _parameter("conf", Conf, None)
        yield _parameter("param", Param, None)
        return
    type_ = _TYPES.get(option.type, option.type)
    yield _parameter(
        option.name, Annotated[type_ | None if option.is_optional else type_, _typer_option(option)], option.default
    )


def _typer_option(option: Option) -> Any:
    help_, flag = option.help, _flag(option)
    return typer.Option(
        f"{flag}/--no-{flag[2:]}" if option.default is True else flag,
        *([help_.short] if help_.short else []),
        help=help_.text,
        metavar=help_.metavar or _METAVARS.get(option.type),
        min=help_.ge,
        max=help_.le if help_.lt is None else help_.lt - 1,
    )


def option_of(kind: type[Request], name: str) -> Any:
    """The option of one field, for a command that makes several requests."""
    (option,) = [each for each in options(kind) if each.name == name]
    return _typer_option(option)


def _flag(option: Option) -> str:
    return option.help.flag or f"--{option.stored.replace('_', '-')}"


def _parameter(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default)


def _read(option: Option, values: dict[str, Any]) -> Any:
    """The value of an option; takes it out of `values`. Raises UsageProblem."""
    if option.type == Mapping[str, Any]:
        return read_conf(values.pop("conf"), values.pop("param"))
    value = values.pop(option.name)
    if value is not None and option.type in _READERS:
        return _READERS[option.type](value, _flag(option))
    return value
