"""`@dag` and `@task_group`: functions that build DAGs and groups."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, ParamSpec, TypeVar, overload

from aiosched.authoring.base import building
from aiosched.authoring.base.argument_lines import point_at_argument
from aiosched.authoring.base.checks import fail
from aiosched.authoring.base.dependencies import Uncalled
from aiosched.authoring.base.location import Location, author_location
from aiosched.authoring.dag.dag import DAG
from aiosched.authoring.dag.group_mapping import PartialGroup
from aiosched.authoring.dag.groups import TaskGroup
from aiosched.errors import DagError
from aiosched.signatures import signature_of

P = ParamSpec("P")
R = TypeVar("R")


@overload
def dag(function: Callable[P, Any], /) -> Callable[P, DAG]: ...
@overload
def dag(dag_id: str = "", /, **options: Any) -> Callable[[Callable[P, Any]], Callable[P, DAG]]: ...
def dag(function_or_id: Any = "", /, **options: Any) -> Any:
    """Make a function build a DAG: its body adds tasks, calling it returns the DAG.

    `@dag`, `@dag("id", schedule=…)` or `@dag(schedule=…)`; the id is the function's name unless given, its
    docstring is the DAG's documentation. Each parameter of the function is a param of the DAG, whose
    default is the parameter's, or the value that the function is called with.
    """
    where = author_location()
    if callable(function_or_id):
        return _dag_factory(function_or_id, {}, where)
    if function_or_id:
        options["dag_id"] = function_or_id
    return functools.partial(_dag_factory, options=options, where=where)


def _dag_factory(function: Callable[P, Any], options: Mapping[str, Any], where: Location | None) -> Callable[P, DAG]:
    @functools.wraps(function)
    def factory(*args: P.args, **kwargs: P.kwargs) -> DAG:
        building.dag_function_called(factory)
        given = dict(options)
        dag_id = given.pop("dag_id", None) or function.__name__
        if function.__doc__ and not given.get("doc_md"):
            given["doc_md"] = inspect.cleandoc(function.__doc__)
        values = _bound(function, args, kwargs)
        given["params"] = {**(given.get("params") or {}), **values}
        try:
            built = DAG(dag_id, **given)
        except DagError as error:
            point_at_argument(error, dict.fromkeys(options, where))
            raise
        built._declared = where
        with built:
            body: Callable[..., Any] = function
            body(**{name: built.param(name) for name in values})
        return built

    building.dag_function_defined(factory, function.__name__, where)
    return factory


def _bound(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    try:
        bound = signature_of(function).bind(*args, **kwargs)
    except TypeError as error:
        raise fail(f"The call {function.__name__}(…) does not fit its function: {error}.") from None
    bound.apply_defaults()
    return dict(bound.arguments)


class TaskGroupFunction(Generic[P, R], Uncalled):
    """Returned by `@task_group`. Calling it runs the function inside a new group.

    The result is the function's, or the group if that is None. The group of a second call in one DAG has the id
    `name__1`, and so on.
    """

    def __init__(self, function: Callable[P, R], options: Mapping[str, Any]) -> None:
        functools.update_wrapper(self, function)
        self.function = function
        self.options: dict[str, Any] = dict(options)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        with self._new_group() as group:
            result = self.function(*args, **kwargs)
        return group if result is None else result

    def partial(self, **kwargs: Any) -> PartialGroup:
        """The arguments that all instances of a mapped group share."""
        return PartialGroup(self.function, self._new_group, kwargs)

    def expand(self, **mapped: Any) -> Any:
        """Map the group: all its tasks have one instance for each combination of the values.

        Instance i of a task waits for instance i of its upstream tasks in the group, and reads their values.
        Inside the function the arguments stand for values that are not known yet.
        Source: the semantics reference, section 26.7.
        """
        return self.partial().expand(**mapped)

    def expand_kwargs(self, kwargs: Any) -> Any:
        """Map the group: one instance for each dict of arguments in a list, or in what a task returns."""
        return self.partial().expand_kwargs(kwargs)

    def _new_group(self) -> TaskGroup:
        options = {"tooltip": _first_line(self.function.__doc__), "add_suffix_on_collision": True, **self.options}
        group_id = options.pop("group_id", None) or self.function.__name__
        group: TaskGroup = TaskGroup(group_id, **options)
        return group

    def override(self, **options: Any) -> TaskGroupFunction[P, R]:
        """A copy with other parameters of its group."""
        return TaskGroupFunction(self.function, {**self.options, **options})


@overload
def task_group(function: Callable[P, R], /) -> TaskGroupFunction[P, R]: ...
@overload
def task_group(group_id: str = "", /, **options: Any) -> Callable[[Callable[P, R]], TaskGroupFunction[P, R]]: ...
def task_group(function_or_id: Any = "", /, **options: Any) -> Any:
    """Make a function build a task group each time it is called: `@task_group` or `@task_group(tooltip=…)`."""
    function = function_or_id if callable(function_or_id) else options.pop("python_callable", None)
    if function is not None:
        return TaskGroupFunction(function, options)
    if function_or_id:
        options["group_id"] = function_or_id
    return functools.partial(TaskGroupFunction, options=options)


def _first_line(doc: str | None) -> str:
    return inspect.cleandoc(doc).partition("\n")[0] if doc else ""
