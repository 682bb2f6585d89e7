"""Imports DAG files of runs that are expected, one after the other, while attempts run. Source: decision 55."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from typing import Final

from aiosched.core.values.messages import Attempt, AttemptKey, RunInfo
from aiosched.executors.attempt.failures import reason_of
from aiosched.executors.attempt.logs import AttemptLog, current_log
from aiosched.executors.worker.background_imports import InBackground

_MOST_REMEMBERED: Final = 10_000
_MOST_WAITING: Final = 1000


class EarlyImports:
    """See the module docstring. `ended` gets the number of each import, its seconds, and why it failed, if it did.

    A file that failed is left alone until its source has changed.
    """

    def __init__(self, dags: InBackground, ended: Callable[[int, float, str | None], object]) -> None:
        self._dags, self._ended = dags, ended
        self._waiting: deque[tuple[int, RunInfo]] = deque()
        self._failed: dict[tuple[object, ...], str] = {}  # and why
        self._work: asyncio.Task[None] | None = None

    def add(self, number: int, run: RunInfo) -> None:
        """Import the file of `run` when those before it are imported."""
        if len(self._waiting) < _MOST_WAITING:
            self._waiting.append((number, run))
            if self._work is None:
                self._work = asyncio.get_running_loop().create_task(self._import_all())

    def close(self) -> None:
        """Import no more. An import that is being done goes on in its thread."""
        self._waiting.clear()
        if self._work is not None:
            self._work.cancel()

    async def _import_all(self) -> None:
        while self._waiting:
            number, run = self._waiting.popleft()
            place = (*run.code, run.file, run.source_hash)
            began, error = time.monotonic(), self._failed.get(place)
            if error is None:
                current_log.set(_dropped_output(run))
                try:
                    await self._dags.warm(run)
                except Exception as problem:
                    error = self._failed[place] = reason_of(problem)
                    if len(self._failed) > _MOST_REMEMBERED:
                        del self._failed[next(iter(self._failed))]
            self._ended(number, time.monotonic() - began, error)
        self._work = None


def _dropped_output(run: RunInfo) -> AttemptLog:
    """In place of the log of an attempt, for there is none yet."""
    nobody = Attempt(key=AttemptKey(run.key, -1, -1, 0), run=run, task_id="", is_async=True, max_tries=0)
    return AttemptLog(None, nobody, 0)
