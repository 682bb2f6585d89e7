"""What operators do with functions and contexts: arguments by name, merged values, names of environment variables."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

from aiosched.authoring.base.signatures import named, takes_any_name
from aiosched.authoring.operators.python import is_coroutine_function
from aiosched.signatures import signature_of

_NAMES: Final = {"dag_id": "DAG_ID", "task_id": "TASK_ID", "run_id": "DAG_RUN_ID", "try_number": "TRY_NUMBER"}

AIRFLOW_VAR_NAME_FORMAT_MAPPING: Final = {
    f"AIRFLOW_CONTEXT_{name}": {"default": f"airflow.ctx.{key}", "env_var_format": f"AIRFLOW_CTX_{name}"}
    for key, name in {**_NAMES, "logical_date": "LOGICAL_DATE", "dag_owner": "DAG_OWNER"}.items()
}


def context_merge(context: Any, *args: Any, **kwargs: Any) -> None:
    """`context.update(…)`: the values of a dict, and those given by name, become values of the context."""
    for given in args:
        context.update(given)
    context.update(kwargs)


def context_to_airflow_vars(context: Mapping[str, Any], in_env_var_format: bool = False) -> dict[str, str]:
    """The ids and dates of the running task, as environment variables or as settings with dots."""
    ti, task = context.get("ti"), context.get("task")
    if ti is None:
        return {}
    values: dict[str, Any] = {f"{name}": getattr(ti, key) for key, name in _NAMES.items()}
    values["LOGICAL_DATE"] = context["logical_date"].isoformat() if context.get("logical_date") else None
    values["DAG_OWNER"] = getattr(task, "owner", None)
    kind = "env_var_format" if in_env_var_format else "default"
    return {
        AIRFLOW_VAR_NAME_FORMAT_MAPPING[f"AIRFLOW_CONTEXT_{name}"][kind]: str(value)
        for name, value in values.items()
        if value not in (None, "")
    }


def determine_kwargs(func: Callable[..., Any], args: Collection[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Those of `kwargs` that `func` takes by name, without the parameters that `args` fill by position.

    All of them for a function with `**kwargs`. Raises ValueError when `args` fill a parameter that the context has
    under the same name.
    """
    parameters = list(signature_of(func).parameters.values())
    names = [parameter.name for parameter in named(parameters)]
    filled = names[: len(args)]
    if taken := [name for name in filled if name in kwargs]:
        raise ValueError(f"The parameter {taken[0]!r} is filled from the context, so it cannot be given by position.")
    if takes_any_name(parameters):
        return {name: kwargs[name] for name in kwargs if name not in filled}
    return {name: kwargs[name] for name in names if name in kwargs and name not in filled}


class KeywordParameters:
    """The keyword arguments of a function: `KeywordParameters.determine(func, args, kwargs).unpacking()`."""

    def __init__(self, kwargs: Mapping[str, Any], *, wildcard: bool) -> None:
        self._kwargs = kwargs
        self._wildcard = wildcard

    @classmethod
    def determine(cls, func: Callable[..., Any], args: Collection[Any], kwargs: Mapping[str, Any]) -> KeywordParameters:
        """As `determine_kwargs`."""
        return cls(
            determine_kwargs(func, args, kwargs), wildcard=takes_any_name(signature_of(func).parameters.values())
        )

    def unpacking(self) -> Mapping[str, Any]:
        """The arguments."""
        return self._kwargs


def make_kwargs_callable(func: Callable[..., Any]) -> Callable[..., Any]:
    """A function that takes any names and passes on those that `func` has."""

    @functools.wraps(func)
    def call(*args: Any, **kwargs: Any) -> Any:
        return func(*args, **determine_kwargs(func, args, kwargs))

    return call


def is_async_callable(func: Any) -> bool:
    """Whether calling it returns a coroutine."""
    return is_coroutine_function(func)
