"""The triggers that wait in one process: an asyncio task each, by a key of whoever runs them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from aiosched.core.messages import Report
from aiosched.executors.attempts import TriggerExecution
from aiosched.executors.runner import DagSource

K = TypeVar("K", bound=Hashable)


class TriggerTasks(Generic[K]):
    """Runs triggers on the current loop; `on_end(key, report)` is told of each that was not stopped."""

    def __init__(self, dags: DagSource, on_end: Callable[[K, Report], None]) -> None:
        self._dags, self._on_end = dags, on_end
        self._loop = asyncio.get_running_loop()
        self._waiting: dict[K, tuple[asyncio.Task[None], TriggerExecution]] = {}
        self._leaving: set[asyncio.Task[None]] = set()  # stopped, in their clean-up

    def __len__(self) -> int:
        return len(self._waiting)

    def start(self, key: K, execution: TriggerExecution) -> None:
        """Let a trigger wait; one that waits under the same key already is dropped without its `on_kill`."""
        self.stop(key, kill=False)
        self._waiting[key] = (self._loop.create_task(self._run(key, execution)), execution)

    def stop(self, key: K, *, kill: bool) -> bool:
        """Stop a trigger without a report; whether it was there. `kill`: its task was ended, so `on_kill` runs."""
        task, execution = self._waiting.pop(key, (None, None))
        if task is None or execution is None:
            return False
        execution.stop_requested, execution.killed = True, kill
        task.cancel()
        self._leaving.add(task)
        task.add_done_callback(self._leaving.discard)
        return True

    def stop_all(self) -> list[K]:
        """Stop all triggers without reports, as when they go on elsewhere; returns their keys."""
        keys = list(self._waiting)
        for key in keys:
            self.stop(key, kill=False)
        return keys

    async def left(self) -> None:
        """Wait until the clean-up of all stopped triggers is over."""
        await asyncio.gather(*self._leaving, return_exceptions=True)

    async def _run(self, key: K, execution: TriggerExecution) -> None:
        report = await execution.run(self._dags)
        held = self._waiting.get(key)
        if held is not None and held[1] is execution:
            del self._waiting[key]
            self._on_end(key, report)
