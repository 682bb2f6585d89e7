"""In an async worker: the heartbeat of its loop, and the attempt that blocks it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

from aiosched.authoring.runtime.xcom_values import DAG_MODULES
from aiosched.core.values.messages import AttemptKey
from aiosched.executors.attempt.logs import current_log
from aiosched.executors.attempt.loop_watch import LoopWatch, context_of, line_of
from aiosched.executors.worker.loop_heartbeat import PERIOD, BlockingAttempt, LoopHeartbeat


class LoopHealth:
    """Monitors the loop that creates it. `running()` returns the number of running attempts."""

    def __init__(self, sign: LoopHeartbeat, running: Callable[[], int]) -> None:
        self._sign, self._running = sign, running
        self._loop = asyncio.get_running_loop()
        self._watch = LoopWatch(self._blocked, on_end=self._goes_on)
        self._logged: set[tuple[AttemptKey, str]] = set()  # each line is logged once per attempt
        self._is_on = False

    def turn_on(self) -> None:
        """An attempt begins."""
        if not self._is_on:
            self._is_on = True
            self._watch.turn(True)
            self._beat()

    def close(self) -> None:
        """End the watch thread."""
        self._watch.close()

    def _beat(self) -> None:
        if self._running():
            self._sign.last = time.monotonic()
            self._loop.call_later(PERIOD, self._beat)
        else:
            self._sign.last = 0.0
            self._is_on = False
            self._watch.turn(False)
            self._logged.clear()

    def _blocked(self, task: asyncio.Task[Any] | None, frame: FrameType) -> None:
        """Called in the watch thread, while the loop is blocked."""
        context = context_of(task) if task is not None else None
        log = context.get(current_log) if context is not None else None
        where = line_of(frame, DAG_MODULES)
        key = log.attempt.key if log is not None else None
        self._sign.blocker = BlockingAttempt(key, where)
        if log is not None and key is not None and (key, where) not in self._logged:
            self._logged.add((key, where))
            others = self._running() - 1
            attempts = "attempt" if others == 1 else "attempts"
            with_it = f", and {others} other {attempts} in its worker with it," if others else ""
            message = f"blocks the event loop{with_it} at {where}. Await, or use asyncio.to_thread."
            log.line("WARNING", "aiosched", message)

    def _goes_on(self) -> None:
        self._sign.blocker = None
