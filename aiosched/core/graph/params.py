"""Params of a DAG: the values for a run, validated against their JSON schema.

The merging of defaults with a run's `conf`; the schemas are in json_schema.py. Pure.
Source: the semantics reference, section 27.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from aiosched.core.graph.json_schema import StepBudget, TooManySteps, find_problem
from aiosched.core.graph.secret_params import holds_secrets
from aiosched.core.graph.spec import ParamSpec
from aiosched.core.values.given_values import find_problem as find_problem_of_type
from aiosched.core.values.secret_values import has_sealed, plain
from aiosched.core.values.typed_json import without_marks
from aiosched.errors import ParamError

_HIDDEN: Final = "the value does not fit its schema; it is a secret, so it is not shown"


def resolve_params(
    spec_params: Mapping[str, ParamSpec], conf: Mapping[str, Any] | None, steps: StepBudget | None = None
) -> dict[str, Any]:
    """The params of a run: the defaults with `conf` over them; keys of `conf` that are not params are kept.

    Raises ParamError naming the first param without a value or with an invalid one, and the one at which the checks of
    all have taken too many `steps`.
    """
    steps = steps or StepBudget()
    given = plain(dict(conf or {}))
    resolved: dict[str, Any] = {}
    for name, spec in spec_params.items():
        if name not in given and spec.required:
            raise ParamError(f"Param {name!r} has no value and no default. Give one: -p {name}=…")
        is_given = name in given
        resolved[name] = given.pop(name, spec.value)
        if (spec.json_schema or spec.typed is not None) and not has_sealed(resolved[name]):  # it was checked before
            check_param(name, resolved[name] if is_given else spec.typed or spec.value, spec, steps)
    return {**resolved, **given}


def check_param(name: str, value: Any, spec: ParamSpec, steps: StepBudget | None = None) -> None:
    """As `check_value`, for JSON with marks; and it must be possible to make a value of the type of the default."""
    check_value(name, without_marks(value), spec.json_schema, steps)
    if spec.typed is not None and (problem := find_problem_of_type(value, spec.typed)) is not None:
        raise ParamError(f"Param {name!r}: {_HIDDEN if holds_secrets(spec.json_schema) else problem}")


def check_value(name: str, value: Any, schema: Mapping[str, Any], steps: StepBudget | None = None) -> None:
    """Raise ParamError naming the param `name` if `value` violates `schema`, or takes more steps than there are."""
    try:
        problem = find_problem(value, schema, steps)
    except TooManySteps as error:
        raise ParamError(f"Param {name!r}: {error}") from None
    if problem is not None and holds_secrets(schema):
        problem = _HIDDEN
    if problem is not None:
        raise ParamError(f"Param {name!r}: {problem}")
