"""What several schedulers give on more cores, from what a task costs. Pure.

A machine with few cores cannot show that throughput grows. It can show what each task costs, and what schedulers wait
for: then throughput on more cores is the least of some limits, each of which is a division.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TaskCost:
    """What one task costs, in seconds of something that there is only so much of."""

    scheduler: float  # processor time of its scheduler, which has one core
    postgres: float  # processor time of PostgreSQL
    serial: float  # in which no other scheduler can do the same: locks that all of them wait for
    wal_bytes: float = 0.0


@dataclass(frozen=True)
class Prediction:
    """Throughput in tasks a second, and what limits it."""

    throughput: float
    limit: str


def predicted(cost: TaskCost, schedulers: int, cores: int, *, wal_bytes_per_second: float = 200e6) -> Prediction:
    """The throughput of so many schedulers on a machine with so many cores for them and PostgreSQL."""
    limits = {
        "schedulers": min(schedulers, cores) / cost.scheduler,
        "cores": cores / (cost.scheduler + cost.postgres),
    }
    if cost.serial:
        limits["locks"] = 1 / cost.serial
    if cost.wal_bytes:
        limits["WAL"] = wal_bytes_per_second / cost.wal_bytes
    limit = min(limits, key=limits.__getitem__)
    return Prediction(limits[limit], limit)
