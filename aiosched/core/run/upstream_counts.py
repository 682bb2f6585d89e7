"""Which instances of a run are finished: their states counted by task, and the verdicts of the rules.

Lives here: the instances of a run by task, running counts of their states, and the verdict on an instance, which reads
nothing else. The cost of a change of one instance depends on how many neighbours the task has, not on how many
instances these have. Does not live here: what follows from a verdict (board.py), the rules (trigger_rules.py).

An instance outside of mapped groups depends on all instances of its upstreams, so all
instances of a task share their counts. Inside a mapped group it depends on those of its own
index, and has counts of its own. Source: the semantics reference, sections 5.1, 8.3, 8.4 and 26.7.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from aiosched.core.graph.graph import Graph
from aiosched.core.graph.instances import Instance
from aiosched.core.graph.mapping import EARLY_RULES, Mappings, check_producers
from aiosched.core.graph.trigger_rules import StateCounts, TriggerVerdict, explain, judge, judge_setups
from aiosched.core.run.pending import Pending
from aiosched.core.values.states import ALIVE, FINISHED, SCHEDULABLE, TaskState

_FIRST: Final = {
    TriggerVerdict.UPSTREAM_FAILED: 0,
    TriggerVerdict.SKIPPED: 1,
    TriggerVerdict.WAIT: 2,
    TriggerVerdict.RUN: 3,
}
Sizes = tuple[int | None, ...]  # by which units multiply a task, outermost first; None: unknown


@dataclass(slots=True)
class Share:
    """The upstream instances that one group index depends on: how many there are, and which have finished."""

    counts: StateCounts = field(default_factory=StateCounts)
    total: int = 0
    setups: int = 0


class UpstreamCounts:
    """The counts of one run's instances. Report each change of a state with `moved`.

    open         for each task how many of its instances are not finished
    unfinished   how many instances are not finished
    alive        how many of those are `ALIVE`: all but `NONE`
    begun        for each task how many of its instances do not wait for their upstreams, or are decided
    held         tasks whose instances wait for what any of their upstreams does, not only those of their own index
    totals       for each task the number of direct upstream instances that all its instances have in common
    """

    __slots__ = (
        "_aligned", "_awaited", "_counts", "_done", "_graph", "_indirect_dependents", "_loose", "_of_task", "_own",
        "_setups", "_sizes", "alive", "begun", "held", "open", "totals", "unfinished",
    )  # fmt: skip

    def __init__(self, graph: Graph, instances: Iterable[Instance]) -> None:
        size = len(graph.tasks)
        self._graph = graph
        self._indirect_dependents = graph.indirect_dependents
        self._of_task: list[list[Instance]] = [[] for _ in graph.tasks]
        self._loose: Sequence[Sequence[int]] = graph.downstream  # downstreams without a mapped group in common
        self._aligned: dict[int, list[tuple[int, int]]] = {}  # others: (task, number of groups in common)
        if graph.mappings is not None and any(graph.mappings.groups):
            self._loose, self._aligned = _split(graph, graph.mappings)
        self._sizes: dict[int, Sizes] = {}  # by which the units of a task multiply it
        self._awaited: set[int] = set()  # tasks of which a size is unknown until what they are mapped over has ended
        self._counts: list[StateCounts | None] = [None] * size  # None: nothing upstream has finished yet
        self._setups: dict[int, int] = {}  # how many of `totals` are setups
        self._own: dict[int, dict[tuple[int, int], Share]] = {}  # by (groups in common, their index); (0, 0) is the sum
        self._done: dict[int, Share] = {}  # of setups: their own instances
        self.open: list[int] = [0] * size
        self.begun: list[int] = [0] * size
        self.held: set[int] = set[int]()
        self.totals: list[int] = [0] * size
        self.unfinished: int = 0
        self.alive: int = 0
        self.add_all(instances)

    def __iter__(self) -> Iterator[Instance]:
        return (instance for group in self._of_task for instance in group)

    def __len__(self) -> int:
        return sum(map(len, self._of_task))

    # -- reading ----------------------------------------------------------------------------

    def of(self, task: int) -> Sequence[Instance]:
        """The instances of a task by map index; empty if it takes no part in the run."""
        return self._of_task[task]

    def find(self, task: int, map_index: int) -> Instance | None:
        """The instance of a task with this map index; None for a task that the DAG does not have (any longer)."""
        if not 0 <= task < len(self._of_task) or not (group := self._of_task[task]):
            return None
        found = group[map_index if 0 < map_index < len(group) else 0]
        if found.map_index == map_index:
            return found
        return None if len(group) == 1 else next((i for i in group if i.map_index == map_index), None)

    def counts(self, task: int) -> StateCounts:
        """The finished direct upstream instances of a task, for all its map indexes together."""
        shared, inside = self._counts[task] or _NOTHING_FINISHED, self._own.get(task, {}).get(_ALL)
        return shared if inside is None else shared + inside.counts

    def total(self, task: int) -> int:
        """The number of direct upstream instances of a task, for all its map indexes together."""
        inside = self._own.get(task, {}).get(_ALL)
        return self.totals[task] + (0 if inside is None else inside.total)

    def counterparts(self, task: int, instance: Instance) -> Sequence[Instance]:
        """The instances of `task` that concern `instance`: those of its own index if they share groups."""
        group = self._of_task[task]
        if not group or group[0].map_index < 0:
            return group
        depth = self._depth(task, instance.task)
        if not depth:
            return group
        if instance.map_index < 0:
            return ()
        below, mine = self._below(task, depth), self._below(instance.task, depth)
        if not below or not mine:
            return group
        first = instance.map_index // mine * below
        return group[first : first + below]

    # -- counting ---------------------------------------------------------------------------

    def add_all(self, instances: Iterable[Instance]) -> None:
        """Count these instances of the run, too, which come in any order."""
        mapped = set[int]()
        for instance in instances:
            self.add(instance)
            if instance.map_index > 0:
                mapped.add(instance.task)
        for task in mapped:
            self._of_task[task].sort(key=_map_index)

    def add(self, instance: Instance) -> None:
        """Count one more instance of the run. Those of one task come in the order of their map indexes."""
        self._of_task[instance.task].append(instance)
        finished = instance.state in FINISHED
        self.begun[instance.task] += instance.state not in _UNTOUCHED
        if not finished:
            self.open[instance.task] += 1
            self.unfinished += 1
            self.alive += instance.state in ALIVE
        self._spread(instance, instance.state, 1, 1)

    def place(self, instance: Instance, map_index: int) -> None:
        """The unexpanded instance, which is not finished, becomes map index 0, or the other way round."""
        self._spread(instance, instance.state, 0, -1)
        instance.map_index = map_index
        self._spread(instance, instance.state, 0, 1)

    def moved(self, instance: Instance, old: TaskState, pending: Pending) -> None:
        """Count the change from `old` to the instance's state; whatever it may concern becomes pending."""
        new = instance.state
        was_finished, is_finished = old in FINISHED, new in FINISHED
        if (old in _UNTOUCHED) != (new in _UNTOUCHED):
            self.begun[instance.task] += 1 if old in _UNTOUCHED else -1
        self.alive += (new in ALIVE) - (old in ALIVE)
        if new in SCHEDULABLE:
            pending.instances[instance] = None
        if not (was_finished or is_finished):
            return
        task = instance.task
        self.unfinished += was_finished - is_finished
        self.open[task] += was_finished - is_finished
        if was_finished:
            self._spread(instance, old, -1, 0)
        if is_finished:
            self._spread(instance, new, 1, 0)
        pending.tasks.update(self._loose[task])
        for down, _ in self._aligned.get(task, ()):
            self._notify(instance, down, pending)
        for dependent in self._indirect_dependents.get(task, ()):
            if self._depth(task, dependent):
                self._notify(instance, dependent, pending)
            else:
                pending.tasks.add(dependent)

    def resize(self, task: int, sizes: Sizes, *, awaits_others: bool = False) -> Sequence[int]:
        """Set the `sizes` by which a task's units multiply it; returns the tasks whose counts change.

        Where one of the sizes is unknown (None), those that were known before stay. `awaits_others`: unknown ones are
        still to come, so what depends on them waits.
        """
        before = self._sizes.get(task)
        if None in sizes and before is not None and None not in before:
            return ()
        if len(sizes) < 2:  # not in nested groups
            self._sizes[task] = sizes
            return ()
        is_awaited = awaits_others and None in sizes
        if before == sizes and is_awaited == (task in self._awaited):
            return ()
        self._sizes[task] = sizes
        self._awaited.discard(task)
        if is_awaited:
            self._awaited.add(task)
        concerned = [down for down, _ in self._aligned.get(task, ())]
        if any(self._depth(up, task) for up in self._graph.upstream[task]):
            concerned.append(task)
        for each in concerned:
            self._recount(each)
        return concerned

    def awaits_sizes(self, task: int) -> bool:
        """Whether a size of a task in nested groups is still to come (`resize`)."""
        return task in self._awaited

    # -- judging ----------------------------------------------------------------------------

    def judge_all(self, task: int) -> TriggerVerdict | None:
        """The verdict on all instances of `task`; None if they have to be judged one by one."""
        group = self._of_task[task]
        if not group:
            return TriggerVerdict.WAIT
        if group[0].map_index >= 0 and (task in self._own or self._depends_on_index(task)):
            return None
        return self.judge(group[0])

    def judge(self, instance: Instance) -> TriggerVerdict:
        """The combined verdict of producers, indirect setups, the trigger rule and, for a teardown, its scope."""
        mappings = self._graph.mappings
        if mappings is None or not mappings.producers[instance.task]:
            return self._judge_dependencies(instance)
        by_producers = self.judge_producers(instance)
        if by_producers is TriggerVerdict.UPSTREAM_FAILED:
            return by_producers
        verdict = self._judge_dependencies(instance)
        return min(by_producers, verdict, key=_FIRST.__getitem__)

    def _judge_dependencies(self, instance: Instance) -> TriggerVerdict:
        graph, task = self._graph, instance.task
        if self._awaited and self._awaits_place(instance):
            return TriggerVerdict.WAIT
        by_setups = TriggerVerdict.RUN
        if graph.indirect_setups[task] and (by_setups := self.judge_setups(instance)).settles:
            return by_setups
        counts, total, setups = self.upstreams(instance)
        if (verdict := judge(graph.rules[task], counts, total, setups)) is not TriggerVerdict.RUN:
            return verdict
        if graph.teardown_scopes[task] and next(self.unfinished_scope(instance), None) is not None:
            return TriggerVerdict.WAIT
        return by_setups

    def judge_rule(self, instance: Instance) -> TriggerVerdict:
        """The verdict of the trigger rule on the direct upstreams (5.2)."""
        counts, total, setups = self.upstreams(instance)
        return judge(self._graph.rules[instance.task], counts, total, setups)

    def unfinished_scope(self, instance: Instance) -> Iterator[Instance]:
        """For a teardown: the unfinished instances between its setups and it (8.4)."""
        for inner in self._graph.teardown_scopes[instance.task]:
            if self.open[inner]:
                yield from (i for i in self.counterparts(inner, instance) if i.state not in FINISHED)

    def upstreams(self, instance: Instance) -> tuple[StateCounts, int, int]:
        """The direct upstream instances of `instance`: which have finished, how many there are, how many are setups."""
        task = instance.task
        counts, total, setups = self._counts[task] or _NOTHING_FINISHED, self.totals[task], self._setups.get(task, 0)
        if task in self._own:
            for share in self._shares(instance):
                counts, total, setups = counts + share.counts, total + share.total, setups + share.setups
        return counts, total, setups

    def why_settled(self, instance: Instance) -> str:
        """A verdict that settles, as one line of text."""
        graph, task = self._graph, instance.task
        if graph.indirect_setups[task] and self.judge_setups(instance).settles:
            return "a setup that it needs did not succeed"
        if graph.mappings is not None and self.judge_producers(instance).settles:
            return "a task that it is mapped over did not succeed"
        return explain(graph.rules[task], *self.upstreams(instance))

    def judge_producers(self, instance: Instance) -> TriggerVerdict:
        """The verdict of its producers (26.6)."""
        verdict = self._judge_producers_of(instance.task)
        if verdict is not TriggerVerdict.RUN or instance.map_index >= 0 or instance.task not in self._own:
            return verdict
        # in a group it certainly waits only for the length before it is expanded
        early = self._graph.rules[instance.task] in EARLY_RULES
        assert self._graph.mappings is not None
        producers = self._graph.mappings.producers[instance.task]
        return TriggerVerdict.RUN if early or not any(self.open[up] for up in producers) else TriggerVerdict.WAIT

    def _judge_producers_of(self, task: int) -> TriggerVerdict:
        assert self._graph.mappings is not None
        groups = [(other, group) for other in self._graph.mappings.producers[task] if (group := self._of_task[other])]
        return check_producers(group[0].state for other, group in groups if self._is_unexpanded(other, group))

    def _is_unexpanded(self, task: int, instances: Sequence[Instance]) -> bool:
        """Whether a task has ended unexpanded, or was expanded before it was cleared and would not be now.

        Then its first instance is left, which has not run: nothing could be mapped over, or something failed before.
        """
        first, *others = instances
        if first.map_index < 0:
            return first.state in FINISHED
        if first.state is TaskState.SKIPPED and 0 in self._sizes.get(task, ()):
            return True
        if first.state not in _NOT_RUN or any(each.state is not TaskState.REMOVED for each in others):
            return False
        assert self._graph.mappings is not None
        own_mapping = not self._graph.mappings.groups[task]
        return (own_mapping and first.state is TaskState.UPSTREAM_FAILED) or (
            self._judge_producers_of(task) is not TriggerVerdict.RUN
        )

    def judge_setups(self, instance: Instance) -> TriggerVerdict:
        """The verdict of indirect setups (8.3)."""
        counts, total = StateCounts(), 0
        for setup in self._graph.indirect_setups[instance.task]:
            if self._depth(setup, instance.task) and self._of_task[setup] and self._of_task[setup][0].map_index >= 0:
                for other in self.counterparts(setup, instance):
                    if other.state is not TaskState.REMOVED:
                        counts.add(other.state)
                        total += 1
            elif setup in self._done:
                counts = counts + self._done[setup].counts
                total += self._done[setup].total
        return judge_setups(counts, total)

    def _depends_on_index(self, task: int) -> bool:
        """Whether setups or scopes depend on the map index."""
        graph = self._graph
        return any(self._depth(other, task) for other in (*graph.indirect_setups[task], *graph.teardown_scopes[task]))

    # -- indexes in common ------------------------------------------------------------------

    def _depth(self, one: int, other: int) -> int:
        mappings = self._graph.mappings
        return 0 if mappings is None else mappings.shared(one, other)

    def _below(self, task: int, depth: int) -> int | None:
        """The number of instances of `task` for each index of its `depth` outermost groups."""
        assert self._graph.mappings is not None
        inner = len(self._graph.mappings.units[task]) - depth
        if not inner:
            return 1
        known = [size for size in self._sizes.get(task, ())[depth:] if size is not None]
        return math.prod(known) if len(known) == inner else None

    def _place(self, instance: Instance, depth: int) -> tuple[int, int] | None:
        """Its index in the common groups; None while it represents all of them."""
        below = self._below(instance.task, depth)
        return None if instance.map_index < 0 or not below else (depth, instance.map_index // below)

    def _shares(self, instance: Instance) -> Iterator[Share]:
        shares, task = self._own[instance.task], instance.task
        if instance.map_index < 0:
            if self._graph.rules[task] in EARLY_RULES and _ALL in shares:
                yield shares[_ALL]
            return
        depths = {self._depth(up, task) for up in self._graph.upstream[task]} - {0}
        is_unknown = any(self._below(task, depth) is None for depth in depths)  # it depends on all of them then
        places = {_ALL} if is_unknown else {self._place(instance, depth) for depth in depths}
        yield from (shares[place] for place in places if place is not None and place in shares)

    def _awaits_place(self, instance: Instance) -> bool:
        """Whether it is to come which instances it depends on: their places follow from a size that is awaited."""
        graph, task = self._graph, instance.task
        if instance.map_index < 0:
            return False
        for other in (*graph.upstream[task], *graph.indirect_setups[task], *graph.teardown_scopes[task]):
            depth, group = self._depth(other, task), self._of_task[other]
            if depth and group and group[0].map_index >= 0:
                awaited = self._awaited.intersection((task, other))
                if any(self._below(each, depth) is None for each in awaited):
                    return True
        return False

    def _spread(self, instance: Instance, state: TaskState, counted: int, added: int) -> None:
        """Count `instance` in `state`, `counted` times as finished and `added` times as present.

        It is counted for the tasks that it concerns.
        """
        task = instance.task
        is_setup = self._graph.is_setup[task]
        if state is TaskState.REMOVED and instance.map_index >= 0:  # without a value it is nobody's upstream (5.1)
            counted, added = 0, added - counted
        finished = counted and state in FINISHED
        if is_setup:
            own = self._done.setdefault(task, Share())
            own.total += added
            own.counts.add(state, by=counted)
        for down in self._loose[task]:
            if added:
                self.totals[down] += added
                if is_setup:
                    self._setups[down] = self._setups.get(down, 0) + added
            if finished:
                counts = self._counts[down]
                if counts is None:
                    counts = self._counts[down] = StateCounts()
                counts.add(state, is_setup=is_setup, by=counted)
        for down, depth in self._aligned.get(task, ()):
            self._spread_aligned(instance, down, depth, state, counted, added)

    def _spread_aligned(
        self, instance: Instance, down: int, depth: int, state: TaskState, counted: int, added: int
    ) -> None:
        is_setup = self._graph.is_setup[instance.task]
        shares = self._own.setdefault(down, {})
        place = self._place(instance, depth)
        if place is None:  # unexpanded: it represents every index
            self.totals[down] += added
            if is_setup:
                self._setups[down] = self._setups.get(down, 0) + added
            counts = self._counts[down]
            if counts is None:
                counts = self._counts[down] = StateCounts()
            counts.add(state, is_setup=is_setup, by=counted)
            return
        for key in (place, _ALL):
            share = shares.get(key)
            if share is None:
                share = shares[key] = Share()
            share.total += added
            share.setups += added if is_setup else 0
            share.counts.add(state, is_setup=is_setup, by=counted)

    def _notify(self, instance: Instance, down: int, pending: Pending) -> None:
        """Mark the instances of `down` under the index of `instance` for evaluation."""
        group = self._of_task[down]
        if not group:
            return
        if instance.map_index < 0 or group[0].map_index < 0 or down in self.held:
            pending.tasks.add(down)
            return
        depth = self._depth(instance.task, down)
        below, theirs = self._below(instance.task, depth), self._below(down, depth)
        if not below or not theirs:
            pending.tasks.add(down)
            return
        first = instance.map_index // below * theirs
        pending.instances.update(dict.fromkeys(group[first : first + theirs]))

    def _recount(self, task: int) -> None:
        """Recount the upstreams of a task in nested groups."""
        self._counts[task], self.totals[task] = None, 0
        self._setups.pop(task, None)
        self._own.pop(task, None)
        for up in self._graph.upstream[task]:
            for instance in self._of_task[up]:
                if instance.state is TaskState.REMOVED and instance.map_index >= 0:
                    continue
                is_setup = self._graph.is_setup[up]
                depth = self._depth(up, task)
                if depth:
                    self._spread_aligned(instance, task, depth, instance.state, 1, 1)
                    continue
                self.totals[task] += 1
                if is_setup:
                    self._setups[task] = self._setups.get(task, 0) + 1
                counts = self._counts[task] or StateCounts()
                counts.add(instance.state, is_setup=is_setup)
                self._counts[task] = counts


_ALL: Final = (0, 0)
_UNTOUCHED: Final = frozenset({TaskState.NONE, TaskState.REMOVED})
_NOT_RUN: Final = (TaskState.SKIPPED, TaskState.UPSTREAM_FAILED)
_NOTHING_FINISHED: Final = StateCounts()


def _map_index(instance: Instance) -> int:
    return instance.map_index


def _split(graph: Graph, mappings: Mappings) -> tuple[list[list[int]], dict[int, list[tuple[int, int]]]]:
    """The downstreams of each task: without a mapped group in common, and with how many."""
    loose: list[list[int]] = [[] for _ in graph.tasks]
    aligned: dict[int, list[tuple[int, int]]] = {}
    for task, downstream in enumerate(graph.downstream):
        for down in downstream:
            if depth := mappings.shared(task, down):
                aligned.setdefault(task, []).append((down, depth))
            else:
                loose[task].append(down)
    return loose, aligned
