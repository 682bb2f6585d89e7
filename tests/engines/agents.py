"""An engine for tests: carries jobs to worker agents in this process, whose attempts run in real worker processes.

It does what an engine may do: it can lose jobs, deliver them twice, forget everything, and lose a worker.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

from aiosched.core.values.messages import Outcome
from aiosched.core.values.worker_messages import Job
from aiosched.executors.engines.agent import WorkerAgent
from aiosched.executors.engines.engine import EngineUnavailable
from aiosched.executors.local.options import LocalOptions

URL = "http://worker-api"


class AgentEngine:
    """Implements Engine. `copies`: how often each job is delivered; `is_down`: it accepts nothing."""

    name = "agents"
    sends_ahead = True

    def __init__(self, dags_folder: Path, transport: Any, *, workers: int = 1, slots: int = 4) -> None:
        self._options = LocalOptions(dags_folder=dags_folder, slots=slots, kill_after=0.5, cleanup_time=0.5)
        self._transport, self._workers = transport, workers
        self.slots, self.async_slots = 2 * slots * workers, 1000
        self.agents: list[WorkerAgent] = []
        self.copies, self.is_down = 1, False
        self.sent: list[Job] = []
        self.outcomes: list[Outcome | None] = []
        self.loses: Callable[[Job], bool] = lambda job: False
        self._running: dict[int, list[asyncio.Task[None]]] = {}
        self._next = 0

    async def start(self, ended: Callable[[int, str], None]) -> None:
        self._ended = ended
        while len(self.agents) < self._workers:
            await self.add_worker()

    async def add_worker(self) -> WorkerAgent:
        agent = WorkerAgent(self._options, transport=self._transport)
        await agent.start()
        self.agents.append(agent)
        return agent

    async def send(self, jobs: Sequence[Job], *, quick: bool) -> None:
        if self.is_down:
            raise EngineUnavailable("it is down")
        for job in jobs:
            self.sent.append(job)
            if self.loses(job):
                continue
            for _ in range(self.copies):
                agent = self.agents[self._next % len(self.agents)]
                self._next += 1
                task = asyncio.create_task(self._run(agent, job))
                self._running.setdefault(job.id, []).append(task)

    async def _run(self, agent: WorkerAgent, job: Job) -> None:
        with contextlib.suppress(asyncio.CancelledError):
            self.outcomes.append(await agent.run(job))
        self._running.pop(job.id, None)

    async def cancel(self, jobs: Collection[int], *, grace: float) -> None:
        for job in jobs:
            for agent in self.agents:
                await agent.cancel(job, grace=grace)

    async def holds(self, jobs: Collection[int]) -> set[int]:
        if self.is_down:
            raise EngineUnavailable("it is down")
        return {job for job in jobs if job in self._running}

    async def stop(self) -> None:
        pass  # its workers go on

    async def close(self) -> None:
        """End all workers."""
        await asyncio.gather(*(agent.stop(0.0) for agent in self.agents))
        left = [task for tasks in self._running.values() for task in tasks]  # they report to servers that are lost
        for task in left:
            task.cancel()
        await asyncio.gather(*left)
