"""Which scheduled runs are due and which queued ones start now: the decisions of run creation, from memory.

Pure: it changes what is held in memory and nothing else. Does not live here: reading and
writing rows (loops/run_creation.py, new_runs.py), the rules on one DAG (core/creation/run_creation.py).
Source: the semantics reference, sections 13 and 14.
"""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from aiosched.core.creation.awaited import NONE_AWAITED
from aiosched.core.creation.next_run import SchedulePosition, next_scheduled_run
from aiosched.core.creation.run_creation import (
    active_runs_limit,
    automated_run,
    check_manual_run,
    check_run_type,
    manual_run,
    runs_to_start,
    tasks_of_manual_run,
    tasks_of_run,
)
from aiosched.core.graph.params import resolve_params
from aiosched.core.run.board import Board, Instance, Run
from aiosched.core.values.ids import ALLOWED_RUN_ID
from aiosched.core.values.states import RunType
from aiosched.errors import DagError
from aiosched.scheduler.failures.isolation import concerning
from aiosched.scheduler.memory.cache import OwnedDag, StateCache, make_board
from aiosched.scheduler.partitions.run_rehydration import NOTHING, Rehydration
from aiosched.scheduler.runs.awaited import NOT_ASKED, awaited_in
from aiosched.scheduler.runs.new_runs import Creation

logger: logging.Logger = logging.getLogger(__name__)


def requested_run(
    dag: OwnedDag,
    now: datetime,
    *,
    conf: dict[str, Any],
    run_id: str | None = None,
    logical_date: datetime | None = None,
    run_after: datetime | None = None,
    triggered_by: str,
    allowed_run_id: re.Pattern[str] = ALLOWED_RUN_ID,
    may_start: bool = True,
    partition_key: str | None = None,
    unpauses: bool = False,
    others: int = 0,
    unique_key: str | None = None,
    priority: int = 0,
    traceparent: str | None = None,
    expires_at: datetime | None = None,
) -> Creation:
    """A manually requested run (13.4); it starts at once if the DAG has room, and is active or `unpauses`.

    `others` of its runs are about to be created, too.

    Raises Refused for an impossible DAG, run id, date or partition key, ParamError for a conf that violates a schema.
    """
    spec = dag.version.spec
    check_manual_run(dag.row.dag_id, is_stale=dag.row.is_stale, has_import_errors=dag.row.has_import_errors)
    check_run_type(spec, RunType.MANUAL)
    resolve_params(spec.params, conf)
    planned = manual_run(
        spec,
        now=now,
        run_id=run_id,
        logical_date=logical_date,
        run_after=run_after,
        allowed_run_id=allowed_run_id,
        partition_key=partition_key,
    )
    free = dag.runs.active() + others < active_runs_limit(spec)
    free = free and spec.run_key is None  # else it waits for its turn among those with its key
    starts = free and may_start and planned.run_after <= now and (unpauses or not dag.row.is_paused)
    tasks = tasks_of_manual_run(spec, planned)
    return Creation(
        dag, planned, tasks, triggered_by, conf, starts, unique_key=unique_key, priority=priority,
        traceparent=traceparent, expires_at=expires_at,
    )  # fmt: skip


def choose_expired(cache: StateCache, due: Iterable[str], now: datetime) -> list[Run]:
    """The queued runs of these DAGs that must not start any more; `due` are DAG ids from the calendar."""
    found: list[Run] = []
    for dag_id in dict.fromkeys(due) | cache.work.to_start:
        if (dag := cache.dags.get(dag_id)) is not None:
            found += dag.runs.queued.expired(now)
            if (later := dag.runs.queued.next_expiry(now)) is not None:
                cache.work.due_runs.add(later, dag_id)
    return found


def choose_starting(
    cache: StateCache, due: Iterable[str], now: datetime, before: Mapping[int, int | None] = NOT_ASKED
) -> list[Run]:
    """The queued runs that may start now; they are `starting` until `begin`.

    `due` are DAG ids from the calendar, `before` the previous run of each awaited queued run (awaited.py).
    """
    candidates, cache.work.to_start = dict.fromkeys(due) | cache.work.to_start, {}
    starting: list[Run] = []
    for dag_id in candidates:
        dag = cache.dags.get(dag_id)
        if dag is not None and dag.runs.queued:
            with concerning(dag_id, "the choice of runs to start"):
                starting += _starting_of(cache, dag, now, before)
    return starting


def _starting_of(cache: StateCache, dag: OwnedDag, now: datetime, before: Mapping[int, int | None]) -> Sequence[Run]:
    """The queued runs of one DAG that start now. Incomplete ones stay queued until they are completed."""
    under_way, keys = dag.runs.under_way(), dag.key_room()
    limits, running = dag.run_limits(), Counter(run.backfill_id for run in under_way)
    first = [
        run
        for group in dag.runs.queued.groups()
        for run in dag.runs.queued.first(group, max(limits[group] - running[group], 0), now, keys)
    ]
    awaited = awaited_in(cache, dag, before) if dag.has_lookback else NONE_AWAITED
    if awaited.by:
        first = list({run.key: run for run in (*first, *filter(None, map(dag.runs.queued.find, awaited.by)))}.values())
    decision = runs_to_start(
        first,
        now=now,
        limits=limits,
        running=running,
        blocked="the DAG is paused" if dag.row.is_paused else None,
        paused_backfills=[backfill.id for backfill in dag.runs.backfills.values() if backfill.is_paused],
        backfill_order={run.key: run.backfill_order or 0 for run in first if run.backfill_id is not None},
        awaited=awaited,
        keys=keys,
    )
    starting = [run for run in decision.started if not run.is_incomplete]
    for run in starting:
        dag.runs.queued.remove(run)
        dag.runs.starting.add(run.key)
    for run in decision.started:
        if run.is_incomplete:
            cache.work.to_complete[run] = None
    for run in first:
        if run.run_after > now:
            cache.work.due_runs.add(run.run_after, dag.row.dag_id)
            cache.work.upcoming.add(run.run_after, dag.row.dag_id)
    return starting


def begin(
    cache: StateCache, run: Run, instances: Iterable[Instance], now: datetime, rehydration: Rehydration = NOTHING
) -> Board | None:
    """Start a run that is `starting`; its version must be held. None if it was deleted or cancelled meanwhile."""
    board = empty_board(cache, run, now)
    if board is None:
        return None
    board.add_rows(instances)
    return begin_board(cache, board, now, rehydration)


def empty_board(cache: StateCache, run: Run, now: datetime) -> Board | None:
    """As `begin`, but the board lacks its task instances and is held by nobody yet: add them, then `begin_board`."""
    if not _is_starting(cache, run):
        return None
    run.start_date = now
    return make_board(run, *cache.versions[run.version_id], ())


def begin_board(cache: StateCache, board: Board, now: datetime, rehydration: Rehydration = NOTHING) -> Board | None:
    """As `begin`, with the complete board of the run."""
    if not _is_starting(cache, board.run):
        return None
    cache.dags[board.run.dag_id].runs.starting.discard(board.run.key)
    rehydration.apply_to(board)
    board.start(now)
    cache.add_board(board)
    cache.unstored.start(board)
    return board


def _is_starting(cache: StateCache, run: Run) -> bool:
    dag = cache.dags.get(run.dag_id)
    return dag is not None and run.key in dag.runs.starting


def due_now(cache: StateCache, due: Iterable[str], now: datetime) -> list[OwnedDag]:
    """The DAGs that may get scheduled runs now, by the calendar and their limits: read their schedule positions."""
    found = []
    for dag_id in due:
        dag = cache.dags.get(dag_id)
        if dag is None:
            continue
        dag.on_calendar = None
        is_due = dag.creates_runs and dag.next_run is not None and dag.next_run.run_after <= now
        with concerning(dag_id, "the limit of active runs"):
            if is_due and dag.runs.active() < active_runs_limit(dag.version.spec):
                found.append(dag)
    return found


def choose_due(dags: Iterable[OwnedDag], positions: Mapping[str, SchedulePosition], now: datetime) -> list[Creation]:
    """The scheduled runs to create now, of DAGs that are due; call `plan_again` with the DAGs afterwards.

    Earlier plans do not count: the decision is made now that there is room, from the rows.
    """
    found: list[Creation] = []
    for dag in dags:
        with concerning(dag.row.dag_id, "the schedule"):
            found += _due_runs(dag, positions[dag.row.dag_id], now)
    return found


def plan_again(cache: StateCache, touched: Iterable[OwnedDag]) -> None:
    """Put the next runs of those DAGs on the calendar that may have another run."""
    for dag in touched:
        if dag.runs.active() < active_runs_limit(dag.version.spec):
            cache.plan(dag)


def _due_runs(dag: OwnedDag, position: SchedulePosition, now: datetime) -> list[Creation]:
    """The scheduled runs of one DAG that are due and within its limit; advances its schedule."""
    spec = dag.version.spec
    room = active_runs_limit(spec) - dag.runs.active()
    found: list[Creation] = []
    try:
        dag.next_run = next_scheduled_run(spec, position, now)
        while len(found) < room and dag.next_run is not None and dag.next_run.run_after <= now:
            planned = automated_run(dag.next_run)
            resolve_params(spec.params, {})
            found.append(Creation(dag, planned, tasks_of_run(spec, planned), "timetable", {}, starts=True))
            position = position.after(dag.next_run)
            dag.next_run = next_scheduled_run(spec, position, now)
    except DagError as error:
        logger.error("no scheduled run: %s", error, extra={"dag_id": dag.row.dag_id})
        dag.next_run = None
    return found
