"""`@dag` and `@task_group`: functions that build DAGs and groups."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, Generic, ParamSpec, TypeVar, overload

from aiosched.authoring import building
from aiosched.authoring.checks import fail
from aiosched.authoring.dag import DAG
from aiosched.authoring.dependencies import Dependable
from aiosched.authoring.task_group import TaskGroup

P = ParamSpec("P")
R = TypeVar("R")


@overload
def dag(function: Callable[P, Any], /) -> Callable[P, DAG]: ...
@overload
def dag(dag_id: str = "", /, **options: Any) -> Callable[[Callable[P, Any]], Callable[P, DAG]]: ...
def dag(function_or_id: Any = "", /, **options: Any) -> Any:
    """Make a function build a DAG: its body adds tasks, calling it returns the DAG.

    `@dag`, `@dag("id", schedule=…)` or `@dag(schedule=…)`; the id is the function's name unless given, its
    docstring is the DAG's documentation. Each parameter of the function is a param of the DAG, with its
    default or the value that it is called with.
    """
    if callable(function_or_id):
        return _dag_factory(function_or_id, {})
    if function_or_id:
        options["dag_id"] = function_or_id
    return functools.partial(_dag_factory, options=options)


def _dag_factory(function: Callable[P, Any], options: Mapping[str, Any]) -> Callable[P, DAG]:
    @functools.wraps(function)
    def factory(*args: P.args, **kwargs: P.kwargs) -> DAG:
        given = dict(options)
        dag_id = given.pop("dag_id", None) or function.__name__
        if function.__doc__ and not given.get("doc_md"):
            given["doc_md"] = inspect.cleandoc(function.__doc__)
        bound = _bound(function, args, kwargs)
        built = DAG(dag_id, **{**given, "params": {**(given.get("params") or {}), **bound}})
        with built:
            function(**{name: ParamRef(name) for name in bound})  # type: ignore[call-arg, arg-type]
        return built

    return factory
