"""Handing triggers of deferred task instances to the executor.

A trigger is an attempt without a slot: it counts against nothing. It is handed out after the
commit that stored the deferral, again after a restart or take-over, and again when its process
died, so it may run twice; only its first event counts. What becomes of an event is decided by
the board (core/deferral.py). A scheduler that gives a partition away, stops, or is fenced out
forgets its triggers without stopping them: their events are dropped, and the new owner runs them, too.
Stopped are only triggers whose task does not wait any more, since that ends what they wait for.

Source: the semantics reference, section 25.
"""

from __future__ import annotations

from collections.abc import Iterable

from aiosched.core.board import Board, Instance
from aiosched.core.deferral import trigger_key
from aiosched.core.messages import Attempt, Outcome
from aiosched.core.states import TaskState
from aiosched.scheduler.attempts import Attempts


def triggers_to_run(waiting: Iterable[tuple[Board, Instance]], attempts: Attempts) -> list[Attempt]:
    """The attempts for those that still wait and whose trigger neither runs here nor has just ended."""
    ended = {report.key for report in attempts.reports if report.outcome is not Outcome.STARTED}
    found: dict[object, Attempt] = {}
    for board, instance in waiting:
        waited = board.deferrals.get(instance)
        if instance.state is not TaskState.DEFERRED or waited is None or waited.resume is not None:
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
