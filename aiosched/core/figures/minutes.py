"""What one scheduler did in one minute: the difference of two snapshots of its figures.

The snapshots are those of scheduler/observability/metrics_snapshot.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from aiosched.core.figures.histograms import increase

MINUTE: Final = timedelta(minutes=1)
MOST_POOLS: Final = 50  # of a minute: those with the most that waits or is queued

Figures = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Minute:
    """The figures of the minute that begins `at`; states are those at its end.

    `pools` has, by pool, the slots that are queued and the task instances that wait.
    """

    at: datetime
    incarnation: int
    scheduler: str
    ended: int
    task_lag: list[int]
    commits: list[int]
    loop_lag: list[int]
    waiting: int
    queued: int
    running: int
    memory: int | None  # bytes
    parsing: float  # seconds that parsing of files took
    pools: dict[str, tuple[int, int]]


def start_of_minute(at: datetime) -> datetime:
    """The full minute before `at`, or `at` itself."""
    return at.replace(second=0, microsecond=0)


def minute_of(
    now: Figures, before: Figures, *, at: datetime, incarnation: int, scheduler: str, memory: int | None
) -> Minute:
    """The figures of the minute that begins `at`, from a snapshot at its beginning and one at its end."""
    tasks = now.get("tasks", {})

    def counts(name: str) -> list[int]:
        return increase(_buckets(now, name), _buckets(before, name))

    return Minute(
        at=at,
        incarnation=incarnation,
        scheduler=scheduler,
        ended=max(sum(now.get("finished", {}).values()) - sum(before.get("finished", {}).values()), 0),
        task_lag=counts("task_lag"),
        commits=counts("journal_commit"),
        loop_lag=counts("loop_lag"),
        waiting=tasks.get("scheduled", 0),
        queued=tasks.get("queued", 0),
        running=tasks.get("running", 0),
        memory=memory,
        parsing=round(max(_parsed(now) - _parsed(before), 0.0), 3),
        pools=_pools(now),
    )


def _buckets(figures: Figures, name: str) -> list[int]:
    found: list[int] = figures.get("histograms", {}).get(name, {}).get("buckets", [])
    return found


def _parsed(figures: Figures) -> float:
    return float((figures.get("parsing") or {}).get("busy_seconds", 0.0))


def _pools(figures: Figures) -> dict[str, tuple[int, int]]:
    waiting, held = figures.get("waiting", {}), figures.get("pools", {})
    found = {name: (held.get(name, {}).get("queued", 0), waiting.get(name, 0)) for name in {*waiting, *held}}
    busy = sorted((item for item in found.items() if any(item[1])), key=lambda item: (-sum(item[1]), item[0]))
    return dict(busy[:MOST_POOLS])
