"""Going on after a run that another scheduler has made, as `aiosched migrate airflow` requests it.

The run is stored as one of the DAG's schedule, finished, with the states of its task instances, so that the next run is
planned after it and tasks that depend on their past find it. Which run that is: core/creation/continued.py.
"""

from __future__ import annotations

from aiosched.core.creation.continued import RunElsewhere, continued_run, finished_instances
from aiosched.core.creation.run_creation import PlannedRun
from aiosched.core.requests.requests import ContinueSchedule
from aiosched.core.timetables import NextRun
from aiosched.core.values.states import RunType
from aiosched.db.people.finished_runs import FinishedRunRow, insert_finished_instances, insert_finished_run
from aiosched.db.server.connection import DatabaseConnection
from aiosched.db.statements.runs import set_next_runs, set_paused
from aiosched.db.statements.schedules import BY_TIMETABLE, schedule_positions
from aiosched.errors import Refused
from aiosched.scheduler.memory.cache import OwnedDag
from aiosched.scheduler.partitions.loading import plan_next
from aiosched.scheduler.partitions.loading import set_paused as with_pause
from aiosched.scheduler.requests.notes import read_note
from aiosched.scheduler.session.session import Session


async def continue_schedule(session: Session, dag: OwnedDag, request: ContinueSchedule, number: int) -> None:
    """Store the run of the other scheduler, unless the schedule is further already, and plan the next one."""
    spec, dag_id, key = dag.version.spec, dag.row.dag_id, None
    async with session.env.side_journal.transaction() as transaction:
        conn = transaction.conn
        position = (await schedule_positions(conn, [spec], None))[dag_id]
        last = RunElsewhere(request.logical_date, request.run_after, request.state)
        found = continued_run(spec, last, position, session.env.clock.now())
        if isinstance(found, str):
            answer = {"run_id": None, "unchanged": found}
        else:
            planned, run = found
            key = await _store(session, transaction.conn, dag, request, found)
            answer = {"run_id": planned.run_id, "logical_date": run.logical_date.isoformat()}
        if request.unpause:
            await set_paused(conn, dag_id, False)
        await transaction.answer(number, answer)
        positions = await schedule_positions(conn, [spec], None)
    if key is not None and not isinstance(found, str):
        session.changed_runs.add_runs([key])
        running, date = dag.runs.running.values(), found[1].logical_date
        if dag.graph.lookback is not None and session.cache.previous_run_index.overtaken(running, date):
            session.cache.work.to_find_previous[dag_id] = None
    if request.unpause:
        session.cache.put_dag(with_pause(dag, False), dag.version)
    plan_next(session.context, dag, positions[dag_id])
    await set_next_runs(session.env.db, [(dag_id, dag.next_run)])


async def _store(
    session: Session,
    conn: DatabaseConnection,
    dag: OwnedDag,
    request: ContinueSchedule,
    found: tuple[PlannedRun, NextRun],
) -> int:
    planned, run = found
    end = request.end_date or planned.run_after
    start = request.start_date or end
    row = FinishedRunRow(
        dag_id=dag.row.dag_id,
        run_id=planned.run_id,
        partition=dag.row.partition,
        version_id=dag.version.id,
        run_type=RunType.SCHEDULED,
        triggered_by=BY_TIMETABLE,
        state=request.state,
        logical_date=run.logical_date,
        interval_start=run.interval.start,
        interval_end=run.interval.end,
        run_after=planned.run_after,
        start_date=start,
        end_date=end,
        note=read_note(f"ran elsewhere: {request.source}" if request.source else None),
        created_by=session.env.incarnation,
    )
    key = await insert_finished_run(conn, row)
    if key is None:
        raise Refused(f"DAG {dag.row.dag_id!r} has a run {planned.run_id!r} already.")
    instances = finished_instances(dag.graph, request.tasks)
    await insert_finished_instances(conn, key, instances, start=start, end=end)
    return key
