"""What a board is to evaluate next. Does not live here: the decisions (board.py)."""

from __future__ import annotations

from collections.abc import Sequence

from aiosched.core.graph.instances import Instance


class Pending:
    """What is to be evaluated, in passes: tasks with all their instances, and single instances.

    A pass goes from downstream to upstream, so that each task is decided by the states with which the pass began: what
    comes out does not depend on why a task is evaluated. `too_soon` are unexpanded instances that can run but whose
    number is unknown: they come when nothing else is left.
    """

    __slots__ = ("instances", "pass_", "tasks", "too_soon")

    def __init__(self) -> None:
        self.tasks: set[int] = set()  # of the next pass
        self.instances: dict[Instance, None] = {}  # of the next pass
        self.pass_: list[int | Instance] = []  # what is left of this pass, its next at the end
        self.too_soon: dict[Instance, None] = {}

    def begin_pass(self, depth: Sequence[int]) -> bool:
        """Begin the next pass; `depth` is that of each task. Returns whether there is anything in it."""
        if not self.instances:
            if not self.tasks:
                return False
            if len(self.tasks) == 1:
                self.pass_.append(self.tasks.pop())
                return True
        self.pass_ = [*self.tasks, *self.instances]
        self.pass_.reverse()  # those of equal depth are taken in their order
        self.pass_.sort(key=lambda one: depth[one if isinstance(one, int) else one.task])
        self.tasks.clear()
        self.instances.clear()
        return True

    def clear(self) -> None:
        self.tasks.clear()
        self.instances.clear()
        self.pass_.clear()
        self.too_soon.clear()
