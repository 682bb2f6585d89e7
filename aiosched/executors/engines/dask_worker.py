"""What runs in Dask's workers, and in its scheduler: an agent for each worker, and the Dask task of a job.

Needs Dask. Elsewhere: the engine, as schedulers use it (dask_engine.py).
"""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import msgspec
from distributed import get_worker
from distributed.diagnostics.plugin import WorkerPlugin
from distributed.worker_state_machine import SecedeEvent

from aiosched.core.values.worker_messages import Job

if TYPE_CHECKING:
    from aiosched.executors.engines.agent import WorkerAgent

logger: logging.Logger = logging.getLogger(__name__)

_PLUGIN: Final = "aiosched"
TAKE_JOBS: Final = "aiosched_take_jobs"  # the name of `take_jobs` among what a Dask worker answers
_NOT_READY: Final = "this Dask worker has no agent of aiosched: it is closing, or could not start it"
READY_WITHIN: Final = 20.0  # seconds from a worker's first task
_STOP_GRACE: Final = 2.0  # seconds for the attempts of a worker that closes


class NotReady(RuntimeError):
    """A Dask worker has no agent: the job of its task has not begun, and may begin elsewhere."""


class AgentPlugin(WorkerPlugin):
    """Keeps an agent in each Dask worker. `given`: the settings; None: those of the worker's own environment."""

    idempotent = True
    name = _PLUGIN

    def __init__(self, given: dict[str, Any] | None) -> None:
        self._given = given
        self.agent: WorkerAgent | None = None
        self.given: dict[int, asyncio.Task[Any]] = {}  # jobs that were given to this worker directly

    async def setup(self, worker: Any) -> None:
        """Start the agent, with a process for each of the worker's threads."""
        from aiosched.config import Settings, load_settings
        from aiosched.executors.engines.agent import WorkerAgent
        from aiosched.executors.local.options import LocalOptions

        settings = load_settings().settings if self._given is None else Settings.model_validate(self._given)
        options = replace(LocalOptions.from_settings(settings), slots=worker.state.nthreads)
        agent = WorkerAgent(options)
        await agent.start()
        self.agent = agent  # from now on it is given jobs

        async def take(texts: list[bytes]) -> list[int]:  # Dask logs the name of what answers: a partial has none
            return await take_jobs(texts, worker)

        worker.handlers[TAKE_JOBS] = take

    async def teardown(self, worker: Any) -> None:
        """End the agent; what it still runs is lost."""
        worker.handlers.pop(TAKE_JOBS, None)
        if (agent := self.agent) is not None:
            self.agent = None
            await agent.stop(0.0)


def _plugin_of(dask_worker: Any) -> AgentPlugin | None:
    plugin: AgentPlugin | None = dask_worker.plugins.get(_PLUGIN)
    return plugin


async def _ready_plugin(dask_worker: Any) -> AgentPlugin:
    """The plugin with its agent: Dask may give a worker tasks before its plugins are set up."""
    deadline = time.monotonic() + READY_WITHIN
    while (plugin := _plugin_of(dask_worker)) is None or plugin.agent is None:
        if time.monotonic() > deadline:
            raise NotReady(_NOT_READY)
        await asyncio.sleep(0.05)
    return plugin


async def run_job(text: bytes) -> str:
    """The Dask task of a job; returns the attempt's outcome for people."""
    job = msgspec.json.decode(text, type=Job)
    plugin = await _ready_plugin(get_worker())
    assert plugin.agent is not None
    if job.is_async:
        event = SecedeEvent(key=job.name, compute_duration=0.0, stimulus_id=f"aiosched-{job.id}")
        get_worker().handle_stimulus(event)
    return str(await plugin.agent.run(job))


async def take_jobs(texts: list[bytes], dask_worker: Any = None) -> list[int]:
    """Runs in one worker: begin these jobs, without a thread of Dask's; returns those that would have to wait."""
    plugin = await _ready_plugin(dask_worker)
    assert plugin.agent is not None
    room, refused = plugin.agent.room, list[int]()
    for text in texts:
        job = msgspec.json.decode(text, type=Job)
        if job.id in plugin.given:
            continue
        if not job.is_async:
            room -= 1
            if room < 0:
                refused.append(job.id)
                continue
        task = plugin.given[job.id] = asyncio.create_task(plugin.agent.run(job))
        task.add_done_callback(partial(_ended, plugin.given, job.id))
    return refused


def _ended(given: dict[int, asyncio.Task[Any]], job: int, task: asyncio.Task[Any]) -> None:
    given.pop(job, None)
    if not task.cancelled() and (error := task.exception()) is not None:
        logger.error("the job %d failed: %s: %s", job, type(error).__name__, error)


async def held_jobs(dask_worker: Any = None) -> list[int]:
    """Runs in each worker: the jobs that it was given directly and that have not ended."""
    plugin = _plugin_of(dask_worker)
    return [] if plugin is None else list(plugin.given)


async def cancel_jobs(jobs: list[int], grace: float, dask_worker: Any = None) -> None:
    """Runs in each worker: end the attempts of these jobs, if it has them."""
    plugin = _plugin_of(dask_worker)
    if plugin is not None and plugin.agent is not None:
        await asyncio.gather(*(plugin.agent.cancel(job, grace=grace) for job in jobs))


async def stop_agent(dask_worker: Any = None) -> None:
    """Runs in each worker: report what it still runs as lost."""
    plugin = _plugin_of(dask_worker)
    if plugin is not None and plugin.agent is not None:
        await plugin.agent.stop(_STOP_GRACE)


async def unfinished(keys: list[str], dask_scheduler: Any) -> list[str]:
    """Runs in Dask's scheduler: which of the keys are tasks that wait or run."""
    tasks = dask_scheduler.tasks
    return [
        key for key in keys if key in tasks and tasks[key].state not in ("memory", "erred", "forgotten", "released")
    ]
