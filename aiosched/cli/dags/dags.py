"""`aiosched dags`: commands on the database. Those that work on files only are in dag_files.py."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
import typer

from aiosched.cli.base.completion import complete_dag
from aiosched.cli.base.opening import Open, open_page, page_path
from aiosched.cli.base.options import (
    Conf,
    DagId,
    Dsn,
    Limit,
    Output,
    Param,
    Reason,
    UsageProblem,
    Yes,
    confirm,
    read_conf,
    read_day_or_instant,
)
from aiosched.cli.base.output import (
    Columns,
    Format,
    chosen,
    instant,
    report,
    show_data,
    show_list,
    show_one,
    talk,
    with_names,
    write,
)
from aiosched.cli.base.request_options import option_of, with_options
from aiosched.cli.base.session import ask, say_it_waits, with_database
from aiosched.cli.base.spellings import UNASKED
from aiosched.cli.base.watching import follow, run_fields
from aiosched.cli.dags import backfill, dag_files, lists
from aiosched.core.graph.given_texts import TypedConf
from aiosched.core.requests.requests import DeleteDag, Pause, ReleaseDag, Trigger, Unpause
from aiosched.core.requests.stored import verb_of
from aiosched.core.values.commands import command_line
from aiosched.errors import NotFound, Refused, TimedOut

if TYPE_CHECKING:
    from aiosched.core.timetables.days import DayOrInstant
    from aiosched.db.lists.dag_lists import DagFilters
    from aiosched.db.queries.queries import DagListRow, RunRow
    from aiosched.db.server.engine import Database

app: typer.Typer = typer.Typer(
    no_args_is_help=True, rich_markup_mode=None, add_completion=False, help="DAGs: list, trigger, pause, test, check."
)

SomeDags = Annotated[
    str | None,
    typer.Argument(metavar="[DAG]", help="An id, or a pattern.", show_default=False, autocompletion=complete_dag),
]
_SPELLED_BY_TRIGGER: Final = ("conf", "logical_date", "run_id", "run_after", "partition_key", "triggered_by")
_PAGE: Final = 500
_COLUMNS: Final[Columns[DagListRow]] = {
    "DAG": lambda row: row.dag_id,
    "STATUS": lambda row: row.status,
    "SCHEDULE": lambda row: row.schedule,
    "LAST RUN": lambda row: row.last_run_state,
    "ACTIVE": lambda row: row.active_runs,
    "NEXT RUN AFTER": lambda row: row.next_run_after,
    "FILE": lambda row: row.file,
}


@app.command("list")
def list_(
    pattern: Annotated[
        str | None,
        typer.Argument(metavar="PATTERN", help="Only ids that match this, with * and ?.", show_default=False),
    ] = None,
    tag: lists.OfTag = None,
    owner: lists.OfOwner = None,
    team: lists.OfTeam = None,
    without: lists.Without_ = None,
    stale: Annotated[bool, typer.Option("--stale", help="Include DAGs whose file is gone.")] = False,
    dsn: Dsn = None,
    output: Output = None,
) -> None:
    """List DAGs with their state, schedule and next run."""
    filters = _filters(pattern, tag, owner, team, stale=stale)
    filters["without"] = lists.read_without(without, {**lists.OF_DAGS, "state": "states"})
    rows = with_database(dsn, lambda db: _every_page(db, filters))
    is_filtered = tag or owner or team or without
    empty = f"no DAG matches {pattern}" if pattern else "no such DAGs" if is_filtered else "no DAGs yet"
    show_list(rows, with_names(_COLUMNS, rows, lambda row: row.dag_display_name), output, empty=empty)


def _filters(
    pattern: str | None, tags: list[str] | None, owner: str | None, team: str | None, *, stale: bool = False
) -> DagFilters:
    from aiosched.db.lists.of_dags import OfDags

    of = OfDags(owners=() if owner is None else (owner,), teams=() if team is None else (team,), tags=tags or ())
    return {"pattern": pattern, "of": of, "stale": stale}


async def _every_page(db: Database, filters: DagFilters) -> list[DagListRow]:
    from aiosched.db.lists.dag_lists import list_dags

    found: list[DagListRow] = []
    while page := await list_dags(db, after=(found[-1].dag_id, None) if found else None, limit=_PAGE, **filters):
        found += page
    return found


@app.command()
def show(dag_id: DagId, open_: Open = False, dsn: Dsn = None, output: Output = None) -> None:
    """Show a DAG: its settings, its tasks and their dependencies."""
    from aiosched.db.queries.quarantine_queries import quarantine_traceback
    from aiosched.db.queries.queries import get_dag, get_spec
    from aiosched.db.statements.slas import RecordedMiss, latest_misses

    async def read(db: Database) -> tuple[DagListRow, Any, list[RecordedMiss], str | None]:
        row, spec = await get_dag(db, dag_id), await get_spec(db, dag_id)
        failed = None if row.quarantine is None else await quarantine_traceback(db, dag_id)
        async with db.acquire() as conn:
            return row, spec, await latest_misses(conn, dag_id), failed

    row, spec, missed, failed = with_database(dsn, read)
    tasks = [
        {
            "task_id": t.task_id,
            "task_display_name": t.display_name or None,
            "operator": t.operator,
            "upstream": list(t.upstream),
            "trigger_rule": t.trigger_rule,
        }
        for t in spec.tasks
    ]
    fields = {
        "dag": row.dag_id,
        "name": row.dag_display_name,
        "status": row.status,
        **_quarantine_fields(row),
        "schedule": row.schedule,
        "time zone": spec.timezone,
        "catchup": spec.catchup,
        "defaults": f"those of {spec.defaults_of} (its file imports airflow)" if spec.defaults_of else None,
        "run types": spec.allowed_run_types or None,
        "next run after": row.next_run_after,
        "last run": f"{row.last_run_id} {row.last_run_state}" if row.last_run_id else None,
        "active runs": f"{row.active_runs} of {row.max_active_runs}",
        "runs by key": f"{key.most} for each conf.{'.'.join(key.path)}" if (key := spec.run_key) is not None else None,
        "missed SLAs": [f"{miss.task_id} on {instant(miss.logical_date)}" for miss in missed] or None,
        "file": row.file,
        "bundle": row.bundle,
        "code": row.bundle_version,
        "version": row.version,
        "owner": row.owner,
        "tags": row.tags,
        "description": row.description,
    }
    held = None if row.quarantine is None else asdict(row.quarantine) | {"traceback": failed}
    more = {"quarantine": held, "tasks": tasks, "missed_slas": [m._asdict() for m in missed]}
    show_one(fields, output, data=asdict(row) | more)
    if failed and chosen(output) is Format.TABLE:
        write("".join(f"    {line}\n" for line in failed.rstrip().splitlines()))
    if chosen(output) in (Format.TABLE, Format.PLAIN):
        columns: Columns[dict[str, Any]] = {
            "TASK": lambda t: t["task_id"],
            "OPERATOR": lambda t: t["operator"],
            "AFTER": lambda t: t["upstream"],
            "TRIGGER RULE": lambda t: t["trigger_rule"],
        }
        show_list(tasks, with_names(columns, tasks, lambda t: t["task_display_name"]), output, empty="it has no tasks")
    if open_:
        open_page(dsn, page_path(dag_id))


def _quarantine_fields(row: DagListRow) -> dict[str, Any]:
    """What `show` says of a DAG in quarantine."""
    if (held := row.quarantine) is None:
        return {}
    return {
        "in quarantine since": held.since,
        "failed": f"{held.place}, {held.failures} in a row",
        "error": held.error,
        "tried again at": held.retry_at,
        "try it now": held.release,
    }


@app.command("runs")
def runs_(
    dag_id: DagId, state: lists.OfState = None, limit: Limit = 25, dsn: Dsn = None, output: Output = None
) -> None:
    """List the newest runs of a DAG."""
    lists.show_runs(lists.wanted_runs(dag_id, state), limit, dsn, output)


@app.command("list-runs", hidden=True)
def list_runs(
    dag_id: Annotated[str | None, typer.Argument()] = None,
    option: Annotated[str | None, typer.Option("--dag-id", "-d")] = None,
    state: lists.OfState = None,
    limit: Limit = 25,
    dsn: Dsn = None,
    output: Output = None,
) -> None:
    """Airflow's spelling of `runs`."""
    lists.show_runs(lists.wanted_runs(dag_id or option, state), limit, dsn, output)


@app.command()
def errors(dsn: Dsn = None, output: Output = None) -> None:
    """Show the import errors of DAG files, each with the line that caused it."""
    from aiosched.db.queries.status import list_import_errors

    rows = with_database(dsn, list_import_errors)
    if chosen(output) in (Format.JSON, Format.YAML):
        show_data(rows, chosen(output))
        return
    for row in rows:
        write(f"{row.file}:{row.line}: {row.error}" if row.line else f"{row.file}: {row.error}")
        if chosen(output) is Format.TABLE and (details := row.code_frame or row.traceback):
            write("".join(f"    {line}\n" for line in details.rstrip().splitlines()))
    if not rows:
        talk("no import errors")


@app.command(no_args_is_help=True)
@with_options(Trigger, without=_SPELLED_BY_TRIGGER)
def trigger(
    dag_id: DagId,
    logical_date: Annotated[str | None, option_of(Trigger, "logical_date")] = None,
    run_id: Annotated[str | None, option_of(Trigger, "run_id")] = None,
    run_after: Annotated[str | None, option_of(Trigger, "run_after")] = None,
    partition_key: Annotated[str | None, option_of(Trigger, "partition_key")] = None,
    param: Param = None,
    conf: Conf = None,
    *,
    request: Callable[..., Trigger],
    even_paused: Annotated[
        bool, typer.Option("--even-paused", help="Also if the DAG is paused: the run waits until an unpause.")
    ] = False,
    wait: Annotated[bool, typer.Option("--wait", "-w", help="Follow the run; exit 1 if it fails.")] = False,
    timeout: Annotated[
        float | None,
        typer.Option(
            "--timeout",
            min=0,
            metavar="SECONDS",
            help="With --wait: seconds to wait at most; then exit 124.",
            show_default=False,
        ),
    ] = None,
    dsn: Dsn = None,
    output: Output = None,
) -> None:
    """Trigger a new run. Refused (exit 4) while the DAG is paused, but for --unpause and --even-paused."""
    date = None if logical_date is None else read_day_or_instant(logical_date, "--logical-date")
    begin = None if run_after is None else read_day_or_instant(run_after, "--run-after")
    typed = read_conf(conf, param)
    asked = request(conf=typed, run_id=run_id, partition_key=partition_key)
    finished = with_database(
        dsn, lambda db: _trigger(db, dag_id, asked, typed, date, begin, even_paused, wait, timeout, output)
    )
    if finished is not None and finished.state == "failed":
        raise typer.Exit(1)


async def _trigger(
    db: Database,
    dag_id: str,
    request: Trigger,
    typed: TypedConf,
    date: DayOrInstant | None,
    begin: DayOrInstant | None,
    even_paused: bool,
    wait: bool,
    timeout: float | None,
    output: Format | None,
) -> RunRow | None:
    """Request the run, write it, and follow it if `wait`. None if the request was not applied or `wait` is not set.

    `date` is its logical date and `begin` its earliest start; of a day its beginning in the DAG's time zone is meant.
    """
    from aiosched.db.names.days import span_of
    from aiosched.db.names.params import fitted_conf
    from aiosched.db.queries.queries import count_tasks, find_run, get_dag

    row = await get_dag(db, dag_id)
    if row.is_paused and not request.unpause and not even_paused:
        raise Refused(
            f"DAG {dag_id!r} is paused, so the run would wait. Add --unpause or --even-paused, or first: "
            f"{command_line('dags unpause', dag_id)}"
        )
    started = time.monotonic()
    logical_date, _ = await span_of(db, dag_id, date, None)
    run_after, _ = await span_of(db, dag_id, begin, None)
    request = msgspec.structs.replace(
        request,
        conf=await fitted_conf(db, dag_id, typed),
        logical_date=None if logical_date is None else logical_date.replace(microsecond=0),
        run_after=run_after,
    )
    answer = await ask(db, request, dag_id, timeout=timeout)
    if answer is None:
        say_it_waits(f"The request for a run of {dag_id}", output)
        if wait:
            raise TimedOut("No scheduler has created the run, so there is nothing to wait for; the request stays.")
        return None
    run = await find_run(db, dag_id, answer["run_id"])
    if wait:
        left = None if timeout is None else max(timeout - (time.monotonic() - started), 0.0)
        run = await follow(db, run, timeout=left)
    show_one(run_fields(run, await count_tasks(db, run)), output, data=run)
    return run if wait else None


@dataclass(frozen=True, slots=True)
class PauseResult:
    """The result of `pause` or `unpause` for one DAG."""

    dag_id: str
    result: str  # paused, unpaused, "was paused already", "waits for a scheduler"


@app.command(cls=UNASKED)
def pause(
    dag_id: SomeDags = None,
    tag: lists.OfTag = None,
    owner: lists.OfOwner = None,
    team: lists.OfTeam = None,
    reason: Reason = None,
    dsn: Dsn = None,
    output: Output = None,
) -> None:
    """Pause DAGs (an id, or a pattern with * and ?): no new runs; running ones continue."""
    _switch(Pause(reason=reason), _filters(dag_id, tag, owner, team), dsn, output)


@app.command(cls=UNASKED)
def unpause(
    dag_id: SomeDags = None,
    tag: lists.OfTag = None,
    owner: lists.OfOwner = None,
    team: lists.OfTeam = None,
    reason: Reason = None,
    dsn: Dsn = None,
    output: Output = None,
) -> None:
    """Unpause DAGs (an id, or a pattern with * and ?)."""
    _switch(Unpause(reason=reason), _filters(dag_id, tag, owner, team), dsn, output)


def _switch(request: Pause | Unpause, filters: DagFilters, dsn: str | None, output: Format | None) -> None:
    from aiosched.db.lists.of_dags import ALL_DAGS
    from aiosched.db.queries.queries import get_dag, matching_dags

    verb = verb_of(type(request))
    pattern, by_label = filters["pattern"], filters["of"] != ALL_DAGS
    if pattern is None and not by_label:
        raise UsageProblem(f"which DAGs are to be {verb}d? Give an id, a pattern, --tag, --owner or --team")

    async def chosen_ids(db: Database) -> list[str]:
        if pattern is not None and not by_label:
            return await matching_dags(db, pattern)
        found = [row.dag_id for row in await _every_page(db, filters)]
        if not found:
            raise NotFound("There are no such DAGs; see `aiosched dags list --tag TAG`.")
        return found

    async def one(db: Database, dag_id: str) -> PauseResult:
        if (await get_dag(db, dag_id)).is_paused is (verb == "pause"):
            return PauseResult(dag_id, f"was {verb}d already")
        answer = await ask(db, request, dag_id)
        return PauseResult(dag_id, "waits for a scheduler" if answer is None else f"{verb}d")

    async def every(db: Database) -> list[PauseResult]:
        return await _few_at_a_time([_later(one, db, dag_id) for dag_id in await chosen_ids(db)])

    done = with_database(dsn, every)
    show_list(done, {"DAG": lambda s: s.dag_id, "RESULT": lambda s: s.result}, output, empty="")
    if any(s.result == "waits for a scheduler" for s in done):
        say_it_waits(f"The request to {verb}")


def _later(
    work: Callable[[Database, str], Awaitable[PauseResult]], db: Database, dag_id: str
) -> Callable[[], Awaitable[PauseResult]]:
    return lambda: work(db, dag_id)


async def _few_at_a_time(jobs: list[Callable[[], Awaitable[PauseResult]]]) -> list[PauseResult]:
    gate = asyncio.Semaphore(4)

    async def through(job: Callable[[], Awaitable[PauseResult]]) -> PauseResult:
        async with gate:
            return await job()

    return await asyncio.gather(*map(through, jobs))


@app.command()
def delete(dag_id: DagId, yes: Yes = False, reason: Reason = None, dsn: Dsn = None, output: Output = None) -> None:
    """Delete a DAG with its versions, runs and task instances. If its file still exists, the DAG comes back without
    them."""
    from aiosched.db.queries.queries import get_dag

    confirm(f"Delete DAG {dag_id} with all its runs?", yes=yes)

    async def work(db: Database) -> bool:
        await get_dag(db, dag_id)
        return await ask(db, DeleteDag(reason=reason), dag_id, timeout=60.0) is not None

    if with_database(dsn, work):
        talk(f"deleted DAG {dag_id}")
        report({"dag_id": dag_id, "deleted": True}, output)
    else:
        say_it_waits(f"The request to delete {dag_id}", output)


@app.command()
def release(dag_id: DagId, reason: Reason = None, dsn: Dsn = None, output: Output = None) -> None:
    """Try a DAG that is in quarantine again now, before its pause is over."""
    from aiosched.db.queries.queries import get_dag

    async def work(db: Database) -> bool:
        await get_dag(db, dag_id)
        return await ask(db, ReleaseDag(reason=reason), dag_id) is not None

    if with_database(dsn, work):
        talk(f"released DAG {dag_id}: its scheduler tries it again")
        report({"dag_id": dag_id, "released": True}, output)
    else:
        say_it_waits(f"The request to release {dag_id}", output)


app.command("test")(dag_files.run_once)
app.command("next")(dag_files.next_)
app.command("check")(dag_files.check)

# Airflow's spellings.
app.command("details", hidden=True)(show)
app.command("list-import-errors", hidden=True)(errors)
app.command("next-execution", hidden=True)(dag_files.next_)
app.command("backfill", hidden=True)(backfill.as_in_airflow_2)
