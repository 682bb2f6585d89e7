"""The critical section: scheduled task instances become queued ones, and what was decided is stored.

One pass is one transaction of the journal: lock the pools, read the open slots, let the
pure allocation choose (claiming.py), store the claims beside all other news, commit. Only then are the
claims handed to the executor. Source: docs/architecture.md, "The loop"; the semantics reference, section 17.
"""

from __future__ import annotations

import time
from typing import Final

from aiosched.scheduler.journal.journal import Transaction
from aiosched.scheduler.session import Session
from aiosched.scheduler.slots.claiming import claim, claim_beside_rivals, room_of
from aiosched.scheduler.state.batch import Batch

_POOL_RETRY: Final = 0.5  # seconds until a pool that others may have left is looked at again


async def enqueue(session: Session) -> float | None:
    """One pass; returns how long to rest before the next without news."""
    cache = session.cache
    notifications = cache.dirty or cache.ended or cache.answers or cache.heard or cache.room_changed
    if not notifications and _rest(session) is None:
        return None
    started = time.perf_counter()
    cache.room_changed = False
    async with session.journal.batch(shared=session.has_peers) as transaction:
        batch = session.storing = await _decide(session, transaction)
        if not batch.is_empty:
            await transaction.write(batch)
    session.metrics.critical_section.observe(time.perf_counter() - started)
    session.metrics.journal_batch.observe(len(batch.instances))
    session.committed(batch)
    return 0.0 if cache.dirty else _rest(session)


async def store(session: Session) -> None:
    """Store what was decided and claim nothing: for who needs it stored while the loops wait for loading."""
    async with session.journal.batch(shared=session.has_peers) as transaction:
        keeping, _ = await check_pools(session, transaction, claims=False)
        batch = session.storing = session.cache.collect(keeping)
        if not batch.is_empty:
            await transaction.write(batch)
    session.committed(batch)


async def _decide(session: Session, transaction: Transaction) -> Batch:
    """Choose under lock and collect. No await stands between the choice and the collected batch."""
    cache = session.cache
    keeping, freed = await check_pools(session, transaction, claims=True)
    room = room_of(
        transaction.pools,
        freed,
        session.executor,
        open=session.parallelism - len(session.in_flight) if session.may_claim() else 0,
        parallelism=session.parallelism,
    )
    now = session.clock.now()
    if not transaction.shared:
        return claim(cache, room, now, incarnation=session.incarnation, include_deferred=keeping)
    rows = {name: row for name, row in transaction.pools.items() if row is not None}
    return claim_beside_rivals(
        cache, room, now, session.pool_fairness, rows, incarnation=session.incarnation, include_deferred=keeping
    )


async def check_pools(session: Session, transaction: Transaction, *, claims: bool) -> tuple[set[str], dict[str, int]]:
    """Know the pools that the next batch touches; those that include deferred tasks, and the slots that it gives back.

    With `claims` those that tasks wait for, or have just waited for, too. No await stands between the
    last look and the return.
    """
    cache = session.cache
    while True:  # news that came during the lock may touch another pool
        keeping = {name for name, pool in transaction.pools.items() if pool is not None and pool.include_deferred}
        freed = cache.slots_given_back(keeping)
        wanted = {*cache.waiting.pools(), *session.pool_fairness.told} if claims else set()
        unknown = (freed.keys() | wanted) - transaction.pools.keys()
        if not unknown:
            return keeping, freed
        await transaction.check_pools(unknown)


def _rest(session: Session) -> float | None:
    """Without news: look again soon while somebody waits, since other schedulers free pools without telling us."""
    return _POOL_RETRY if session.has_peers and session.cache.waiting.pools() else None
