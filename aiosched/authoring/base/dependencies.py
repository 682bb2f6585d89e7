"""Dependencies between tasks: `>>`, `<<`, `chain`, `cross_downstream` and edge labels."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from aiosched.authoring.base.checks import fail
from aiosched.core.values.texts import a_type
from aiosched.errors import DagError

if TYPE_CHECKING:
    from aiosched.authoring.base.protocols import Task

T = TypeVar("T")


class Dependable:
    """What `>>` connects: a task, a task's output, a group."""

    @property
    @abstractmethod
    def first_tasks(self) -> Sequence[Task]:
        """The tasks that get the upstream of this."""

    @property
    @abstractmethod
    def last_tasks(self) -> Sequence[Task]:
        """The tasks that the downstream of this waits for."""

    def set_downstream(self, other: Any, edge_modifier: Label | None = None) -> None:
        """Let `other` (one or a list) wait for this."""
        for item in _listed(other):
            if isinstance(item, Label):
                item.set_upstream(self)
            else:
                _link(self, _dependable(item), edge_modifier)

    def set_upstream(self, other: Any, edge_modifier: Label | None = None) -> None:
        """Let this wait for `other` (one or a list)."""
        for item in _listed(other):
            if isinstance(item, Label):
                item.set_downstream(self)
            else:
                _link(_dependable(item), self, edge_modifier)

    def __rshift__(self, other: T) -> T:
        self.set_downstream(other)
        return other

    def __lshift__(self, other: T) -> T:
        self.set_upstream(other)
        return other

    def __rrshift__(self, other: Any) -> Any:
        self.set_upstream(other)
        return self

    def __rlshift__(self, other: Any) -> Any:
        self.set_downstream(other)
        return self


class Uncalled:
    """What makes a task when it is called, and cannot be connected before."""

    __name__: str

    def set_downstream(self, *_: Any) -> NoReturn:
        """Refused: nothing can wait for what makes tasks."""
        raise _not_a_task(self)

    set_upstream = __rshift__ = __lshift__ = __rrshift__ = __rlshift__ = set_downstream


class Label(Dependable):
    """A label on an edge: `branch >> Label("no rows") >> skip_load`."""

    def __init__(self, label: str) -> None:
        self.label = label
        self._before: list[Dependable] = []
        self._after: list[Dependable] = []

    @property
    def first_tasks(self) -> Sequence[Task]:
        return [task for node in self._after for task in node.first_tasks]

    @property
    def last_tasks(self) -> Sequence[Task]:
        return [task for node in self._before for task in node.last_tasks]

    def set_upstream(self, other: Any, edge_modifier: Label | None = None) -> None:
        nodes = [_dependable(item) for item in _listed(other)]
        self._before += nodes
        for node in nodes:
            for after in self._after:
                _link(node, after, self)

    def set_downstream(self, other: Any, edge_modifier: Label | None = None) -> None:
        nodes = [_dependable(item) for item in _listed(other)]
        self._after += nodes
        for node in nodes:
            for before in self._before:
                _link(before, node, self)


def chain(*tasks: Any) -> None:
    """Connect each item with the next; two neighbouring lists are connected pairwise and must be equally long."""
    for left, right in pairwise(tasks):
        lefts, rights = _listed(left), _listed(right)
        if isinstance(left, list | tuple) and isinstance(right, list | tuple):
            if len(lefts) != len(rights):
                raise fail(
                    f"chain() connects neighbouring lists pairwise, but these have {len(lefts)} and {len(rights)} "
                    "items. Make them equally long, or use cross_downstream() to connect each with each."
                )
            for one, other in zip(lefts, rights, strict=True):
                _item(one).set_downstream(other)
        else:
            for one in lefts:
                _item(one).set_downstream(rights)


def cross_downstream(from_tasks: Sequence[Any], to_tasks: Any) -> None:
    """Connect each of `from_tasks` with each of `to_tasks`."""
    for task in from_tasks:
        _item(task).set_downstream(to_tasks)


def _listed(other: Any) -> list[Any]:
    if isinstance(other, Dependable):
        return [other]
    if isinstance(other, Iterable) and not isinstance(other, str | bytes | dict):
        return list(other)
    return [other]


def _item(item: Any) -> Dependable:
    return item if isinstance(item, Dependable) else _dependable(item)


def _dependable(item: Any) -> Dependable:
    if isinstance(item, Dependable) and not isinstance(item, Label):
        return item
    raise _not_a_task(item)


def _not_a_task(item: Any) -> DagError:
    called = getattr(item, "__name__", None) or repr(item)
    kind = "a function that makes one" if isinstance(item, Uncalled) else a_type(item)
    remedy = f"Call it: {called}()." if callable(item) else "Connect tasks, task groups, or lists of them."
    return fail(f"{called} cannot be connected: it is {kind}, not a task. {remedy}")


def _link(before: Dependable, after: Dependable, label: Label | None) -> None:
    ends = after.first_tasks
    for upstream in before.last_tasks:
        for downstream in ends:
            connect(upstream, downstream, label.label if label else None)


def connect(upstream: Task, downstream: Task, label: str | None = None) -> None:
    """Let `downstream` wait for `upstream`. A task without a DAG joins that of the other.

    Raises DagError when neither has a DAG, or when they are in different ones.
    """
    if upstream.dag is None and downstream.dag is None:
        raise fail(
            f"Tasks {upstream.task_id!r} and {downstream.task_id!r} are in no DAG yet. "
            "Create them inside `with DAG(...)`, or give them dag=."
        )
    if upstream.dag is None and downstream.dag is not None:
        downstream.dag.add_task(upstream)
    elif downstream.dag is None and upstream.dag is not None:
        upstream.dag.add_task(downstream)
    dag = upstream.dag
    if dag is None or dag is not downstream.dag:
        other = downstream.dag.dag_id if downstream.dag else None
        raise fail(
            f"Tasks {upstream.task_id!r} of DAG {dag.dag_id if dag else None!r} and {downstream.task_id!r} of DAG "
            f"{other!r} cannot be connected: dependencies are inside one DAG."
        )
    upstream.downstream_task_ids.add(downstream.task_id)
    downstream.upstream_task_ids.add(upstream.task_id)
    if label is not None:
        dag.edge_labels[f"{upstream.task_id}>{downstream.task_id}"] = label
