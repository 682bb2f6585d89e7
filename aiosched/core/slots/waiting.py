"""The task instances that wait for a slot, stored so that the cost of a pass depends on what it takes.

Candidates that need the same shared resources (pool, number of slots, executor) and belong to one team form a
*bucket*: if one of them does not fit, none does, and the pass skips the whole bucket. Inside a bucket the candidates of
one DAG form a *lane* (split by run or by task where such limits exist), so that all candidates of a lane are equal
before the DAG's limits. A lane that reaches a limit of its DAG is *parked*: it costs nothing until `release` reports
that the DAG has room again. Since room only shrinks during a pass, looking at the first candidate of each lane takes
exactly what a walk over all candidates in order would take.

There is no starvation: a lane that can start under the limits of its DAG, but got no slot for `limit` seconds, is
*overdue*. It goes before all lanes that are not, whatever its weight, and if it does not fit, the open slots of its
pool are reserved until it does. Once served it counts from zero again, so a long lane overtakes once every `limit`
seconds.

Source: the semantics reference, section 17.3; docs/architecture.md, "The loop" (no query window, no starvation).
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Iterator
from itertools import count
from typing import Final

from aiosched.core.slots.allocation import Candidate, DagRoom, Grant, Impossible, Needs, Rank, Room
from aiosched.core.slots.competing_demands import Demand, DemandPlace, merged
from aiosched.core.values.messages import AttemptKey
from aiosched.errors import DagFailure

_SLACK: Final = 64  # stale heap entries that are tolerated before a heap is rebuilt


class _Lane:
    """Candidates of one DAG to which the same limits apply, best first."""

    __slots__ = ("bucket", "dag", "entries", "key", "live", "posted", "reason", "since")

    def __init__(self, bucket: _Bucket, dag: DagRoom, key: _LaneKey) -> None:
        self.bucket, self.dag, self.key = bucket, dag, key
        self.entries: list[_Place] = []  # heap; discarded candidates are removed lazily
        self.live = 0
        self.posted: _Post | None = None  # this lane's valid entry in its bucket
        self.reason: str | None = None  # why it is parked; None: it is not
        self.since: float | None = None  # since when it has waited unserved; None: set by the next pass


class _Bucket:
    """Lanes that need the same shared resources."""

    __slots__ = ("entries", "impossible", "lanes", "live", "needs", "reason", "unserved")

    def __init__(self, needs: Needs) -> None:
        self.needs = needs
        self.entries: list[_Post] = []  # heap; an entry is valid if it is the one that its lane has posted
        self.unserved: deque[tuple[float, _Lane]] = deque()  # oldest first; valid if it is the lane's own value
        self.lanes = 0
        self.live = 0  # candidates, including parked ones
        self.reason: str | None = None  # why the last pass took no more of it
        self.impossible: Impossible | None = None  # why no pass can


_LaneKey = tuple[_Bucket, int | None, str | None]  # bucket; run and task id if a limit requires them
_Place = tuple[Rank, int, Candidate]  # the number breaks ties, as of a candidate that was put back
_Post = tuple[Rank, int, _Lane]


class WaitingQueue:
    """All candidates of one scheduler, between the passes of its critical section.

    `limit`: seconds after which a lane that got no slot is overdue.
    """

    def __init__(self, limit: float = math.inf) -> None:
        self.limit = limit
        self._fresh: list[_Lane] = []  # lanes that have begun to wait since the last pass
        self._unserved: dict[str, float] = {}  # pools from which we need slots -> the second at which we last got one
        self.served: set[str] = set()  # pools from which the last pass took slots
        self._places: dict[AttemptKey, tuple[_Place, _Lane]] = {}
        self._buckets: dict[Needs, _Bucket] = {}
        self._lanes: dict[DagRoom, dict[_LaneKey, _Lane]] = {}
        self._parked: dict[DagRoom, list[_Lane]] = {}
        self._numbers = count()

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, key: AttemptKey) -> bool:
        return key in self._places

    def __iter__(self) -> Iterator[Candidate]:
        """All candidates, in no particular order."""
        return (place[2] for place, _ in self._places.values())

    def pools(self) -> list[str]:
        """The pools that a pass needs, in name order: those of candidates that are not parked."""
        return sorted({bucket.needs.pool for bucket in self._buckets.values() if self._peek(bucket) is not None})

    def by_pool(self) -> dict[str, int]:
        """How many candidates wait for slots of each pool. The cost is proportional to the number of lanes."""
        counts: dict[str, int] = {}
        for lanes in self._lanes.values():
            for lane in lanes.values():
                counts[lane.bucket.needs.pool] = counts.get(lane.bucket.needs.pool, 0) + lane.live
        return counts

    def in_vain(self) -> dict[Impossible, int]:
        """How many candidates can never start, and why, as of the last pass."""
        counts: dict[Impossible, int] = {}
        for bucket in self._buckets.values():
            if bucket.impossible is not None:
                counts[bucket.impossible] = counts.get(bucket.impossible, 0) + bucket.live
        return counts

    def slots_of(self, pool: str) -> int:
        """How many slots of a pool all candidates need together."""
        return sum(bucket.live * bucket.needs.slots for bucket in self._buckets.values() if bucket.needs.pool == pool)

    def add(self, candidate: Candidate) -> None:
        """Add a candidate, replacing one with the same key. Equal candidates go in order of their first arrival."""
        key = candidate.key
        if key in self._places:
            self.discard(key)
        number = next(self._numbers)
        rank = candidate.rank
        if rank is None:
            rank = candidate.rank = (-candidate.weight, candidate.logical_at, key.map_index, number)
        place = (rank, number, candidate)
        lane = self._lane_of(candidate)
        heapq.heappush(lane.entries, place)
        lane.live += 1
        lane.bucket.live += 1
        self._places[key] = (place, lane)
        if lane.reason is None and (lane.posted is None or rank < lane.posted[0]):
            self._post(lane, rank)

    def discard(self, key: AttemptKey) -> bool:
        """Remove the candidate with `key`; returns whether there was one."""
        found = self._places.pop(key, None)
        if found is None:
            return False
        lane = found[1]
        lane.live -= 1
        lane.bucket.live -= 1
        if not lane.live:
            self._drop(lane)
        elif len(lane.entries) > 2 * lane.live + _SLACK:
            lane.entries = [place for place in lane.entries if self._waits(place)]
            heapq.heapify(lane.entries)
        return True

    def take(self, room: Room, now: float) -> Grant:
        """Take the best candidates that fit, in order of precedence, and count them under every limit.

        Candidates that were taken no longer wait here. Those reported as refused are the first of their lane when it
        was refused; `reason` returns the reason of every other one. `now` in seconds.
        """
        taken: list[Candidate] = []
        refused: list[tuple[Candidate, str]] = []
        heads: list[tuple[Rank, _Bucket]] = []
        self._begin(now)
        self._take_overdue(room, now, taken)
        for bucket in self._buckets.values():
            bucket.reason = bucket.impossible = None
            if (rank := self._peek(bucket)) is not None:
                heads.append((rank, bucket))
        heapq.heapify(heads)
        while heads:
            bucket = heads[0][1]
            lane = bucket.entries[0][2]
            candidate = lane.entries[0][2]
            if (pool := room.pools.get(bucket.needs.pool)) is not None and pool.competing_demands:
                pool.make_way(self._place(bucket, candidate.weight, now))
            bucket.reason = room.refusal(bucket.needs)
            if bucket.reason is not None:
                bucket.impossible = room.impossible(bucket.needs)
                refused.append((candidate, bucket.reason))
                heapq.heappop(heads)
                continue
            try:
                if self._is_at_its_limits(lane, candidate):
                    refused.append((candidate, str(lane.reason)))
                else:
                    self._take_first(lane, room, now)
                    taken.append(candidate)
            except Exception as error:
                raise _failure(lane) from error
            if (rank := self._peek(bucket)) is not None:
                heapq.heapreplace(heads, (rank, bucket))
            else:
                heapq.heappop(heads)
        return Grant(taken, refused)

    def demands(self, room: Room, now: float) -> dict[str, Demand]:
        """The demands of candidates that lack only slots of their pool, by pool.

        Call it right after `take`, with its arguments.
        """
        found: dict[str, Demand] = {}
        for bucket in self._buckets.values():
            fitting = room.lacks_only_slots(bucket.needs)
            if not fitting or bucket.needs.defers or (first := self._first_within_limits(bucket)) is None:
                continue
            place = self._place(bucket, first.weight, now)
            if (oldest := self._overdue(bucket, now)) is not None:
                place = DemandPlace(True, first.weight, oldest)
            demand = Demand(place, bucket.needs.slots, bucket.needs.slots * min(bucket.live, fitting))
            found[bucket.needs.pool] = merged(found.get(bucket.needs.pool), demand, room.pools[bucket.needs.pool].total)
        since = {pool: now if pool in self.served else self._unserved.get(pool, now) for pool in found}
        self._unserved = since
        return {
            pool: demand if demand.place.overdue else demand._replace(place=demand.place._replace(since=since[pool]))
            for pool, demand in found.items()
        }

    def release(self, dag: DagRoom) -> None:
        """Consider the DAG's parked candidates again: one of its counts fell, or a limit rose."""
        for lane in self._parked.pop(dag, ()):
            lane.reason = None
            if lane.live:
                self._post(lane, self._head(lane))

    def reason(self, key: AttemptKey) -> str | None:
        """Why the candidate with `key` still waits, as of the last pass; None if it does not wait or is next."""
        found = self._places.get(key)
        return None if found is None else found[1].reason or found[1].bucket.reason

    def _begin(self, now: float) -> None:
        """A pass begins: the waiting time of lanes added since the last pass counts from now."""
        self.served.clear()
        fresh, self._fresh = self._fresh, []
        for lane in fresh:
            if lane.since is None and lane.posted is not None:
                self._wait_from(lane, now)

    def _wait_from(self, lane: _Lane, now: float) -> None:
        lane.since = now
        bucket = lane.bucket
        bucket.unserved.append((now, lane))
        if len(bucket.unserved) > 2 * bucket.lanes + _SLACK:
            bucket.unserved = deque(entry for entry in bucket.unserved if entry[1].since == entry[0])

    def _overdue(self, bucket: _Bucket, now: float) -> float | None:
        """Since when the bucket's longest waiting lane has not been served; None if that is not too long yet."""
        entries = bucket.unserved
        while entries and entries[0][1].since != entries[0][0]:
            entries.popleft()
        return entries[0][0] if entries and entries[0][0] + self.limit <= now else None

    def _take_overdue(self, room: Room, now: float, taken: list[Candidate]) -> None:
        """Serve lanes that were passed over for too long, the oldest first; reserve open slots if they do not fit."""
        line = [
            (since, n, b) for n, b in enumerate(self._buckets.values()) if (since := self._overdue(b, now)) is not None
        ]
        heapq.heapify(line)
        while line:
            since, number, bucket = heapq.heappop(line)
            lane = bucket.unserved[0][1]
            if (pool := room.pools.get(bucket.needs.pool)) is not None:
                pool.make_way(DemandPlace(True, 0, since))
            try:
                self._head(lane)
                candidate = lane.entries[0][2]
                if not self._is_at_its_limits(lane, candidate):
                    if room.refusal(bucket.needs) is not None:
                        lacks = pool is not None and room.lacks_only_slots(bucket.needs)
                        if pool is not None and lacks and not pool.has_slots(bucket.needs.slots):
                            pool.keep(max(pool.open, 0))
                        continue
                    self._take_first(lane, room, now)
                    taken.append(candidate)
            except Exception as error:
                raise _failure(lane) from error
            if (again := self._overdue(bucket, now)) is not None:
                heapq.heappush(line, (again, number, bucket))

    def _place(self, bucket: _Bucket, weight: int, now: float) -> DemandPlace:
        return DemandPlace(False, weight, self._unserved.get(bucket.needs.pool, now))

    def _is_at_its_limits(self, lane: _Lane, first: Candidate) -> bool:
        """Whether the DAG's limits refuse the lane, whose first candidate is `first`; it is parked then."""
        lane.reason = lane.dag.refusal(first.key.run, first.task, defers=lane.bucket.needs.defers)
        if lane.reason is not None:
            self._park(lane)
        return lane.reason is not None

    def _first_within_limits(self, bucket: _Bucket) -> Candidate | None:
        """The bucket's first candidate that can start under its DAG's limits."""
        while self._peek(bucket) is not None:
            lane = bucket.entries[0][2]
            try:
                if not self._is_at_its_limits(lane, first := lane.entries[0][2]):
                    return first
            except Exception as error:
                raise _failure(lane) from error
        return None

    def _take_first(self, lane: _Lane, room: Room, now: float) -> None:
        candidate = lane.entries[0][2]
        room.occupy(lane.bucket.needs)
        lane.dag.occupy(candidate.key.run, candidate.task, defers=candidate.defers)
        del self._places[candidate.key]
        heapq.heappop(lane.entries)
        lane.live -= 1
        lane.bucket.live -= 1
        self.served.add(lane.bucket.needs.pool)
        if not lane.live:
            self._drop(lane)
        elif lane.since != now:
            self._wait_from(lane, now)

    def _waits(self, place: _Place) -> bool:
        """Whether its candidate still waits there, and was not discarded."""
        found = self._places.get(place[2].key)
        return found is not None and found[0] is place

    def _lane_of(self, candidate: Candidate) -> _Lane:
        bucket = self._buckets.get(needs := candidate.needs)
        if bucket is None:
            bucket = self._buckets[needs] = _Bucket(needs)
        dag, task = candidate.dag, candidate.task
        by_run = dag.per_run is not None or (task is not None and task.per_run is not None)
        key = (bucket, candidate.key.run if by_run else None, None if task is None else task.task_id)
        lanes = self._lanes.get(dag)
        if lanes is None:
            lanes = self._lanes[dag] = {}
        lane = lanes.get(key)
        if lane is None:
            lane = lanes[key] = _Lane(bucket, dag, key)
            bucket.lanes += 1
        return lane

    def _head(self, lane: _Lane) -> Rank:
        """The rank of the first candidate of a lane that has one."""
        while not self._waits(lane.entries[0]):
            heapq.heappop(lane.entries)
        return lane.entries[0][0]

    def _peek(self, bucket: _Bucket) -> Rank | None:
        """The rank of the bucket's first candidate that is not parked; afterwards it heads bucket and lane."""
        entries = bucket.entries
        while entries:
            post = entries[0]
            lane = post[2]
            if lane.posted is not post:
                heapq.heappop(entries)
                continue
            try:
                rank = self._head(lane)
            except Exception as error:
                raise _failure(lane) from error
            if rank is post[0]:
                return rank
            lane.posted = (rank, next(self._numbers), lane)  # its first candidate has left: it moves back
            heapq.heapreplace(entries, lane.posted)
        return None

    def _post(self, lane: _Lane, rank: Rank) -> None:
        lane.posted = (rank, next(self._numbers), lane)
        bucket = lane.bucket
        if lane.since is None:
            self._fresh.append(lane)
        heapq.heappush(bucket.entries, lane.posted)
        if len(bucket.entries) > 2 * bucket.lanes + _SLACK:
            bucket.entries = [post for post in bucket.entries if post[2].posted is post]
            heapq.heapify(bucket.entries)

    def _park(self, lane: _Lane) -> None:
        lane.posted = lane.since = None
        self._parked.setdefault(lane.dag, []).append(lane)

    def _drop(self, lane: _Lane) -> None:
        """Remove an empty lane, and its bucket if it was the last; their reference cycles are broken at once."""
        lane.posted = lane.since = None
        lane.entries.clear()
        bucket = lane.bucket
        bucket.lanes -= 1
        if not bucket.lanes:
            del self._buckets[bucket.needs]
            bucket.entries.clear()
            bucket.unserved.clear()
        lanes = self._lanes[lane.dag]
        del lanes[lane.key]
        if not lanes:
            del self._lanes[lane.dag]
        if lane.reason is not None and (parked := self._parked.get(lane.dag)) is not None:
            parked.remove(lane)
            if not parked:
                del self._parked[lane.dag]


def _failure(lane: _Lane) -> DagFailure:
    """An error that concerns the lane's DAG: a pass is about many DAGs."""
    return DagFailure(lane.dag.dag_id, "the choice of tasks for slots")
