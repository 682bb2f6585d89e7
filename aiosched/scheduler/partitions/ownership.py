"""Which scheduler owns which partitions: joining, sharing out, taking over.

There is no leader. Every scheduler reads the same rows and makes the same plan: dead peers are
fenced and their partitions released, each scheduler acquires free partitions up to its share and
gives back its surplus, even if tasks run there (handover.py). A draining scheduler gives everything
back while there is a peer to take it. Source: docs/architecture.md, "Ownership and fencing".
"""

from __future__ import annotations

import asyncio
import logging
import time
import zlib
from dataclasses import dataclass
from typing import Final

from aiosched.core.values.ids import PARTITIONS
from aiosched.core.values.states import HOLDING_SLOT
from aiosched.db.statements import ownership
from aiosched.db.statements.ownership import FleetView
from aiosched.executors.executor_router import members_of
from aiosched.executors.worker.lease_deadline import windows_of
from aiosched.leftovers import end_orphans
from aiosched.scheduler.effects.after_commit import after_commit
from aiosched.scheduler.partitions.handover import lose_attempts_of
from aiosched.scheduler.partitions.lease_rows import check_leases
from aiosched.scheduler.partitions.loading import load_partitions
from aiosched.scheduler.session.session import Session
from aiosched.scheduler.slots.attribution import attributing
from aiosched.scheduler.slots.enqueueing import check_pools

logger = logging.getLogger(__name__)

REMOTE_ATTEMPTS_PROTOCOL: Final = 2  # first protocol version that supports remote attempts


@dataclass(frozen=True, slots=True)
class PartitionPlan:
    """What one scheduler does for one view of the fleet."""

    remove_dead: tuple[int, ...]  # incarnations to take over
    acquire: tuple[int, ...]  # free partitions to take
    surplus: int  # how many partitions to give back


def make_plan(view: FleetView, me: int) -> PartitionPlan:
    """The plan of scheduler `me`. Shares differ by at most one partition; a draining scheduler gets none."""
    living = sorted(peer.incarnation for peer in view.peers if not peer.dead and not peer.draining)
    dead = tuple(peer.incarnation for peer in view.peers if peer.dead and peer.incarnation != me)
    owned = sum(owner == me for owner in view.leases.values())
    if me not in living:
        drains = any(peer.incarnation == me and peer.draining and not peer.dead for peer in view.peers)
        return PartitionPlan(dead, (), owned if drains and living else 0)
    share = PARTITIONS // len(living) + (living.index(me) < PARTITIONS % len(living))
    free = sorted(partition for partition, owner in view.leases.items() if owner is None)
    start = living.index(me) * len(free) // len(living)  # so that peers try different ones
    return PartitionPlan(dead, tuple((free[start:] + free[:start])[: max(0, share - owned)]), max(0, owned - share))


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
        async with env.db.acquire() as conn:
            await ownership.set_draining(conn, me)
    gone = {peer.incarnation for peer in view.peers if peer.process_gone}
    for dead in plan.remove_dead:
        async with env.db.acquire() as conn:
            if await ownership.take_over(conn, dead, process_gone=dead in gone):
                env.metrics.takeovers += 1
                changed = True
                logger.info("took over from scheduler %d", dead)
    if plan.acquire and not membership.draining:
        async with env.db.acquire() as conn:
            gained = await ownership.acquire(conn, me, plan.acquire)
            changed |= bool(gained)
        membership.gained_at = time.monotonic()
    given_back = {p: at for p, at in membership.given_back.items() if view.at <= at and p not in gained}
    membership.given_back = given_back
    shown = {partition for partition, owner in view.leases.items() if owner == me}
    mine = gained | (shown - given_back.keys())
    gains = bool(mine - cache.partitions)
    suspects = cache.elsewhere - {peer.incarnation for peer in view.peers}
    if (gains or suspects) and windows_of(members_of(env.executor).values()):
        await asyncio.to_thread(_end_orphans)
    if gains:
        session.locks.loaded.clear()
        await load_partitions(session, mine)
    if suspects:
        await lose_attempts_of(session, suspects)
    not_handed_out = session.context.unsent or session.context.held  # the next owner would take them for begun
    if plan.surplus and not not_handed_out and view.at >= membership.keeps_until:
        supported = all(peer.protocol >= REMOTE_ATTEMPTS_PROTOCOL for peer in view.peers if not peer.dead)
        changed |= await give_back(session, plan.surplus, busy_ones=supported)
    return changed


def _end_orphans() -> None:
    """End processes that a killed scheduler of this machine has left behind, before its tasks run again."""
    if ended := end_orphans():
        logger.warning("%s", ended.text("a scheduler that was killed"))


async def give_back(session: Session, count: int, *, busy_ones: bool = True) -> bool:
    """Give back up to `count` partitions; returns whether there were any. Their attempts go on here (handover.py).

    Without `busy_ones` only partitions without running tasks are given back: some peer would treat such tasks as lost.

    A partition with an attempt on an engine that is not stored yet stays for now.
    The transaction that releases them also stores everything that was decided, so the next owner reads a
    complete state. Nothing of these partitions is held once that batch is collected.
    """
    cache = session.cache
    async with attributing(session), session.env.journal.transaction() as transaction:
        keeping, _ = await check_pools(session, transaction, claims=False)
        leaving = _choose(session, count, busy_ones=busy_ones) - session.env.engines.partitions_to_keep()
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
        session.outbox.forget(leaving)
        committed = await transaction.write(batch)
        await ownership.release(transaction.conn, session.env.incarnation, leaving)
    # a view read before this moment still shows them as ours
    session.membership.given_back.update(dict.fromkeys(leaving, time.monotonic()))
    after_commit(session, committed)
    return bool(leaving)


def _choose(session: Session, count: int, *, busy_ones: bool) -> set[int]:
    """Up to `count` owned partitions, busy and idle ones alike, so that the load is shared, too.

    A partition with a running callback stays until it has ended, so that it is not delivered twice.
    """
    cache = session.cache
    calling = {callback.partition for callback in session.env.attempts.callbacks.by_id.values()}
    load = dict.fromkeys(cache.partitions - calling, 0)
    for dag in cache.dags.values():
        if dag.row.partition in load:
            load[dag.row.partition] += len(dag.runs.running)
            if not busy_ones and any(i.state in HOLDING_SLOT for board in dag.runs.running.values() for i in board):
                del load[dag.row.partition]
    ordered = sorted(
        load, key=lambda partition: (load[partition], zlib.crc32(bytes([partition])))
    )  # ties: pseudo-random
    count = min(count, len(load))
    return {ordered[(2 * i + 1) * len(ordered) // (2 * count)] for i in range(count)}
