"""A DAG compiled for the scheduler: task ids become indexes, dependencies become tuples.

Lives here: what is known about a DAG version before it has a run. A graph is immutable and shared by all runs of its
version. Does not live here: states (they belong to runs), the rules themselves (trigger_rules.py, weights.py,
branching.py). All algorithms are iterative, so a chain can be as long as memory allows.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from typing import Any, TypeVar

from aiosched.core.graph.mapping import Mappings, compile_mappings
from aiosched.core.graph.previous_run import Lookback, compile_lookback
from aiosched.core.graph.secret_params import holds_secrets
from aiosched.core.graph.spec import DagSpec, TaskSpec
from aiosched.core.graph.trigger_rules import TriggerRule
from aiosched.core.graph.weights import WeightRule, effective_weights
from aiosched.errors import DagCycleError, DagError, DuplicateTaskError

T = TypeVar("T")
Neighbours = tuple[tuple[int, ...], ...]  # for each task index its direct neighbours, ascending


class Graph:
    """A compiled `DagSpec`. A task index is the task's position in `spec.tasks`; every tuple is by task index.

    spec, tasks, task_ids, index     the DAG, its tasks, their ids, and id -> index
    upstream, downstream             direct neighbours
    rules, weights                   trigger rules; effective priority weights
    order                            all indexes, upstreams before downstreams
    depth                            how long the longest way from a root to each task is
    roots, leaves                    without upstreams; those that decide the run's result
    is_setup, is_teardown            flags
    indirect_setups                  relevant setups that are not direct upstreams (8.3)
    teardown_scopes                  per teardown, the tasks between its setups and it (8.4)
    mappings                         of the mapped tasks (26); None for a DAG without any
    lookback                         of tasks that depend on the previous run (6); None for a DAG without any
    indirect_dependents              task -> tasks that depend on it without being direct downstreams: after a
                                     setup, after a scope, mapped over it
    has_secrets                      whether one of its params is a secret, or holds one
    members, group_roots             group id -> all its tasks; those without an upstream in the group

    Raises DagError for an unknown upstream, group, trigger or weight rule,
    DuplicateTaskError, and DagCycleError naming the cycle.

    Source: the semantics reference, sections 5, 8 and 18.2.
    """

    def __init__(self, spec: DagSpec) -> None:
        self.spec = spec
        self.tasks: tuple[TaskSpec, ...] = spec.tasks
        self.task_ids: tuple[str, ...] = tuple(task.task_id for task in spec.tasks)
        self.index: dict[str, int] = _index(self.task_ids)
        self.upstream: Neighbours = _resolve_upstreams(spec, self.index)
        self.downstream: Neighbours = _reversed(self.upstream)
        self.order: tuple[int, ...] = _topological_order(spec, self.upstream, self.downstream)
        self.depth: tuple[int, ...] = _depths(self.order, self.upstream)
        self.rules: tuple[TriggerRule, ...] = tuple(TriggerRule.parse(task.trigger_rule) for task in spec.tasks)
        self.weights: tuple[int, ...] = effective_weights(
            [task.priority_weight for task in spec.tasks],
            [WeightRule.parse(task.weight_rule) for task in spec.tasks],
            upstream=self.upstream,
            downstream=self.downstream,
            order=self.order,
        )
        if any(task.weights for task in spec.tasks):
            pairs = zip(spec.tasks, self.weights, strict=True)
            self.weights = tuple(task.weights[0] if task.weights else weight for task, weight in pairs)
        self.roots: tuple[int, ...] = tuple(index for index, upstreams in enumerate(self.upstream) if not upstreams)
        self.leaves: tuple[int, ...] = _effective_leaves(spec.tasks, self.downstream)
        self.is_setup: tuple[bool, ...] = tuple(task.is_setup for task in spec.tasks)
        self.is_teardown: tuple[bool, ...] = tuple(task.is_teardown for task in spec.tasks)
        self._descendants: dict[int, frozenset[int]] = {}
        self._ancestors: dict[int, frozenset[int]] = {}
        self.indirect_setups: Neighbours
        self.teardown_scopes: Neighbours
        self.indirect_setups, self.teardown_scopes = self._compile_setups()
        self.mappings: Mappings | None = compile_mappings(spec, self.index)
        self.lookback: Lookback | None = compile_lookback(spec.tasks, self.downstream)
        self.indirect_dependents: dict[int, list[int]] = self._compile_indirect_dependents()
        self.has_secrets: bool = any(holds_secrets(param.json_schema) for param in spec.params.values())
        self.members: dict[str, tuple[int, ...]] = _group_members(spec)
        self.group_roots: dict[str, tuple[int, ...]] = {
            group_id: tuple(index for index in inside if set(inside).isdisjoint(self.upstream[index]))
            for group_id, inside in self.members.items()
        }

    def __len__(self) -> int:
        return len(self.tasks)

    def __repr__(self) -> str:
        return f"<Graph of {self.spec.dag_id}: {len(self)} tasks>"

    def weight(self, index: int, try_number: int) -> int:
        """The priority weight of a try (1 for the first) of a task; `weights` has those of first tries."""
        by_try = self.tasks[index].weights
        return by_try[min(max(try_number, 1), len(by_try)) - 1] if by_try else self.weights[index]

    def descendants(self, index: int) -> frozenset[int]:
        """All direct and indirect downstreams of `index`, without itself. Cached after the first call."""
        if index not in self._descendants:
            self._descendants[index] = _reachable(self.downstream, index)
        return self._descendants[index]

    def ancestors(self, index: int) -> frozenset[int]:
        """All direct and indirect upstreams of `index`, without itself. Cached after the first call."""
        if index not in self._ancestors:
            self._ancestors[index] = _reachable(self.upstream, index)
        return self._ancestors[index]

    def resolve(self, name: str) -> tuple[int, ...]:
        """The task with the id `name`, or the root tasks of that group; raises DagError naming the nearest id."""
        if name in self.index:
            return (self.index[name],)
        if name in self.group_roots:
            return self.group_roots[name]
        hint = _did_you_mean(name, (*self.index, *self.group_roots))
        raise DagError(f"DAG {self.spec.dag_id!r} has no task or task group {name!r}{hint}")

    def _compile_setups(self) -> tuple[Neighbours, Neighbours]:
        none: Neighbours = ((),) * len(self)
        setups = [index for index, is_setup in enumerate(self.is_setup) if is_setup]
        teardowns = [index for index, is_teardown in enumerate(self.is_teardown) if is_teardown]
        indirect: list[set[int]] = [set() for _ in self.tasks] if setups else []
        for setup in setups:
            ends = [down for down in self.downstream[setup] if self.is_teardown[down]]
            below = self.descendants(setup)
            relevant = below & _union(self.ancestors(end) for end in ends) if ends else below
            for index in relevant:
                if not self.is_teardown[index] and setup not in self.upstream[index]:
                    indirect[index].add(setup)
        scopes = list(none)
        for teardown in teardowns:
            opened = _union(self.descendants(up) for up in self.upstream[teardown] if self.is_setup[up])
            scopes[teardown] = tuple(sorted(opened & self.ancestors(teardown)))
        return tuple(tuple(sorted(found)) for found in indirect) or none, tuple(scopes)

    def _compile_indirect_dependents(self) -> dict[int, list[int]]:
        indirect_dependents: dict[int, list[int]] = {}
        producers = () if self.mappings is None else self.mappings.producers
        for relations in (self.indirect_setups, self.teardown_scopes, producers):
            for task, found in enumerate(relations):
                for other in found:
                    indirect_dependents.setdefault(other, []).append(task)
        return indirect_dependents


def _index(task_ids: Sequence[str]) -> dict[str, int]:
    index: dict[str, int] = {}
    for position, task_id in enumerate(task_ids):
        if index.setdefault(task_id, position) != position:
            raise DuplicateTaskError(f"Two tasks are called {task_id!r}; give one of them another task_id.")
    return index


def _resolve_upstreams(spec: DagSpec, index: dict[str, int]) -> Neighbours:
    try:
        return tuple(tuple(sorted({index[up] for up in task.upstream})) for task in spec.tasks)
    except KeyError:
        for task in spec.tasks:
            for up in task.upstream:
                if up not in index:
                    raise DagError(
                        f"Task {task.task_id!r} of DAG {spec.dag_id!r} depends on {up!r}, "
                        f"which the DAG does not have{_did_you_mean(up, index)}"
                    ) from None
        raise


def _reversed(edges: Neighbours) -> Neighbours:
    found: list[list[int]] = [[] for _ in edges]
    for index, neighbours in enumerate(edges):
        for neighbour in neighbours:
            found[neighbour].append(index)
    return tuple(map(tuple, found))


def _depths(order: Sequence[int], upstream: Neighbours) -> tuple[int, ...]:
    depths = [0] * len(order)
    for index in order:
        depths[index] = max((depths[up] + 1 for up in upstream[index]), default=0)
    return tuple(depths)


def _topological_order(spec: DagSpec, upstream: Neighbours, downstream: Neighbours) -> tuple[int, ...]:
    missing = [len(upstreams) for upstreams in upstream]
    order = [index for index, count in enumerate(missing) if not count]
    for index in order:  # grows during the loop
        for down in downstream[index]:
            missing[down] -= 1
            if not missing[down]:
                order.append(down)
    if len(order) < len(upstream):
        circle = cycle_in(dict(enumerate(upstream))) or []
        names = " → ".join(spec.tasks[index].task_id for index in circle)
        raise DagCycleError(f"DAG {spec.dag_id!r} has a cycle: {names}. Remove one of these dependencies.")
    return tuple(order)


def cycle_in(predecessors: Mapping[T, Iterable[T]]) -> list[T] | None:
    """A cycle in the order of its dependencies, from its least member to that one again; None if there is none."""
    try:
        TopologicalSorter(predecessors).prepare()
    except CycleError as error:
        cycle: list[Any] = error.args[1]  # the first one is the last one, too
        start = cycle.index(min(cycle))
        return [*cycle[start:-1], *cycle[: start + 1]]
    return None


def _effective_leaves(tasks: Sequence[TaskSpec], downstream: Neighbours) -> tuple[int, ...]:
    counts = [not task.is_teardown or task.on_failure_fail_dagrun for task in tasks]
    leaves = tuple(i for i, downs in enumerate(downstream) if counts[i] and not any(counts[down] for down in downs))
    return leaves or tuple(i for i, downs in enumerate(downstream) if not downs)


def _group_members(spec: DagSpec) -> dict[str, tuple[int, ...]]:
    chains = _group_chains(spec)
    members: dict[str, list[int]] = {group.group_id: [] for group in spec.groups}
    for index, task in enumerate(spec.tasks):
        if task.group_id is not None:
            for group_id in chains[task.group_id]:
                members[group_id].append(index)
    return {group_id: tuple(inside) for group_id, inside in members.items()}


def _group_chains(spec: DagSpec) -> dict[str, tuple[str, ...]]:
    """For each group: itself, its parent, and so on outwards."""
    parents = {group.group_id: group.parent_id for group in spec.groups}
    wanted = {task.group_id for task in spec.tasks if task.group_id is not None} | set(parents)
    chains: dict[str, tuple[str, ...]] = {}
    for group_id in wanted:
        chain: list[str] = []
        current: str | None = group_id
        while current is not None:
            if current not in parents or current in chain:
                raise DagError(f"The task group {current!r} of DAG {spec.dag_id!r} does not exist or contains itself.")
            chain.append(current)
            current = parents[current]
        chains[group_id] = tuple(chain)
    return chains


def _reachable(edges: Neighbours, start: int) -> frozenset[int]:
    found: set[int] = set()
    to_visit = list(edges[start])
    while to_visit:
        index = to_visit.pop()
        if index not in found:
            found.add(index)
            to_visit.extend(edges[index])
    return frozenset(found)


def _union(sets: Iterable[frozenset[int]]) -> frozenset[int]:
    return frozenset().union(*sets)


def _did_you_mean(name: str, known: Iterable[str]) -> str:
    """The end of a sentence about an unknown `name`."""
    near = difflib.get_close_matches(name, list(known), n=1)
    return f"; did you mean {near[0]!r}?" if near else "."
