"""Handing triggers of deferred task instances to the executor.

A trigger is an attempt without a slot: it counts against nothing but `scheduler.max_triggers`. It is
handed out after the commit that stored the deferral, again after a restart or take-over, and again when its
process died, so it may run twice; only its first event counts. What becomes of an event is decided by
the board (core/run/deferral.py). A scheduler that gives a partition away, stops, or is fenced out drops its triggers
without their `on_kill`, since the new owner runs them; killed are only those whose task does not wait any more.

Source: the semantics reference, section 25.
"""

from __future__ import annotations

import heapq
import logging
from collections.abc import Callable, Iterable
from itertools import count
from typing import TYPE_CHECKING, Final

from aiosched.core.run.board import Board, Instance
from aiosched.core.run.deferral import trigger_key
from aiosched.core.values.messages import Attempt, AttemptKey, Outcome
from aiosched.core.values.states import TaskState
from aiosched.db.statements.triggers import delete_orphans, waiting_triggers
from aiosched.scheduler.state.attempts import Attempts

if TYPE_CHECKING:
    from aiosched.scheduler.session import Session

logger = logging.getLogger(__name__)

_SWEEP_SECONDS: Final = 60.0


class TriggerQueue:
    """Triggers that are to be handed out, and wait for a place: by priority weight, then by age (25.3)."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Board, Instance]] = []
        self._numbers = count()
        self._swept: float | None = None

    def __len__(self) -> int:
        return len(self._heap)

    def add(self, waiting: Iterable[tuple[Board, Instance]]) -> None:
        """Let triggers wait for a place."""
        for board, instance in waiting:
            entry = (-board.graph.weights[instance.task], next(self._numbers), board, instance)
            heapq.heappush(self._heap, entry)

    def take(self, attempts: Attempts, capacity: int, holds: Callable[[Board], bool]) -> list[Attempt]:
        """The attempts for which there is a place, best first; those that nobody wants any more are dropped.

        `holds` tells whether a board is held: that of a run that left and came back is another one.
        """
        found: dict[AttemptKey, Attempt] = {}
        while self._heap and (room := capacity - len(attempts.triggers) - len(found)) > 0:
            best = [heapq.heappop(self._heap)[2:] for _ in range(min(room, len(self._heap)))]
            held = [(board, instance) for board, instance in best if holds(board)]
            found |= {attempt.key: attempt for attempt in triggers_to_run(held, attempts)}
        return list(found.values())

    def sweep_due(self, now: float, every: float) -> bool:
        """Whether it is `every` seconds since triggers were held against their rows; begins the next period then."""
        if self._swept is not None and now - self._swept < every:
            return False
        self._swept = now
        return True


async def sweep_triggers(session: Session) -> None:
    """Once a minute: forget what nobody waits for, and end triggers whose row is gone (25.3).

    Both are safety nets: rows come and go with the states of their instances, unless somebody deletes some by hand.
    Call it with `session.ownership_lock` held.
    """
    attempts, cache = session.attempts, session.cache
    if not session.triggers.sweep_due(session.clock.monotonic(), _SWEEP_SECONDS):
        return
    running = list(attempts.triggers)
    async with session.db.acquire() as conn:
        if deleted := await delete_orphans(conn, cache.partitions, session.incarnation):
            logger.warning("deleted %d triggers that no task instance waits for", deleted)
        stored = await waiting_triggers(conn, {key.run for key in running})
    for key in running:
        if key not in attempts.triggers or key[:3] in stored:
            continue
        found = cache.find(key)
        if found is None:
            logger.warning("stopped a trigger of run %d, which is not there any more", key.run)
            attempts.triggers.discard(key)
            session.stop_attempt(key)
        elif found[1].stored_state is TaskState.DEFERRED and found[0] not in cache.dirty:
            board, instance = found
            board.lose_trigger(instance, session.clock.now())
            cache.to_evaluate[board] = None
            session.absorb(board)
            session.evaluation.wake()


def triggers_to_run(waiting: Iterable[tuple[Board, Instance]], attempts: Attempts) -> list[Attempt]:
    """The attempts for those that wait, as the rows know, and whose trigger neither runs here nor has just ended."""
    ended = {report.key for report in attempts.reports if report.outcome is not Outcome.STARTED}
    found: dict[object, Attempt] = {}
    for board, instance in waiting:
        waited = board.deferrals.get(instance)
        if waited is None or waited.resume is not None:
            continue
        if not instance.state is instance.stored_state is TaskState.DEFERRED:  # it goes on, or waits for something new
            continue
        key = trigger_key(board.key(instance))
        if key in attempts.triggers or key in ended:
            continue
        task = board.graph.tasks[instance.task]
        found[key] = Attempt(
            key=key,
            run=board.info,
            task_id=task.task_id,
            is_async=True,
            max_tries=instance.max_tries,
            priority_weight=board.graph.weights[instance.task],
            executor=task.executor,
            trigger=waited.deferral,
        )
    return list(found.values())
