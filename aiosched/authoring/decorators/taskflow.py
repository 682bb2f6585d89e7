"""`@task`: functions as tasks. A call adds a task to a DAG."""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, ClassVar, Generic, ParamSpec, Protocol, TypeVar, overload

from aiosched.authoring.base import building
from aiosched.authoring.base.argument_lines import point_at_argument
from aiosched.authoring.base.checks import fail
from aiosched.authoring.base.dependencies import Uncalled
from aiosched.authoring.base.dialects import author_dialect
from aiosched.authoring.base.location import Location, author_location
from aiosched.authoring.decorators.conditions import run_if, skip_if
from aiosched.authoring.decorators.custom import FunctionOperator, registered_decorator
from aiosched.authoring.mapping.function_mapping import PartialFunction
from aiosched.authoring.operators.bash import DecoratedBashOperator
from aiosched.authoring.operators.python import BranchPythonOperator, PythonOperator, ShortCircuitOperator
from aiosched.authoring.operators.python_env import (
    BranchExternalPythonOperator,
    BranchPythonVirtualenvOperator,
    ExternalPythonOperator,
    PythonVirtualenvOperator,
)
from aiosched.authoring.operators.sensor import PythonSensor
from aiosched.authoring.operators.stub import StubOperator
from aiosched.authoring.tasks.operator import BaseOperator
from aiosched.authoring.tasks.task_context import CONTEXT_KEYS
from aiosched.authoring.tasks.xcom_arg import XComArg
from aiosched.errors import DagError
from aiosched.signatures import signature_of

P = ParamSpec("P")
R = TypeVar("R")


class DecoratedOperator(PythonOperator):
    """The task of a function with `@task`."""

    keeps_state: ClassVar[bool] = False


class DecoratedBranchOperator(BranchPythonOperator):
    """The task of a function with `@task.branch`."""

    keeps_state: ClassVar[bool] = False


class DecoratedShortCircuitOperator(ShortCircuitOperator):
    """The task of a function with `@task.short_circuit`."""

    keeps_state: ClassVar[bool] = False


class DecoratedSensorOperator(PythonSensor):
    """The task of a function with `@task.sensor`."""


class TaskFunction(Generic[P, R], Uncalled):
    """Returned by `@task`. Calling it adds a task to the current DAG and returns its output.

    Arguments may contain outputs of other tasks, also inside lists and dicts: the new task waits for those tasks.
    The task of a second call in one DAG has the id `name__1`, and so on. `function` is the function itself.
    """

    def __init__(
        self,
        function: Callable[P, R],
        operator: type[BaseOperator],
        options: Mapping[str, Any],
        where: Location | None = None,
    ) -> None:
        functools.update_wrapper(self, function)
        self.function = function
        self.operator = operator
        self.options: dict[str, Any] = dict(options)
        self.where = where  # it is decorated
        self.is_used: bool = False  # called, mapped or copied
        self._places = dict.fromkeys(options, where)  # the calls in which the options are written
        dag = building.current_dag()
        if dag is not None:
            dag.task_functions.append(self)
        self._dialect = author_dialect()
        self.given: frozenset[str] = frozenset()  # parameters that the application fills when the task runs
        self.mark: Callable[[BaseOperator], Any] | None = None  # applied to each new task
        self._overridden: TaskFunction[P, R] | None = None  # the original of a copy
        self._fitting: set[tuple[Any, ...]] = set()  # valid calls: number of positional arguments, other names

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> XComArg[R]:
        if not issubclass(self.operator, FunctionOperator):
            self._check_call(args, kwargs)

        def make() -> BaseOperator:
            made = self.operator(**self.operator_options(args, kwargs))
            if isinstance(made, FunctionOperator):  # its class may give arguments itself
                self._check_call(*made.called_with)
            return made

        return self.output_of(make)

    def output_of(self, make: Callable[[], BaseOperator]) -> XComArg[Any]:
        """The output of the task that `make` makes of this function, after `mark`."""
        self.is_used = True
        try:
            made = make()
        except DagError as error:
            point_at_argument(error, self._places)
            raise
        if self.mark is not None:
            self.mark(made)
        return XComArg(made)

    def operator_options(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """The parameters of the operator for a call with these arguments; the task id is unique in the current DAG."""
        options = dict(self.options)
        task_id = options.pop("task_id", None) or self.function.__name__
        if issubclass(self.operator, DecoratedOperator | FunctionOperator):
            options.setdefault("multiple_outputs", self._returns_dict)
        if self.function.__doc__ and "doc_md" not in options:
            options["doc_md"] = inspect.cleandoc(self.function.__doc__)
        called = {"python_callable": self.function, "op_args": args, "op_kwargs": kwargs}
        return {**options, **called, "task_id": _free_id(task_id, options)}

    def partial(self, **kwargs: Any) -> PartialFunction[P, R]:
        """The arguments that all instances of a mapped task share: `.partial(table="t").expand(day=days)`."""
        return PartialFunction(self, kwargs)

    def expand(self, **mapped: Any) -> XComArg[list[R]]:
        """Map the task: one instance for each combination of the values. See `PartialFunction.expand`."""
        return PartialFunction(self, {}).expand(**mapped)

    def expand_kwargs(self, kwargs: Any, *, strict: bool = True) -> XComArg[list[R]]:
        """Map the task: one instance for each dict of arguments in a list, or in what a task returns.

        Without `strict`, names are checked when the task runs.
        """
        return PartialFunction(self, {}).expand_kwargs(kwargs, strict=strict)

    def override(self, **options: Any) -> TaskFunction[P, R]:
        """A copy with other parameters of its task: `load.override(task_id="load_eu", retries=3)(…)`."""
        self.is_used = True
        other = TaskFunction(self.function, self.operator, {**self.options, **options}, author_location())
        other.is_used = True
        other.mark = self.mark
        other._places |= {name: place for name, place in self._places.items() if name not in options}
        other._overridden, other._fitting = self, self._fitting
        return other

    def marked(self, mark: Callable[[BaseOperator], Any]) -> TaskFunction[P, R]:
        """A copy whose tasks are setups or teardowns."""
        other = self.override()
        other.mark = mark
        return other

    def _check_call(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        call = (len(args), *kwargs)
        if call in self._fitting:
            return
        try:
            self.call_signature.bind(*args, **kwargs)
        except TypeError as error:
            name = self.function.__name__
            raise fail(f"The call {name}(…) does not fit the task function {name}: {error}.") from None
        self._fitting.add(call)

    @functools.cached_property
    def call_signature(self) -> inspect.Signature:
        """The signature of the function, in which parameters that the context fills are optional."""
        if self._overridden is not None:
            return self._overridden.call_signature
        signature = signature_of(self.function)
        optional, parameters = False, []
        known = CONTEXT_KEYS if self._dialect is None else CONTEXT_KEYS | self._dialect.context.keys()
        for parameter in signature.parameters.values():
            fills = parameter.name in known and parameter.kind is not parameter.VAR_KEYWORD
            if fills and parameter.default not in (None, parameter.empty):
                raise fail(
                    f"The parameter {parameter.name!r} of {self.function.__name__} is filled from the context, "
                    "so its default can only be None. Rename it, or change the default."
                )
            positional = parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
            fills = fills or parameter.name in self.given
            if parameter.default is parameter.empty and (fills or (optional and positional)):
                parameter = parameter.replace(default=None)
            optional = optional or (positional and parameter.default is not parameter.empty)
            parameters.append(parameter)
        return signature.replace(parameters=parameters)

    @functools.cached_property
    def _returns_dict(self) -> bool:
        """Whether the return annotation is a dict, Mapping or TypedDict."""
        if self._overridden is not None:
            return self._overridden._returns_dict
        try:
            annotation = signature_of(self.function).return_annotation
        except (TypeError, ValueError):  # a function that is not Python's
            return False
        if isinstance(annotation, str):
            try:  # what is in its brackets says nothing here
                annotation = eval(annotation.partition("[")[0], getattr(self.function, "__globals__", {}))  # noqa: S307 the author's
            except Exception:  # for instance names that only type checkers import
                return False
        annotation = typing.get_origin(annotation) or annotation
        return isinstance(annotation, type) and issubclass(annotation, Mapping)


def _free_id(task_id: str, options: Mapping[str, Any]) -> str:
    """`task_id`, with a suffix if the group or DAG already has such a task."""
    group = options.get("task_group")
    dag = options.get("dag") or (group.dag if group is not None else building.current_dag())
    if dag is None or not isinstance(task_id, str):
        return task_id
    group = group or building.current_group(dag)
    if group is None:
        return str(dag.free_id(task_id))
    full = group.child_id(task_id)
    return task_id + str(dag.free_id(full)).removeprefix(full)


def get_unique_task_id(task_id: str, dag: Any = None, task_group: Any = None) -> str:
    """`task_id`, with a suffix `__1`, `__2`, … if the group or DAG already has such a task."""
    return _free_id(task_id, {"dag": dag, "task_group": task_group})


class MakesTasks(Protocol):
    """What `@task(…)` is: it makes a task function of a function, coroutine function or not."""

    @overload
    def __call__(self, function: Callable[P, Coroutine[Any, Any, R]], /) -> TaskFunction[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> TaskFunction[P, R]: ...


class _Decorator:
    """`@task` or `@task(retries=3)`, for one kind of operator."""

    def __init__(self, name: str, operator: type[BaseOperator]) -> None:
        self._name = name
        self._operator = operator

    @overload
    def __call__(self, function: Callable[P, Coroutine[Any, Any, R]], /) -> TaskFunction[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> TaskFunction[P, R]: ...
    @overload
    def __call__(self, function: None = None, /, **options: Any) -> MakesTasks: ...
    def __call__(self, function: Callable[P, R] | None = None, /, **options: Any) -> Any:
        where = author_location()
        if function is None and (function := options.pop("python_callable", None)) is None:
            return functools.partial(self._decorate, options, where)
        return self._decorate(options, where, function)

    def _decorate(self, options: Mapping[str, Any], place: Location | None, function: Any) -> TaskFunction[Any, Any]:
        if not inspect.isroutine(function):
            where = author_location()
            called = getattr(function, "__name__", repr(function))
            by_name = f"Write @{self._name}(task_id={function!r})."
            remedy = by_name if isinstance(function, str) else "Put it on a def."
            raise fail(f"@{self._name} makes tasks of functions, and {called} is none. {remedy}", where)
        return TaskFunction(function, self._operator, options, place)


class TaskDecorator(_Decorator):
    """The decorator `task` with its kinds.

    `@task`, `@task.branch`, `@task.short_circuit`, `@task.sensor`, `@task.bash` (the function returns a command),
    `@task.virtualenv` and `@task.external_python` (the function runs elsewhere), `@task.branch_virtualenv` and
    `@task.branch_external_python`, `@task.stub` (something else does the work). `@task.run_if(condition)` and
    `@task.skip_if(condition)` above one of them make the task conditional.
    """

    def __init__(self) -> None:
        super().__init__("task", DecoratedOperator)
        self.python: _Decorator = _Decorator("task.python", DecoratedOperator)
        self.branch: _Decorator = _Decorator("task.branch", DecoratedBranchOperator)
        self.short_circuit: _Decorator = _Decorator("task.short_circuit", DecoratedShortCircuitOperator)
        self.sensor: _Decorator = _Decorator("task.sensor", DecoratedSensorOperator)
        self.bash: _Decorator = _Decorator("task.bash", DecoratedBashOperator)
        self.virtualenv: _Decorator = _Decorator("task.virtualenv", PythonVirtualenvOperator)
        self.external_python: _Decorator = _Decorator("task.external_python", ExternalPythonOperator)
        self.branch_virtualenv: _Decorator = _Decorator("task.branch_virtualenv", BranchPythonVirtualenvOperator)
        self.branch_external_python: _Decorator = _Decorator(
            "task.branch_external_python", BranchExternalPythonOperator
        )
        self.stub: _Decorator = _Decorator("task.stub", StubOperator)
        self.run_if, self.skip_if = run_if, skip_if

    def __getattr__(self, name: str) -> Any:
        """The decorator of that name that an installed provider registers, such as `@task.docker`."""
        if name.startswith("_"):
            raise AttributeError(name)
        return registered_decorator(name)


def task_decorator_factory(
    python_callable: Callable[..., Any] | None = None,
    *,
    multiple_outputs: bool | None = None,
    decorated_operator_class: type[BaseOperator],
    **options: Any,
) -> Any:
    """What a decorator returns that makes tasks of `decorated_operator_class`, a `FunctionOperator`.

    With `python_callable` the task function, without it a decorator. Without `multiple_outputs` the return annotation
    of the function decides.
    """
    if multiple_outputs is not None:
        options["multiple_outputs"] = multiple_outputs
    name = getattr(decorated_operator_class, "custom_operator_name", "").removeprefix("@")
    decorator = _Decorator(name or f"task.{decorated_operator_class.__name__}", decorated_operator_class)
    return decorator(python_callable, **options) if python_callable is not None else decorator(**options)


task = TaskDecorator()

__all__ = ["TaskDecorator", "TaskFunction", "get_unique_task_id", "task", "task_decorator_factory"]
