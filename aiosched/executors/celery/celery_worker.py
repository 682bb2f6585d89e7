"""What runs in Celery workers: the task of a job, and the remote control commands by which schedulers look at them.

Each process that runs tasks has one agent, which it starts for its first job: with the pool `threads` that is the
worker itself, with the pool `prefork` each of its children. A plain function holds its thread or child until it has
ended; a coroutine is given to the agent, and the task ends at once, as with functions that end quickly.
Source: docs/decisions/0036-attempts-on-engines.md.
"""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from celery import Celery, Task, signals
from celery.exceptions import Reject
from celery.worker import state as worker_state
from celery.worker.control import control_command, inspect_command

from aiosched.config import Settings
from aiosched.config.secret_environment import warn_of_environments
from aiosched.executors.celery.agent_thread import AgentThread
from aiosched.executors.celery.application import CANCEL, LOOK, RUN_JOBS, jobs_of, make_app, name_of
from aiosched.executors.celery.sealing import Seals
from aiosched.executors.local.options import LocalOptions

logger: logging.Logger = logging.getLogger(__name__)

_TOLD_EVERY: Final = 60.0  # seconds between two lines about messages that do not open


class CeleryWorker:
    """One Celery worker, or one child of it. `grace`: seconds that attempts have to end when it is told to stop."""

    def __init__(self, options: LocalOptions, seals: Seals, *, grace: float) -> None:
        self._options, self._seals, self._grace = options, seals, grace
        self._refused, self._next_told = 0, 0.0  # messages; monotonic second
        self._slots = 1  # tasks that this process runs at a time
        self._agent: AgentThread | None = None
        self._lock = threading.Lock()

    def register(self, app: Celery) -> None:
        """Add the task and the commands to the application, and follow the life of the worker's processes."""

        def run_jobs(task: Task, text: object, *_: object) -> None:
            self.run_jobs(text)

        app.task(run_jobs, bind=True, name=RUN_JOBS)
        inspect_command(name=LOOK)(self.look)
        control_command(name=CANCEL)(self.cancel)
        signals.worker_ready.connect(self._begins, weak=False)
        signals.worker_process_init.connect(self._child_begins, weak=False)
        signals.worker_shutting_down.connect(self._is_told_to_stop, weak=False)
        signals.worker_process_shutdown.connect(self._ends, weak=False)
        signals.worker_shutdown.connect(self._ends, weak=False)

    # -- the life of a process

    def _begins(self, sender: Any, **_: Any) -> None:
        self._slots = int(sender.controller.concurrency)
        known = signal.getsignal(signal.SIGQUIT)  # Celery comes here again after it has lost its broker
        if threading.current_thread() is threading.main_thread() and callable(known) and known != self._is_told_to_quit:
            self._quits = known
            signal.signal(signal.SIGQUIT, self._is_told_to_quit)
            # A closed terminal stops it. Celery's own handler starts it again, without the options of our command.
            signal.signal(signal.SIGHUP, signal.getsignal(signal.SIGTERM))

    def _is_told_to_quit(self, number: int, frame: Any) -> None:
        """Celery's own handler waits for its threads before it says anything, and they wait for the agent."""
        self._is_told_to_stop()
        self._quits(number, frame)

    def _child_begins(self, **_: Any) -> None:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as SIGINT: the parent decides
        self._slots = 1

    def _is_told_to_stop(self, **_: Any) -> None:
        if self._agent is not None:
            self._agent.stop(self._grace)

    def _ends(self, **_: Any) -> None:
        if (agent := self._agent) is not None:
            agent.stop(self._grace)
            agent.join()

    def agent(self) -> AgentThread:
        """The agent of this process."""
        with self._lock:
            if self._agent is None:
                self._agent = AgentThread(replace(self._options, slots=self._slots))
            return self._agent

    # -- jobs

    def run_jobs(self, text: object) -> None:
        """The Celery task of some jobs. A worker that is about to stop gives it back to the broker.

        A message that does not open is dropped: it is not a scheduler's, or for workers of another team.
        """
        message = self._seals.open(text)
        if message is None:
            self._tell_of_refused()
            return
        jobs, held = message.jobs, message.held
        agent = self.agent()
        if agent.is_stopping:
            raise Reject("this worker is about to stop", requeue=True)
        for job in jobs:
            if job.is_async or not held:
                agent.take(job)
        agent.run([job for job in jobs if held and not job.is_async])

    def _tell_of_refused(self) -> None:
        with self._lock:
            self._refused += 1
            if (now := time.monotonic()) < self._next_told:
                return
            count, self._refused, self._next_told = self._refused, 0, now + _TOLD_EVERY
        logger.error(
            "%d messages were dropped: they were not sealed with a key of this worker (celery.keys); it needs that of "
            "its schedulers, or of the team whose queues it takes (celery.team_keys there)",
            count,
        )

    def look(self, state: Any, **_: Any) -> dict[str, Any]:
        """Remote control: what this worker offers, and the jobs that it has."""
        consumer = state.consumer
        queues = consumer.task_consumer.queues if consumer.task_consumer else ()
        jobs = {job for name in list(worker_state.requests) for job in jobs_of(name)}
        return {
            "concurrency": int(consumer.controller.concurrency),
            "queues": [queue.name for queue in queues],
            "jobs": sorted(jobs | set(self._agent.given if self._agent is not None else ())),
        }

    def cancel(self, state: Any, jobs: Sequence[int] = (), grace: float = 0.0, **_: Any) -> None:
        """Remote control: do not begin these jobs, and end those that run in this process.

        Children learn it from the answer to their next heartbeat instead.
        """
        for job in jobs:
            worker_state.revoked.add(name_of([job]))
        if self._agent is not None:
            self._agent.cancel(jobs, grace)


def make_worker_app(settings: Settings) -> Celery:
    """The application of a worker. Raises ConfigError."""
    logging.getLogger("httpx2").setLevel(logging.WARNING)  # Celery shows the loggers of all libraries
    warn_of_environments(settings.executor.run_as)
    app = make_app(settings, worker_soft_shutdown_timeout=settings.scheduler.grace)
    options, seals = LocalOptions.from_settings(settings), Seals(settings)
    CeleryWorker(options, seals, grace=settings.scheduler.grace).register(app)
    return app
