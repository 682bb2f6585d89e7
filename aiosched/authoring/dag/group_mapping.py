"""Mapped calls of group functions: `etl.partial(region="eu").expand(table=tables)`.

Source: the semantics reference, sections 26.7 and 26.8.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

from aiosched.authoring.base import checks
from aiosched.authoring.base.location import author_location
from aiosched.authoring.base.signatures import named
from aiosched.authoring.dag.groups import TaskGroup
from aiosched.authoring.mapping.expansion import REQUIRED, ExpandInput, GroupArgument, check_groups
from aiosched.authoring.mapping.function_mapping import checked_arguments, checked_kwargs, known_arguments
from aiosched.authoring.mapping.mapped import check_rule
from aiosched.authoring.tasks.nesting import groups_around
from aiosched.signatures import signature_of


class PartialGroup:
    """A group function with the arguments that all instances of a mapped group share."""

    def __init__(
        self, function: Callable[..., Any], new_group: Callable[[], TaskGroup], kwargs: Mapping[str, Any]
    ) -> None:
        self._function = function
        self._new_group = new_group
        self._kwargs = dict(kwargs)
        self._name = function.__name__
        known_arguments(f"{self._name}.partial()", function, self._signature, self._kwargs)

    @cached_property
    def _signature(self) -> inspect.Signature:
        return signature_of(self._function)

    def expand(self, **mapped: Any) -> Any:
        """See `TaskGroupFunction.expand`."""
        inputs = checked_arguments(self._name, self._signature, self._kwargs, mapped)
        return self._build(inputs, list(mapped))

    def expand_kwargs(self, kwargs: Any) -> Any:
        """See `TaskGroupFunction.expand_kwargs`."""
        inputs = checked_kwargs(self._name, self._function, self._signature, self._kwargs, kwargs)
        mapped = [p.name for p in named(self._signature.parameters.values())]
        return self._build(inputs, [name for name in mapped if name not in self._kwargs])

    def _build(self, inputs: ExpandInput, mapped: list[str]) -> Any:
        where = author_location()
        group = self._new_group()
        check_groups(f"Group {group.group_id!r}", inputs, groups_around(group), where)
        group.expand_input = inputs
        arguments = {name: GroupArgument(name, group, inputs, self._default(name)) for name in mapped}
        with group:
            result = self._function(**self._kwargs, **arguments)
        tasks = list(group)
        if not tasks:
            raise checks.fail(f"The mapped group {group.group_id!r} has no tasks. Let {self._name} make some.", where)
        for task in tasks:
            check_rule(task)
            task.wire_arguments()
        for producer in {source.operator.task_id: source.operator for source in inputs.sources}.values():
            producer >> group
        if isinstance(result, GroupArgument):
            raise checks.fail(
                f"The group function {self._name} returns its argument {result._name!r}, which only tasks inside the "
                "group can read. Return what one of its tasks returns.",
                where,
            )
        return group if result is None else result

    def _default(self, name: str) -> Any:
        parameter = self._signature.parameters.get(name)
        if parameter is None or parameter.default is parameter.empty:
            return REQUIRED
        return parameter.default
