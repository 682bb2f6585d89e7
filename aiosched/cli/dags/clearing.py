"""`tasks clear`, `tasks mark`, `runs clear` and `runs mark`: change instances and runs, after a preview."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from aiosched.cli.base.options import (
    DagId,
    Dsn,
    Output,
    RunRef,
    TaskId,
    UsageProblem,
    Yes,
    confirm,
    read_day_or_instant,
)
from aiosched.cli.base.output import Columns, Format, RunId, chosen, counted, show_list, show_one, talk
from aiosched.cli.base.request_options import option_of, with_options
from aiosched.cli.base.session import ask, preview, say_it_waits, with_database
from aiosched.core.requests.requests import Clear, MarkRun, MarkTask, MarkTasks
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


_OF_SOME_TASKS: Final = (
    "run_ids", "first", "final", "past", "future", "task_ids", "pattern", "map_index", "upstream", "downstream",
    "only_running",
)  # fmt: skip
_COLUMNS: Final[Columns[Mapping[str, Any]]] = {
    "RUN": lambda row: RunId(row["run_id"]),
    "TASK": lambda row: row["task_id"] if row["map_index"] < 0 else f"{row['task_id']}[{row['map_index']}]",
    "STATE": lambda row: row["state"] or "none",
    "TRY": lambda row: row["try_number"],
}


@with_options(Clear, without=("run_ids", "first", "final", "task_ids", "pattern"))
def clear_tasks(
    dag_id: DagId,
    run: Annotated[list[str] | None, option_of(Clear, "run_ids")] = None,
    first: Annotated[str | None, option_of(Clear, "first")] = None,
    final: Annotated[str | None, option_of(Clear, "final")] = None,
    task: Annotated[
        str | None, typer.Option("--task", "-t", metavar="REGEX", help="Tasks whose whole id matches: load, load_.*")
    ] = None,
    pattern: Annotated[str | None, option_of(Clear, "pattern")] = None,
    task_id: Annotated[list[str] | None, option_of(Clear, "task_ids")] = None,
    *,
    request: Callable[..., Clear],
    yes: Yes = False,
    dsn: Dsn = None,
    output: Output = None,
) -> None:
    """Clear task instances so that they run again; in all runs of the DAG without --run, --from and --to."""
    of_runs = partial(
        request,
        first=None if first is None else read_day_or_instant(first, "--from"),
        final=None if final is None else read_day_or_instant(final, "--to"),
        task_ids=task_id or None,
        pattern=_pattern(task, pattern),
    )
    _change(dag_id, of_runs, run, yes=yes, dsn=dsn, output=output)


def _pattern(whole: str | None, part: str | None) -> str | None:
    """The pattern of a request, which is searched in ids, of `--task` and `--pattern`."""
    if whole is None or part is None:
        return part if whole is None else f"^(?:{whole})$"
    raise UsageProblem("--task matches whole ids, --pattern parts of them: give one of the two.")


@with_options(Clear, without=_OF_SOME_TASKS)
def clear_runs(
    dag_id: DagId,
    run: RunRef = "latest",
    *,
    request: Callable[..., Clear],
    yes: Yes = False,
    dsn: Dsn = None,
    output: Output = None,
) -> None:
    """Clear a whole run so that it runs again."""
    _change(dag_id, request, [run], yes=yes, dsn=dsn, output=output)


@with_options(MarkTask, without=("run_id", "task_id", "state"))
def mark_task(
    dag_id: DagId,
    run: RunRef,
    task_id: TaskId,
    state: Annotated[TaskMark, typer.Argument(help="The state to set.")],
    request: Callable[..., MarkTask],
    dsn: Dsn = None,
    output: Output = None,
) -> None:
    """Set a task instance to success, failed or skipped; failed tasks downstream run again."""

    def of_runs(run_ids: Sequence[str]) -> MarkTasks:
        return request(run_ids[0], task_id, TaskState(state)).of_many()

    _change(dag_id, of_runs, [run], yes=True, dsn=dsn, output=output)


@with_options(MarkRun, without=("run_id", "state"))
def mark_run(
    dag_id: DagId,
    run: RunRef,
    state: Annotated[MarkState, typer.Argument(help="The state to set.")],
    request: Callable[..., MarkRun],
    dsn: Dsn = None,
    output: Output = None,
) -> None:
    """Set a run and everything unfinished in it to success or failed, or queue it again."""
    from aiosched.db.queries.queries import find_run

    async def work(db: Database) -> dict[str, Any] | None:
        found = await find_run(db, dag_id, run)
        return await ask(db, request(found.run_id, RunState(state)), dag_id)

    answer = with_database(dsn, work)
    if answer is None:
        say_it_waits("The mark", output)
        return
    talk(f"marked run {answer['run_id']} of {dag_id} {state}")
    show_one(answer, output, data=answer)


def _change(
    dag_id: str,
    request: Callable[[Any], Clear | MarkTasks],
    runs: Sequence[str] | None,
    *,
    yes: bool,
    dsn: str | None,
    output: Format | None,
) -> None:
    """Preview the request of the ids of `runs`, ask for confirmation if needed, then change."""

    async def read(db: Database) -> tuple[Clear | MarkTasks, dict[str, Any]]:
        from aiosched.db.queries.queries import find_run, get_dag

        await get_dag(db, dag_id)
        ids = None if runs is None else [(await find_run(db, dag_id, run)).run_id for run in runs]
        meant = request(ids)
        return meant, await preview(db, meant, dag_id)

    meant, seen = with_database(dsn, read)
    if not seen["count"]:
        talk("nothing matches" + ("" if meant.pattern is None else "; --pattern matches parts of ids"))
        _show(seen, output)
        return
    if meant.dry_run:
        _show(seen, output)
        if (more := seen["count"] - len(seen["instances"])) > 0:
            talk(f"and {more} more")
        talk(f"would {'clear' if isinstance(meant, Clear) else 'mark'} {_summary(seen)}")
        return
    if not yes:
        confirm(f"Clear {_summary(seen)} of {dag_id}?", yes=False)
    answer = with_database(dsn, lambda db: ask(db, meant, dag_id))
    if answer is None:
        say_it_waits("The request", output)
        return
    _show(answer, output)
    talk(f"{'cleared' if isinstance(meant, Clear) else f'marked {meant.state}:'} {_summary(answer)}")


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
