"""`runs note` and `tasks note`: notes of runs and task instances."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from aiosched.cli.base.options import DagId, Dsn, Output, RunRef, TaskId
from aiosched.cli.base.output import Format, report, talk
from aiosched.cli.base.request_options import with_options
from aiosched.cli.base.session import ask, say_it_waits, with_database
from aiosched.core.requests.requests import SetNote

if TYPE_CHECKING:
    from aiosched.db.server.engine import Database

NoteText = Annotated[
    str, typer.Argument(metavar="TEXT", help="At most 1,000 characters; '' removes the note.", show_default=False)
]


@with_options(SetNote, without=("run_id", "note", "task_id", "map_index", "was", "reason"))
def note_run(
    dag_id: DagId,
    run: RunRef,
    text: NoteText,
    request: Callable[..., SetNote],
    dsn: Dsn = None,
    output: Output = None,
) -> None:
    """Set the note of a run, replacing an existing one; `runs show` shows it."""
    _set_note(dag_id, run, partial(request, note=text), None, dsn, output)


@with_options(SetNote, without=("run_id", "note", "task_id", "was", "reason"))
def note_task(
    dag_id: DagId,
    run: RunRef,
    task_id: TaskId,
    text: NoteText,
    request: Callable[..., SetNote],
    dsn: Dsn = None,
    output: Output = None,
) -> None:
    """Set the note of a task instance, replacing an existing one; `tasks show` shows it."""
    _set_note(dag_id, run, partial(request, note=text, task_id=task_id), task_id, dsn, output)


def _set_note(
    dag_id: str, run: str, note: Callable[..., SetNote], task_id: str | None, dsn: str | None, output: Format | None
) -> None:
    from aiosched.db.queries.queries import find_run

    async def work(db: Database) -> tuple[str, dict[str, Any] | None]:
        found = await find_run(db, dag_id, run)
        return found.run_id, await ask(db, note(run_id=found.run_id), dag_id)

    run_id, answer = with_database(dsn, work)
    what = f"run {run_id} of {dag_id}" if task_id is None else f"{task_id} in run {run_id} of {dag_id}"
    if answer is None:
        say_it_waits(f"The note about {what}", output)
        return
    talk(f"the note about {what} is {'set' if answer['note'] else 'removed'}")
    report(answer, output)
