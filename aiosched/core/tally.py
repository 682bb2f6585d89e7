"""Who of a run is finished: the states by task, counted, and what the rules make of the counts.

Lives here: the instances of a run by task, running counts of their states, and the verdict
on a task, which reads nothing else. A move of one instance costs as much as the task has
neighbours. Does not live here: what a verdict leads to (board.py), the rules (trigger_rules.py).

Source: the semantics reference, sections 5.1, 8.3 and 8.4.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from aiosched.core.graph import Graph
from aiosched.core.instances import Instance
from aiosched.core.states import FINISHED, SCHEDULABLE, TaskState
from aiosched.core.trigger_rules import Counts, Verdict, explain, judge, judge_setups


class Tally:
    """The instances of one run, counted. Who changes a state tells it by `moved`.

    unfinished   how many instances are not finished
    alive        how many of those are under way or wait for a time: all but `NONE`
    totals       for each task the number of its direct upstream instances
    """

    __slots__ = ("_counts", "_followers", "_graph", "_of_task", "alive", "totals", "unfinished")

    def __init__(self, graph: Graph, instances: Iterable[Instance]) -> None:
        self._graph = graph
        self._followers = _followers(graph)
        self._of_task: list[tuple[Instance, ...]] = [()] * len(graph.tasks)
        self._counts: list[Counts | None] = [None] * len(graph.tasks)  # None: nothing upstream finished yet
        self.unfinished = self.alive = 0
        for instance in instances:
            self._of_task[instance.task] += (instance,)
            if instance.state in FINISHED:
                self._count(instance.task, instance.state, 1)
            else:
                self.unfinished += 1
                self.alive += _is_alive(instance.state)
        self.totals = [sum(len(self._of_task[up]) for up in upstream) for upstream in graph.upstream]

    def __iter__(self) -> Iterator[Instance]:
        return (instance for group in self._of_task for instance in group)

    def of(self, task: int) -> tuple[Instance, ...]:
        """The instances of a task; none for one that takes no part in the run."""
        return self._of_task[task]

    def counts(self, task: int) -> Counts:
        """The finished direct upstream instances of a task. Not to be changed."""
        return self._counts[task] or _NOTHING_FINISHED

    def moved(self, instance: Instance, old: TaskState) -> Collection[int]:
        """Count the change from `old` to the instance's state; returns the tasks that it may concern."""
        new = instance.state
        was_finished, is_finished = old in FINISHED, new in FINISHED
        self.unfinished += was_finished - is_finished
        self.alive += _is_alive(new) - _is_alive(old)
        if not (was_finished or is_finished):
            return (instance.task,) if new in SCHEDULABLE else ()
        if was_finished:
            self._count(instance.task, old, -1)
        if is_finished:
            self._count(instance.task, new, 1)
        concerned = self._graph.downstream[instance.task]
        if self._followers:
            concerned = (*concerned, *self._followers.get(instance.task, ()))
        return concerned if is_finished else (*concerned, instance.task)

    def judge(self, task: int) -> Verdict:
        """What the setups further up, the trigger rule, and of a teardown its scope say together."""
        graph, total = self._graph, self.totals[task]
        by_setups = Verdict.RUN
        if graph.indirect_setups[task] and (by_setups := self._judge_setups(task)).settles:
            return by_setups
        verdict = Verdict.RUN
        if total:
            setups = 0
            if graph.upstream_setups[task]:
                setups = sum(len(self._of_task[up]) for up in graph.upstream[task] if graph.is_setup[up])
            verdict = judge(graph.rules[task], self._counts[task] or _NOTHING_FINISHED, total, setups)
        if verdict is not Verdict.RUN:
            return verdict
        for inner in graph.teardown_scopes[task]:
            for instance in self._of_task[inner]:
                if instance.state not in FINISHED:
                    return Verdict.WAIT
        return by_setups

    def why_settled(self, task: int) -> str:
        """One line for people about a verdict that settles."""
        if self._graph.indirect_setups[task] and self._judge_setups(task).settles:
            return "a setup that it needs did not succeed"
        return explain(self._graph.rules[task], self.counts(task), self.totals[task])

    def _judge_setups(self, task: int) -> Verdict:
        counts, total = Counts(), 0
        for setup in self._graph.indirect_setups[task]:
            for instance in self._of_task[setup]:
                counts.add(instance.state)
                total += 1
        return judge_setups(counts, total)

    def _count(self, task: int, state: TaskState, step: int) -> None:
        is_setup = self._graph.is_setup[task]
        for downstream in self._graph.downstream[task]:
            counts = self._counts[downstream]
            if counts is None:
                counts = self._counts[downstream] = Counts()
            counts.add(state, is_setup=is_setup, by=step)


_NOTHING_FINISHED = Counts()


def _is_alive(state: TaskState) -> bool:
    return state is not TaskState.NONE and state not in FINISHED


def _followers(graph: Graph) -> dict[int, list[int]]:
    """For each task those that look at it without being direct downstreams: below a setup, behind a scope."""
    followers: dict[int, list[int]] = {}
    for looked_at in (graph.indirect_setups, graph.teardown_scopes):
        if any(looked_at):
            for task, others in enumerate(looked_at):
                for other in others:
                    followers.setdefault(other, []).append(task)
    return followers
