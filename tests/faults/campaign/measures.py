"""How long a take-over took: from the kill or the pause until the scheduler's DAGs moved again."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tests.faults.campaign.history import Read
from tests.faults.checker import HOLDING, TaskKey


@dataclass(frozen=True, slots=True)
class Blow:
    """A scheduler process was killed or paused, at a second of CLOCK_MONOTONIC; for good, or `until` another one."""

    pid: int
    at: float
    until: float = math.inf


@dataclass(frozen=True, slots=True)
class Loss:
    """An attempt that was claimed at one instant was stored as lost, and its task as waiting, at another."""

    dag_id: str
    claimed: float
    stored: float


def takeover_seconds(read: Read, blows: Sequence[Blow]) -> list[float]:
    """For each blow that hit an incarnation with partitions: seconds until its DAGs moved again.

    That is until all its partitions had a new owner, and that owner had decided about every attempt
    that had been under way.
    """
    losses = _losses(read)
    found = (_one(read, blow, losses) for blow in blows)
    return [seconds for seconds in found if seconds is not None]


def _losses(read: Read) -> list[Loss]:
    claimed: dict[tuple[TaskKey, int], float] = {}
    losses: list[Loss] = []
    for change in sorted(read.history.changes):
        lost = change.old in HOLDING and (change.new is None or change.new_try > change.old_try)
        if lost and (change.task, change.old_try) in claimed:
            losses.append(Loss(change.task.dag_id, claimed[change.task, change.old_try], change.at))
        if change.new == "queued":
            claimed[change.task, change.new_try] = change.at
    return losses


def _one(read: Read, blow: Blow, losses: Sequence[Loss]) -> float | None:
    hit = [each for each in read.incarnations if each.pid == blow.pid and each.joined <= blow.at]
    if not hit or hit[-1].end != "taken over" or hit[-1].ended is None:
        return None
    if not blow.at < hit[-1].ended < blow.until:  # it was paused for less than its lease
        return None
    me, ended = hit[-1].number, hit[-1].ended
    owned = {lease.partition for lease in read.leases if lease.old == me and lease.at >= blow.at}
    moments: list[float] = []
    for partition in owned:
        moved = (lease for lease in read.leases if lease.partition == partition and lease.new is not None)
        regained = [lease.at for lease in moved if lease.at > ended]
        if not regained:
            return None
        moments.append(regained[0])
    under_way = (loss for loss in losses if loss.claimed <= blow.at and loss.stored > ended)
    moments += [loss.stored for loss in under_way if read.partitions[loss.dag_id] in owned]
    return max(moments) - blow.at if moments else None


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least `share` of all are not above; 0 of none."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)] if ordered else 0.0
