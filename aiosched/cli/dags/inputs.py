"""`aiosched inputs`: what tasks ask people, and answering it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from aiosched.cli.base.options import (
    Conf,
    DagId,
    Dsn,
    Limit,
    Output,
    Param,
    RunRef,
    TaskId,
    read_conf,
)
from aiosched.cli.base.output import Columns, RunId, report, show_list, talk
from aiosched.cli.base.request_options import with_options
from aiosched.cli.base.session import ask, requester, say_it_waits, with_database
from aiosched.core.requests.requests import AnswerInput

if TYPE_CHECKING:
    from aiosched.db.people.human_inputs import InputRow
    from aiosched.db.server.engine import Database

app: typer.Typer = typer.Typer(
    no_args_is_help=True, rich_markup_mode=None, add_completion=False, help="What tasks ask people, and the answers."
)

_COLUMNS: Final[Columns[InputRow]] = {
    "DAG": lambda row: row.dag_id,
    "RUN": lambda row: RunId(row.run_id),
    "TASK": lambda row: row.task_id if row.map_index < 0 else f"{row.task_id}[{row.map_index}]",
    "ASKED": lambda row: row.asked_at,
    "UNTIL": lambda row: row.expires_at,
    "SUBJECT": lambda row: row.question.subject,
    "OPTIONS": lambda row: ", ".join(row.question.options),
    "PARAMS": lambda row: ", ".join(row.question.params),
    "STATE": lambda row: row.state,
    "ANSWER": lambda row: None if row.answer is None else ", ".join(row.answer.options),
    "BY": lambda row: row.answered_by,
}


@app.command("list")
def list_(
    dag: Annotated[str | None, typer.Option("--dag", "-d", metavar="DAG", help="Only questions of this DAG.")] = None,
    all_: Annotated[bool, typer.Option("--all", help="Also those that were answered, or that ended.")] = False,
    limit: Limit = 25,
    dsn: Dsn = None,
    output: Output = None,
) -> None:
    """List what tasks ask, newest first."""
    from aiosched.db.people.human_inputs import list_inputs
    from aiosched.db.queries.queries import get_dag

    async def read(db: Database) -> list[InputRow]:
        if dag is not None:
            await get_dag(db, dag)
        return await list_inputs(db, dag_id=dag, only_waiting=not all_, limit=limit)

    rows = with_database(dsn, read)
    show_list(rows, _COLUMNS, output, empty="nothing waits for an answer")


@app.command()
@with_options(AnswerInput, without=("run_id", "task_id", "options", "params", "by"))
def answer(
    dag_id: DagId,
    run: RunRef,
    task_id: TaskId,
    option: Annotated[list[str], typer.Argument(metavar="OPTION…", help="What you choose.", show_default=False)],
    param: Param = None,
    conf: Conf = None,
    *,
    request: Callable[..., AnswerInput],
    dsn: Dsn = None,
    output: Output = None,
) -> None:
    """Answer what a task asks, so that it goes on. `-p name=value` fills in a param."""
    from aiosched.db.queries.queries import find_run

    params = read_conf(conf, param)

    async def work(db: Database) -> tuple[str, dict[str, Any] | None]:
        found = await find_run(db, dag_id, run)
        given = request(run_id=found.run_id, task_id=task_id, options=option, params=params, by=requester())
        return found.run_id, await ask(db, given, dag_id)

    run_id, result = with_database(dsn, work)
    if result is None:
        say_it_waits(f"The answer to {task_id} in run {run_id} of {dag_id}", output)
        return
    talk(f"answered {task_id} in run {run_id} of {dag_id}: {', '.join(result['options'])}")
    report(result, output)
