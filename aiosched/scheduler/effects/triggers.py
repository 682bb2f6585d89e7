"""Handing triggers of deferred task instances to the executor.

A trigger is an attempt without a slot: it counts only against `scheduler.max_triggers`. It is
handed out after the commit that stored the deferral, again after a restart or take-over, and again when its
process died, so it may run twice; only its first event counts. The board decides what follows from an
event (core/run/deferral.py). A scheduler that gives a partition away, stops, or is fenced out drops its triggers
without calling `on_kill`, since the new owner runs them; only triggers whose task no longer waits are killed.

Source: the semantics reference, section 25.
"""

from __future__ import annotations

import logging
from typing import Final

from aiosched.core.values.states import TaskState
from aiosched.db.statements.triggers import delete_orphans, waiting_triggers
from aiosched.scheduler.effects.attempt_control import stop_attempt
from aiosched.scheduler.failures.isolation import concerning
from aiosched.scheduler.session.session import Session

logger: logging.Logger = logging.getLogger(__name__)

_SWEEP_SECONDS: Final = 60.0


async def sweep_triggers(session: Session) -> None:
    """Once a minute: delete rows that no task instance waits for, and stop triggers whose row is gone (25.3).

    Both are safety nets: rows come and go with the states of their instances, unless rows are deleted by hand.
    Call it with `locks.ownership` held.
    """
    attempts, cache = session.env.attempts, session.cache
    if not session.triggers.sweep.is_over(session.env.clock.monotonic(), _SWEEP_SECONDS):
        return
    running = list(attempts.triggers)
    async with session.env.db.acquire() as conn:
        if deleted := await delete_orphans(conn, cache.partitions, session.env.incarnation):
            logger.warning("deleted %d triggers that no task instance waits for", deleted)
        stored = await waiting_triggers(conn, {key.run for key in running})
    for key in running:
        if key not in attempts.triggers or key[:3] in stored:
            continue
        found = cache.find(key)
        if found is None:
            logger.warning("stopped a trigger of run %d, which no longer exists", key.run)
            attempts.triggers.discard(key)
            stop_attempt(session, key)
        elif found[1].stored_state is TaskState.DEFERRED and found[0] not in cache.unstored.dirty:
            board, instance = found
            with concerning(board.run.dag_id, "the end of a trigger"):
                board.lose_trigger(instance, session.env.clock.now())
                cache.work.to_evaluate[board] = None
                session.context.apply_effects(board)
            session.wakeups.evaluation.wake()
