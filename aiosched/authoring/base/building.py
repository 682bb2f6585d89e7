"""What is being built right now: the DAG and group of the innermost `with`, and the DAGs a file made."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from aiosched.authoring.base.location import executing_module

if TYPE_CHECKING:
    from aiosched.authoring.base.protocols import Dag, Group


@dataclass
class Collector:
    """Takes the DAGs that a module makes while it is imported."""

    module: str
    dags: list[Dag] = field(default_factory=list)


_open_dags: ContextVar[tuple[Dag, ...]] = ContextVar("aiosched_open_dags", default=())
_open_groups: ContextVar[tuple[Group, ...]] = ContextVar("aiosched_open_groups", default=())
collector: ContextVar[Collector | None] = ContextVar("aiosched_collector", default=None)


def current_dag() -> Dag | None:
    """The DAG of the innermost `with DAG(...)`, if any."""
    dags = _open_dags.get()
    return dags[-1] if dags else None


def open_dag(dag: Dag) -> None:
    """Make `dag` the current one; the loader takes note when its file is the one being imported."""
    _open_dags.set((*_open_dags.get(), dag))
    collecting = collector.get()
    if collecting is not None and dag.auto_register and executing_module() == collecting.module:
        collecting.dags.append(dag)


def close_dag() -> None:
    """Make the DAG of the enclosing `with` the current one again."""
    _open_dags.set(_open_dags.get()[:-1])


@contextlib.contextmanager
def nothing_open() -> Iterator[None]:
    """Operators made in the block join no DAG by themselves."""
    dags, groups = _open_dags.set(()), _open_groups.set(())
    try:
        yield
    finally:
        _open_dags.reset(dags)
        _open_groups.reset(groups)


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
