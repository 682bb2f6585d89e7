"""`aiosched schedules`: list, set, pause, resume and remove schedules of DAGs that are data."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Final

import typer

from aiosched.cli.base.options import DagId, Dsn, Limit, Output, Reason
from aiosched.cli.base.output import Columns, Format, report, show_list, talk
from aiosched.cli.base.request_options import typed_conf, with_options
from aiosched.cli.base.session import ask, say_it_waits, with_database
from aiosched.cli.base.spellings import UNASKED
from aiosched.core.requests.requests import PauseSchedule, RemoveSchedule, Request, ResumeSchedule, SetSchedule

if TYPE_CHECKING:
    from aiosched.db.server.engine import Database
    from aiosched.db.statements.dag_schedules import Schedule

app: typer.Typer = typer.Typer(
    no_args_is_help=True, rich_markup_mode=None, add_completion=False, help="Schedules of DAGs that are data."
)

ScheduleName = Annotated[str, typer.Argument(metavar="NAME", help="The schedule's name.", show_default=False)]

COLUMNS: Final[Columns[Schedule]] = {
    "DAG": lambda row: row.dag_id,
    "NAME": lambda row: row.name,
    "SCHEDULE": lambda row: row.summary,
    "PAUSED": lambda row: row.is_paused,
    "NEXT": lambda row: row.next_at,
    "LAST": lambda row: row.last_at,
    "STATE": lambda row: row.last_state,
    "ERROR": lambda row: row.error,
}


@app.command("list")
def list_(
    dag: Annotated[str | None, typer.Option("--dag", "-d", metavar="DAG", help="Only schedules of this DAG.")] = None,
    limit: Limit = 25,
    dsn: Dsn = None,
    output: Output = None,
) -> None:
    """List schedules by DAG and name: when they run next, and what became of the last run."""
    from aiosched.db.queries.queries import get_dag
    from aiosched.db.queries.schedule_queries import list_schedules

    async def read(db: Database) -> list[Schedule]:
        if dag is not None:
            await get_dag(db, dag)
        return await list_schedules(db, dag_id=dag, limit=limit)

    show_list(with_database(dsn, read), COLUMNS, output, empty="no schedules")


@app.command("set", no_args_is_help=True)
@with_options(SetSchedule, without=("name",))
def set_(
    dag_id: DagId,
    name: ScheduleName,
    request: Callable[..., SetSchedule],
    dsn: Dsn = None,
    output: Output = None,
) -> None:
    """Make a schedule, or change it: one of --cron, --every and --at. With other terms it begins anew."""

    async def work(db: Database) -> dict[str, object] | None:
        from aiosched.db.names.params import fitted_conf
        from aiosched.db.queries.queries import get_dag

        await get_dag(db, dag_id)
        conf = await fitted_conf(db, dag_id, typed_conf(request))
        return await ask(db, request(name=name, conf=conf), dag_id)

    _say(with_database(dsn, work), f"set schedule {name} of {dag_id}", output)


@app.command()
def pause(dag_id: DagId, name: ScheduleName, reason: Reason = None, dsn: Dsn = None, output: Output = None) -> None:
    """Pause a schedule: it starts no runs."""
    _request(PauseSchedule(name, reason=reason), dag_id, f"paused schedule {name} of {dag_id}", dsn, output)


@app.command()
def resume(dag_id: DagId, name: ScheduleName, reason: Reason = None, dsn: Dsn = None, output: Output = None) -> None:
    """Resume a schedule: the last missed instant has a run, with catchup each."""
    _request(ResumeSchedule(name, reason=reason), dag_id, f"resumed schedule {name} of {dag_id}", dsn, output)


@app.command(cls=UNASKED)
def remove(dag_id: DagId, name: ScheduleName, reason: Reason = None, dsn: Dsn = None, output: Output = None) -> None:
    """Remove a schedule; its runs stay."""
    _request(RemoveSchedule(name, reason=reason), dag_id, f"removed schedule {name} of {dag_id}", dsn, output)


def _request(request: Request, dag_id: str, done: str, dsn: str | None, output: Format | None) -> None:
    async def work(db: Database) -> dict[str, object] | None:
        return await ask(db, request, dag_id)

    _say(with_database(dsn, work), done, output)


def _say(answer: dict[str, object] | None, done: str, output: Format | None) -> None:
    if answer is None:
        say_it_waits("The request", output)
        return
    talk(f"{done}; next run {answer['next_at']}" if answer.get("next_at") else done)
    report(answer, output)
