"""What must have been seen in a number of simulated fleets: less of it would say little about it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

CHUNK: Final = 25  # seeds in which there is as much
LEAST: Final = {
    "commits": 3000, "kill": 8, "freeze": 8, "take-overs": 15, "cut connections": 50, "unknown commits": 10,
    "recoveries": 40, "stale reports dropped": 10, "tasks that waited for the run before": 3,
    "tasks that went on after a trigger": 80, "triggers handed out again": 4,
    "instances of mapped tasks": 30, "backfills": 5,
    "runs stored in parts": 20,
    "instances of mapped groups": 20, "starts ahead of another index of a group": 3,
    "DAGs put into quarantine": 1, "DAGs tried again after quarantine": 1,
    "reports in another version's words": 3, "reports that a machine could not read": 1, "another version": 5,
    "deferrals that timed out": 3, "tasks that began in a trigger": 5, "sealed arguments": 100,
}  # fmt: skip


def too_little(seen: Mapping[str, int], seeds: int) -> list[str]:
    """What was seen too rarely in so many seeds; nothing is asked of fewer than CHUNK."""
    chunks = seeds // CHUNK
    return [
        f"{seen.get(what, 0)} {what} in {seeds} seeds say little, {least * chunks} are wanted"
        for what, least in LEAST.items()
        if seen.get(what, 0) < least * chunks
    ]
