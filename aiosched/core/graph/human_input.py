"""Questions that tasks ask people, and which answers they accept. Pure.

A task that asks is deferred until somebody answers. Its question has options to choose from, and params to fill in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from aiosched.core.graph.params import check_param
from aiosched.core.graph.spec import ParamSpec
from aiosched.core.values.json_bounds import find_problem
from aiosched.errors import ParamError, Refused

WAITS_FOR_PERSON: Final = "aiosched.authoring.triggers.human_input.HumanInputTrigger"  # the trigger of a task that asks


class InputRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a task asks. `body` is Markdown; `respondents` are the people who may answer, nobody: everyone."""

    subject: str
    options: tuple[str, ...]
    body: str | None = None
    defaults: tuple[str, ...] | None = None  # chosen if nobody answers in time; None: then the task fails
    multiple: bool = False  # several options may be chosen
    params: dict[str, ParamSpec] = {}
    respondents: tuple[str, ...] = ()


class InputAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What somebody answered: the options in the order of the question, and a value for each param."""

    options: tuple[str, ...]
    params: dict[str, Any]


def check_answer(request: InputRequest, options: Sequence[str], params: Mapping[str, Any], *, by: str) -> InputAnswer:
    """The answer `by` somebody, who is named as in the audit log, for example `api:ada`.

    Raises Refused with what is wrong, with exit code 2 for options and params.
    """
    name = by.partition(":")[2] or by
    if request.respondents and not {name, name.partition("@")[0]} & {*request.respondents}:
        raise Refused(f"Only {', '.join(request.respondents)} may answer {request.subject!r}, not {name}.")
    if unknown := [option for option in options if option not in request.options]:
        raise _wrong(f"{unknown[0]!r} is not an option of {request.subject!r}: choose {_listed(request.options)}.")
    if not options:
        raise _wrong(f"Choose an option of {request.subject!r}: {_listed(request.options)}.")
    if len(set(options)) > 1 and not request.multiple:
        raise _wrong(f"Choose one option of {request.subject!r}, not {len(set(options))}.")
    if stray := [param for param in params if param not in request.params]:
        known = ", ".join(request.params) or "none"
        raise _wrong(f"{request.subject!r} has no param {stray[0]!r}; known are {known}.")
    if (problem := find_problem(dict(params), "params")) is not None:
        raise _wrong(f"{problem}.")
    return InputAnswer(
        options=tuple(option for option in request.options if option in options),
        params={param: _value(param, spec, params) for param, spec in request.params.items()},
    )


def _value(name: str, spec: ParamSpec, given: Mapping[str, Any]) -> Any:
    if name not in given and spec.required:
        raise _wrong(f"Param {name!r} has no default: give it a value.")
    value = given.get(name, spec.value)
    try:
        check_param(name, value if name in given else spec.typed or value, spec)
    except ParamError as error:
        raise _wrong(f"{error}.") from None
    return value


def _listed(options: Sequence[str]) -> str:
    return ", ".join(repr(option) for option in options)


def _wrong(message: str) -> Refused:
    error = Refused(message)
    error.exit_code = 2
    return error
