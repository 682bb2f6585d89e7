"""`default_args` of operators, and errors for unknown parameters.

The `__init__` of every operator class is wrapped: a parameter that its caller left out is
taken from the default arguments. So each class of the inheritance chain gets the defaults of its
own parameters.
"""

from __future__ import annotations

import functools
import inspect
from abc import ABCMeta
from collections.abc import Callable, Mapping
from typing import Any

from aiosched.authoring.base.argument_lines import point_at_argument
from aiosched.authoring.base.building import current_dag, current_group
from aiosched.authoring.base.checks import fail, known_names_only, missing
from aiosched.authoring.base.dialects import author_dialect
from aiosched.authoring.base.location import Location, author_location
from aiosched.authoring.base.signatures import init_parameters, named, takes_any_name
from aiosched.authoring.base.unknown import constructing
from aiosched.errors import DagError
from aiosched.signatures import signature_of


class OperatorMeta(ABCMeta):
    """Creates operators: applies default arguments, then adds the dependencies that the arguments imply."""

    def __new__(mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **kwargs: Any) -> OperatorMeta:
        if "__init__" in namespace:
            kind = name if namespace.get("__module__", "").startswith("aiosched.") else None
            namespace["__init__"] = _with_defaults(namespace["__init__"], kind)
        namespace.setdefault("keeps_state", True)  # not inherited
        return super().__new__(mcs, name, bases, namespace, **kwargs)

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        where = author_location()
        if args:
            raise fail(f"{cls.__name__} takes its parameters by name: {cls.__name__}(task_id=…, …).", where)
        kind: Any = cls
        operator = kind.__new__(kind, **kwargs)
        operator._origin = where
        operator._defaults = _effective_defaults(kwargs)
        operator._dialect = dialect = author_dialect()
        if dialect is not None:
            operator._defaults = dialect.default_args(operator._defaults)
        try:
            with constructing():
                operator.__init__(**kwargs)
        except DagError as error:
            point_at_argument(error, dict.fromkeys(kwargs))
            raise
        if dialect is not None:
            dialect.finish(operator)
        operator.wire_arguments()
        return operator


def _effective_defaults(kwargs: Mapping[str, Any]) -> Mapping[str, Any]:
    """The default arguments of a new operator: those of its DAG, of its groups from outside in, its own."""
    group = kwargs.get("task_group")
    dag = kwargs.get("dag") or (group.dag if group is not None else current_dag())
    if group is None and dag is not None:
        group = current_group(dag)
    outer: Mapping[str, Any] = {}
    if group is not None:
        outer = group.effective_default_args
    elif dag is not None:
        outer = dag.default_args
    own = kwargs.get("default_args")
    return {**outer, **own} if own else outer


def _with_defaults(init: Callable[..., None], kind: str | None) -> Callable[..., None]:
    """`init` of the class `kind` (None: not one of ours), with default arguments and translated parameters."""
    parameters = list(signature_of(init).parameters.values())[1:]
    by_name = named(parameters)
    positions = tuple(p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD)
    names = frozenset(p.name for p in by_name)
    required = tuple(p.name for p in by_name if p.default is p.empty)
    takes_any = takes_any_name(parameters)

    @functools.wraps(init)
    def wrapper(self: Any, *args: Any, **kwargs: Any) -> None:
        if kind is not None and self._dialect is not None:
            kwargs = self._dialect.translated(kind, kwargs, self._origin)
        by_position = positions[: len(args)]
        for name, value in self._defaults.items():
            if name in names and name not in kwargs and name not in by_position:
                kwargs[name] = value
        where: Location | None = self._origin
        if not takes_any and not kwargs.keys() <= names:
            known_names_only(_called(self, kwargs), kwargs, parameters_of(type(self)), where)
        for name in required:
            if name not in kwargs and name not in by_position:
                raise missing(_called(self, kwargs), name, kwargs.keys() - parameters_of(type(self)), where)
        init(self, *args, **kwargs)

    return wrapper


def _called(operator: Any, kwargs: Mapping[str, Any]) -> str:
    task_id = kwargs.get("task_id") or getattr(operator, "task_id", None)
    return f"{type(operator).__name__}(task_id={task_id!r})" if task_id else type(operator).__name__


def required_of(cls: type) -> list[str]:
    """The required parameters of the `__init__` of `cls`."""
    return [p.name for p in named(init_parameters(cls)) if p.default is p.empty]


def parameters_of(cls: type) -> frozenset[str]:
    """All parameter names of the inheritance chain, up to the first class without `**kwargs`."""
    names: set[str] = set()
    for ancestor in cls.__mro__:
        init = ancestor.__dict__.get("__init__")
        if inspect.isfunction(init):
            parameters = list(signature_of(init).parameters.values())[1:]
            names.update(p.name for p in named(parameters))
            if not takes_any_name(parameters):
                break
    return frozenset(names)
