"""Storing what was decided, with the pools that it touches.

Pools in which schedulers compete are locked before they are read. In a pool with far more room than can be claimed
nobody waits for anybody: the guard of the statement that claims suffices. Source: the semantics reference, section 17.
"""

from __future__ import annotations

from typing import Final

from aiosched.scheduler.effects.after_commit import after_commit
from aiosched.scheduler.journal.journal import Transaction
from aiosched.scheduler.session.session import Session
from aiosched.scheduler.slots.attribution import attributing

_WIDE: Final = 16  # a pool is wide if it has so many times the room that we could claim: others claim meanwhile, too


async def store(session: Session) -> None:
    """Store what was decided and claim nothing: for callers that need it while the loops wait for loading."""
    async with attributing(session), session.env.journal.batch(shared=session.membership.has_peers) as transaction:
        keeping, _ = await check_pools(session, transaction, claims=False)
        committed = await transaction.write(session.cache.collect(keeping))
    after_commit(session, committed)


async def check_pools(session: Session, transaction: Transaction, *, claims: bool) -> tuple[set[str], dict[str, int]]:
    """Read the pools that the next batch touches; with `claims` also those that tasks wait for or just waited for.

    With `claims` they are locked if other schedulers may compete for their slots, or starts of their rates are counted.
    Returns the names of those that include deferred tasks, and the slots that the batch gives back. There is no await
    between the last check and the return.
    """
    cache = session.cache
    while True:  # reports that arrived while locking may touch another pool
        keeping = {name for name, pool in transaction.pools.items() if pool is not None and pool.include_deferred}
        freed = cache.slots_given_back(keeping)
        wanted = {*cache.waiting.pools(), *session.membership.pool_fairness.published} if claims else set()
        counted = {name for name in wanted if (row := transaction.pools.get(name)) is not None and row.rate is not None}
        if counted and not transaction.shared:  # nobody else starts anything there
            counted -= cache.work.used_up.keys()
        unknown = (freed.keys() | wanted) - transaction.pools.keys()
        if unknown:
            await transaction.check_pools(unknown)
        elif (claims and not transaction.locks_pools) and (
            counted or (transaction.shared and not _all_are_wide(session, transaction))
        ):
            await transaction.lock_pools()
        else:
            return keeping, freed


def _all_are_wide(session: Session, transaction: Transaction) -> bool:
    """Whether nobody competes for slots of these pools, and what we can claim is little of what is open."""
    waiting, published = session.cache.waiting, session.membership.pool_fairness.published
    return not published and all(
        row is not None
        and row.demands == "{}"
        and (row.slots < 0 or row.slots - row.used >= _WIDE * max(waiting.slots_of(name), 1))
        for name, row in transaction.pools.items()
    )
