"""Which scheduler owns which partitions: joining, sharing out, taking over.

There is no leader. Every scheduler reads the same rows and makes the same plan: dead peers are
fenced and their partitions released, each scheduler acquires its share of the free partitions and
gives back what others have too little of, even if tasks run there (handover.py). Shares are by load
(core/fleet/shares.py). A draining scheduler gives everything back while there is a peer to take it.
Source: docs/architecture.md, "Ownership and fencing".
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass

from aiosched.core.fleet.shares import JOINING, Shares, gives
from aiosched.core.values.ids import PARTITIONS
from aiosched.db.statements import ownership
from aiosched.db.statements.ownership import FleetView
from aiosched.db.upkeep.recounts import add_leases
from aiosched.errors import StaleRows
from aiosched.executors.executor_router import members_of
from aiosched.executors.worker.lease_deadline import windows_of
from aiosched.leftovers import end_orphans
from aiosched.scheduler.effects.after_commit import after_commit
from aiosched.scheduler.partitions.handover import lose_attempts_of, stop_waiting_for_ends
from aiosched.scheduler.partitions.loading import load_partitions
from aiosched.scheduler.session.session import Session
from aiosched.scheduler.slots.attribution import attributing
from aiosched.scheduler.slots.storing import check_pools

logger: logging.Logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PartitionPlan:
    """What one scheduler does for one view of the fleet."""

    remove_dead: tuple[int, ...]  # incarnations to take over
    acquire: tuple[int, ...]  # free partitions to take
    give_back: tuple[int, ...]  # partitions of ours for others to take


def make_plan(view: FleetView, me: int, staying: Collection[int] = ()) -> PartitionPlan:
    """The plan of scheduler `me`; `staying` are partitions of its own that cannot leave now.

    A draining scheduler gets no partitions, and gives all away if somebody can take them.
    """
    sharing = [peer for peer in view.peers if not peer.dead and not peer.draining]
    living = sorted(peer.incarnation for peer in sharing)
    dead = tuple(peer.incarnation for peer in view.peers if peer.dead and peer.incarnation != me)
    if me not in living:
        drains = any(peer.incarnation == me and peer.draining and not peer.dead for peer in view.peers)
        owned = sorted(p for p, owner in view.leases.items() if owner == me and p not in staying)
        return PartitionPlan(dead, (), tuple(owned) if drains and living else ())
    shares, takers = Shares(living, view.leases, view.loads).with_free_ones()
    mine = tuple(sorted(partition for partition, taker in takers.items() if taker == me))
    if mine or len(living) == 1:  # nobody else can take any
        return PartitionPlan(dead, mine, ())
    joining = [peer.incarnation for peer in sharing if peer.age < JOINING]
    leaving = gives(shares, me, joining=joining, settled_for=view.settled_for, staying=staying)
    return PartitionPlan(dead, (), tuple(leaving))


async def apply_view(session: Session, view: FleetView) -> bool:
    """Carry out the plan for a view; returns whether that changed something, so that the fleet should be read again.

    What other schedulers hold locked is left for the next regular view.
    Clears `locks.loaded` before loading partitions; the caller sets it once their waiting requests are applied.
    Call it with `locks.ownership` held.
    """
    env, cache, membership = session.env, session.cache, session.membership
    me = env.incarnation
    changed = await check_leases(session, view)
    plan = make_plan(view, me)
    membership.has_peers = len(view.peers) > 1
    gained = set[int]()
    announced = any(peer.draining for peer in view.peers if peer.incarnation == me)
    changed |= membership.draining and not announced
    if membership.draining and not announced:
        await ownership.set_draining(env.db, me)
    gone = {peer.incarnation for peer in view.peers if peer.process_gone}
    for dead in plan.remove_dead:
        async with env.db.acquire() as conn:
            if await ownership.take_over(conn, dead, process_gone=dead in gone):
                env.metrics.takeovers += 1
                changed = True
                logger.info("took over from scheduler %d", dead)
    if plan.acquire and not membership.draining:
        gained = await ownership.acquire(env.db, me, plan.acquire)
        env.loads.begin({partition: view.loads.get(partition, 0.0) for partition in gained})
        changed |= bool(gained)
        membership.gained_at = time.monotonic()
    given_back = {p: at for p, at in membership.given_back.items() if view.at <= at and p not in gained}
    membership.given_back = given_back
    shown = {partition for partition, owner in view.leases.items() if owner == me}
    mine = gained | (shown - given_back.keys())
    gains = bool(mine - cache.partitions)
    suspects = (cache.elsewhere | env.attempts.ending.schedulers()) - {peer.incarnation for peer in view.peers}
    if (gains or suspects) and windows_of(members_of(env.executor).values()):
        await asyncio.to_thread(_end_orphans)
    if gains:
        session.locks.loaded.clear()
        await load_partitions(session, mine)
    if suspects:
        await lose_attempts_of(session, suspects)
    stop_waiting_for_ends(session)
    not_handed_out = session.context.unsent or session.context.held  # the next owner would take them for begun
    if plan.give_back and not not_handed_out and view.at >= membership.keeps_until:
        plan = make_plan(view, me, _staying(session))
        changed |= await give_back(session, plan.give_back)
    return changed


def _end_orphans() -> None:
    """End processes that a killed scheduler of this machine has left behind, before its tasks run again."""
    if ended := end_orphans():
        logger.warning("%s", ended.text("a scheduler that was killed"))


async def give_back(session: Session, partitions: Collection[int]) -> bool:
    """Give back those of `partitions` that can leave; returns whether there were any. Their attempts go on here.

    The transaction that releases them also stores everything that was decided, so the next owner reads a
    complete state. Nothing of these partitions is held once that batch is collected.
    """
    cache = session.cache
    async with attributing(session), session.env.journal.transaction() as transaction:
        keeping, _ = await check_pools(session, transaction, claims=False)
        leaving = cache.partitions.intersection(partitions) - _staying(session)
        dags = [dag for dag in cache.dags.values() if dag.row.partition in leaving]
        cache.unstored.dirty |= {
            board: None for dag in dags for board in dag.runs.running.values() if board.effects.rows.lazy
        }
        batch = cache.collect(keeping)
        session.env.attempts.hand_over(
            {run: dag.row.partition for dag in dags for run in (*dag.runs.running, *dag.runs.ending)}
        )
        for dag in dags:
            cache.drop_dag(dag.row.dag_id)
        cache.partitions -= leaving
        cache.unreadable.forget(leaving)
        cache.quarantine.forget(leaving)
        session.outbox.waiting.forget(leaving)
        session.env.loads.forget(leaving)
        committed = await transaction.write(batch)
        await ownership.release(transaction.conn, session.env.incarnation, leaving)
    # a view read before this moment still shows them as ours
    session.membership.given_back.update(dict.fromkeys(leaving, time.monotonic()))
    after_commit(session, committed)
    return bool(leaving)


def _staying(session: Session) -> set[int]:
    """Our partitions that cannot leave now.

    One with a running callback stays until that has ended, so that it is not delivered twice, one with an attempt on an
    engine until that is stored, and one with an attempt that was told to end until it has.
    """
    attempts = session.env.attempts
    staying = {running.request.partition for running in attempts.callbacks.by_id.values()}
    staying |= attempts.ending.partitions()
    staying |= session.env.engines.partitions_to_keep()
    return staying


async def check_leases(session: Session, view: FleetView) -> bool:
    """Insert rows of `partition_lease` that somebody deleted; returns whether there were any.

    Raises StaleRows if partitions that we hold are somebody else's: then everything is read again. Guards keep the rows
    right until that is noticed. Source: docs/architecture.md, "Rows that people edit".
    """
    missing = sorted(set(range(PARTITIONS)) - view.leases.keys())
    if missing:
        await add_leases(session.env.db, missing)
        session.env.metrics.recounted += len(missing)
        logger.warning("the rows of partitions %s were missing: inserted again", ", ".join(map(str, missing)))
    owned = {partition for partition, owner in view.leases.items() if owner == session.env.incarnation}
    lost = session.cache.partitions - owned
    if lost and view.at > session.membership.gained_at:  # otherwise the view is older than what we hold
        raise StaleRows(f"Partitions {', '.join(map(str, sorted(lost)))} no longer belong to this scheduler")
    return bool(missing)


def measure_loads(session: Session) -> list[float | None]:
    """Add what was stored since the last call; the loads to publish, by partition from 0, None for those of others.

    Called about once a second, for the lease. Source: docs/decisions/0057-partitions-by-load.md.
    """
    cache, loads = session.cache, session.env.loads
    stored, cache.stored_rows = cache.stored_rows, Counter()
    loads.add(
        {partition: rows for partition, rows in stored.items() if partition in cache.partitions},
        session.env.clock.monotonic(),
    )
    return loads.published(cache.partitions)
