"""Clearing and marking: requests about task instances and runs that exist.

    clear, mark_tasks -> {count, runs, states, instances: [{run_id, task_id, map_index, state, try_number}, …],
                          dependents: those in other runs}
    mark_run          -> {run_id, state}

Without `run_ids` a request applies to the runs with a logical date in [from, to], and without those to
all runs; `past` and `future` add the runs before and after the named ones, by logical date. The id of a
task that only some of the runs have selects only those runs.

Source: the semantics reference, section 28.
"""

from __future__ import annotations

from functools import partial

from aiosched.core.requests.instance_changes import ChangeOf, InstanceChange, clear_chosen, marking, marking_run
from aiosched.core.requests.requests import Clear, MarkRun, MarkTasks, TaskChange
from aiosched.core.requests.selection import has_markers, select
from aiosched.core.values.states import RunState
from aiosched.scheduler.memory.cache import OwnedDag
from aiosched.scheduler.memory.version_reading import ensure_versions
from aiosched.scheduler.requests.dependents import reached_by
from aiosched.scheduler.requests.runs_meant import runs_meant, runs_named
from aiosched.scheduler.runs.stored_runs import change_runs
from aiosched.scheduler.session.session import Session


async def clear(session: Session, dag: OwnedDag, request: Clear, number: int) -> None:
    """Let task instances run again (28.2, 28.3)."""
    await _change(session, dag, request, partial(clear_chosen, request), number)


async def mark_tasks(session: Session, dag: OwnedDag, request: MarkTasks, number: int) -> None:
    """Set task instances to success, failed or skipped (28.4)."""
    await _change(session, dag, request, marking(request), number)


async def mark_run(session: Session, dag: OwnedDag, request: MarkRun, number: int) -> None:
    """Set a run to success or failed with all that is unfinished in it, or queue it again (28.5)."""
    (run,) = await runs_named(session.env.db, dag.row.dag_id, [request.run_id])
    change = marking_run(RunState(request.state), run.run_id, is_running=run.key in dag.runs.running)
    await change_runs(session, dag, number, [run], change, {"run_id": run.run_id, "state": request.state})


async def _change(session: Session, dag: OwnedDag, request: TaskChange, change: ChangeOf, number: int) -> None:
    async with session.env.db.acquire() as conn:
        runs = await runs_meant(conn, dag.row.dag_id, request, dag.version.spec.timezone)
        versions = {run.version_id for run in runs} | {dag.version.id}
        await ensure_versions(session.cache, conn, versions)
    graphs = {version: session.cache.versions[version][1] for version in versions}
    changing = InstanceChange(select(graphs, dag.version.id, request), request, change)
    answer, following = changing.touched.answer, []
    if isinstance(request, Clear) and request.dependents and has_markers(changing.selection):
        reached = await reached_by(session, dag, runs, changing.selection, request)
        following = reached.requests(request, number)
        if reached.instances:
            answer["dependents"] = reached.shown()
    await change_runs(
        session, dag, number, runs, changing.apply, answer,
        moves=changing.moves if request.newest_version else None, refuse=changing.refuse, following=following,
    )  # fmt: skip
