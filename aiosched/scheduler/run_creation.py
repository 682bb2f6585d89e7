"""The coroutine that creates due runs and starts queued ones.

It sleeps until the earliest next run of the owned DAGs, or news. Runs are created in
batches: their rows and all their task instances (COPY) in one transaction, and only then
do they exist in memory. Which runs are due and which may start is decided by pure rules
(core/run_creation.py). Source: the semantics reference, sections 13 and 14.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import msgspec

from aiosched.core.board import Run, new_instances
from aiosched.core.params import resolve_params
from aiosched.core.run_creation import (
    PlannedRun,
    active_runs_limit,
    automated_run,
    compute_next,
    next_at_creation,
    runs_to_start,
    tasks_of_run,
)
from aiosched.core.states import RunState
from aiosched.db import runs as statements
from aiosched.db.inbox import CommandResult, answer_commands
from aiosched.errors import DagError
from aiosched.scheduler.holdings import OwnedDag, make_board
from aiosched.scheduler.session import Session

logger = logging.getLogger(__name__)

_RUNS_PER_LOAD: Final = 500


async def create_runs(session: Session) -> float | None:
    """One pass; returns how long to rest: until the next run is due."""
    if session.draining:
        return None
    async with session.books:
        now = session.clock.now()
        due = session.holdings.due_runs.due(now)
        await _start_queued(session, due, now)
        more = await _create_due(session, due, now)
    if more:
        return 0.0
    earliest = session.holdings.due_runs.earliest
    return None if earliest is None else max((earliest - session.clock.now()).total_seconds(), 0.001)


# -- queued runs ------------------------------------------------------------------------------


async def _start_queued(session: Session, due: Iterable[str], now: datetime) -> None:
    holdings = session.holdings
    candidates, holdings.to_start = dict.fromkeys(due) | holdings.to_start, {}
    starting: list[Run] = []
    for dag_id in candidates:
        dag = holdings.dags.get(dag_id)
        if dag is None or not dag.queued:
            continue
        decision = runs_to_start(
            dag.queued,
            now=now,
            limits={None: active_runs_limit(dag.version.spec)},
            running={None: sum(board.run.backfill_id is None for board in dag.running.values())},
            blocked="the DAG is paused" if dag.row.is_paused else None,
        )
        for run in decision.started:
            dag.queued.remove(run)
            dag.starting.add(run.key)
            starting.append(run)
        for run in dag.queued:
            if run.run_after > now:
                holdings.due_runs.add(run.run_after, dag_id)
    for first in range(0, len(starting), _RUNS_PER_LOAD):
        await _start(session, starting[first : first + _RUNS_PER_LOAD], now)


async def _start(session: Session, starting: Sequence[Run], now: datetime) -> None:
    """Read the rows of queued runs and let them run; the journal stores that they do."""
    holdings = session.holdings
    async with session.db.acquire() as conn:
        await ensure_versions(session, conn, {run.version_id for run in starting})
        instances = await statements.load_instances(conn, [run.key for run in starting])
    for run in starting:
        dag = holdings.dags.get(run.dag_id)
        if dag is None or run.key not in dag.starting:
            continue  # deleted or cancelled meanwhile
        dag.starting.discard(run.key)
        version, graph = holdings.versions[run.version_id]
        run.start_date = now
        board = make_board(run, version, graph, instances[run.key])
        board.start(now)
        holdings.add_board(board)
        holdings.begun.append(board)
    session.evaluation.wake()


async def ensure_versions(session: Session, conn: Any, ids: Iterable[int]) -> None:
    """Read the DAG versions that are not held yet."""
    missing = set(ids) - session.holdings.versions.keys()
    if missing:
        for version in (await statements.load_versions(conn, missing)).values():
            session.holdings.graph_of(version)


# -- due runs ---------------------------------------------------------------------------------


async def _create_due(session: Session, due: Iterable[str], now: datetime) -> bool:
    """Create what is due; whether more is due already."""
    holdings = session.holdings
    creations: list[Creation] = []
    touched: dict[str, OwnedDag] = {}
    for dag_id in dict.fromkeys(due):
        dag = holdings.dags.get(dag_id)
        if dag is None:
            continue
        dag.on_calendar = None
        if dag.creates_runs and dag.next_run is not None and dag.next_run.run_after <= now:
            creations.extend(_due_runs(dag, now))
            touched[dag_id] = dag
    for chunk in chunks(creations):
        await create(session, chunk, now)
    if touched:
        async with session.db.acquire() as conn:
            await statements.set_next_runs(conn, [(dag_id, dag.next_run) for dag_id, dag in touched.items()])
        for dag in touched.values():
            if dag.active_runs() < active_runs_limit(dag.version.spec):
                holdings.plan(dag)
    return bool(creations)


def _due_runs(dag: OwnedDag, now: datetime) -> list[Creation]:
    """The scheduled runs of one DAG that are due and below its limit; moves its schedule on."""
    spec = dag.version.spec
    room = active_runs_limit(spec) - dag.active_runs()
    found: list[Creation] = []
    while room > 0 and dag.next_run is not None and dag.next_run.run_after <= now:
        try:
            run = next_at_creation(spec, dag.next_run, dag.last, now)
            if run is None:
                dag.next_run = None
                break
            planned = automated_run(run)
            resolve_params(spec.params, {})
            found.append(Creation(dag, planned, tasks_of_run(spec, planned), "timetable", {}, starts=True))
            dag.last = run.interval
            dag.next_run = compute_next(spec, run.interval, now)
        except DagError as error:
            logger.error("no scheduled run: %s", error, extra={"dag_id": dag.row.dag_id})
            dag.next_run = None
            break
        room -= 1
    return found
