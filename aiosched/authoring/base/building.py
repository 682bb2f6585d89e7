"""The DAG and the group of the innermost `with`, and the DAGs that a file defines."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from aiosched.authoring.base.context_values import bound
from aiosched.authoring.base.location import executing_module

if TYPE_CHECKING:
    from aiosched.authoring.base.location import Location
    from aiosched.authoring.base.protocols import Dag, Group, Task


@dataclass
class Collector:
    """Collects the DAGs that a module opens while it is imported."""

    module: str
    dags: list[Dag] = field(default_factory=list)
    said: set[tuple[str, str]] = field(default_factory=set)  # warnings that are not repeated, by file
    uncalled: dict[Any, tuple[str, Location | None]] = field(default_factory=dict)  # @dag functions: name, place
    loose: list[Task] = field(default_factory=list)  # tasks that had no DAG when they were made


_open_dags: ContextVar[tuple[Dag, ...]] = ContextVar("aiosched_open_dags", default=())
_open_groups: ContextVar[tuple[Group, ...]] = ContextVar("aiosched_open_groups", default=())
collector: ContextVar[Collector | None] = ContextVar("aiosched_collector", default=None)
running: ContextVar[Any] = ContextVar("aiosched_context", default=None)  # the Context of the task that runs here


def is_at_work() -> bool:
    """Whether a task runs here, and its code does not build a DAG just now."""
    return running.get() is not None and not _open_dags.get() and collector.get() is None


def current_dag() -> Dag | None:
    """The DAG of the innermost `with DAG(...)`, if any."""
    dags = _open_dags.get()
    return dags[-1] if dags else None


def open_dag(dag: Dag) -> None:
    """Make `dag` the current one, and collect it if the module being imported is the one that opens it."""
    _open_dags.set((*_open_dags.get(), dag))
    collecting = collector.get()
    if collecting is not None and dag.auto_register and executing_module() == collecting.module:
        collecting.dags.append(dag)


def dag_function_defined(function: Any, name: str, where: Location | None) -> None:
    """Note that the module being imported has a function with `@dag`, which builds a DAG only when it is called."""
    collecting = collector.get()
    if collecting is not None and executing_module() == collecting.module:
        collecting.uncalled[function] = name, where


def dag_function_called(function: Any) -> None:
    """Note that it is called."""
    collecting = collector.get()
    if collecting is not None:
        collecting.uncalled.pop(function, None)


def made_without_dag(task: Task) -> None:
    """Note a task that has no DAG yet."""
    collecting = collector.get()
    if collecting is not None and executing_module() == collecting.module:
        collecting.loose.append(task)


def close_dag() -> None:
    """Make the DAG of the enclosing `with` the current one again."""
    _open_dags.set(_open_dags.get()[:-1])


@contextlib.contextmanager
def no_open_dag() -> Iterator[None]:
    """In the block there is no current DAG: new operators join none."""
    with bound(_open_dags, ()), bound(_open_groups, ()):
        yield


def current_group(dag: Dag) -> Group | None:
    """The group of the innermost `with TaskGroup(...)`, when it belongs to `dag`."""
    groups = _open_groups.get()
    return groups[-1] if groups and groups[-1].dag is dag else None


def open_group(group: Group) -> None:
    """Make `group` the current one."""
    _open_groups.set((*_open_groups.get(), group))


def close_group() -> None:
    """Make the enclosing group the current one again."""
    _open_groups.set(_open_groups.get()[:-1])
