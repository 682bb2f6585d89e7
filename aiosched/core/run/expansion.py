"""How mapped tasks get their instances: by expansion, and by later changes of their number.

Lives here: the part of a `Board` that creates, removes and restores instances. Does not live here: how many there are
(mapping.py), when their dependencies are met (upstream_counts.py).
Source: the semantics reference, sections 26.4 and 26.5.
"""

from __future__ import annotations

import math
from datetime import datetime

from aiosched.core.graph.instances import Instance
from aiosched.core.run.run_rows import RunRows
from aiosched.core.values.states import SCHEDULABLE, TRANSITIONS, TaskEvent, TaskState


class Expansion(RunRows):
    """See the module docstring."""

    __slots__ = ()

    def learn_length(self, task: int, map_index: int, length: int) -> None:
        """An instance of `task` has returned a value of `length`, for a run that was read from the database.

        Matters for tasks that others are mapped over: for a mapped task it only matters that there is a value. Call it
        before `resume` or `start`.
        """
        if self._lengths is not None:
            self._lengths.learn(task, map_index, length)

    def _know_sizes(self) -> None:
        """The lengths with which a run starts or resumes are known."""
        if self._lengths is None:
            return
        for task, units in enumerate(self.graph.mappings.units if self.graph.mappings else ()):
            if not units:
                continue
            self._know_places(task)
            if (sizes := self._lengths.sizes(task)) is None:
                continue
            there = self._upstream_counts.of(task)
            if len(there) == math.prod(sizes) and all(i.state is not TaskState.REMOVED for i in there):
                self._sizes[task] = sizes

    def _know_places(self, task: int) -> None:
        """As far as its lengths are known, a task in nested groups knows which instances belong together."""
        if self._lengths is not None:
            sizes, awaits_others = self._lengths.found(task), not self._lengths.are_new(task)
            for concerned in self._upstream_counts.resize(task, sizes, awaits_others=awaits_others):
                self._evaluate_later(concerned)

    def _take_place(self, instance: Instance, now: datetime) -> bool:
        """Whether a mapped instance whose dependencies are met can continue under its index.

        An unexpanded instance is expanded first; if the number of instances has changed, they are revised. Then all of
        them are evaluated again. If the number of instances is unknown, the instance fails once everything else is
        decided, so that the order of evaluation does not matter.
        """
        assert self._lengths is not None
        task, sizes = instance.task, self._lengths.sizes(instance.task)
        if instance.map_index < 0 and not self.is_countable(task):
            self._pending.too_soon[instance] = None
            return False
        if sizes is None:
            return True
        number = math.prod(sizes)
        if instance.map_index < 0:
            if number:
                self._expand(instance, sizes)
            else:
                self._settle(instance, TaskEvent.SETTLED_EMPTY, now, TaskEvent.SETTLED_EMPTY.value)
            return False
        if self._sizes.get(task) != sizes:
            self._revise(task, sizes, now)
            return False
        if instance.map_index >= number:
            self._remove(instance, number, now)
            return False
        return True

    def _revised_first(self, task: int, now: datetime) -> bool:
        """Revise the instances of a task in a mapped group if their number has changed; returns whether it had.

        Call it before one of them is skipped or fails without running, which decides for its own index only. If it
        returns True, all instances are evaluated again.
        """
        if self._lengths is None or self.graph.mappings is None or not self.graph.mappings.groups[task]:
            return False
        there, sizes = self._upstream_counts.of(task), self._lengths.sizes(task)
        if sizes is None or self._sizes.get(task) == sizes or not there or there[0].map_index < 0:
            return False
        self._revise(task, sizes, now)
        return True

    def is_countable(self, task: int) -> bool:
        """Whether the number of instances of a mapped task is known."""
        return self._lengths is not None and self._lengths.sizes(task) is not None and self._lengths.are_new(task)

    def _settle_too_soon(self, now: datetime) -> bool:
        """Nothing else is left to decide: instances that can run, but whose number is unknown, fail (26.4, 26.6).

        Returns whether there is more to evaluate then; the next pass has begun.
        """
        pending = self._pending
        waiting, pending.too_soon = pending.too_soon, {}
        for instance in waiting:
            if instance.state in SCHEDULABLE and instance.map_index < 0 and not self.is_countable(instance.task):
                reason = "the values it is mapped over were not returned"
                self._settle(instance, TaskEvent.SETTLED_UPSTREAM_FAILED, now, reason)
        return pending.begin_pass(self.graph.depth)

    def _expand(self, instance: Instance, sizes: tuple[int, ...]) -> None:
        self._resize(instance.task, sizes)
        self._upstream_counts.expand(instance)
        self.effects.rows.expanded.append(instance)
        self._create(instance.task, math.prod(sizes))
        for concerned in (instance.task, *self.graph.downstream[instance.task]):  # in a group these expand, too
            self._evaluate_later(concerned)

    def _revise(self, task: int, sizes: tuple[int, ...], now: datetime) -> None:
        number = math.prod(sizes)
        self._resize(task, sizes)
        for instance in tuple(self._upstream_counts.of(task)):
            if instance.map_index >= number:
                self._remove(instance, number, now)
            elif instance.state is TaskState.REMOVED:
                instance.start_date = instance.end_date = instance.reason = None
                self._set(instance, TaskEvent.RESTORED)
        self._create(task, number)
        self._evaluate_later(task)

    def _create(self, task: int, number: int) -> None:
        """Create the instances that are missing up to `number`."""
        retries = self.graph.tasks[task].retries
        for map_index in range(len(self._upstream_counts.of(task)), number):
            instance = Instance(task, map_index, max_tries=retries)
            self._upstream_counts.add(instance)
            self.effects.rows.created.append(instance)

    def _remove(self, instance: Instance, number: int, now: datetime) -> None:
        """There is no value for an instance. Without any values the first one stays and is skipped, as in a new run."""
        is_last = number == 0 and instance.map_index == 0
        event = TaskEvent.SETTLED_EMPTY if is_last else TaskEvent.SETTLED_REMOVED
        if (instance.state, event) in TRANSITIONS:
            self._forget_values(instance)
            reason = event.value if is_last else f"there are {number} values to map over now"
            self._stop(instance, now, event, reason)

    def _resize(self, task: int, sizes: tuple[int, ...]) -> None:
        self._sizes[task] = sizes
        for concerned in self._upstream_counts.resize(task, sizes):
            self._evaluate_later(concerned)
