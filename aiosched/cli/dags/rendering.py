"""`tasks render`: the template fields of a task instance, as stored with its try or rendered by a scheduler."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from aiosched.cli.base.options import DagId, Dsn, MapIndex, Output, RunRef, TaskId
from aiosched.cli.base.output import show_one, talk
from aiosched.cli.base.session import any_scheduler_alive, ask, with_database
from aiosched.core.requests.requests import Render
from aiosched.core.values.ids import instance_name, read_instance_name
from aiosched.core.values.messages import AttemptKey
from aiosched.errors import NotFound, Refused, TimedOut

if TYPE_CHECKING:
    from aiosched.db.queries.queries import RunRow, TaskRow
    from aiosched.db.server.engine import Database

_SECONDS: Final = 60.0

Again = Annotated[bool, typer.Option("--again", help="Render now, also if the values of the last try are stored.")]


def render(
    dag_id: DagId,
    run: RunRef,
    task_id: TaskId,
    map_index: MapIndex = None,
    again: Again = False,
    dsn: Dsn = None,
    output: Output = None,
) -> None:
    """Show the template fields of a task in a run: those of its last try, else a scheduler renders them; secrets are
    masked."""
    from aiosched.db.queries.queries import find_run

    async def work(db: Database) -> dict[str, Any]:
        found = await find_run(db, dag_id, run)
        task = await _instance(db, found, task_id, map_index)
        stored = None if again else await _stored(db, found, task)
        return stored if stored is not None else await _rendered_now(db, found, task)

    fields = with_database(dsn, work)
    show_one(fields, output, data=fields)


async def _stored(db: Database, run: RunRow, task: TaskRow) -> dict[str, Any] | None:
    from aiosched.db.statements.rendered_fields import find_rendered

    key = AttemptKey(run.key, task.task_index, task.map_index, task.try_number)
    return (await find_rendered(db, [key])).get(key)


async def _rendered_now(db: Database, run: RunRow, task: TaskRow) -> dict[str, Any]:
    if not await any_scheduler_alive(db):
        raise Refused(
            f"No values of {task.name} are stored, and no scheduler runs that could render them. Start one "
            "(`aiosched serve`), then try again."
        )
    request = Render(run_id=run.run_id, task_id=task.task_id, map_index=task.map_index)
    answer = await ask(db, request, run.dag_id, timeout=_SECONDS)
    if answer is None:
        raise TimedOut(f"No scheduler has answered within {_SECONDS:g} s; `aiosched requests list` shows the request.")
    talk("rendered now, as its next try would see them")
    return dict(answer["fields"])


async def _instance(db: Database, run: RunRow, task_id: str, map_index: int | None) -> TaskRow:
    """The instance that is meant. Raises NotFound."""
    from aiosched.db.queries.queries import list_run_tasks

    task_id, map_index = read_instance_name(task_id, map_index)
    instances = await list_run_tasks(db, run, task_id=task_id, limit=10_000)
    chosen = [task for task in instances if map_index in (None, task.map_index)]
    if not chosen:
        which = task_id if map_index is None else instance_name(task_id, map_index)
        raise NotFound(f"Run {run.run_id} of {run.dag_id} has no instance of {which}.")
    if len(chosen) > 1:
        raise NotFound(f"{task_id} is mapped: choose one of its {len(chosen)} instances with --map-index.")
    return chosen[0]
