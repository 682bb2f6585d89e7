"""Tasks that call a function; branches and short circuits, which skip other tasks.

A branch or short circuit that skips something sets `ti.skip_decision` and returns None, so that nothing is pushed
(the semantics reference, sections 7.2, 7.3 and 34, decision 7). The task itself is a success.
"""

from __future__ import annotations

import ast
import functools
import inspect
import textwrap
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from aiosched.authoring.assets.asset_events import run_generator
from aiosched.authoring.base.plain_callers import for_caller
from aiosched.authoring.base.signatures import named, takes_any_name
from aiosched.authoring.tasks.operator import BaseOperator
from aiosched.authoring.tasks.previous_run import PREVIOUS_RUN, names_previous_run
from aiosched.core.values.messages import SkipDecision
from aiosched.errors import BranchError
from aiosched.signatures import can_be_given, signature_of, type_in, types_of

if TYPE_CHECKING:
    from aiosched.authoring.base.protocols import Dag, Group
    from aiosched.authoring.runtime.context import Context


class PythonOperator(BaseOperator):
    """Calls `python_callable(*op_args, **op_kwargs)`; a coroutine function is awaited.

    Parameters with names of the context (`ds`, `ti`, `params`, …) are filled in, and `**kwargs` gets the whole
    context. The return value is pushed as XCom.
    """

    template_fields: ClassVar[Sequence[str]] = ("templates_dict", "op_args", "op_kwargs")
    template_fields_renderers: ClassVar[Mapping[str, str]] = {"templates_dict": "json", "op_kwargs": "py"}
    ui_color = "#ffefeb"
    keeps_state: ClassVar[bool] = False

    def __init__(
        self,
        *,
        python_callable: Callable[..., Any],
        op_args: Collection[Any] | None = None,
        op_kwargs: Mapping[str, Any] | None = None,
        templates_dict: Mapping[str, Any] | None = None,
        templates_exts: Sequence[str] | None = None,
        show_return_value_in_logs: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if not callable(python_callable):
            raise self.fail(f"Task {self.task_id!r}: python_callable={python_callable!r} is not a function. Give one.")
        self.python_callable = python_callable
        self.op_args: Collection[Any] = op_args if op_args is not None else ()
        self.op_kwargs: Mapping[str, Any] = op_kwargs if op_kwargs is not None else {}
        self.templates_dict = templates_dict
        self.show_return_value_in_logs = show_return_value_in_logs
        if templates_exts:
            self.template_ext = tuple(templates_exts)  # type: ignore[misc] # this task's own

    @cached_property
    def is_async(self) -> bool:
        """Whether the function is a coroutine function."""
        return is_coroutine_function(self.python_callable)

    def execute(self, context: Context) -> Any:
        """Call the function; a coroutine to await when `is_async`."""
        if self.is_async:
            work = self._execute_async(context)
            return work if self._dialect is None else for_caller(self, work)
        result = self._call(context)
        if inspect.isgenerator(result):  # it yields Metadata of its outlets
            result = run_generator(result, context)
        return self.conclude(result, context)

    async def _execute_async(self, context: Context) -> Any:
        if "triggering_asset_events" in _wanted(self.python_callable)[0]:
            await context["triggering_asset_events"].load()  # the function must not block where it reads them
        return self.conclude(await self._call(context), context)

    def _call(self, context: Context) -> Any:
        if self.templates_dict is not None:
            context["templates_dict"] = self.templates_dict
        kwargs = call_arguments(self.python_callable, self.op_args, self.op_kwargs, context)
        return self.python_callable(*self.op_args, **kwargs)

    def conclude(self, result: Any, context: Context) -> Any:
        """What `execute` returns when the function has returned `result`."""
        return result


class BranchPythonOperator(PythonOperator):
    """Follows the tasks whose ids the function returns, and skips the other direct downstream tasks.

    The function returns the id of a task or task group, several of them, or None to follow nothing.
    The return value is pushed if nothing is skipped.
    """

    can_skip_downstream: ClassVar[bool] = True
    keeps_state: ClassVar[bool] = False

    def conclude(self, result: Any, context: Context) -> Any:
        """Set `ti.skip_decision`; raises BranchError for an id that is not in the DAG."""
        return decide_branch(self, result, context)


class ShortCircuitOperator(PythonOperator):
    """Skips the tasks downstream when the function returns a false value; else the value is pushed.

    All tasks downstream are skipped, whatever their trigger rules; with `ignore_downstream_trigger_rules=False` only
    the direct ones. Teardowns are never skipped.
    """

    can_skip_downstream: ClassVar[bool] = True
    keeps_state: ClassVar[bool] = False

    def __init__(self, *, ignore_downstream_trigger_rules: bool = True, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.ignore_downstream_trigger_rules = ignore_downstream_trigger_rules

    def conclude(self, result: Any, context: Context) -> Any:
        """`result` if nothing is skipped; else set `ti.skip_decision` and return None."""
        if result:
            return result
        return None if skip_downstream(self, context, all_of_them=self.ignore_downstream_trigger_rules) else result


def is_coroutine_function(function: Callable[..., Any]) -> bool:
    """Whether calling `function` returns a coroutine; also for partials and callable objects."""
    while isinstance(function, functools.partial):
        function = function.func
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004


def call_arguments(
    function: Callable[..., Any], args: Collection[Any], kwargs: Mapping[str, Any], context: Context
) -> dict[str, Any]:
    """The keyword arguments for `function`: `kwargs`, and its parameters with names or types of the context.

    Only parameters that are given neither by position nor by name are filled in. A function with `**kwargs` gets the
    whole context, and the facts of the previous successful run if its code contains one of their names.
    """
    wanted, takes_all, types = _wanted(function)
    if not wanted and not takes_all:
        return dict(kwargs)
    given: Collection[str] = {*wanted[: len(args)], *kwargs} if args else kwargs
    names: Iterable[str] = wanted
    if takes_all:
        names = [*context, *(PREVIOUS_RUN if names_previous_run(function) else ())]
    found = {name: context[name] for name in names if name not in given and name in context}
    for name, kind in types:
        if name not in given and name not in found and kind in context:
            found[name] = context[kind]
    found.update(kwargs)
    return found


@functools.lru_cache(maxsize=4096)
def _wanted(function: Callable[..., Any]) -> tuple[tuple[str, ...], bool, tuple[tuple[str, Any], ...]]:
    """Its parameters, whether it takes any name, and the types of those that have one which can be a key."""
    try:
        parameters = signature_of(function).parameters.values()
    except (TypeError, ValueError):  # some built-in functions have no signature
        return (), False, ()
    names, types = tuple(p.name for p in named(parameters)), types_of(function)
    kinds = ((name, type_in(types[name])) for name in names if name in types)
    return names, takes_any_name(parameters), tuple(pair for pair in kinds if can_be_given(pair[1]))


def skip_downstream(task: BaseOperator, context: Context, *, all_of_them: bool) -> bool:
    """Set `ti.skip_decision` to the direct downstream tasks, or to all; returns whether there are any.

    Teardowns are never skipped.
    """
    dag: Dag | None = context["dag"]
    found = _descendants(task.downstream_task_ids, dag) if all_of_them else task.downstream_task_ids
    skipped = sorted(task_id for task_id in found if dag is None or not dag.task(task_id).is_teardown)
    context["ti"].skip_decision = SkipDecision(skipped=tuple(skipped))
    return bool(skipped)


def decide_branch(task: BaseOperator, result: Any, context: Context) -> Any:
    """Set `ti.skip_decision` to the tasks that `result` names; return the value to push.

    That is `result` if every direct downstream task is followed, or is downstream of a followed one; else None:
    a branch that skipped something has no return value. Source: the semantics reference, section
    34, decision 7. Raises BranchError for an id that is not in the DAG.
    """
    dag: Dag | None = context["dag"]
    followed = _followed_tasks(task, result, dag)
    context["ti"].skip_decision = SkipDecision(followed=followed)
    if result is None or task.downstream_task_ids - _descendants(followed, dag):
        return None
    return result if isinstance(result, str) else list(result)


def _followed_tasks(task: BaseOperator, result: Any, dag: Dag | None) -> tuple[str, ...]:
    """The task ids that the result of a branch names: tasks, and the first tasks of groups."""
    if result is None:
        return ()
    names = [result] if isinstance(result, str) else result
    if not isinstance(names, list | tuple | set | frozenset) or not all(isinstance(name, str) for name in names):
        raise BranchError(
            f"The branch {task.task_id!r} returned {result!r}: it must return the id of a task or task group, "
            "a list of ids, or None."
        )
    followed: set[str] = set()
    for name in names:
        group: Group | None = dag.task_groups.get(name) if dag is not None else None
        if group is not None:
            followed.update(first.task_id for first in group.first_tasks)
        elif dag is not None and not dag.has_task(name):
            raise BranchError(
                f"The branch {task.task_id!r} returned {name!r}, but the DAG {dag.dag_id!r} has no such task or group. "
                "Return the full id, with the ids of its groups: 'group.task'."
            )
        else:
            followed.add(name)
    return tuple(sorted(followed))


def _descendants(task_ids: Collection[str], dag: Dag | None) -> set[str]:
    """These tasks and all tasks downstream of them."""
    found: set[str] = set()
    waiting = set(task_ids)
    while waiting:
        task_id = waiting.pop()
        if task_id not in found:
            found.add(task_id)
            if dag is not None:
                waiting |= dag.task(task_id).downstream_task_ids
    return found


def plain_source(function: Callable[..., Any]) -> str | None:
    """The source of a function without its decorators; None for one that no `def` has made."""
    try:
        text = textwrap.dedent(inspect.getsource(function))
        (node,) = ast.parse(text).body
    except (OSError, TypeError, SyntaxError, ValueError):
        return None
    return ast.get_source_segment(text, node) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) else None
