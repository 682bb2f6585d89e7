"""Mapped tasks: `BashOperator.partial(task_id="t").expand(bash_command=[…])`.

In its DAG a mapped task is one `MappedOperator`, with the options that all instances share. Each attempt creates
the operator of its map index and runs it. Source: the semantics reference, section 26.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from aiosched.authoring.base import building, checks
from aiosched.authoring.base.dependencies import connect
from aiosched.authoring.base.dialects import translated
from aiosched.authoring.base.location import author_location
from aiosched.authoring.base.plain_callers import gives_coroutine
from aiosched.authoring.base.unknown import constructing
from aiosched.authoring.mapping.expansion import ExpandInput, mapped_arguments, mapped_kwargs
from aiosched.authoring.tasks.defaults_by_name import parameters_of, required_of
from aiosched.authoring.tasks.nesting import mapped_groups
from aiosched.authoring.tasks.operator import BaseOperator
from aiosched.authoring.tasks.rendering import render_task
from aiosched.authoring.tasks.start_trigger import StartTriggerArgs, shared_by_instances
from aiosched.core.graph.trigger_rules import TriggerRule
from aiosched.core.values.messages import Resume, XComRef
from aiosched.errors import AioschedError
from aiosched.signatures import signature_of

if TYPE_CHECKING:
    from aiosched.authoring.runtime.context import Context
    from aiosched.core.graph.spec import ExternalMark

OPTIONS = parameters_of(BaseOperator)  # options of the task, the same for all instances
UNMAPPABLE = OPTIONS - {"params"}
_PLACE = frozenset({"dag", "task_group", "default_args"})  # its place in the DAG


class MappedOperator(BaseOperator):
    """A task with several instances, one for each map index.

    `partial_kwargs` are the arguments that all instances share. With `into`, the mapped arguments become items of
    that dict argument: `op_kwargs`, for task functions.
    """

    expand_input: ExpandInput

    def __init__(
        self,
        *,
        operator_class: type[BaseOperator],
        partial_kwargs: Mapping[str, Any],
        expand_input: ExpandInput,
        into: str | None = None,
        **options: Any,
    ) -> None:
        self._operator_class = operator_class
        self.partial_kwargs: dict[str, Any] = dict(partial_kwargs)
        self.expand_input = expand_input
        self.into = into
        super().__init__(**options)
        self._options = {name: value for name, value in options.items() if name not in _PLACE}
        self.can_skip_downstream = operator_class.can_skip_downstream  # type: ignore[misc] # as its class says
        self.ui_color = operator_class.ui_color  # type: ignore[misc]
        called = f"Task {self.task_id!r}"
        if self.dag is not None and (groups := mapped_groups(self)):
            raise self.fail(
                f"{called} cannot be mapped inside the mapped group {groups[-1].group_id!r}. "
                "Map it outside of the group, or give the group an argument for each of its instances."
            )
        check_rule(self)

    def on_kill(self) -> None:
        """Does nothing: the operator of the map index has its own."""

    @property
    def operator_class(self) -> type[BaseOperator]:
        return self._operator_class

    @cached_property
    def is_async(self) -> bool:
        """Whether the operator's `execute` is a coroutine function, where that does not depend on the map index."""
        probe = object.__new__(self.operator_class)
        for kind in reversed(self.operator_class.__mro__):
            if inspect.isfunction(init := kind.__dict__.get("__init__")):
                parameters = signature_of(init).parameters.values()
                probe.__dict__.update({p.name: p.default for p in parameters if p.default is not p.empty})
        probe.__dict__.update({**self._defaults, **self.partial_kwargs})
        try:
            with constructing():
                return bool(probe.is_async)
        except AttributeError:  # it depends on a mapped argument: the runner checks each operator
            return False

    def initial_trigger(self) -> StartTriggerArgs | None:
        kind, shared = self.operator_class, self.partial_kwargs
        if not shared.get("start_from_trigger", kind.start_from_trigger):
            return None
        return shared_by_instances(self, kind.start_trigger_args, shared, self.expand_input.shown())

    def external_mark(self) -> ExternalMark | None:
        mark = getattr(self.operator_class, "mark_of_instances", None)
        return None if mark is None else mark(self.partial_kwargs)

    def resumes_async(self, resume: Resume) -> bool:
        return resume.error is None and gives_coroutine(getattr(self.operator_class, resume.next_method, None))

    def _shown_fields(self) -> dict[str, Any]:
        mapped = self.expand_input.shown()
        if self.into is not None:
            mapped = {self.into: {**self.partial_kwargs.get(self.into, {}), **mapped}}
        fields = {name: self.partial_kwargs.get(name) for name in self.operator_class.template_fields}
        return {**fields, **mapped}

    def _arguments(self) -> Sequence[Any]:
        return [*self.partial_kwargs.values(), *self.expand_input.values]

    def xcom_references(self, map_index: int = -1) -> tuple[XComRef, ...]:
        return self._references

    @cached_property
    def _references(self) -> tuple[XComRef, ...]:
        return super().xcom_references()

    def wire_arguments(self) -> None:
        super().wire_arguments()
        for source in self.expand_input.sources:
            if source.operator.task_id not in self.upstream_task_ids:
                connect(source.operator, self)

    def render(self, context: Context) -> Any:
        """The operator of the running map index, with its arguments filled in.

        Values that tasks returned are not rendered as templates. The operator becomes `task` in the context.
        """
        ti = context["ti"]
        if ti.map_index < 0:
            raise AioschedError(f"Task {self.task_id!r} is mapped, so it needs a map index to run.")
        mapped = self.expand_input.at(ti.map_index, context)
        operator = self.unmapped(mapped.values)
        context["task"] = ti.task = operator
        from_tasks = [mapped.values[name] for name in mapped.from_tasks]
        return render_task(operator, context, verbatim=from_tasks, in_place=True)

    def unmapped(self, mapped: Mapping[str, Any]) -> BaseOperator:
        """The operator with those arguments, at the same place in the DAG."""
        kwargs = {**self._options, **self.partial_kwargs}
        if self.into is None:
            params = {**kwargs.get("params", {}), **mapped["params"]} if "params" in mapped else None
            kwargs.update(mapped)
            if params is not None:
                kwargs["params"] = params
        else:
            kwargs[self.into] = {**kwargs.get(self.into, {}), **mapped}
        operator = self.operator_class.__new__(self.operator_class)
        operator._origin, operator._defaults, operator._dialect = self._origin, self._defaults, self._dialect
        kwargs["task_id"] = self.label
        with building.no_open_dag(), constructing():
            operator.__init__(**kwargs)  # type: ignore[misc] # without joining a DAG
        if self._dialect is not None:
            self._dialect.finish(operator)
        operator.dag, operator.task_group, operator.task_id = self.dag, self.task_group, self.task_id
        operator.upstream_task_ids, operator.downstream_task_ids = self.upstream_task_ids, self.downstream_task_ids
        operator.is_setup, operator.is_teardown = self.is_setup, self.is_teardown
        operator.trigger_rule = self.trigger_rule
        operator.expand_input = self.expand_input
        return operator

    def unmap(self, resolve: Mapping[str, Any] | None = None) -> BaseOperator:
        """The operator of one instance, with the mapped arguments in `resolve`, or with none."""
        return self.unmapped(resolve or {})

    def __repr__(self) -> str:
        return f"<Mapped({self.task_type}) {self.task_id}>"


class OperatorPartial:
    """Returned by `SomeOperator.partial(…)`: the arguments that all instances share."""

    def __init__(self, operator_class: type[BaseOperator], kwargs: Mapping[str, Any]) -> None:
        self.where = where = author_location()
        self.expanded: bool = False
        self._class = operator_class
        self._kwargs = translated(operator_class, kwargs, where)
        self.name: str = f"{operator_class.__name__}(task_id={self._kwargs.get('task_id')!r})"
        if "task_id" not in self._kwargs:
            raise checks.missing(f"{operator_class.__name__}.partial()", "task_id", self._kwargs, where)
        checks.known_names_only(f"{self.name}.partial()", self._kwargs, parameters_of(operator_class), where)
        group = self._kwargs.get("task_group")
        dag = self._kwargs.get("dag") or (group.dag if group is not None else building.current_dag())
        if dag is not None:
            dag.partials.append(self)

    def expand(self, **mapped: Any) -> MappedOperator:
        """One instance for each combination of the values; the last argument varies fastest.

        A value is a list, a dict (its (key, value) pairs) or what a task returns. Options of the task itself
        (retries, pool, trigger_rule, …) go into `partial()`. Raises DagError for values that cannot be mapped over.
        """
        where = author_location()
        mapped = translated(self._class, mapped, where)
        checks.known_names_only(f"{self.name}.expand()", mapped, parameters_of(self._class), where)
        if (problem := wrong_arguments(mapped, self._kwargs, UNMAPPABLE)) is not None:
            raise checks.fail(f"{self.name}.expand(): {problem}", where)
        inputs = mapped_arguments(self.name, mapped, where)
        given = {*self._kwargs, *mapped}
        for name in required_of(self._class):
            if name not in given and name not in self._known_defaults():
                raise checks.missing(f"{self.name}.expand()", name, (), where)
        return self._mapped(inputs)

    def expand_kwargs(self, kwargs: Any, *, strict: bool = True) -> MappedOperator:
        """One instance for each dict of arguments in a list, or in what a task returns.

        `params` are merged with those of `partial()`. With `strict`, an unknown name is an error, and so is an argument
        of `partial()`. Without, names are checked when the task runs, and the dicts take precedence over `partial()`.
        """
        where = author_location()
        inputs = mapped_kwargs(self.name, kwargs, where, taken=self._kwargs if strict else (), refused=UNMAPPABLE)
        if strict and isinstance(kwargs, list | tuple):
            for one in kwargs:
                if isinstance(one, Mapping):
                    known = parameters_of(self._class)
                    checks.known_names_only(f"{self.name}.expand_kwargs()", dict(one), known, where)
        return self._mapped(inputs)

    def _known_defaults(self) -> Mapping[str, Any]:
        dag = self._kwargs.get("dag") or building.current_dag()
        group = self._kwargs.get("task_group") or (building.current_group(dag) if dag is not None else None)
        outer = group.effective_default_args if group is not None else dag.default_args if dag is not None else {}
        return {**outer, **(self._kwargs.get("default_args") or {})}

    def _mapped(self, inputs: ExpandInput) -> MappedOperator:
        self.expanded = True
        return mapped_operator(self._class, self._kwargs, inputs)


BaseOperator._partial_type = OperatorPartial


def mapped_operator(
    operator_class: type[BaseOperator], kwargs: Mapping[str, Any], inputs: ExpandInput, *, into: str | None = None
) -> MappedOperator:
    """A mapped task of `operator_class`: `kwargs` are all arguments that the instances share."""
    mapped: MappedOperator = MappedOperator(
        operator_class=operator_class,
        partial_kwargs={name: value for name, value in kwargs.items() if name not in OPTIONS},
        expand_input=inputs,
        into=into,
        **{name: value for name, value in kwargs.items() if name in OPTIONS},
    )
    return mapped


def wrong_arguments(mapped: Mapping[str, Any], taken: Mapping[str, Any], refused: frozenset[str]) -> str | None:
    """What is wrong with the names of mapped arguments, and what to do; None when they are valid."""
    for name in mapped:
        if name in taken:
            return f"{name!r} is given in partial() too. Give it in one of the two."
        if name in refused:
            return f"{name!r} is an option of the task, which cannot be mapped. Give it in partial()."
    return None


def check_rule(task: BaseOperator) -> None:
    """Raise DagError for the rule `always` where a mapping waits for tasks.

    Source: the semantics reference, sections 5.2 and 26.8.
    """
    if task.trigger_rule != TriggerRule.ALWAYS:
        return
    groups = mapped_groups(task)
    if groups:
        raise task.fail(
            f"Task {task.task_id!r} is in the mapped group {groups[-1].group_id!r}, so it cannot have "
            "trigger_rule='always'. Use 'all_done', which waits for what is before it."
        )
    if task.expand_input is not None and task.expand_input.is_from_tasks:
        raise task.fail(
            f"Task {task.task_id!r} is mapped over what tasks return, so it cannot have trigger_rule='always': it "
            "must wait for them. Use 'all_done'."
        )
