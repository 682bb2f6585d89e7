"""Which tasks get a slot now, and what the next transaction stores: the decision of the critical section.

Pure: it changes what is held in memory and nothing else. Does not live here: locking and
reading pools, the commit, handing out what was claimed (loops/enqueueing.py), the allocation
itself (core/slots/allocation.py, core/slots/waiting.py). Source: the semantics reference, section 17.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime

from aiosched.core.slots.allocation import ExecutorRoom, PoolRoom, Room
from aiosched.core.slots.rates import RecentStarts
from aiosched.core.values.messages import Executor
from aiosched.db.statements.journal import PoolRow
from aiosched.executors.executor_router import members_of
from aiosched.scheduler.failures.isolation import failure_of
from aiosched.scheduler.memory.cache import StateCache
from aiosched.scheduler.memory.changes import Changes
from aiosched.scheduler.memory.pool_fairness import PoolFairness


def room_of(
    pools: Mapping[str, PoolRow | None],
    freed: Mapping[str, int],
    executor: Executor,
    *,
    open: int,
    parallelism: int,
    knows_starts: bool,
) -> Room:
    """The room that a pass may allocate; slots that the same transaction gives back (`freed`) count as open.

    `open` is how many more attempts this scheduler may run within its `parallelism`. Unless it `knows_starts`, of
    rows that are locked, nothing starts in pools with a rate.
    """
    executors: dict[str | None, ExecutorRoom] = {}
    for name, member in members_of(executor).items():
        slots = ExecutorRoom(name, member.open_slots, member.open_async_slots)
        executors.setdefault(None, slots)
        executors[name] = slots
    rooms: dict[str, PoolRoom] = {}
    for name, row in pools.items():
        if row is not None:
            free = row.slots - row.used + freed.get(name, 0) if row.slots >= 0 else 0
            room = rooms[name] = PoolRoom(row.slots, free, row.include_deferred, row.team)
            if row.rate is not None:
                of_row = RecentStarts.of(row.rate, row.starts, row.read_at) if knows_starts else None
                room.starts = of_row or RecentStarts.used_up(row.rate)
    return Room(pools=rooms, executors=executors, open=open, parallelism=parallelism)


def claim(
    cache: StateCache, room: Room, now: datetime, *, incarnation: int, include_deferred: Collection[str] = ()
) -> Changes:
    """Let the allocation choose, and collect the claims and all other changes as one batch.

    `include_deferred` are the pools in which deferred tasks keep their slots.
    """
    claimed = []
    if len(cache.waiting):  # even if nothing is open: waiting tasks get their reasons
        for candidate in cache.waiting.take(room, now.timestamp()).taken:
            try:
                board, instance = cache.get(candidate.key)
                if candidate.defers:
                    board.defer(instance, now)
                    cache.apply_effects(board)
                    continue
                board.grant(instance, now, incarnation)
            except Exception as error:
                raise failure_of(error, candidate.dag.dag_id, "a claim") from error
            cache.unstored.dirty[board] = None
            claimed.append((board, instance))
    batch = cache.collect(include_deferred)
    batch.effects.claimed = claimed
    for name, pool in room.pools.items():
        if (starts := pool.starts) is not None:
            if starts.has_changed:
                batch.pools.starts[name] = starts.stored()
            if (seconds := starts.wait) is not None:
                batch.effects.next_starts[name] = seconds
    return batch


def claim_with_competitors(
    cache: StateCache,
    room: Room,
    now: datetime,
    pool_fairness: PoolFairness,
    rows: Mapping[str, PoolRow],
    *,
    incarnation: int,
    include_deferred: Collection[str] = (),
) -> Changes:
    """As `claim`, while other schedulers need slots of the pools; the locked `rows` hold their demands."""
    seconds = now.timestamp()
    competing_demands = {name: pool_fairness.competing_demands(name, row, seconds) for name, row in rows.items()}
    for name, pool in room.pools.items():
        pool.competing_demands = list(competing_demands[name])
    batch = claim(cache, room, now, incarnation=incarnation, include_deferred=include_deferred)
    waiting = cache.waiting
    batch.pools.demands = pool_fairness.changes(waiting.demands(room, seconds), rows, seconds, served=waiting.served)
    batch.effects.slots_left_to = pool_fairness.winners(room.pools, competing_demands, seconds)
    return batch
