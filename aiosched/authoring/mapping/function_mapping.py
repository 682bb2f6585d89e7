"""Mapped calls of task functions: `load.partial(table="t").expand(day=[…])`.

Arguments have the names of the function's parameters. Source: the semantics reference, section 26.1.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, ParamSpec, Protocol, TypeVar

from aiosched.authoring.base import checks
from aiosched.authoring.base.location import Location, author_location
from aiosched.authoring.base.signatures import named, takes_any_name
from aiosched.authoring.mapping.expansion import (
    ExpandInput,
    MappedArguments,
    MappedKwargs,
    mapped_arguments,
    mapped_kwargs,
)
from aiosched.authoring.mapping.mapped import OPTIONS, mapped_operator, wrong_arguments
from aiosched.authoring.tasks.operator import BaseOperator
from aiosched.authoring.tasks.xcom_arg import Output, XComArg

P = ParamSpec("P")
R = TypeVar("R")

_INTO = "op_kwargs"  # where an operator takes the arguments of its function


class MappableFunction(Protocol[P, R]):
    """A `TaskFunction`."""

    function: Callable[P, R]
    operator: type[BaseOperator]

    @property
    def call_signature(self) -> inspect.Signature: ...
    def operator_options(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]: ...
    def output_of(self, make: Callable[[], BaseOperator]) -> XComArg[Any]: ...
    def override(self, **options: Any) -> MappableFunction[P, R]: ...


class PartialFunction(Generic[P, R]):
    """A task function with the arguments that all instances of a mapped task share."""

    def __init__(self, function: MappableFunction[P, R], kwargs: Mapping[str, Any]) -> None:
        self._function = function
        self._kwargs = dict(kwargs)
        self._name = function.function.__name__
        known_arguments(f"{self._name}.partial()", function.function, function.call_signature, self._kwargs)

    def partial(self, **kwargs: Any) -> PartialFunction[P, R]:
        """A copy with more arguments."""
        if (problem := wrong_arguments(kwargs, self._kwargs, frozenset())) is not None:
            raise checks.fail(f"{self._name}.partial(): {problem}")
        return PartialFunction(self._function, {**self._kwargs, **kwargs})

    def override(self, **options: Any) -> PartialFunction[P, R]:
        """A copy with other parameters of the task."""
        return PartialFunction(self._function.override(**options), self._kwargs)

    def expand(self, **mapped: Any) -> XComArg[list[R]]:
        """One instance for each combination of the values; the last argument varies fastest.

        A value is a list, a dict (its (key, value) pairs) or what a task returns. The result stands for the list of
        the instances' return values. Raises DagError for values that cannot be mapped over.
        """
        inputs = checked_arguments(self._name, self._function.call_signature, self._kwargs, mapped)
        return self._mapped(inputs)

    def expand_kwargs(self, kwargs: Any, *, strict: bool = True) -> XComArg[list[R]]:
        """One instance for each dict of arguments in a list, or in what a task returns.

        With `strict`, an unknown name is an error, and so is an argument of `partial()`. Without, names are checked
        when the task runs, and the dicts take precedence over `partial()`.
        """
        if not strict:
            return self._mapped(mapped_kwargs(self._name, kwargs, author_location(), taken=(), refused=()))
        function = self._function.function
        return self._mapped(checked_kwargs(self._name, function, self._function.call_signature, self._kwargs, kwargs))

    def _mapped(self, inputs: ExpandInput) -> XComArg[Any]:
        options = self._function.operator_options((), self._kwargs)
        return self._function.output_of(lambda: mapped_operator(self._function.operator, options, inputs, into=_INTO))


def checked_arguments(
    name: str, signature: inspect.Signature, partial: Mapping[str, Any], mapped: Mapping[str, Any]
) -> MappedArguments:
    """The inputs of `expand(**mapped)` for a function; raises DagError if they do not match its signature."""
    where = author_location()
    if (problem := wrong_arguments(mapped, partial, frozenset())) is not None:
        raise checks.fail(f"{name}.expand(): {problem}", where)
    inputs = mapped_arguments(name, mapped, where)
    _refuse_options(f"{name}.expand()", name, signature, mapped, where)
    try:
        signature.bind(**partial, **mapped)
    except TypeError as error:
        raise checks.fail(f"The call {name}.expand(…) does not fit the function {name}: {error}.", where) from None
    return inputs


def checked_kwargs(
    name: str, function: Callable[..., Any], signature: inspect.Signature, partial: Mapping[str, Any], dicts: Any
) -> MappedKwargs:
    """The inputs of `expand_kwargs(dicts)` for a function; raises DagError if a dict does not match its signature."""
    where = author_location()
    inputs = mapped_kwargs(name, dicts, where, taken=partial, refused=())
    for number, one in enumerate([] if isinstance(dicts, Output) else dicts):
        if isinstance(one, Mapping):
            _refuse_options(f"{name}.expand_kwargs(…), element {number}", name, signature, one, where)
            try:
                signature.bind(**{**partial, **one})
            except TypeError as error:
                raise checks.fail(
                    f"{name}.expand_kwargs(…), element {number}, does not fit the function {name}: {error}.", where
                ) from None
    return inputs


def known_arguments(
    called: str, function: Callable[..., Any], signature: inspect.Signature, given: Mapping[str, Any]
) -> None:
    """Raise DagError for an argument that `function` does not have."""
    _refuse_options(called, function.__name__, signature, given, None)
    parameters = signature.parameters.values()
    if takes_any_name(parameters):
        return
    known = [p.name for p in named(parameters)]
    for name in given:
        if name not in known:
            raise checks.fail(f"{called}: {function.__name__} has no parameter {name!r}. {_hint(name, known)}")


def _refuse_options(
    called: str, name: str, signature: inspect.Signature, given: Mapping[str, Any], where: Location | None
) -> None:
    """Raise DagError for an option of the task among the arguments of its function."""
    if takes_any_name(signature.parameters.values()):
        return
    for option in given:
        if option in OPTIONS and option not in signature.parameters:
            raise checks.fail(
                f"{called}: {option!r} is an option of the task, which cannot be mapped. "
                f"Write {name}.override({option}=…), the same for all instances.",
                where,
            )


def _hint(name: str, known: list[str]) -> str:
    return checks.suggestion(name, known) if known else "Remove it."
