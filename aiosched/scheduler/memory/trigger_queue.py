"""The queue of triggers of deferred task instances that wait to be handed out."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from itertools import count

from aiosched.core.run.board import Board, Instance
from aiosched.core.run.deferral import trigger_key
from aiosched.core.values.messages import Attempt, AttemptKey, Outcome
from aiosched.core.values.states import TaskState
from aiosched.scheduler.attempts.attempts import Attempts
from aiosched.scheduler.concurrency.period import Period
from aiosched.scheduler.failures.isolation import concerning


class TriggerQueue:
    """Triggers that wait for capacity: by priority weight, then by age (25.3)."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Board, Instance]] = []
        self._numbers = count()
        self.sweep: Period = Period()  # of comparing triggers with their rows

    def __len__(self) -> int:
        return len(self._heap)

    def add(self, waiting: Iterable[tuple[Board, Instance]]) -> None:
        """Queue triggers."""
        for board, instance in waiting:
            weight = board.weight(instance)
            entry = (-weight, next(self._numbers), board, instance)
            heapq.heappush(self._heap, entry)

    def take(self, attempts: Attempts, capacity: int, holds: Callable[[Board], bool]) -> list[Attempt]:
        """The attempts for which there is capacity, best first; those no longer wanted are dropped.

        `holds` returns whether a board is held: a run that was given away and loaded again has a new board.
        """
        found: dict[AttemptKey, Attempt] = {}
        while self._heap and (room := capacity - len(attempts.triggers) - len(found)) > 0:
            best = [heapq.heappop(self._heap)[2:] for _ in range(min(room, len(self._heap)))]
            held = [(board, instance) for board, instance in best if holds(board)]
            found |= {attempt.key: attempt for attempt in triggers_to_run(held, attempts)}
        return list(found.values())


def triggers_to_run(waiting: Iterable[tuple[Board, Instance]], attempts: Attempts) -> list[Attempt]:
    """The attempts of instances that are stored as waiting, and whose trigger neither runs here nor has just ended."""
    ended = {report.key for report in attempts.reports if report.outcome is not Outcome.STARTED}
    found: dict[object, Attempt] = {}
    for board, instance in waiting:
        with concerning(board.run.dag_id, "handing out a trigger"):
            attempt = _attempt_of(board, instance)
            if attempt is not None and attempt.key not in attempts.triggers and attempt.key not in ended:
                found[attempt.key] = attempt
    return list(found.values())


def _attempt_of(board: Board, instance: Instance) -> Attempt | None:
    """The attempt that runs the trigger of an instance; None if it resumes, or has another trigger by now."""
    waited = board.deferrals.get(instance)
    if waited is None or waited.resume is not None:
        return None
    if not instance.state is instance.stored_state is TaskState.DEFERRED:
        return None
    task = board.graph.tasks[instance.task]
    return Attempt(
        key=trigger_key(board.key(instance)),
        run=board.info,
        task_id=task.task_id,
        is_async=True,
        max_tries=instance.max_tries,
        priority_weight=board.weight(instance),
        executor=task.executor,
        trigger=waited.deferral,
    )
