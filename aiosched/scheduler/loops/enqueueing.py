"""The critical section: scheduled task instances become queued, and all decisions are stored.

One pass is one transaction of the journal: read the open slots of the pools, let the
pure allocation choose (slots/claiming.py), store the claims and all other changes, commit. Only then are the
claims handed to the executor. Which pools are locked for it: slots/storing.py.
Source: docs/architecture.md, "The loop"; the semantics reference, section 17.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterable
from typing import Final

from aiosched.core.run.board import Board, Instance
from aiosched.core.values.ids import partition_of
from aiosched.db.engines.attempts import NewAttempt, new_attempt
from aiosched.scheduler.effects.after_commit import after_commit
from aiosched.scheduler.journal.journal import Transaction
from aiosched.scheduler.memory.changes import Changes
from aiosched.scheduler.session.session import Session
from aiosched.scheduler.slots.attribution import attributing
from aiosched.scheduler.slots.claiming import claim, claim_with_competitors, room_of
from aiosched.scheduler.slots.storing import check_pools

_POOL_RETRY: Final = 0.5  # seconds until a pool in which peers may have freed slots is checked again
_SHORTLY: Final = 0.001  # seconds; a clock may be that much behind the database's


async def enqueue(session: Session) -> float | None:
    """One pass; returns how long to rest unless woken.

    The evaluation applies reports that have arrived first: so what ends at the same time is one commit, and chains side
    by side keep step instead of taking turns.
    """
    if session.env.attempts.reports:
        await asyncio.sleep(0)
    cache, work = session.cache, session.cache.work
    is_due = bool(work.used_up) and _allow_starts(session)
    has_work = cache.unstored.is_waiting or work.room_changed or is_due
    if not has_work and not (session.membership.has_peers and _polls(session)):
        return _rest(session) if work.used_up else None
    started = time.perf_counter()
    work.room_changed = False
    async with attributing(session), session.env.journal.batch(shared=session.membership.has_peers) as transaction:
        batch = await _decide(session, transaction)
        committed = await transaction.write(batch)
    session.env.metrics.critical_section.observe(time.perf_counter() - started)
    session.env.metrics.journal_batch.observe(len(batch.tasks.instances))
    after_commit(session, committed)
    return 0.0 if cache.unstored.dirty else _rest(session)


async def _decide(session: Session, transaction: Transaction) -> Changes:
    """Choose and collect. There is no await between the choice and the collected batch."""
    env, cache, membership = session.env, session.cache, session.membership
    keeping, freed = await check_pools(session, transaction, claims=True)
    parallelism = env.settings.core.parallelism
    taken = len(env.attempts.in_flight) + len(session.context.held)
    open_slots = 0 if membership.draining else parallelism - taken
    locked = transaction.locks_pools
    room = room_of(
        transaction.pools, freed, env.executor, open=open_slots, parallelism=parallelism, knows_starts=locked
    )
    now = env.clock.now()
    if not (locked and transaction.shared):
        batch = claim(cache, room, now, incarnation=env.incarnation, include_deferred=keeping)
    else:
        rows = {name: row for name, row in transaction.pools.items() if row is not None}
        fairness = membership.pool_fairness
        batch = claim_with_competitors(
            cache, room, now, fairness, rows, incarnation=env.incarnation, include_deferred=keeping
        )
    if locked:
        began = env.clock.monotonic()
        cache.work.used_up = {name: began + seconds for name, seconds in batch.effects.next_starts.items()}
    if env.engines:
        batch.messages.attempts = attempts_for_engines(session, batch.effects.claimed)
    return batch


def attempts_for_engines(session: Session, claimed: Iterable[tuple[Board, Instance]]) -> list[NewAttempt]:
    """The attempts of claims that engines run, to be stored with these, as far as they can be handed out at once."""
    engines, ending, found = session.env.engines, session.env.attempts.ending, []
    for board, instance in claimed:
        name = engines.name_of(board.graph.tasks[instance.task].executor)
        if name is None or (ending and board.key(instance)[:3] in ending):
            continue
        with contextlib.suppress(Exception):  # the executor says later of what cannot be stored why it fails
            found.append(new_attempt(partition_of(board.run.dag_id), name, board.attempt(instance)))
    return found


def _rest(session: Session) -> float | None:
    """How long to rest unless woken: until pools are polled, or the rate of one allows another start."""
    rest = _POOL_RETRY if session.membership.has_peers and _polls(session) else None
    if used_up := session.cache.work.used_up:
        start = max(min(used_up.values()) - session.env.clock.monotonic(), _SHORTLY)
        return start if rest is None else min(rest, start)
    return rest


def _polls(session: Session) -> bool:
    """Whether pools are polled, as peers free slots silently: tasks wait for more than an instant that is known."""
    used_up = session.cache.work.used_up
    return any(name not in used_up for name in session.cache.waiting.pools())


def _allow_starts(session: Session) -> bool:
    """Whether the rates of pools allow other starts by now; their rows are read then."""
    now, work = session.env.clock.monotonic(), session.cache.work
    left = {name: at for name, at in work.used_up.items() if at > now}
    is_due = len(left) < len(work.used_up)
    work.used_up = left
    return is_due
