"""`runs note` and `tasks note`: notes of runs and task instances."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from aiosched.cli.base.options import DagId, Dsn, MapIndex, Output, RunRef, TaskId
from aiosched.cli.base.output import Format, report, talk
from aiosched.cli.base.session import ask, say_it_waits, with_database
from aiosched.core.requests.requests import SetNote

if TYPE_CHECKING:
    from aiosched.db.server.engine import Database

NoteText = Annotated[
    str, typer.Argument(metavar="TEXT", help="At most 1,000 characters; '' removes the note.", show_default=False)
]


def note_run(dag_id: DagId, run: RunRef, text: NoteText, dsn: Dsn = None, output: Output = None) -> None:
    """Set the note of a run, replacing an existing one; `runs show` shows it."""
    _set_note(dag_id, run, text, None, None, dsn, output)


def note_task(
    dag_id: DagId,
    run: RunRef,
    task_id: TaskId,
    text: NoteText,
    map_index: MapIndex = None,
    dsn: Dsn = None,
    output: Output = None,
) -> None:
    """Set the note of a task instance, replacing an existing one; `tasks show` shows it."""
    _set_note(dag_id, run, text, task_id, map_index, dsn, output)


def _set_note(
    dag_id: str, run: str, text: str, task_id: str | None, map_index: int | None, dsn: str | None, output: Format | None
) -> None:
    from aiosched.db.queries.queries import find_run

    async def work(db: Database) -> tuple[str, dict[str, Any] | None]:
        found = await find_run(db, dag_id, run)
        request = SetNote(run_id=found.run_id, note=text, task_id=task_id, map_index=map_index)
        return found.run_id, await ask(db, request, dag_id)

    run_id, answer = with_database(dsn, work)
    what = f"run {run_id} of {dag_id}" if task_id is None else f"{task_id} in run {run_id} of {dag_id}"
    if answer is None:
        say_it_waits(f"The note about {what}", output)
        return
    talk(f"the note about {what} is {'set' if answer['note'] else 'removed'}")
    report(answer, output)
