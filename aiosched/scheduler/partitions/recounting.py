"""Counts again what follows from other rows, so that an edit by hand damages at most the rows that were edited.

The owner of partition 0 makes a slow sweep, at most once a minute. It compares the use of all pools with the task
instances that hold slots, and deletes rows whose run is gone, a few in each step. A difference is corrected, logged
and counted. A scheduler whose batch was refused also counts the pools before it reads its rows again.
Does not live here: comparing memory with rows (drift.py), the rows of leases (ownership.py), unread reports
(handover.py), triggers (effects/triggers.py).

Source: docs/architecture.md, "Rows that people edit".
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from aiosched.core.graph.spec import DEFAULT_POOL
from aiosched.db.server.connection import DatabaseConnection
from aiosched.db.statements.inbox import notify
from aiosched.db.upkeep import recounts
from aiosched.db.upkeep.recounts import OF_RUNS, Place, PoolUse
from aiosched.scheduler.concurrency.period import Period
from aiosched.scheduler.session.environment import SchedulerEnvironment
from aiosched.scheduler.session.session import Session

logger: logging.Logger = logging.getLogger(__name__)

_EVERY: Final = 60.0  # seconds
_SHARE: Final = 100.0  # a sweep rests for so many times as long as the last one took
_FIRST: Final = -(2**63)  # before the key of any run
_MOST_PLACES: Final = 20_000  # whose pools are remembered


@dataclass(slots=True)
class RecountSweep:
    """Counts all pools in each step, and looks for orphaned rows among the next runs of each table."""

    _period: Period = field(default_factory=Period)
    _rest: float = _EVERY
    _pools: dict[Place, tuple[str, int]] = field(default_factory=dict)  # versions never change
    _after: dict[str, int] = field(default_factory=dict)  # by table: the run that was looked at last

    async def step(self, session: Session) -> None:
        """Make one step, if it is time and this scheduler owns partition 0."""
        env = session.env
        began = env.clock.monotonic()
        if 0 not in session.cache.partitions or not self._period.is_over(began, self._rest):
            return
        async with env.db.acquire(unhurried=True) as conn:
            wrong = differences(await _used_and_counted(conn, self._pools))
            for table in OF_RUNS:
                await self._delete_orphans(env, conn, table)
        if wrong:
            await recount_pools(env, self._pools)
        self._rest = max(_EVERY, _SHARE * (env.clock.monotonic() - began))

    async def _delete_orphans(self, env: SchedulerEnvironment, conn: DatabaseConnection, table: str) -> None:
        found = await recounts.delete_orphans(conn, table, after=self._after.get(table, _FIRST))
        if found.rows:
            env.metrics.recounted += 1
            text = "deleted %d rows of %s that belonged to %d runs that are gone"
            logger.warning(text, found.rows, table, found.gone)
        if found.rows == recounts.MOST_ROWS:
            return  # there may be more of the same runs
        self._after[table] = _FIRST if found.last is None or found.runs < recounts.MOST_RUNS else found.last


async def recount_refused(env: SchedulerEnvironment) -> None:
    """Count the pools if the last batch of a journal was refused: perhaps they were wrong."""
    if any(journal.was_refused for journal in env.journals):
        await recount_pools(env, {})
        for journal in env.journals:
            journal.was_refused = False


async def recount_pools(env: SchedulerEnvironment, pools: dict[Place, tuple[str, int]]) -> None:
    """Count all pools while they are locked, and correct those that are wrong.

    Every commit that changes what is held changes `used` as well. One that waits for our locks adds its change to what
    is set here, and does not show in the count; one that is over shows in both.
    """
    async with env.db.transaction(unhurried=True) as conn:
        locked = await recounts.lock_all_pools(conn)
        counted = await _used_and_counted(conn, pools)
        wrong = {name: pair for name, pair in differences(counted).items() if name in locked or pair[0] is None}
        if existing := {name: uses for name, (said, uses) in wrong.items() if said is not None}:
            await recounts.set_used(conn, existing)
        if missing := {name: uses for name, (said, uses) in wrong.items() if said is None}:
            await recounts.add_pools(conn, missing)
        if wrong:
            await notify(conn, "pools", ())  # what waits in any scheduler may fit now
    for name, (said, uses) in sorted(wrong.items()):
        env.metrics.recounted += 1
        if said is None:
            text = (
                "there is no pool %s any more, but tasks use %d slots of it: created it with 0 slots; "
                "`aiosched pools set %s N` gives it N"
            )
            logger.warning(text, name, uses, name)
        else:
            logger.warning("pool %s said that %d slots are in use, its tasks use %d: corrected", name, said, uses)
    if wrong:
        env.journal.forget_pools()


def differences(pools: Mapping[str, tuple[int | None, int]]) -> dict[str, tuple[int | None, int]]:
    """Those pools whose stored use is not what was counted; None: there is no such pool."""
    return {name: (said, uses) for name, (said, uses) in pools.items() if (said or 0) != uses}


async def _used_and_counted(
    conn: DatabaseConnection, pools: dict[Place, tuple[str, int]]
) -> dict[str, tuple[int | None, int]]:
    """For each pool the stored use (None: no such pool) and the slots that task instances hold, in one snapshot."""
    held = await recounts.count_held(conn)
    if unknown := [place for place in held.holders if place not in pools]:
        if len(pools) + len(unknown) > _MOST_PLACES:
            pools.clear()
            unknown = list(held.holders)
        pools.update(await recounts.pools_of_tasks(conn, unknown))
    return compare(held, pools)


def compare(held: PoolUse, pools: Mapping[Place, tuple[str, int]]) -> dict[str, tuple[int | None, int]]:
    """The stored use and the counted use of each pool. A task that its version does not have any more uses nothing."""
    counted = Counter[str]()
    for place, number in held.holders.items():
        pool, slots = pools.get(place, (DEFAULT_POOL, 0))
        counted[pool] += slots * number
    return {name: (held.used.get(name), counted[name]) for name in held.used.keys() | counted.keys()}
