"""The coroutine that creates due runs and starts queued ones.

It sleeps until the earliest next run of the owned DAGs is due or to be announced, or until woken. Runs are created in
batches (new_runs.py), by time and by asset events (asset_runs.py, partitioned_runs.py). due_runs.py decides which
runs are due and which may start, by the rules of core/creation/run_creation.py. Source: the semantics
reference, sections 13 and 14.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import partial
from typing import Final

from aiosched.core.run.board import Run
from aiosched.db.statements import runs
from aiosched.db.statements.schedules import schedule_positions
from aiosched.scheduler.concurrency.slices import Slices
from aiosched.scheduler.failures.isolation import concerning, for_each_dag
from aiosched.scheduler.memory.cache import OwnedDag, StateCache
from aiosched.scheduler.partitions.previous_run import find_previous_runs
from aiosched.scheduler.partitions.run_rehydration import NOTHING
from aiosched.scheduler.partitions.unreadable_runs import LoadedRun, load_contents
from aiosched.scheduler.runs.announcing import announce_upcoming
from aiosched.scheduler.runs.asset_runs import create_asset_runs
from aiosched.scheduler.runs.awaited import ask_before
from aiosched.scheduler.runs.backfills import complete_backfills
from aiosched.scheduler.runs.due_runs import (
    begin_board,
    choose_due,
    choose_starting,
    due_now,
    empty_board,
    plan_again,
)
from aiosched.scheduler.runs.incomplete import instances_as_created, store_next_part
from aiosched.scheduler.runs.new_runs import chunks, create, in_parts, most_at_once
from aiosched.scheduler.runs.partitioned_runs import create_partitioned_runs
from aiosched.scheduler.runs.queued_ends import end_expired
from aiosched.scheduler.session.session import Session

_RUNS_PER_LOAD: Final = 500
_ROWS_PER_CHECK: Final = 250


async def create_runs(session: Session) -> float | None:
    """One pass; returns how long to rest: until the next run is due."""
    if session.membership.draining:
        return None
    async with session.locks.ownership:
        now = session.env.clock.now()
        due = session.cache.work.due_runs.due(now)
        await end_expired(session, due, now)
        await _start_queued(session, due, now)
        more = await _create_due(session, due, now)
        await _create_by_assets(session, now)
        await find_previous_runs(session)
        await complete_backfills(session, now)
        more |= await store_next_part(session)
        announce_upcoming(session, session.env.clock.now())
    if more:
        return 0.0
    work, now = session.cache.work, session.env.clock.now()
    times = [at for at in (work.due_runs.earliest, work.upcoming.next_look) if at is not None]
    return max((min(times) - now).total_seconds(), 0.001) if times else None


async def _create_by_assets(session: Session, now: datetime) -> None:
    work = session.cache.work
    partitions, work.assets = work.assets & session.cache.partitions, set()
    if partitions:
        await create_asset_runs(session, partitions, now)
        await create_partitioned_runs(session, partitions, now)


# -- queued runs ------------------------------------------------------------------------------


async def _start_queued(session: Session, due: Sequence[str], now: datetime) -> None:
    before = await ask_before(session, due)
    starting = choose_starting(session.cache, due, now, before)

    async def start(runs: Sequence[Run]) -> None:
        await _start(session, runs, now)

    for first in range(0, len(starting), _RUNS_PER_LOAD):
        some = starting[first : first + _RUNS_PER_LOAD]
        await for_each_dag("starting runs", some, lambda run: run.dag_id, start, held=session.cache.dags)


async def _start(session: Session, starting: Sequence[Run], now: datetime) -> None:
    """Load the instances of queued runs and start them; the journal stores their new state."""
    loaded = list[LoadedRun]()
    if to_load := [run for run in starting if not run.is_as_created]:
        async with session.env.db.acquire() as conn:
            loaded = await load_contents(session, conn, to_load)
    versions, slices = session.cache.versions, Slices()
    for run in starting:
        if run.is_as_created:
            instances = instances_as_created(versions[run.version_id][1], run)
            await _begin(session.cache, LoadedRun(run, instances, NOTHING), now, slices)
    for each in loaded:
        await _begin(session.cache, each, now, slices)
    session.wakeups.evaluation.wake()


async def _begin(cache: StateCache, loaded: LoadedRun, now: datetime, slices: Slices) -> None:
    """Start one run. Others run while its board is built: nobody holds it before it is complete."""
    with concerning(loaded.run.dag_id, "the start of a run"):
        board = empty_board(cache, loaded.run, now)
        if board is None:
            return
        rows = iter(loaded.instances)
        while some := list(itertools.islice(rows, _ROWS_PER_CHECK)):
            board.add_rows(some)
            await slices.pause()
        begin_board(cache, board, now, loaded.rehydration)


# -- due runs ---------------------------------------------------------------------------------


async def _create_due(session: Session, due: Iterable[str], now: datetime) -> bool:
    """Create due runs; returns whether there were any, since more may be due by now."""
    most = most_at_once(session.env.settings)
    waiting = iter(dict.fromkeys(due))
    any_created = False
    while some := list(itertools.islice(waiting, most)):  # in between, other coroutines get their turn
        dags = due_now(session.cache, some, now)
        if not dags:
            continue
        any_created |= await for_each_dag(
            "the creation of runs",
            dags,
            lambda dag: dag.row.dag_id,
            partial(_create_due_of, session, now=now),
            held=session.cache.dags,
        )
    return any_created


async def _create_due_of(session: Session, dags: Sequence[OwnedDag], *, now: datetime) -> bool:
    """Create the due runs of these DAGs; returns whether there were any."""
    async with session.env.db.acquire() as conn:
        positions = await schedule_positions(conn, [dag.version.spec for dag in dags], now)
    creations = in_parts(choose_due(dags, positions, now))
    for chunk in chunks(creations, most_at_once(session.env.settings)):
        await create(session, chunk, now)
    await runs.set_next_runs(session.env.db, [(dag.row.dag_id, dag.next_run) for dag in dags])
    plan_again(session.cache, dags)
    return bool(creations)
