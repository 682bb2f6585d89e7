"""Who owns which partitions: joining, sharing out, taking over.

There is no leader. Every scheduler looks at the same rows and makes the same plan: dead
peers are fenced and their partitions freed, free partitions are taken up to one's share,
what is above it is given back when nothing of it is under way. Source: the design, section 7.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from dataclasses import dataclass

from aiosched.core.ids import PARTITIONS
from aiosched.core.states import HOLDING_SLOT
from aiosched.db import ownership as statements
from aiosched.db.ownership import View
from aiosched.scheduler.loading import load_partitions
from aiosched.scheduler.session import Session

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Plan:
    """What one scheduler does after a look at the fleet."""

    bury: tuple[int, ...]  # dead incarnations to take over
    acquire: tuple[int, ...]  # free partitions to take
    surplus: int  # how many partitions to give back


def make_plan(view: View, me: int) -> Plan:
    """The plan of scheduler `me`. Shares differ by at most one partition; who drains gets none."""
    living = sorted(peer.incarnation for peer in view.peers if not peer.dead and not peer.draining)
    dead = tuple(peer.incarnation for peer in view.peers if peer.dead and peer.incarnation != me)
    owned = sum(owner == me for owner in view.leases.values())
    if me not in living:
        return Plan(dead, (), 0)
    share = PARTITIONS // len(living) + (living.index(me) < PARTITIONS % len(living))
    free = sorted(partition for partition, owner in view.leases.items() if owner is None)
    start = living.index(me) * len(free) // len(living)  # so that peers reach for different ones
    return Plan(dead, tuple((free[start:] + free[:start])[: max(0, share - owned)]), max(0, owned - share))


async def apply_view(session: Session, view: View) -> bool:
    """Carry out the plan after a look; whether there was something to do, so that another look is worth it.

    Closes the session's gate when partitions are loaded; the caller opens it once the requests
    to them are applied. Call it with `session.books` held.
    """
    plan = make_plan(view, session.incarnation)
    session.has_peers = len(view.peers) > 1
    gained = set[int]()
    busy = bool(plan.bury or plan.acquire)
    gone = {peer.incarnation for peer in view.peers if peer.process_gone}
    for dead in plan.bury:
        async with session.db.acquire() as conn:
            if await statements.take_over(conn, dead, process_gone=dead in gone):
                session.metrics.takeovers += 1
                logger.info("took over from scheduler %d", dead)
    if plan.acquire and not session.draining:
        async with session.db.acquire() as conn:
            gained = await statements.acquire(conn, session.incarnation, plan.acquire)
    session.given_back = {p: at for p, at in session.given_back.items() if view.at <= at and p not in gained}
    shown = {partition for partition, owner in view.leases.items() if owner == session.incarnation}
    mine = gained | (shown - session.given_back.keys())
    if mine - session.holdings.partitions:
        session.gate.clear()
        await load_partitions(session, mine)
    if plan.surplus:
        busy |= await give_back(session, plan.surplus)
    return busy


async def give_back(session: Session, count: int) -> bool:
    """Release up to `count` partitions in which nothing is under way; whether any was."""
    async with session.journal.transaction() as transaction:
        idle = list(_idle_partitions(session))[:count]
        for dag_id in [i for i, dag in session.holdings.dags.items() if dag.row.partition in idle]:
            session.attempts.forget_triggers(session.holdings.dags[dag_id].running)
            session.holdings.drop_dag(dag_id)
        session.holdings.partitions -= set(idle)
        session.outbox.forget(idle)
        await statements.release(transaction.conn, session.incarnation, idle)
    # a view from before this moment still shows them as ours
    session.given_back.update(dict.fromkeys(idle, time.monotonic()))
    return bool(idle)


def _idle_partitions(session: Session) -> Iterable[int]:
    """Owned partitions without a decision that is not stored and without an attempt under way."""
    holdings = session.holdings
    busy = {holdings.dags[board.run.dag_id].row.partition for board in (*holdings.dirty, *holdings.to_evaluate)}
    busy |= {holdings.dags[board.run.dag_id].row.partition for board in (*holdings.ended, *holdings.begun)}
    busy |= set(session.attempts.callbacks.values())
    for dag in holdings.dags.values():
        under_way = any(instance.state in HOLDING_SLOT for board in dag.running.values() for instance in board)
        if dag.starting or under_way:
            busy.add(dag.row.partition)
    return sorted(holdings.partitions - busy)
