"""What an engine is: a place that carries jobs to workers. Dask, Celery and Kubernetes are engines.

What an attempt is, when it may start and what became of it stays in the database: an engine may lose a job, deliver it
twice, or deliver it when nobody needs it any more. The start is claimed once, and a job that was lost is sent again.
Elsewhere: what schedulers do with engines (scheduler/engines/), what workers do with jobs (agent.py).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from aiosched.core.values.worker_messages import Job


class EngineUnavailable(Exception):
    """The engine does not answer: what was asked of it is to be tried again later."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineWorker:
    """A worker that answered. `slots`: plain functions that it runs at a time; `jobs`: those that it has."""

    name: str
    slots: int
    jobs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineStatus:
    """What an engine saw at its last look. `queues`: how many jobs wait in each, as far as the engine has queues.

    `unserved`: those to which it has sent jobs and of which no worker takes any, each as the queue of tasks, their team
    (None: none), and its name there.
    """

    workers: Sequence[EngineWorker] = ()
    queues: Mapping[str, int] = field(default_factory=dict)
    unserved: Sequence[tuple[str, str | None, str]] = ()


@runtime_checkable
class TroubledEngine(Protocol):
    """An engine that says what keeps it from its workers, for `why`. Engines need not."""

    @property
    def trouble(self) -> str:
        """Why it could not be reached at its last look; empty if it could."""
        ...


@runtime_checkable
class WatchedEngine(Protocol):
    """An engine that says what it sees of its workers, for people and metrics. Engines need not."""

    def status(self) -> EngineStatus:
        """What it saw at its last look, seconds ago. Does not wait."""
        ...


class EndNotice(Protocol):
    """Tells the executor that a job has ended, by its id, and why."""

    def __call__(self, job: int, reason: str, *, certain: bool = True) -> None:
        """`certain`: no worker runs it any more. Else that counts only if no worker has begun it. One that has may
        still run, so its report or the end of its lease decides; if it is lost then, `reason` says why."""
        ...


@runtime_checkable
class Engine(Protocol):
    """One engine, as a scheduler uses it. All calls are made on the scheduler's event loop."""

    name: str
    sends_ahead: bool  # while plain functions end quickly, it may be given more of them than it has slots

    @property
    def slots(self) -> int:
        """How many plain-function attempts it should be given at a time."""
        ...

    @property
    def async_slots(self) -> int:
        """How many `async def` attempts it should be given at a time."""
        ...

    async def start(self, ended: EndNotice) -> None:
        """Connect. From then on it calls `ended` with the id of a job that has ended or cannot run, and why.

        It need not: a worker that is silent for longer than its lease is noticed without it. A job whose report has
        arrived meanwhile is not affected. Raises ConfigError; an engine that cannot be reached is not an error here.
        """
        ...

    async def send(self, jobs: Sequence[Job], *, quick: bool) -> None:
        """Accept these jobs; those that it has already (`Job.name`) may be ignored. Raises EngineUnavailable.

        `quick`: plain functions have ended so fast lately that more of them are sent than run at once.
        """
        ...

    async def cancel(self, jobs: Collection[int], *, grace: float) -> None:
        """Take jobs back that have not begun, and end those that have: as the engine does it, after `grace` seconds."""
        ...

    async def holds(self, jobs: Collection[int]) -> set[int]:
        """Those of the jobs that it has, waiting or running. Raises EngineUnavailable."""
        ...

    async def stop(self) -> None:
        """Disconnect. Jobs go on."""
        ...
