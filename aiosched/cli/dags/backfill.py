"""`aiosched backfill`: create, list, show, pause, resume and cancel."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from aiosched.cli.base.options import (
    MOST_BIGINT,
    Conf,
    DagId,
    Dsn,
    Limit,
    Output,
    Reason,
)
from aiosched.cli.base.output import (
    Columns,
    ExactInstant,
    Format,
    chosen,
    counted,
    is_wide,
    report,
    show_list,
    show_one,
    talk,
)
from aiosched.cli.base.request_options import typed_conf, with_options
from aiosched.cli.base.session import ask, preview, say_it_waits, with_database
from aiosched.cli.base.spellings import UNASKED, understanding
from aiosched.core.creation.backfills import Rerun
from aiosched.core.requests.requests import BackfillCancel, BackfillCreate, BackfillPause, BackfillResume
from aiosched.errors import TimedOut

if TYPE_CHECKING:
    from aiosched.db.queries.backfill_queries import BackfillRow
    from aiosched.db.server.engine import Database

app: typer.Typer = typer.Typer(
    no_args_is_help=True, rich_markup_mode=None, add_completion=False, help="Runs of past dates."
)

Number = Annotated[
    int, typer.Argument(metavar="ID", min=1, max=MOST_BIGINT, help="The backfill's number.", show_default=False)
]

_LOOK_SECONDS: Final = 0.5
_MOST_DATES: Final = 10  # that are shown without --wide
_AIRFLOW_OPTIONS: Final = {
    "--from-date": "--from",
    "--to-date": "--to",
    "--reprocess-behavior": "--rerun",
    "--max-active-runs": "--max-active",
    "--run-backwards": "--backwards",
    "--dag-run-conf": "--conf",
}
_AIRFLOW_WORDS: Final = {"--rerun": {"none": "missing", "completed": "all"}}

COLUMNS: Final[Columns[BackfillRow]] = {
    "ID": lambda row: row.id,
    "DAG": lambda row: row.dag_id,
    "STATE": lambda row: row.state,
    "FROM": lambda row: ExactInstant(row.from_date),
    "TO": lambda row: ExactInstant(row.to_date),
    "RUNS": lambda row: f"{row.finished} of {row.total}",
    "FAILED": lambda row: row.failed,
    "CREATED": lambda row: row.created_at,
}


@app.command(cls=understanding(_AIRFLOW_OPTIONS, _AIRFLOW_WORDS))
@with_options(BackfillCreate)
def create(
    dag_id: DagId,
    request: Callable[..., BackfillCreate],
    watch: Annotated[bool, typer.Option("--watch", help="Follow it until it ends; exit 1 if a run fails.")] = False,
    timeout: Annotated[
        float | None,
        typer.Option(
            "--timeout", min=0, metavar="SECONDS", help="With --watch: seconds to wait at most; then exit 124."
        ),
    ] = None,
    dsn: Dsn = None,
    output: Output = None,
) -> None:
    """Create runs for past dates; the scheduler runs them under a limit of their own."""
    backfill = request()

    async def work(db: Database) -> tuple[dict[str, Any] | None, BackfillRow | None]:
        from aiosched.db.names.params import fitted_conf
        from aiosched.db.queries.queries import get_dag

        nonlocal backfill
        await get_dag(db, dag_id)
        backfill = request(conf=await fitted_conf(db, dag_id, typed_conf(request)))
        if backfill.dry_run:
            return await preview(db, backfill, dag_id), None
        answer = await ask(db, backfill, dag_id)
        if answer is None or not watch:
            return answer, None
        talk(f"backfill {answer['id']} of {dag_id}: {_fates(answer)}")
        return answer, await _follow(db, answer["id"], timeout)

    answer, followed = with_database(dsn, work)
    if answer is None:
        say_it_waits("The backfill", output)
        if watch:
            raise TimedOut("No scheduler has created its runs, so there is nothing to follow; the request stays.")
        return
    if followed is not None:
        show_one(_fields(followed), output, data=followed)
        if followed.failed:
            raise typer.Exit(1)
        return
    if chosen(output) in (Format.TABLE, Format.PLAIN):
        rows: list[Mapping[str, Any]] = answer["dates"]
        columns: Columns[Mapping[str, Any]] = {"LOGICAL DATE": lambda d: d["logical_date"], "": lambda d: d["fate"]}
        is_long = len(rows) > _MOST_DATES and not is_wide()
        show_list(_ends(rows) if is_long else rows, columns, output, empty="no dates")
        if is_long:
            talk(f"the first and last of {len(rows)} dates; all with --wide")
        talk(("would be: " if backfill.dry_run else f"backfill {answer['id']} of {dag_id}: ") + _fates(answer))
        _say_what_is_meant(answer)
    else:
        show_one({}, output, data=answer)


@app.command("list")
def list_(
    dag: Annotated[str | None, typer.Option("--dag", "-d", metavar="DAG", help="Only backfills of this DAG.")] = None,
    limit: Limit = 25,
    dsn: Dsn = None,
    output: Output = None,
) -> None:
    """List backfills, newest first."""
    from aiosched.db.queries.backfill_queries import list_backfills
    from aiosched.db.queries.queries import get_dag

    async def read(db: Database) -> list[BackfillRow]:
        if dag is not None:
            await get_dag(db, dag)
        return await list_backfills(db, dag_id=dag, limit=limit)

    rows = with_database(dsn, read)
    show_list(rows, COLUMNS, output, empty="no backfills")


@app.command()
def show(number: Number, dsn: Dsn = None, output: Output = None) -> None:
    """Show a backfill and its progress."""
    from aiosched.db.queries.backfill_queries import get_backfill

    row = with_database(dsn, lambda db: get_backfill(db, number))
    show_one(_fields(row), output, data=row)


@app.command()
def pause(number: Number, reason: Reason = None, dsn: Dsn = None, output: Output = None) -> None:
    """Pause a backfill: start no further runs; running ones continue."""
    _request(BackfillPause(number, reason=reason), "paused", dsn, output)


@app.command()
def resume(number: Number, reason: Reason = None, dsn: Dsn = None, output: Output = None) -> None:
    """Resume a paused backfill."""
    _request(BackfillResume(number, reason=reason), "resumed", dsn, output)


@app.command(cls=UNASKED)
def cancel(number: Number, reason: Reason = None, dsn: Dsn = None, output: Output = None) -> None:
    """Cancel a backfill: its queued runs fail, running ones continue."""
    _request(BackfillCancel(number, reason=reason), "cancelled", dsn, output)


def _request(
    request: BackfillPause | BackfillResume | BackfillCancel,
    done: str,
    dsn: str | None,
    output: Format | None,
) -> None:
    from aiosched.db.queries.backfill_queries import get_backfill

    async def work(db: Database) -> tuple[dict[str, Any], BackfillRow] | None:
        row = await get_backfill(db, request.id)
        answer = await ask(db, request, row.dag_id)
        return None if answer is None else (answer, await get_backfill(db, request.id))

    changed = with_database(dsn, work)
    if changed is None:
        say_it_waits("The request", output)
        return
    answer, row = changed
    failed = f", {counted(answer['failed'], 'queued run')} failed" if answer.get("failed") else ""
    talk(f"{done} backfill {request.id}{failed}")
    report({"backfill": request.id, "state": row.state} | answer, output)


async def _follow(db: Database, number: int, timeout: float | None) -> BackfillRow:
    """Show a progress bar until the backfill ends. Raises TimedOut; the backfill then continues."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from aiosched.cli.base.output import console
    from aiosched.db.queries.backfill_queries import get_backfill

    columns = (TextColumn("backfill {task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    try:
        with Progress(*columns, console=console(stderr=True), transient=True) as progress:
            bar = progress.add_task(str(number), total=None)
            async with asyncio.timeout(timeout):
                while True:
                    row = await get_backfill(db, number)
                    progress.update(bar, completed=row.finished, total=row.total)
                    if row.completed_at is not None:
                        return row
                    await asyncio.sleep(_LOOK_SECONDS)
    except TimeoutError:
        raise TimedOut(f"Backfill {number} continues; see `aiosched backfill show {number}`.") from None


def _fields(row: BackfillRow) -> dict[str, Any]:
    return {
        "backfill": row.id,
        "dag": row.dag_id,
        "state": row.state,
        "dates": f"{row.from_date.isoformat()} to {row.to_date.isoformat()}" + (", backwards" if row.backwards else ""),
        "runs": f"{row.finished} of {row.total} finished, {row.running} running, {row.failed} failed",
        "max active runs": row.max_active_runs,
    }


def _say_what_is_meant(answer: Mapping[str, Any]) -> None:
    """Say which instants were meant, and what is left out."""
    first, final = (f"{datetime.fromisoformat(answer[end]):%Y-%m-%d %H:%M:%S}" for end in ("from", "to"))
    talk(f"of logical dates from {first} to {final} in {answer['timezone']}")
    if (left_out := answer["left_out"]) is not None:
        talk(f"left out from {left_out['logical_date']} on: {left_out['reason']}")


def _ends(rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The first and the last dates."""
    return [*rows[: _MOST_DATES // 2], *rows[-(_MOST_DATES // 2) :]]


def _fates(answer: Mapping[str, Any]) -> str:
    counts = Counter(date["fate"] for date in answer["dates"])
    return ", ".join(f"{number} {fate}" for fate, number in counts.items()) or "no dates"


def as_in_airflow_2(
    dag_id: DagId,
    first: Annotated[str, typer.Option("--start-date", "-s", metavar="T")],
    final: Annotated[str | None, typer.Option("--end-date", "-e", metavar="T")] = None,
    conf: Conf = None,
    rerun_failed: Annotated[bool, typer.Option("--rerun-failed-tasks")] = False,
    reset: Annotated[bool, typer.Option("--reset-dagruns")] = False,
    backwards: Annotated[bool, typer.Option("--run-backwards", "-B")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", "-n")] = False,
    dsn: Dsn = None,
    output: Output = None,
) -> None:
    """Airflow 2's spelling of `backfill create`, which follows the backfill until it ends."""
    rerun = Rerun.ALL if reset else Rerun.FAILED if rerun_failed else Rerun.MISSING
    create(
        dag_id=dag_id,
        first=first,
        final=final or first,
        rerun=rerun,
        backwards=backwards,
        conf=conf,
        dry_run=dry_run,
        watch=not dry_run,
        dsn=dsn,
        output=output,
    )
