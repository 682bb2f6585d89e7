"""What a request to clear, mark or backfill would touch: a read by any process, with or without a scheduler.

The client reads it from the rows, without an entry in the audit log. The same code decides as in the owner
(core/requests/selection.py, runs/backfills.py). An instance whose change is not stored yet is shown as stored.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, TypeGuard

from aiosched.core.requests.instance_changes import (
    TouchedInstances,
    note_selected,
    refuse_moving,
    refuse_running,
    running_of,
)
from aiosched.core.requests.requests import BackfillCreate, Clear, Request, TaskChange
from aiosched.core.requests.selection import has_markers, select
from aiosched.db.queries.why import get_dag_row
from aiosched.db.server.connection import DatabaseConnection
from aiosched.db.server.engine import Database
from aiosched.db.statements.runs import load_instances, load_runs
from aiosched.errors import DagError, NotFound, Refused
from aiosched.scheduler.memory.cache import StateCache
from aiosched.scheduler.memory.version_reading import ensure_versions
from aiosched.scheduler.requests.dependents import SelectedRun, find_dependents
from aiosched.scheduler.requests.runs_meant import runs_meant
from aiosched.scheduler.runs.backfills import answer_of, compute_dates, plan_dates
from aiosched.scheduler.runs.incomplete import missing_instances
from aiosched.scheduler.runs.stored_runs import chunks


def is_preview(request: Request) -> TypeGuard[TaskChange | BackfillCreate]:
    """Whether a request only asks what it would touch."""
    return isinstance(request, (TaskChange, BackfillCreate)) and request.dry_run


async def preview(
    db: Database, dag_id: str, request: TaskChange | BackfillCreate, *, now: datetime, max_backfill_runs: int
) -> dict[str, Any]:
    """What the owner would answer to the request now. Raises NotFound and Refused as the owner does."""
    async with db.acquire() as conn, conn.transaction(isolation="repeatable_read", readonly=True):
        try:
            return await _read(conn, dag_id, request, now, max_backfill_runs)
        except DagError as error:  # an invalid task, pattern or conf, which the owner refuses, too
            raise Refused(str(error)) from None


async def _read(
    conn: DatabaseConnection, dag_id: str, request: TaskChange | BackfillCreate, now: datetime, most: int
) -> dict[str, Any]:
    cache = StateCache()
    row = await get_dag_row(conn, dag_id)
    if row is None:
        raise NotFound(f"There is no DAG {dag_id!r}; see `aiosched dags list`.")
    await ensure_versions(cache, conn, {row.version_id})
    if isinstance(request, BackfillCreate):
        spec = cache.versions[row.version_id][0].spec
        dates, _ = await plan_dates(conn, spec, request, await compute_dates(spec, request, now, most=most))
        return answer_of(spec, request, dates, None, now)
    return await touched_by(conn, cache, dag_id, row.version_id, request)


async def touched_by(
    conn: DatabaseConnection, cache: StateCache, dag_id: str, newest: int, request: TaskChange
) -> dict[str, Any]:
    """What a request to clear or mark would touch; `newest` is the DAG's newest version, which must be held."""
    runs = await runs_meant(conn, dag_id, request, cache.versions[newest][0].spec.timezone)
    versions = {run.version_id for run in runs} | {newest}
    await ensure_versions(cache, conn, versions)
    selection = select({v: cache.versions[v][1] for v in versions}, newest, request)
    touched = TouchedInstances()
    running: list[str] = []
    selected: list[SelectedRun] = []
    for chunk in chunks(cache.versions, runs):
        instances = await load_instances(conn, [run.key for run in chunk])
        asked = [run.key for run in chunk if run.is_incomplete or selection.moves(run.version_id)]
        whole = {run.key: run for run in await load_runs(conn, asked)}
        for key, one in whole.items():
            instances[key] += missing_instances(cache.versions[one.version_id][1], one, instances[key])
        for run in chunk:
            chosen = selection.of(run.version_id, instances[run.key])
            graph = cache.versions[run.version_id][1]
            if not selection.moves(run.version_id):
                touched.note(run.run_id, graph, chosen)
            elif note_selected(selection, touched, one := whole[run.key], instances[run.key]):
                refuse_moving(one)
            selected.append(SelectedRun(dag_id, run, graph, chosen))
            running += running_of(run.run_id, graph, chosen)
    if request.prevent_running:
        refuse_running(running)
    if not isinstance(request, Clear) or not request.dependents or not has_markers(selection):
        return touched.answer
    reached = await find_dependents(conn, cache, selected, request)
    return touched.answer | ({"dependents": reached.shown()} if reached.instances else {})
