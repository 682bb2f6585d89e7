"""How long a take-over took: from the kill or the pause until the scheduler's DAGs moved again."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tests.faults.campaign.history import Read


@dataclass(frozen=True, slots=True)
class Blow:
    """A scheduler process was killed or paused, at a second of CLOCK_MONOTONIC."""

    pid: int
    at: float


def takeover_seconds(read: Read, blows: Sequence[Blow]) -> list[float]:
    """For each blow that hit an incarnation with partitions: seconds until its DAGs moved again.

    That is until all its partitions had a new owner, and that owner had claimed a task of every DAG of
    which an attempt was under way. Blows that ended by a second one before that are left out.
    """
    claims: dict[str, list[float]] = {}
    for change in read.history.changes:
        if change.new == "queued":
            claims.setdefault(change.task.dag_id, []).append(change.at)
    found = (_one(read, blow, claims) for blow in blows)
    return [seconds for seconds in found if seconds is not None]


def _one(read: Read, blow: Blow, claims: dict[str, list[float]]) -> float | None:
    hit = [each for each in read.incarnations if each.pid == blow.pid and each.joined <= blow.at]
    if not hit or hit[-1].end != "taken over" or hit[-1].ended is None or hit[-1].ended < blow.at:
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
    under_way = {
        change.task.dag_id
        for change in read.history.changes
        if change.at > ended
        and change.old in ("queued", "running")
        and change.new_try > change.old_try
        and read.partitions[change.task.dag_id] in owned
    }
    for dag_id in under_way:
        later = [at for at in claims.get(dag_id, ()) if at > ended]
        if later:
            moments.append(min(later))
    return max(moments) - blow.at if moments else None


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least `share` of all are not above; 0 of none."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)] if ordered else 0.0
