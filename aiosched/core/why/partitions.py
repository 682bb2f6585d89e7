"""Why a DAG with partitions has no run of a key: what the keys that wait are waiting for. Source: docs/why.md."""

from __future__ import annotations

from dataclasses import dataclass

from aiosched.core.assets.conditions import AssetExpression
from aiosched.core.creation.partitions import PartitionProgress
from aiosched.core.why.explanation import Gate, counted, gate

MOST_SHOWN = 5  # keys that an explanation describes


@dataclass(frozen=True, slots=True)
class PartitionFacts:
    """The newest keys that wait for more events, how many are due, and the events that led to no run."""

    waiting: tuple[PartitionProgress, ...] = ()
    due: int = 0
    refused: int = 0
    newest_refusal: str | None = None


def partition_gate(condition: AssetExpression, facts: PartitionFacts) -> Gate:
    """The gate of the DAG's assets: open if the run of a key is due."""
    if facts.due:
        return gate("partitions", None, f"{counted(facts.due, 'partition')} due")
    if facts.waiting:
        waits = "; ".join(one.waits_for(condition) for one in facts.waiting[:MOST_SHOWN])
    else:
        waits = f"no event with a partition key of {condition} has arrived"
    if facts.refused:
        waits += f"; {counted(facts.refused, 'event')} led to no run, the newest because {facts.newest_refusal}"
    return gate("partitions", waits, "")
