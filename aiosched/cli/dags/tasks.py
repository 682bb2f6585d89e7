"""`aiosched tasks`: tasks of a DAG, instances of a run with their tries, and logs.

`clear` and `mark` are in clearing.py, `test` in trying.py, `render` in rendering.py, `xcoms` in xcoms.py.
"""

from __future__ import annotations

import asyncio
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from aiosched.cli.base.opening import Open, open_page, page_path
from aiosched.cli.base.options import MOST_INT, DagId, Dsn, MapIndex, Output, RunRef, TaskId, UsageProblem
from aiosched.cli.base.output import STRUCTURED, Columns, Format, chosen, duration, report, show_list, show_one, talk
from aiosched.cli.base.session import load, open_database, with_database
from aiosched.cli.base.spellings import UNASKED, understanding
from aiosched.cli.dags import bulk, clearing, lists, notes, rendering, runs, trying, xcoms
from aiosched.core.values.ids import instance_name, read_instance_name
from aiosched.core.values.states import FINISHED
from aiosched.errors import NotFound

if TYPE_CHECKING:
    from aiosched.db.queries.queries import RunRow, TaskRow
    from aiosched.db.queries.try_queries import TryRow
    from aiosched.db.server.engine import Database
    from aiosched.remote.logs import AttemptLogs

app: typer.Typer = typer.Typer(
    no_args_is_help=True, rich_markup_mode=None, add_completion=False, help="Tasks and their instances."
)


_AIRFLOW_OPTIONS: Final = {
    "--start-date": "--from",
    "-s": "--from",
    "--end-date": "--to",
    "-e": "--to",
    "--task-regex": "--pattern",
}

app.command("clear", cls=understanding(_AIRFLOW_OPTIONS))(clearing.clear_tasks)
app.command("instances")(lists.list_instances)
app.command("mark", cls=UNASKED)(clearing.mark_task)
app.command("note")(notes.note_task)
app.command("bulk")(bulk.bulk_tasks)
app.command("xcoms")(xcoms.show_xcoms)
app.command("test")(trying.try_task)
app.command("render")(rendering.render)

_LOOK_SECONDS: Final = 0.3
_LOOK_SECONDS_REMOTE: Final = 1.0
_TRY_COLUMNS: Final[Columns[TryRow]] = {
    "TRY": lambda row: row.try_number,
    "STATE": lambda row: row.state,
    "QUEUED": lambda row: row.queued_at,
    "START": lambda row: row.start_date,
    "DURATION": lambda row: duration(row.seconds),
    "VERSION": lambda row: row.version,
    "SOURCE": lambda row: row.source_hash,
    "HOST": lambda row: row.hostname,
    "REASON": lambda row: row.reason,
}


@app.command("list")
def list_(dag_id: DagId, dsn: Dsn = None, output: Output = None) -> None:
    """List the tasks of a DAG with their upstream tasks and the limits that apply to them."""
    from aiosched.db.queries.queries import get_spec

    spec = with_database(dsn, lambda db: get_spec(db, dag_id))
    columns: Columns[Any] = {
        "TASK": lambda task: task.task_id,
        "OPERATOR": lambda task: task.operator,
        "AFTER": lambda task: task.upstream,
        "TRIGGER RULE": lambda task: task.trigger_rule,
        "RETRIES": lambda task: task.retries,
        "POOL": lambda task: task.pool if task.pool_slots == 1 else f"{task.pool} x {task.pool_slots}",
    }
    show_list(spec.tasks, columns, output, empty="it has no tasks")


@app.command()
def show(
    dag_id: DagId,
    run: RunRef,
    task_id: TaskId,
    map_index: MapIndex = None,
    open_: Open = False,
    dsn: Dsn = None,
    output: Output = None,
) -> None:
    """Show a task instance with its tries; without --map-index, all instances of a mapped task."""
    from aiosched.db.queries.try_queries import list_tries

    async def read(db: Database) -> tuple[RunRow, list[TaskRow], list[TryRow]]:
        found, instances = await _instances(db, dag_id, run, task_id, map_index)
        return found, instances, await list_tries(db, found, instances[0]) if len(instances) == 1 else []

    found, instances, tries = with_database(dsn, read)
    if open_:
        index = instances[0].map_index if len(instances) == 1 else -1
        open_page(dsn, page_path(dag_id, found.run_id, instances[0].task_id, index))
    if len(instances) > 1:
        show_list(instances, runs.TASK_COLUMNS, output, empty="")
        return
    task = instances[0]
    fields = {
        "task": task.name,
        "state": task.state,
        "reason": task.reason,
        "try": f"{task.try_number} of {task.max_tries + 1}",
        "operator": task.operator,
        "pool": task.pool,
        "scheduled": task.scheduled_at,
        "queued": task.queued_at,
        "started": task.start_date,
        "ended": task.end_date,
        "duration": duration(task.seconds),
        "next at": task.next_at,
        "note": task.note,
    }
    show_one(fields, output, data=asdict(task) | {"tries": tries})
    if chosen(output) in (Format.TABLE, Format.PLAIN):
        show_list(tries, _TRY_COLUMNS, output, empty="not started")


@app.command()
def logs(
    dag_id: DagId,
    run: RunRef,
    task_id: TaskId,
    map_index: MapIndex = None,
    number: Annotated[
        int | None,
        typer.Option("--try", min=1, max=MOST_INT, metavar="N", help="Number of the try; default: the newest."),
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Follow the log until the task is finished.")] = False,
    dsn: Dsn = None,
    output: Output = None,
) -> None:
    """Show the log of a task instance."""
    if follow and output in STRUCTURED:
        raise UsageProblem(f"--follow shows a log while it grows, -o {output} writes it in one piece: leave one out.")

    async def work() -> None:
        settings = load(database__dsn=dsn).settings
        from aiosched.remote.logs import AttemptLogs

        found = AttemptLogs.of(settings)
        async with open_database(settings) as db:
            await _show_log(db, found, dag_id, run, task_id, map_index, number, follow, output)

    asyncio.run(work())


async def _show_log(
    db: Database,
    logs: AttemptLogs,
    dag_id: str,
    run: str,
    task_id: str,
    map_index: int | None,
    number: int | None,
    follow: bool,
    output: Format | None,
) -> None:
    from pathlib import Path

    from aiosched.core.values.messages import AttemptKey
    from aiosched.db.statements import unwritten_logs
    from aiosched.remote.log_files import log_folder

    found, instances = await _instances(db, dag_id, run, task_id, map_index)
    if len(instances) > 1:
        raise NotFound(f"{task_id} is mapped: choose one of its {len(instances)} instances with --map-index.")
    task = instances[0]
    task_id = task.task_id
    where = log_folder(Path(), dag_id=dag_id, run_id=found.run_id, task_id=task_id, map_index=task.map_index)
    folder = where.as_posix()
    tries = await asyncio.to_thread(logs.tries, folder)
    if number is not None and number > max(task.try_number, *tries, 0):
        raise NotFound(f"{task.name} has no try {number}; the newest is {task.try_number}.")
    shown = number or max(task.try_number, 1)
    offset, parts = 0, list[str]()
    while True:
        (task,) = (await _instances(db, dag_id, found.run_id, task_id, task.map_index))[1]
        # after the state, so that nothing is written after the end
        view = await asyncio.to_thread(logs.view, folder, shown)
        key = AttemptKey(found.key, task.task_index, task.map_index, shown)
        if (unwritten := await unwritten_logs.find(db, key)) is not None:
            view = view.followed_by(unwritten.text.encode())
        while (part := await asyncio.to_thread(view.lines, offset))[0]:
            text, offset = part
            if output in STRUCTURED:
                parts.append(text)
            else:
                sys.stdout.write(text)
                sys.stdout.flush()
        is_over = task.state in FINISHED or task.try_number > shown
        ended = task.end_date if task.try_number == shown else None
        if not follow or (is_over and await asyncio.to_thread(logs.are_settled, folder, shown, ended)):
            break
        await asyncio.sleep(_LOOK_SECONDS if logs.remote is None else _LOOK_SECONDS_REMOTE)
    which = {"dag_id": dag_id, "run_id": found.run_id, "task_id": task_id, "map_index": task.map_index}
    report(which | {"try_number": shown, "log": "".join(parts)}, output)
    if not offset:
        talk(f"try {shown} of {task.name} wrote nothing here ({task.state}); looked in {logs.where} for {folder}")


async def _instances(
    db: Database, dag_id: str, run: str, task_id: str, map_index: int | None
) -> tuple[RunRow, list[TaskRow]]:
    """The instances of a task in a run, at least one. Raises NotFound."""
    from aiosched.db.queries.queries import find_run, list_run_tasks

    task_id, map_index = read_instance_name(task_id, map_index)
    found = await find_run(db, dag_id, run)
    instances = await list_run_tasks(db, found, task_id=task_id, limit=10_000)
    if map_index is not None:
        instances = [task for task in instances if task.map_index == map_index]
    if not instances:
        which = task_id if map_index is None else instance_name(task_id, map_index)
        raise NotFound(f"Run {found.run_id} of {dag_id} has no instance of {which}.")
    return found, instances


@app.command("states-for-dag-run", hidden=True)
def states_for_dag_run(dag_id: DagId, run: RunRef, dsn: Dsn = None, output: Output = None) -> None:
    """Airflow's spelling of `runs show`, task instances only."""
    from aiosched.db.queries.queries import find_run, list_run_tasks

    async def read(db: Database) -> list[TaskRow]:
        return await list_run_tasks(db, await find_run(db, dag_id, run), limit=10_000)

    show_list(with_database(dsn, read), runs.TASK_COLUMNS, output, empty="it has no task instances yet")
