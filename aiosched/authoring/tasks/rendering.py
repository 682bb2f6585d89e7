"""Filling in the arguments of a task before each attempt: templates, outputs of other tasks, params.

This file needs no Jinja; runtime/templates.py, which renders templates, is imported only when there is one.
"""

from __future__ import annotations

import copy
from collections.abc import Container, Iterable, Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, TypeVar

from aiosched.authoring.base.dependencies import Dependable
from aiosched.authoring.base.params import DagParam
from aiosched.authoring.tasks.xcom_arg import MAPPINGS, PLAIN, SEQUENCES, Output
from aiosched.core.values.messages import OWN_INDEX, XComRef
from aiosched.errors import TaskSignal, TaskTimeout, TemplateError

if TYPE_CHECKING:
    from aiosched.authoring.base.protocols import Task
    from aiosched.authoring.runtime.context import Context
    from aiosched.authoring.runtime.templates import TemplateEngine

    T = TypeVar("T", bound=Task)

MARKS: Final = ("{{", "{%", "{#")
CONTAINERS: Final = frozenset({str, tuple, list, dict, set})  # if one is empty, there is nothing to fill in
MAX_LABEL_LENGTH: Final = 250  # characters


class literal:
    """A value that is not rendered: `bash_command=literal("echo {{ this }}")`."""

    def __init__(self, value: Any) -> None:
        self.value = value


def render_task(task: T, context: Context, *, verbatim: Iterable[Any] = (), in_place: bool = False) -> T:
    """A copy of `task` with its template fields rendered; `task` itself when nothing changes and it keeps no state.

    With `in_place` it is always `task` itself. The objects in `verbatim` are not rendered. Raises TemplateError
    with task, field, template and name.
    """
    kept = {id(value) for value in verbatim if not isinstance(value, int | float | None)} if verbatim else ()
    if task.renders_itself:
        return _rendered_by_itself(task, context, kept, in_place=in_place)
    changed: dict[str, Any] = {}
    for name in task.template_fields:
        value = getattr(task, name, None)
        if value is None or (type(value) in CONTAINERS and not value) or id(value) in kept:
            continue  # nothing to fill in
        if needs_rendering(value, task):
            changed[name] = _render_field(task, name, value, context, kept)
    if not changed and not task.keeps_state:
        return task
    twin = task if in_place else copy.copy(task)
    for name, value in changed.items():
        setattr(twin, name, value)  # a field may be a property
    return twin


_FILLED: Final = (Output, DagParam, literal)
_NEVER_FILLED: Final = (int, float, bytes, datetime, Dependable)


def _rendered_by_itself(task: T, context: Context, kept: Container[int], *, in_place: bool) -> T:
    twin = task if in_place else copy.copy(task)
    verbatim = {name: value for name in twin.template_fields if id(value := getattr(twin, name, None)) in kept}
    try:
        twin.resolve_template_files()
        twin.render_template_fields(context)
    except (TaskSignal, TaskTimeout):
        raise
    except Exception as error:
        raise TemplateError(f"Task {task.task_id!r}: its templates cannot be rendered: {error}") from error
    for name, value in verbatim.items():
        setattr(twin, name, value)
    return twin


def render_label(task: Task, context: Context) -> str:
    """The task's `map_index_template` rendered, at most 250 characters.

    Source: the semantics reference, section 26.9.
    """
    text = str(_rendered(task.map_index_template, task, context, ()))
    return text[:MAX_LABEL_LENGTH]


def needs_rendering(value: Any, task: Task) -> bool:
    """Whether `value` holds a template, a template file's name, a `literal` or an output of a task."""
    if type(value) in PLAIN:
        return False
    if isinstance(value, str):
        return ("{" in value and any(mark in value for mark in MARKS)) or _is_file(value, task)
    if isinstance(value, SEQUENCES):
        return any(needs_rendering(item, task) for item in value)
    if isinstance(value, _FILLED):
        return True
    if isinstance(value, MAPPINGS):
        return any(needs_rendering(item, task) for item in value.values())
    if isinstance(value, _NEVER_FILLED):
        return False
    return any(
        needs_rendering(getattr(value, name, None), task) for name in getattr(type(value), "template_fields", ())
    )


def has_templates(value: Any, task: Task) -> bool:
    """Whether a text in `value` is a template or the name of a template file; outputs of other tasks are none."""
    if type(value) in PLAIN:
        return False
    if isinstance(value, SEQUENCES):
        return any(has_templates(item, task) for item in value)
    if isinstance(value, _FILLED):
        return False
    if isinstance(value, MAPPINGS):
        return any(has_templates(item, task) for item in value.values())
    return needs_rendering(value, task)


def render_value(task: Task, name: str, value: Any, context: Context) -> Any:
    """`value` rendered like a value of the field `name` of `task`. Raises TemplateError."""
    return _render_field(task, name, value, context) if needs_rendering(value, task) else value


def template_references(arguments: Any, task: Task, map_index: int) -> Iterator[XComRef]:
    """The XComs that templates in `arguments` pull with constant arguments, or of their own `ti.map_index`."""
    for source in strings_in(arguments):
        if "xcom_pull" in source:
            for ref in _engine(task).references(source):
                yield ref._replace(map_index=map_index) if ref.map_index == OWN_INDEX else ref


def _render_field(task: Task, name: str, value: Any, context: Context, kept: Container[int] = ()) -> Any:
    try:
        return _rendered(value, task, context, kept)
    except (TaskSignal, TaskTimeout):  # raised by a macro of the author
        raise
    except Exception as error:
        no_file = type(error).__name__ == "TemplateNotFound"
        said = str(error).replace(" not found in search path: ", " in ")
        what = f"there is no template file {said}" if no_file else said.removesuffix(".") or type(error).__name__
        hint = ""
        if type(error).__name__ == "UndefinedError" and "run_id" in context and "logical_date" not in context:
            hint = " (this run has no logical date, so names such as ds and ts do not exist)"
        has_text = any(any(mark in text for mark in MARKS) or _is_file(text, task) for text in strings_in(value))
        shown = f" Template: {_shortened(value)}" if has_text else ""
        raise TemplateError(f"Task {task.task_id!r}, field {name!r}: {what}{hint}.{shown}") from error


def _rendered(value: Any, task: Task, context: Context, kept: Container[int]) -> Any:
    if id(value) in kept:
        return value
    if isinstance(value, str):
        if _is_file(value, task):
            return _engine(task).file(value, context)
        return _engine(task).text(value, context) if any(mark in value for mark in MARKS) else value
    if isinstance(value, Output | DagParam):
        return value.resolve(context)
    if isinstance(value, literal):
        return value.value
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_rendered(item, task, context, kept) for item in value))
    if isinstance(value, SEQUENCES):
        return type(value)(_rendered(item, task, context, kept) for item in value)
    if isinstance(value, MAPPINGS):
        return {key: _rendered(item, task, context, kept) for key, item in value.items()}
    if needs_rendering(value, task):
        twin = copy.copy(value)
        for name in type(value).template_fields:
            setattr(twin, name, _rendered(getattr(value, name, None), task, context, kept))
        return twin
    return value


def _is_file(value: str, task: Task) -> bool:
    return bool(task.template_ext) and value.endswith(tuple(task.template_ext)) and "\n" not in value


def strings_in(value: Any) -> Iterator[str]:
    """Every text inside `value`: in lists, tuples, sets, values of dicts."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, SEQUENCES):
        for item in value:
            if type(item) not in PLAIN:
                yield from strings_in(item)
    elif isinstance(value, MAPPINGS):
        for item in value.values():
            yield from strings_in(item)


def _shortened(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 300 else f"{text[:300]}…"


def _engine(task: Task) -> TemplateEngine:
    if task.dag is not None:
        engine: TemplateEngine = task.dag.templates
        return engine
    from aiosched.authoring.runtime.templates import plain_engine  # imports Jinja

    return plain_engine()
