"""What a task or group is mapped over: `expand(a=…, b=…)` and `expand_kwargs(…)`.

Checks the inputs when a DAG is built, gives the number of instances (for the scheduler) and the arguments of one
instance (for its runner). Source: the semantics reference, sections 26.1, 26.2 and 26.8.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from aiosched.authoring.base.checks import fail
from aiosched.authoring.base.location import Location
from aiosched.authoring.base.params import DagParam
from aiosched.authoring.tasks.nesting import group_index, mapped_groups, split_index
from aiosched.authoring.tasks.shown_values import shortened
from aiosched.authoring.tasks.xcom_arg import Output, XComArg, XComView, iter_outputs
from aiosched.core.graph.spec import LiteralLength, MapInput, MappingSpec
from aiosched.core.values.messages import RETURN_VALUE
from aiosched.errors import AioschedError

if TYPE_CHECKING:
    from aiosched.authoring.base.protocols import Group, Task
    from aiosched.authoring.runtime.context import Context


class Arguments(NamedTuple):
    """The mapped arguments of one instance, and the names of those that tasks returned: they are not rendered."""

    values: dict[str, Any]
    from_tasks: frozenset[str]


class ExpandInput(ABC):
    """What a task or group is mapped over."""

    @property
    @abstractmethod
    def values(self) -> Sequence[Any]:
        """The inputs as they were written, in order."""

    @abstractmethod
    def at(self, index: int, context: Context) -> Arguments:
        """The arguments of the instance with that map index, after `.map()` functions.

        Raises SkipTask when such a function does, AioschedError for values that cannot be mapped over.
        """

    @abstractmethod
    def shown(self) -> dict[str, Any]:
        """The inputs by name as JSON, to display."""

    @cached_property
    def sources(self) -> Sequence[XComArg[Any]]:
        """Every stored value that the inputs consist of."""
        return tuple(source for value in self.values for output in iter_outputs(value) for source in output.sources)

    @property
    def is_from_tasks(self) -> bool:
        """Whether the number of instances depends on what tasks return."""
        return any(isinstance(value, Output) for value in self.values)

    @cached_property
    def producers(self) -> frozenset[str]:
        """The ids of the tasks whose return values determine the number of instances."""
        return frozenset(
            source.operator.task_id for value in self.values if isinstance(value, Output) for source in value.sources
        )

    def spec(self) -> MappingSpec:
        """The number of instances, as the scheduler stores it."""
        return MappingSpec(inputs=tuple(map(_map_input, self.values)))

    def length(self, context: Context) -> int:
        """The number of instances, from the XComs that were fetched for the running task."""
        count = 1
        for view in self._views(context):
            count *= view.length
        return count

    def _views(self, context: Context) -> list[XComView]:
        return [_view(value, context) for value in self.values]


class MappedArguments(ExpandInput):
    """`expand(a=…, b=…)`: every combination. The last argument varies fastest."""

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        self.arguments: dict[str, Any] = dict(arguments)

    def shown(self) -> dict[str, Any]:
        return {name: shortened(value) for name, value in self.arguments.items()}

    @property
    def values(self) -> Sequence[Any]:
        return list(self.arguments.values())

    def at(self, index: int, context: Context) -> Arguments:
        views = self._views(context)
        positions = split_index(index, [view.length for view in views])
        found = [view.at(position) for view, position in zip(views, positions, strict=True)]
        outputs = {name for name, value in self.arguments.items() if isinstance(value, Output)}
        return _arguments(dict(zip(self.arguments, found, strict=True)), outputs, context)


class MappedKwargs(ExpandInput):
    """`expand_kwargs(…)`: one instance per dict. `taken` and `refused` are names that must not be in a dict."""

    def __init__(self, dicts: Any, *, owner: str, taken: Collection[str], refused: Collection[str]) -> None:
        self.dicts = dicts
        self._owner, self._taken, self._refused = owner, taken, refused

    def shown(self) -> dict[str, Any]:
        return {"expand_kwargs": shortened(self.dicts)}

    @property
    def values(self) -> Sequence[Any]:
        return [self.dicts]

    def at(self, index: int, context: Context) -> Arguments:
        view = self._views(context)[0]
        (position,) = split_index(index, [view.length])
        found = view.at(position)
        from_task = isinstance(self.dicts, Output)
        if isinstance(found, Output):
            found, from_task = found.resolve(context), True
        if (problem := wrong_kwargs(found, self._taken, self._refused)) is not None:
            raise AioschedError(f"{self._owner}.expand_kwargs(…), map index {index}: {problem}")
        return _arguments(dict(found), set(found) if from_task else set(), context)


class GroupArgument(Output):
    """An argument of the function of a mapped group: each instance of the group has its own value."""

    def __init__(self, name: str, group: Group, inputs: ExpandInput, default: Any) -> None:
        self._name = name
        self._group = group
        self._default = default
        self._inputs = inputs

    @property
    def sources(self) -> Sequence[XComArg[Any]]:
        return self._inputs.sources

    @property
    def map_input(self) -> MapInput:
        raise fail(_nested(f"the argument {self._name!r} of the mapped group {self._group.group_id!r}"))

    @property
    def first_tasks(self) -> Sequence[Task]:
        raise fail(f"{self!r} is a value, not a task: connect the group or its tasks.")

    def check_reader(self, reader: Task) -> None:
        if self._group not in mapped_groups(reader):
            raise reader.fail(
                f"Task {reader.task_id!r} has the argument {self._name!r} of the mapped group "
                f"{self._group.group_id!r}, but is outside the group. Return the value from a task in the group."
            )

    def resolve(self, context: Context) -> Any:
        """The value at the index of the running task's instance of the group."""
        values = self._inputs.at(group_index(self._group, context), context).values
        if self._name not in values and self._default is REQUIRED:
            raise AioschedError(
                f"The mapped group {self._group.group_id!r} got no argument {self._name!r} for map index "
                f"{context['ti'].map_index}: give it in every dict, or give the parameter a default."
            )
        return values.get(self._name, self._default)

    def __repr__(self) -> str:
        return f"GroupArgument({self._group.group_id!r}, {self._name!r})"


REQUIRED = object()  # stands for the default of a required argument


def mapped_arguments(owner: str, given: Mapping[str, Any], where: Location | None) -> MappedArguments:
    """The inputs of `expand(**given)`; raises DagError for values that cannot be mapped over."""
    if not given:
        raise fail(
            f"{owner}.expand() needs at least one argument to map over. Name one, or call it without expand().", where
        )
    for name, value in given.items():
        _check(f"{owner}.expand({name}=…)", value, where)
    return MappedArguments(given)


def mapped_kwargs(
    owner: str, dicts: Any, where: Location | None, *, taken: Collection[str], refused: Collection[str]
) -> MappedKwargs:
    """The inputs of `expand_kwargs(dicts)`; raises DagError for values that cannot be mapped over.

    `taken` are the arguments of `partial()`, `refused` those that cannot be mapped.
    """
    called = f"{owner}.expand_kwargs(…)"
    if isinstance(dicts, Mapping):
        raise fail(f"{called} needs a list of dicts, not a dict. For one argument with several values use expand().")
    _check(called, dicts, where)
    if not isinstance(dicts, Output):
        for number, one in enumerate(dicts):
            if isinstance(one, Output):
                check_source(called, one, where)
            elif (problem := wrong_kwargs(one, taken, refused)) is not None:
                raise fail(f"{called}, element {number}: {problem}", where)
    return MappedKwargs(dicts, owner=owner, taken=taken, refused=refused)


def wrong_kwargs(found: Any, taken: Collection[str], refused: Collection[str]) -> str | None:
    """What is wrong with one element of `expand_kwargs`, and what to do; None when it is valid."""
    if not isinstance(found, Mapping):
        return f"{found!r:.80} is not a dict of arguments. Give a list of dicts."
    for name in found:
        if not isinstance(name, str):
            return f"the key {name!r} is not a string. Keys are names of arguments."
        if name in taken and name != "params":
            return f"{name!r} is given in partial() too. Give it in one of the two."
        if name in refused:
            return f"{name!r} is an option of the task, which cannot be mapped. Give it in partial()."
    return None


def check_source(called: str, output: Output, where: Location | None) -> None:
    """Raise DagError for an output that cannot be mapped over. Source: the semantics reference, section 26.8."""
    if any(isinstance(one, GroupArgument) for one in _parts(output)):
        raise fail(f"{called}: {_nested('an argument of a mapped group')}", where)
    for source in output.sources:
        if source.key != RETURN_VALUE:
            raise fail(
                f"{called} maps over the key {source.key!r} of task {source.operator.task_id!r}: only what a task "
                "returns can be mapped over. Return the list from a task of its own.",
                where,
            )


def check_groups(called: str, inputs: ExpandInput, around: Sequence[Group], where: Location | None) -> None:
    """Raise DagError for a nested mapped group whose inputs differ between the instances of the groups around it."""
    for source in inputs.sources:
        if any(group in around for group in mapped_groups(source.operator)):
            raise fail(f"{called}: {_nested(f'task {source.operator.task_id!r} of the same mapped group')}", where)


def _check(called: str, value: Any, where: Location | None) -> None:
    if isinstance(value, Output):
        check_source(called, value, where)
    elif isinstance(value, str | bytes):
        raise fail(f"{called} got the text {value!r:.80}, which cannot be mapped over. Give a list: [{value!r:.80}].")
    elif isinstance(value, DagParam):
        raise fail(f"{called} cannot map over the param {value._name!r}. Return its value from a task.", where)
    elif not isinstance(value, list | tuple | Mapping):
        raise fail(
            f"{called} got {value!r:.80}, which cannot be mapped over. Give a list, a dict or the output of a task.",
            where,
        )


def _nested(what: str) -> str:
    return (
        f"{what} cannot be mapped over: a mapping inside a mapped group cannot depend on the group's instance. "
        "Map over the final values outside of the group, or loop inside a task."
    )


def _parts(output: Output) -> Iterator[Output]:
    yield output
    for part in output._inner:
        yield from _parts(part)


def _map_input(value: Any) -> MapInput:
    return value.map_input if isinstance(value, Output) else LiteralLength(len(value))


def _view(value: Any, context: Context) -> XComView:
    if isinstance(value, Output):
        return value.view(context)
    items = list(value.items()) if isinstance(value, Mapping) else value
    return XComView(len(items), items.__getitem__)


def _arguments(values: dict[str, Any], from_tasks: Collection[str], context: Context) -> Arguments:
    """The arguments, with the values of outputs that are elements of a literal list."""
    filled = {name: value.resolve(context) for name, value in values.items() if isinstance(value, Output)}
    return Arguments({**values, **filled}, frozenset({*from_tasks, *filled}))
