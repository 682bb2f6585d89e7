"""`tasks clear`, `tasks mark`, `runs clear` and `runs mark`: change instances and runs, after a preview."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
import typer

from aiosched.cli.base.options import (
    DagId,
    Dsn,
    MapIndex,
    Output,
    Reason,
    RunRef,
    TaskId,
    UsageProblem,
    Yes,
    confirm,
    read_instant,
)
from aiosched.cli.base.output import Columns, Format, RunId, chosen, counted, show_list, show_one, talk
from aiosched.cli.base.session import ask, preview, say_it_waits, with_database
from aiosched.core.requests.requests import Clear, MarkRun, MarkTasks
from aiosched.core.values.states import RunState, TaskState

if TYPE_CHECKING:
    from aiosched.db.server.engine import Database


class TaskMark(StrEnum):
    """The states that a task instance can be set to."""

    SUCCESS = "success"
    FAILED = "failed"
    SKIPPED = "skipped"


class MarkState(StrEnum):
    """The states that a run can be set to."""

    SUCCESS = "success"
    FAILED = "failed"
    QUEUED = "queued"


Run = Annotated[
    list[str] | None,
    typer.Option(
        "--run",
        "-r",
        metavar="RUN",
        help="Run id, logical date, latest, latest-failed or latest-backfill; may be repeated.",
    ),
]
Upstream = Annotated[bool, typer.Option("--upstream", "-u", help="Also all tasks upstream of the chosen ones.")]
Downstream = Annotated[bool, typer.Option("--downstream", "-d", help="Also all tasks downstream of the chosen ones.")]
OnlyFailed = Annotated[bool, typer.Option("--only-failed", "-f", help="Only failed and upstream-failed instances.")]
OnlyRunning = Annotated[bool, typer.Option("--only-running", help="Only running ones.")]
Past = Annotated[bool, typer.Option("--past", help="Also in all runs with an earlier logical date.")]
Future = Annotated[bool, typer.Option("--future", help="Also in all runs with a later logical date.")]
PreventRunning = Annotated[
    bool, typer.Option("--prevent-running", help="Refuse if tasks are running, instead of stopping them.")
]
Newest = Annotated[
    bool,
    typer.Option(
        "--newest-version", help="Run them with the newest version of the DAG; not for runs that are running."
    ),
]
Dependents = Annotated[
    bool,
    typer.Option(
        "--dependents/--no-dependents", help="Also the tasks in other DAGs that ExternalTaskMarkers point to."
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only show what would change.")]
From = Annotated[str | None, typer.Option("--from", metavar="T", help="Runs from this logical date, inclusive.")]
To = Annotated[str | None, typer.Option("--to", metavar="T", help="Runs up to this logical date, inclusive.")]

_COLUMNS: Final[Columns[Mapping[str, Any]]] = {
    "RUN": lambda row: RunId(row["run_id"]),
    "TASK": lambda row: row["task_id"] if row["map_index"] < 0 else f"{row['task_id']}[{row['map_index']}]",
    "STATE": lambda row: row["state"] or "none",
    "TRY": lambda row: row["try_number"],
}


def clear_tasks(
    dag_id: DagId,
    run: Run = None,
    first: From = None,
    final: To = None,
    task: Annotated[
        str | None, typer.Option("--task", "-t", metavar="REGEX", help="Tasks whose whole id matches: load, load_.*")
    ] = None,
    pattern: Annotated[
        str | None, typer.Option("--pattern", metavar="REGEX", help="Tasks whose id matches in some part.")
    ] = None,
    task_id: Annotated[
        list[str] | None,
        typer.Option("--task-id", metavar="TASK", help="This task, group or instance (load[3]); may be repeated."),
    ] = None,
    map_index: MapIndex = None,
    upstream: Upstream = False,
    downstream: Downstream = False,
    only_failed: OnlyFailed = False,
    only_running: OnlyRunning = False,
    past: Past = False,
    future: Future = False,
    prevent_running: PreventRunning = False,
    newest_version: Newest = False,
    dependents: Dependents = True,
    dry_run: DryRun = False,
    yes: Yes = False,
    reason: Reason = None,
    dsn: Dsn = None,
    output: Output = None,
) -> None:
    """Clear task instances so that they run again; in all runs of the DAG without --run, --from and --to."""
    request = Clear(
        first=None if first is None else read_instant(first, "--from"),
        final=None if final is None else read_instant(final, "--to"),
        task_ids=tuple(task_id) if task_id else None,
        pattern=_pattern(task, pattern),
        map_index=map_index,
        upstream=upstream,
        downstream=downstream,
        only_failed=only_failed,
        only_running=only_running,
        past=past,
        future=future,
        prevent_running=prevent_running,
        newest_version=newest_version,
        dependents=dependents,
        dry_run=dry_run,
    )
    _change(dag_id, request, run, reason, yes=yes, dsn=dsn, output=output)


def _pattern(whole: str | None, part: str | None) -> str | None:
    """The pattern of a request, which is searched in ids, of `--task` and `--pattern`."""
    if whole is None or part is None:
        return part if whole is None else f"^(?:{whole})$"
    raise UsageProblem("--task matches whole ids, --pattern parts of them: give one of the two.")


def clear_runs(
    dag_id: DagId,
    run: RunRef = "latest",
    only_failed: OnlyFailed = False,
    prevent_running: PreventRunning = False,
    newest_version: Newest = False,
    dependents: Dependents = True,
    dry_run: DryRun = False,
    yes: Yes = False,
    reason: Reason = None,
    dsn: Dsn = None,
    output: Output = None,
) -> None:
    """Clear a whole run so that it runs again."""
    request = Clear(
        only_failed=only_failed,
        prevent_running=prevent_running,
        newest_version=newest_version,
        dependents=dependents,
        dry_run=dry_run,
    )
    _change(dag_id, request, [run], reason, yes=yes, dsn=dsn, output=output)


def mark_task(
    dag_id: DagId,
    run: RunRef,
    task_id: TaskId,
    state: Annotated[TaskMark, typer.Argument(help="The state to set.")],
    map_index: MapIndex = None,
    upstream: Upstream = False,
    downstream: Downstream = False,
    only_failed: OnlyFailed = False,
    only_running: OnlyRunning = False,
    past: Past = False,
    future: Future = False,
    dry_run: DryRun = False,
    reason: Reason = None,
    dsn: Dsn = None,
    output: Output = None,
) -> None:
    """Set a task instance to success, failed or skipped; failed tasks downstream run again."""
    request = MarkTasks(
        task_ids=(task_id,),
        map_index=map_index,
        upstream=upstream,
        downstream=downstream,
        only_failed=only_failed,
        only_running=only_running,
        past=past,
        future=future,
        dry_run=dry_run,
        state=TaskState(state),
    )
    _change(dag_id, request, [run], reason, yes=True, dsn=dsn, output=output)


def mark_run(
    dag_id: DagId,
    run: RunRef,
    state: Annotated[MarkState, typer.Argument(help="The state to set.")],
    reason: Reason = None,
    dsn: Dsn = None,
    output: Output = None,
) -> None:
    """Set a run and everything unfinished in it to success or failed, or queue it again."""
    from aiosched.db.queries.queries import find_run

    async def work(db: Database) -> dict[str, Any] | None:
        found = await find_run(db, dag_id, run)
        return await ask(db, MarkRun(run_id=found.run_id, state=RunState(state)), dag_id, reason=reason)

    answer = with_database(dsn, work)
    if answer is None:
        say_it_waits("The mark", output)
        return
    talk(f"marked run {answer['run_id']} of {dag_id} {state}")
    show_one(answer, output, data=answer)


def _change(
    dag_id: str,
    request: Clear | MarkTasks,
    runs: Sequence[str] | None,
    reason: str | None,
    *,
    yes: bool,
    dsn: str | None,
    output: Format | None,
) -> None:
    """Preview, ask for confirmation if needed, then change."""

    async def read(db: Database) -> tuple[Clear | MarkTasks, dict[str, Any]]:
        from aiosched.db.queries.queries import find_run, get_dag

        await get_dag(db, dag_id)
        ids = None if runs is None else tuple([(await find_run(db, dag_id, run)).run_id for run in runs])
        meant = msgspec.structs.replace(request, run_ids=ids)
        return meant, await preview(db, meant, dag_id)

    meant, seen = with_database(dsn, read)
    if not seen["count"]:
        talk("nothing matches" + ("" if request.pattern is None else "; --pattern matches parts of ids"))
        _show(seen, output)
        return
    if request.dry_run:
        _show(seen, output)
        if (more := seen["count"] - len(seen["instances"])) > 0:
            talk(f"and {more} more")
        talk(f"would {'clear' if isinstance(request, Clear) else 'mark'} {_summary(seen)}")
        return
    if not yes:
        confirm(f"Clear {_summary(seen)} of {dag_id}?", yes=False)
    answer = with_database(dsn, lambda db: ask(db, meant, dag_id, reason=reason))
    if answer is None:
        say_it_waits("The request", output)
        return
    _show(answer, output)
    talk(f"{'cleared' if isinstance(request, Clear) else f'marked {request.state}:'} {_summary(answer)}")


def _show(answer: Mapping[str, Any], output: Format | None) -> None:
    if chosen(output) in (Format.TABLE, Format.PLAIN):
        show_list(answer["instances"], _COLUMNS, output, empty="no task instances")
    else:
        show_one({}, output, data=answer)


def _summary(answer: Mapping[str, Any]) -> str:
    shown = ", ".join(f"{number} {state}" for state, number in answer["states"].items())
    found = f"{counted(answer['count'], 'task instance')} in {counted(len(answer['runs']), 'run')} ({shown})"
    if not (others := answer.get("dependents")):
        return found
    dags = ", ".join(sorted({one["dag_id"] for one in others}))
    return f"{found}, and {counted(len(others), 'task instance')} behind markers, of {dags}"
