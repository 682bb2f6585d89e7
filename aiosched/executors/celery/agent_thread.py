"""The agent of a process of a Celery worker: on an event loop of its own, in a thread. Celery's threads call it."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any, Final

import uvloop

from aiosched.core.values.worker_messages import Job
from aiosched.executors.engines.agent import WorkerAgent
from aiosched.executors.local.options import LocalOptions

logger: logging.Logger = logging.getLogger(__name__)

_STARTS_WITHIN: Final = 60.0  # seconds
_REPORTS_WITHIN: Final = 30.0  # seconds for the reports of attempts that were ended


class AgentThread:
    """Starts a WorkerAgent in a thread. All methods can be called in any other thread.

    Raises what the agent's start raises.
    """

    def __init__(self, options: LocalOptions) -> None:
        self._started: Future[None] = Future()
        self._given: set[int] = set()  # jobs that nobody waits for
        self._lock = threading.Lock()
        self.is_stopping: bool = False
        self._thread = threading.Thread(target=self._serve, args=(options,), name="agent of aiosched", daemon=True)
        self._thread.start()
        self._started.result(_STARTS_WITHIN)

    def _serve(self, options: LocalOptions) -> None:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(self._main(options))

    async def _main(self, options: LocalOptions) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        self._grace = 0.0
        try:
            self._agent = WorkerAgent(options)
            await self._agent.start()
        except BaseException as error:
            self._started.set_exception(error)
            return
        self._started.set_result(None)
        await self._stop.wait()
        await self._agent.stop(self._grace)

    def run(self, jobs: Sequence[Job]) -> None:
        """Run the attempts of jobs to their ends: see WorkerAgent.run."""
        if jobs:
            asyncio.run_coroutine_threadsafe(self._run_all(jobs), self._loop).result()

    async def _run_all(self, jobs: Sequence[Job]) -> None:
        ends = await asyncio.gather(*map(self._agent.run, jobs), return_exceptions=True)
        if errors := [end for end in ends if isinstance(end, BaseException)]:
            raise errors[0]

    def take(self, job: Job) -> None:
        """Run the attempt of a job, and return at once."""
        with self._lock:
            if job.id in self._given:
                return
            self._given.add(job.id)
        future = asyncio.run_coroutine_threadsafe(self._agent.run(job), self._loop)
        future.add_done_callback(lambda done: self._ended(job, done))

    def _ended(self, job: Job, done: Future[Any]) -> None:
        with self._lock:
            self._given.discard(job.id)
        if not done.cancelled() and (error := done.exception()) is not None:
            logger.error("%s: the job failed: %s: %s", job.title or job.name, type(error).__name__, error)

    @property
    def given(self) -> list[int]:
        """The jobs of `take` that have not ended."""
        with self._lock:
            return list(self._given)

    @property
    def running(self) -> int:
        """How many attempts run."""
        return self._agent.running

    def cancel(self, jobs: Sequence[int], grace: float) -> None:
        """End the attempts of these jobs on request, and return at once. Those that it does not have are ignored."""
        for job in jobs:
            asyncio.run_coroutine_threadsafe(self._agent.cancel(job, grace=grace), self._loop)

    def stop(self, grace: float) -> None:
        """Begin nothing more; after `grace` seconds end what still runs, as lost. Returns at once."""
        if not self.is_stopping:
            self.is_stopping, self._grace = True, grace
            self._loop.call_soon_threadsafe(self._stop.set)

    def join(self) -> None:
        """Wait until it has stopped and all is reported."""
        self._thread.join(self._grace + _REPORTS_WITHIN)
