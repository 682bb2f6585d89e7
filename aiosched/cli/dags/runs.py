"""`aiosched runs`: list, show, watch and cancel; clear and mark: clearing.py."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Final

import typer

from aiosched.cli.base.opening import Open, list_path, open_page, page_path
from aiosched.cli.base.options import MOST_INT, DagId, Dsn, Limit, Output, RunRef
from aiosched.cli.base.output import Columns, Format, chosen, duration, show_list, show_one, talk
from aiosched.cli.base.request_options import with_options
from aiosched.cli.base.session import ask, say_it_waits, with_database
from aiosched.cli.base.spellings import UNASKED
from aiosched.cli.base.watching import follow, run_fields
from aiosched.cli.dags import bulk, clearing, lists, notes
from aiosched.core.requests.requests import CancelRun
from aiosched.core.values.states import RunState
from aiosched.errors import Refused

if TYPE_CHECKING:
    from aiosched.db.queries.queries import RunRow, TaskRow
    from aiosched.db.server.engine import Database

app: typer.Typer = typer.Typer(no_args_is_help=True, rich_markup_mode=None, add_completion=False, help="Runs of DAGs.")

app.command("clear")(clearing.clear_runs)
app.command("mark", cls=UNASKED)(clearing.mark_run)
app.command("note")(notes.note_run)
app.command("bulk")(bulk.bulk_runs)

TASK_COLUMNS: Final[Columns[TaskRow]] = {
    "TASK": lambda task: task.name,
    "STATE": lambda task: task.state,
    "TRY": lambda task: task.try_number,
    "START": lambda task: task.start_date,
    "DURATION": lambda task: duration(task.seconds),
    "REASON": lambda task: task.reason,
}


@app.command("list")
def list_(
    dag: lists.OfDag = None,
    state: lists.OfState = None,
    type_: lists.OfType = None,
    owner: lists.OfOwner = None,
    tag: lists.OfTag = None,
    since: lists.Since = None,
    until: lists.Until = None,
    ended_since: lists.EndedSince = None,
    longer_than: lists.LongerThan = None,
    shorter_than: lists.ShorterThan = None,
    without: lists.Without_ = None,
    limit: Limit = 25,
    open_: Open = False,
    dsn: Dsn = None,
    output: Output = None,
) -> None:
    """List runs, those with the newest RUN AFTER first; with --ended-since those that ended last."""
    wanted = lists.wanted_runs(
        dag, state, type_, owner, tag, since, until, ended_since, longer_than, shorter_than, without
    )
    lists.show_runs(wanted, limit, dsn, output)
    if open_:
        open_page(dsn, list_path("runs", wanted))


@app.command()
def show(
    dag_id: DagId,
    run: RunRef = "latest",
    limit: Annotated[
        int, typer.Option("--limit", "-n", min=1, max=MOST_INT, metavar="N", help="Maximum number of task instances.")
    ] = 1000,
    open_: Open = False,
    dsn: Dsn = None,
    output: Output = None,
) -> None:
    """Show a run and its task instances."""
    from aiosched.db.queries.queries import count_tasks, find_run, list_run_tasks
    from aiosched.db.statements.slas import late_tasks

    async def read(db: Database) -> tuple[RunRow, dict[str, int], list[TaskRow], list[str]]:
        found = await find_run(db, dag_id, run)
        tasks = await list_run_tasks(db, found, limit=limit)
        async with db.acquire() as conn:
            return found, await count_tasks(db, found), tasks, await late_tasks(conn, dag_id, found.logical_date)

    found, counts, tasks, late = with_database(dsn, read)
    fields = run_fields(found, counts) | {"missed SLAs": late or None}
    show_one(fields, output, data=asdict(found) | {"missed_slas": late, "counts": counts, "tasks": tasks})
    if chosen(output) in (Format.TABLE, Format.PLAIN):
        noted: Columns[TaskRow] = {"NOTE": lambda task: task.note} if any(task.note for task in tasks) else {}
        show_list(tasks, {**TASK_COLUMNS, **noted}, output, empty="it has no task instances yet")
        if sum(counts.values()) > len(tasks):
            talk(f"{len(tasks)} of {sum(counts.values())} task instances; more with --limit")
    if open_:
        open_page(dsn, page_path(dag_id, found.run_id))


@app.command()
def watch(
    dag_id: DagId,
    run: RunRef = "latest",
    timeout: Annotated[
        float | None,
        typer.Option(
            "--timeout", min=0, metavar="SECONDS", help="Seconds to wait at most; then exit 124.", show_default=False
        ),
    ] = None,
    dsn: Dsn = None,
    output: Output = None,
) -> None:
    """Follow a run until it ends; exit 1 if it fails."""
    from aiosched.db.queries.queries import count_tasks, find_run

    async def work(db: Database) -> tuple[RunRow, dict[str, int]]:
        finished = await follow(db, await find_run(db, dag_id, run), timeout=timeout)
        return finished, await count_tasks(db, finished)

    finished, counts = with_database(dsn, work)
    show_one(run_fields(finished, counts), output, data=asdict(finished) | {"counts": counts})
    if finished.state == RunState.FAILED:
        raise typer.Exit(1)


@app.command(cls=UNASKED)
@with_options(CancelRun, without=("run_id",))
def cancel(
    dag_id: DagId,
    run: RunRef = "latest",
    *,
    request: Callable[..., CancelRun],
    dsn: Dsn = None,
    output: Output = None,
) -> None:
    """Cancel a run: its running tasks are stopped, the others do not start, and the run fails."""
    from aiosched.db.queries.queries import count_tasks, find_run

    async def work(db: Database) -> tuple[RunRow, dict[str, int]] | None:
        found = await find_run(db, dag_id, run)
        if found.finished:
            raise Refused(f"Run {found.run_id} of {dag_id} is {found.state} already; there is nothing to cancel.")
        answer = await ask(db, request(run_id=found.run_id), dag_id)
        if answer is None:
            say_it_waits(f"The request to cancel {found.run_id}", output)
            return None
        found = await find_run(db, dag_id, found.run_id)
        return found, await count_tasks(db, found)

    if (done := with_database(dsn, work)) is not None:
        found, counts = done
        talk(f"cancelled run {found.run_id} of {dag_id}")
        show_one(run_fields(found, counts), output, data=asdict(found) | {"counts": counts})
