"""What an engine is: a place that carries jobs to workers. Dask, Celery and Kubernetes are engines.

What an attempt is, when it may start and what became of it stays in the database: an engine may lose a job, deliver it
twice, or deliver it when nobody needs it any more. The start is claimed once, and a job that was lost is sent again.
Elsewhere: what schedulers do with engines (scheduler/engines/), what workers do with jobs (agent.py).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol, runtime_checkable

from aiosched.core.values.worker_messages import Job


class EngineUnavailable(Exception):
    """The engine does not answer: what was asked of it is to be tried again later."""


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

    @property
    def slots(self) -> int:
        """How many plain-function attempts it should be given at a time: more than run at once, so no worker waits."""
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

    async def send(self, jobs: Sequence[Job]) -> None:
        """Accept these jobs; those that it has already (`Job.name`) may be ignored. Raises EngineUnavailable."""
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
