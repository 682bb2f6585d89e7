"""`tasks clear`, `tasks mark`, `runs clear` and `runs mark`: change what exists, after a look at what it touches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from aiosched.cli.base.options import DagId, Dsn, Output, RunRef, TaskId, Yes, confirm, read_instant
from aiosched.cli.base.output import Columns, Format, chosen, counted, show_list, show_one, talk
from aiosched.cli.base.session import ask, look_unanswered, say_it_waits, with_database

if TYPE_CHECKING:
    from aiosched.db.server.engine import Database


class TaskMark(StrEnum):
    """The states that a person may set a task instance to."""

    SUCCESS = "success"
    FAILED = "failed"
    SKIPPED = "skipped"


class MarkState(StrEnum):
    """The states that a person may set a run to."""

    SUCCESS = "success"
    FAILED = "failed"
    QUEUED = "queued"


Run = Annotated[
    list[str] | None,
    typer.Option("--run", "-r", metavar="RUN", help="Run id, logical date, latest or latest-failed; may be repeated."),
]
Upstream = Annotated[bool, typer.Option("--upstream", "-u", help="Also everything before the chosen tasks.")]
Downstream = Annotated[bool, typer.Option("--downstream", "-d", help="Also everything behind the chosen tasks.")]
OnlyFailed = Annotated[bool, typer.Option("--only-failed", "-f", help="Only failed and upstream-failed ones.")]
OnlyRunning = Annotated[bool, typer.Option("--only-running", help="Only running ones.")]
MapIndex = Annotated[int | None, typer.Option("--map-index", metavar="N", help="Only this instance of a mapped task.")]
Past = Annotated[bool, typer.Option("--past", help="Also in all runs with an earlier logical date.")]
Future = Annotated[bool, typer.Option("--future", help="Also in all runs with a later logical date.")]
PreventRunning = Annotated[
    bool, typer.Option("--prevent-running", help="Refuse where some are running, instead of stopping them.")
]
Newest = Annotated[
    bool,
    typer.Option("--newest-version", help="Run them with the DAG as it is now; not for runs that are running."),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only show what it would touch.")]
From = Annotated[str | None, typer.Option("--from", metavar="T", help="Runs from this logical date on.")]
To = Annotated[str | None, typer.Option("--to", metavar="T", help="Runs up to this logical date, inclusive.")]

_COLUMNS: Final[Columns[Mapping[str, Any]]] = {
    "RUN": lambda row: row["run_id"],
    "TASK": lambda row: row["task_id"] if row["map_index"] < 0 else f"{row['task_id']}[{row['map_index']}]",
    "STATE": lambda row: row["state"] or "none",
    "TRY": lambda row: row["try_number"],
}


def clear_tasks(
    dag_id: DagId,
    run: Run = None,
    first: From = None,
    final: To = None,
    task: Annotated[str | None, typer.Option("--task", "-t", metavar="REGEX", help="Tasks whose id matches.")] = None,
    map_index: MapIndex = None,
    upstream: Upstream = False,
    downstream: Downstream = False,
    only_failed: OnlyFailed = False,
    only_running: OnlyRunning = False,
    past: Past = False,
    future: Future = False,
    prevent_running: PreventRunning = False,
    newest_version: Newest = False,
    dry_run: DryRun = False,
    yes: Yes = False,
    dsn: Dsn = None,
    output: Output = None,
) -> None:
    """Let task instances run again; without --run, --from and --to, in all runs of the DAG."""
    selection = {
        "pattern": task,
        "map_index": map_index,
        "upstream": upstream,
        "downstream": downstream,
        "only_failed": only_failed,
        "only_running": only_running,
        "past": past,
        "future": future,
        "prevent_running": prevent_running,
        "newest_version": newest_version,
        **_dates(first, final),
    }
    _change(dag_id, "clear", run, selection, dry_run=dry_run, yes=yes, dsn=dsn, output=output)


def clear_runs(
    dag_id: DagId,
    run: RunRef = "latest",
    only_failed: OnlyFailed = False,
    prevent_running: PreventRunning = False,
    newest_version: Newest = False,
    dry_run: DryRun = False,
    yes: Yes = False,
    dsn: Dsn = None,
    output: Output = None,
) -> None:
    """Let a whole run run again."""
    selection = {"only_failed": only_failed, "prevent_running": prevent_running, "newest_version": newest_version}
    _change(dag_id, "clear", [run], selection, dry_run=dry_run, yes=yes, dsn=dsn, output=output)


def mark_task(
    dag_id: DagId,
    run: RunRef,
    task_id: TaskId,
    state: Annotated[TaskMark, typer.Argument(help="The state that it gets.")],
    map_index: MapIndex = None,
    upstream: Upstream = False,
    downstream: Downstream = False,
    past: Past = False,
    future: Future = False,
    dry_run: DryRun = False,
    dsn: Dsn = None,
    output: Output = None,
) -> None:
    """Set a task instance to success, failed or skipped; what failed behind it runs again."""
    selection = {
        "task_ids": [task_id],
        "map_index": map_index,
        "upstream": upstream,
        "downstream": downstream,
        "past": past,
        "future": future,
        "state": state,
    }
    _change(dag_id, "mark_tasks", [run], selection, dry_run=dry_run, yes=True, dsn=dsn, output=output)


def mark_run(
    dag_id: DagId,
    run: RunRef,
    state: Annotated[MarkState, typer.Argument(help="The state that it gets.")],
    dsn: Dsn = None,
    output: Output = None,
) -> None:
    """Set a run to success or failed with all that is unfinished in it, or queue it again."""
    from aiosched.db.queries.queries import find_run

    async def work(db: Database) -> dict[str, Any] | None:
        found = await find_run(db, dag_id, run)
        return await ask(db, "mark_run", dag_id, {"run_id": found.run_id, "state": state})

    answer = with_database(dsn, work)
    if answer is None:
        say_it_waits("The mark", output)
        return
    talk(f"marked run {answer['run_id']} of {dag_id} {state}")
    show_one(answer, output, data=answer)


def _change(
    dag_id: str,
    verb: str,
    runs: Sequence[str] | None,
    selection: Mapping[str, Any],
    *,
    dry_run: bool,
    yes: bool,
    dsn: str | None,
    output: Format | None,
) -> None:
    """Look first, ask where it matters, then change: what nobody has seen is changed only with `--yes`."""

    async def run_ids(db: Database) -> list[str] | None:
        from aiosched.db.queries.queries import find_run, get_dag

        await get_dag(db, dag_id)
        return None if runs is None else [(await find_run(db, dag_id, run)).run_id for run in runs]

    async def look(db: Database) -> tuple[list[str] | None, dict[str, Any] | None]:
        ids = await run_ids(db)
        preview = await ask(db, verb, dag_id, {**selection, "run_ids": ids, "dry_run": True})
        if preview is None and (dry_run or not yes):
            unseen = "" if dry_run else ", or add --yes to let it be done without a look, as soon as one runs"
            raise await look_unanswered(db, otherwise=unseen)
        return ids, preview

    ids, preview = with_database(dsn, look)
    if preview is not None and not preview["count"] and not selection.get("newest_version"):
        talk("nothing matches")
        _show(preview, output)
        return
    if preview is not None and dry_run:
        _show(preview, output)
        if (more := preview["count"] - len(preview["instances"])) > 0:
            talk(f"and {more} more")
        talk(f"would {'clear' if verb == 'clear' else 'mark'} {_summary(preview)}")
        return
    if preview is not None and not yes:
        confirm(f"Clear {_summary(preview)} of {dag_id}?", yes=False)
    answer = with_database(dsn, lambda db: ask(db, verb, dag_id, {**selection, "run_ids": ids}))
    if answer is None:
        say_it_waits("The request", output)
        return
    _show(answer, output)
    done = "cleared" if verb == "clear" else f"marked {selection['state']}:"
    talk(f"{done} {_summary(answer)}")


def _show(answer: Mapping[str, Any], output: Format | None) -> None:
    if chosen(output) in (Format.TABLE, Format.PLAIN):
        show_list(answer["instances"], _COLUMNS, output, empty="no task instances")
    else:
        show_one({}, output, data=answer)


def _summary(answer: Mapping[str, Any]) -> str:
    shown = ", ".join(f"{number} {state}" for state, number in answer["states"].items())
    return f"{counted(answer['count'], 'task instance')} in {counted(len(answer['runs']), 'run')} ({shown})"


def _dates(first: str | None, final: str | None) -> dict[str, str]:
    given = {"from": (first, "--from"), "to": (final, "--to")}
    return {name: read_instant(text, option).isoformat() for name, (text, option) in given.items() if text}
