"""Jobs for whose pods there is no room in a quota of their namespace: which of them is tried again, and when. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from aiosched.core.values.worker_messages import Job

FIRST_PAUSE: Final = 2.0  # seconds between two tries, doubled up to the last while they are in vain
_LAST_PAUSE: Final = 30.0


class RefusedJob(NamedTuple):
    """A job, what the quota says, and since when, as a monotonic second."""

    job: Job
    reason: str
    since: float


@dataclass(slots=True)
class _Line:
    again_at: float
    pause: float = FIRST_PAUSE
    jobs: dict[int, RefusedJob] = field(default_factory=dict)  # by id, the next to be tried first


class QuotaQueue:
    """All waiting jobs, by namespace. In each, one is tried after the other until one is refused again."""

    def __init__(self) -> None:
        self._lines: dict[str, _Line] = {}

    def __len__(self) -> int:
        return sum(len(line.jobs) for line in self._lines.values())

    def ids(self) -> set[int]:
        """The ids of the waiting jobs."""
        return {number for line in self._lines.values() for number in line.jobs}

    def refuse(self, job: Job, namespace: str, reason: str, *, now: float) -> bool:
        """A job was refused: it comes last in its namespace; returns whether it is new."""
        line = self._lines.setdefault(namespace, _Line(now + FIRST_PAUSE))
        known = line.jobs.pop(job.id, None)
        line.jobs[job.id] = RefusedJob(job, reason, now if known is None else known.since)
        if known is not None:
            line.pause = min(2 * line.pause, _LAST_PAUSE)
            line.again_at = now + line.pause
        return known is None

    def drop(self, job: int) -> None:
        """A job waits no more: it has its pod, or is not needed."""
        for namespace, line in list(self._lines.items()):
            if line.jobs.pop(job, None) is not None:
                line.pause = FIRST_PAUSE
                if not line.jobs:
                    del self._lines[namespace]

    def due(self, now: float) -> Iterator[RefusedJob]:
        """The jobs to try now. What is yielded has to be refused or dropped before the next one is asked for."""
        for line in list(self._lines.values()):
            while line.jobs and line.again_at <= now:
                yield next(iter(line.jobs.values()))

    def since(self, instant: float) -> list[RefusedJob]:
        """The jobs that have waited since this instant, or longer."""
        return [one for line in self._lines.values() for one in line.jobs.values() if one.since <= instant]
