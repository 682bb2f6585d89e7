"""Threads for plain functions in the host's process.

Daemon threads with a queue instead of a ThreadPoolExecutor, which makes the interpreter wait at exit for tasks that
never end.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable

Job = Callable[[], None]


class DaemonThreads:
    """Runs jobs in up to `size` daemon threads, first come first served. A job must not raise."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._started = 0
        self._waiting = threading.Semaphore(0)  # threads without a job

    def submit(self, job: Job) -> None:
        """Run `job` as soon as a thread is free. Call it from one thread only."""
        if not self._waiting.acquire(blocking=False) and self._started < self._size:
            self._started += 1
            threading.Thread(target=self._work, name=f"aiosched-task-{self._started}", daemon=True).start()
        self._jobs.put(job)

    def close(self) -> None:
        """End idle threads; a busy thread ends after its job."""
        for _ in range(self._started):
            self._jobs.put(None)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()
            self._waiting.release()


def run_in_thread(job: Job) -> None:
    """Run `job` in a new daemon thread."""
    threading.Thread(target=job, name="aiosched-helper", daemon=True).start()
