"""The triggers that wait in one process, each in an asyncio task, by a key of the caller.

A trigger that blocks the loop is reported in the log of this process and in that of the waiting task.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Hashable
from types import FrameType
from typing import Any, Final, Generic, TypeVar

from aiosched.core.values.messages import Report
from aiosched.executors.attempt.attempts import KILL_GRACE, TriggerExecution
from aiosched.executors.attempt.driven import DrivenCoroutine
from aiosched.executors.attempt.loop_watch import BLOCKED, LoopWatch
from aiosched.executors.attempt.runner import DagSource

logger: logging.Logger = logging.getLogger(__name__)

K = TypeVar("K", bound=Hashable)

_CANCEL_AGAIN_AFTER: Final = 2 * KILL_GRACE + 5.0  # seconds; for a stopped trigger that still runs


class TriggerTasks(Generic[K]):
    """Runs triggers on the current loop; `on_end(key, report)` is called for each trigger that was not stopped."""

    def __init__(
        self,
        dags: DagSource,
        on_end: Callable[[K, Report], None],
        *,
        patience: float = BLOCKED,
        cancel_again_after: float = _CANCEL_AGAIN_AFTER,
    ) -> None:
        self._dags, self._on_end = dags, on_end
        self._loop = asyncio.get_running_loop()
        self._waiting: dict[K, tuple[asyncio.Task[None], TriggerExecution]] = {}
        self._executions: dict[asyncio.Task[Any], TriggerExecution] = {}  # of triggers that wait or clean up
        self._leaving: set[asyncio.Task[None]] = set()  # stopped, cleaning up
        self._watch = LoopWatch(self._blocked, patience=patience)
        self._cancel_again_after = cancel_again_after

    def __len__(self) -> int:
        return len(self._waiting)

    def start(self, key: K, execution: TriggerExecution) -> None:
        """Start a trigger; a trigger with the same key is dropped without its `on_kill`."""
        self.stop(key, kill=False)
        execution.on_event = lambda report: self._deliver(key, execution, report)
        task = self._loop.create_task(DrivenCoroutine(self._run(key, execution)))
        self._waiting[key] = (task, execution)
        self._executions[task] = execution
        task.add_done_callback(self._ended)
        self._watch.turn(True)

    def stop(self, key: K, *, kill: bool) -> bool:
        """Stop a trigger without a report; returns whether it existed.

        `kill`: its task was ended, so `on_kill` runs.
        """
        task, execution = self._waiting.pop(key, (None, None))
        if task is None or execution is None:
            return False
        execution.stop_requested, execution.killed = True, kill
        task.cancel()
        self._leaving.add(task)
        again = self._loop.call_later(self._cancel_again_after, self._cancel_again, task, execution)
        task.add_done_callback(lambda _: again.cancel())
        return True

    def stop_all(self) -> list[K]:
        """Stop all triggers without reports, for example to move them elsewhere; returns their keys."""
        keys = list(self._waiting)
        for key in keys:
            self.stop(key, kill=False)
        return keys

    async def left(self) -> None:
        """Wait until all stopped triggers have cleaned up; those that do not stop are abandoned."""
        self._watch.close()
        if self._leaving:
            await asyncio.wait(self._leaving, timeout=self._cancel_again_after)

    async def _run(self, key: K, execution: TriggerExecution) -> None:
        report = await execution.run(self._dags)
        self._deliver(key, execution, report)

    def _deliver(self, key: K, execution: TriggerExecution, report: Report) -> None:
        held = self._waiting.get(key)
        if held is not None and held[1] is execution:
            if not report.more:
                del self._waiting[key]
            self._on_end(key, report)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._leaving.discard(task)
        self._executions.pop(task, None)
        if not self._executions:
            self._watch.turn(False)

    def _cancel_again(self, task: asyncio.Task[None], execution: TriggerExecution) -> None:
        """Log that a trigger caught its cancellation and still runs, and cancel it again."""
        if not task.done():
            logger.warning("%s was told to stop and still runs: it must not catch CancelledError", execution.title)
            task.cancel()

    def _blocked(self, task: asyncio.Task[Any] | None, frame: FrameType) -> None:
        """Called in the watch thread."""
        execution = self._executions.get(task) if task is not None else None
        if execution is not None and (message := execution.log_blocked_loop(frame)) is not None:
            logger.warning("%s", message)
