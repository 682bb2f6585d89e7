"""Lists across DAGs, of runs and of task instances: their options, and how they are shown."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Final

import typer

from aiosched.cli.base.opening import Open, list_path, open_page
from aiosched.cli.base.options import Dsn, Limit, Output, UsageProblem, out_of_calendar
from aiosched.cli.base.output import Columns, Format, duration, show_list, talk
from aiosched.cli.base.session import with_database
from aiosched.core.timetables import days
from aiosched.core.timetables.days import DayOrInstant
from aiosched.core.values.states import RunState, RunType, TaskState

if TYPE_CHECKING:
    from aiosched.db.lists.chosen import RunOrder, WantedRuns
    from aiosched.db.lists.instance_lists import InstanceKey, InstanceRow, WantedInstances
    from aiosched.db.lists.of_dags import Without
    from aiosched.db.queries.queries import RunRow
    from aiosched.db.server.engine import Database

_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_LENGTH: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([smhdw])")
_LONGEST: Final = timedelta.max.total_seconds()
_WHEN: Final = "a day, a time, or how long ago: 30m, 24h, 7d."

OfDag = Annotated[str | None, typer.Option("--dag", "-d", metavar="DAG", help="Only of this DAG.", show_default=False)]
OfState = Annotated[
    list[RunState] | None, typer.Option("--state", "-s", help="Only runs in this state; may be repeated.")
]
OfType = Annotated[list[RunType] | None, typer.Option("--type", help="Only of this type of run; may be repeated.")]
OfOwner = Annotated[str | None, typer.Option("--owner", metavar="NAME", help="Only of DAGs of this owner.")]
OfTeam = Annotated[str | None, typer.Option("--team", metavar="NAME", help="Only of DAGs of this team.")]
OfTag = Annotated[
    list[str] | None,
    typer.Option("--tag", metavar="TAG", help="Only of DAGs with this tag; repeated: with all."),
]
Without_ = Annotated[
    list[str] | None,
    typer.Option(
        "--not",
        metavar="FILTER=VALUE",
        help="Leave out what has this value, such as state=success or owner=ann; may be repeated.",
    ),
]
Since = Annotated[
    str | None, typer.Option("--since", metavar="T", help=f"Only of runs due (run after) since then: {_WHEN}")
]
Until = Annotated[str | None, typer.Option("--until", metavar="T", help=f"Only of runs due before, or on: {_WHEN}")]
EndedSince = Annotated[str | None, typer.Option("--ended-since", metavar="T", help=f"Only runs ended since: {_WHEN}")]
LongerThan = Annotated[
    str | None,
    typer.Option("--longer-than", metavar="LENGTH", help="Only those that took at least this long: 90s, 5m."),
]
ShorterThan = Annotated[
    str | None, typer.Option("--shorter-than", metavar="LENGTH", help="Only those that took at most this long.")
]

OfTaskState = Annotated[
    list[TaskState] | None, typer.Option("--state", "-s", help="Only in this state; may be repeated.")
]
OfTask = Annotated[str | None, typer.Option("--task", metavar="TEXT", help="Part of the task's id.")]
OfOperator = Annotated[str | None, typer.Option("--operator", metavar="CLASS", help="Only of this operator.")]
OfPool = Annotated[str | None, typer.Option("--pool", metavar="POOL", help="Only of this pool.")]
OfError = Annotated[str | None, typer.Option("--error", metavar="TEXT", help="Part of the error, or why it waits.")]

RUN_COLUMNS: Final[Columns[RunRow]] = {
    "DAG": lambda run: run.dag_id,
    "RUN": lambda run: run.run_id,
    "STATE": lambda run: run.state,
    "TYPE": lambda run: run.run_type,
    "RUN AFTER": lambda run: run.run_after,
    "START": lambda run: run.start_date,
    "DURATION": lambda run: duration(run.seconds),
    "REASON": lambda run: run.reason,
}
INSTANCE_COLUMNS: Final[Columns[InstanceRow]] = {
    "DAG": lambda task: task.dag_id,
    "RUN": lambda task: task.run_id,
    "TASK": lambda task: task.name,
    "STATE": lambda task: task.state,
    "TRY": lambda task: task.try_number,
    "POOL": lambda task: task.pool,
    "START": lambda task: task.start_date,
    "DURATION": lambda task: duration(task.seconds),
    "REASON": lambda task: task.reason,
}


def read_length(text: str, option: str) -> float:
    """A duration such as `90s` or `5m` in seconds. Raises UsageProblem."""
    found = _LENGTH.fullmatch(text.strip())
    if found is None:
        raise UsageProblem(f"{option} {text}: write a duration as 90s, 5m, 24h, 7d or 2w.")
    seconds = float(found[1]) * _UNITS[found[2]]
    if seconds > _LONGEST:
        raise UsageProblem(f"{option} {text} is too long: choose a shorter time.")
    return seconds


def read_when(text: str | None, option: str, now: datetime) -> DayOrInstant | None:
    """A day, an instant, or how long before `now`. Raises UsageProblem."""
    if text is None:
        return None
    if _LENGTH.fullmatch(text.strip()):
        try:
            return now - timedelta(seconds=read_length(text, option))
        except OverflowError:
            raise UsageProblem(f"{option} {text} is too long: choose a shorter time.") from None
    try:
        return days.read_day_or_instant(text)
    except ValueError:
        raise UsageProblem(f"{option} {text}: write a date as 2026-01-31, or how long ago: 24h, 7d.") from None
    except OverflowError:
        raise UsageProblem(out_of_calendar(option, text)) from None


OF_DAGS: Final = {"dag": "dag_ids", "owner": "owners", "team": "teams", "tag": "tags"}
_OF_RUNS: Final = {**OF_DAGS, "state": "states", "type": "run_types"}
_OF_INSTANCES: Final = {"state": "states", "operator": "operators", "pool": "pools"}


def read_without(given: Collection[str] | None, fields: Mapping[str, str], states: type[StrEnum] = RunState) -> Without:
    """What `--not FILTER=VALUE` leaves out; `fields` are those of the list. Raises UsageProblem."""
    from aiosched.db.lists.of_dags import Without

    found: dict[str, list[str]] = {}
    for text in given or ():
        name, equals, value = text.partition("=")
        if name not in fields or not equals or not value:
            raise UsageProblem(f"--not {text}: write FILTER=VALUE, with one of the filters {', '.join(fields)}.")
        known = [str(each) for each in (states if name == "state" else RunType if name == "type" else ())]
        if known and value not in known:
            raise UsageProblem(f"--not {text}: there is no such {name}; there are {', '.join(known)}.")
        found.setdefault(fields[name], []).append(value)
    return Without(**{field: tuple(values) for field, values in found.items()})


def wanted_runs(
    dag_id: str | None,
    states: Collection[RunState] | None,
    types: Collection[RunType] | None = None,
    owner: str | None = None,
    tags: Collection[str] | None = None,
    since: str | None = None,
    until: str | None = None,
    ended_since: str | None = None,
    longer_than: str | None = None,
    shorter_than: str | None = None,
    without: Collection[str] | None = None,
) -> WantedRuns:
    """The runs that options name. Raises UsageProblem."""
    from aiosched.db.lists.chosen import WantedRuns
    from aiosched.db.lists.of_dags import OfDags

    now = datetime.now(UTC)
    return WantedRuns(
        dags=OfDags(
            dag_ids=None if dag_id is None else (dag_id,),
            owners=() if owner is None else (owner,),
            tags=tuple(tags or ()),
        ),
        states=tuple(map(str, states or ())),
        run_types=tuple(map(str, types or ())),
        since=read_when(since, "--since", now),
        until=read_when(until, "--until", now),
        ended_since=read_when(ended_since, "--ended-since", now),
        min_seconds=None if longer_than is None else read_length(longer_than, "--longer-than"),
        max_seconds=None if shorter_than is None else read_length(shorter_than, "--shorter-than"),
        without=read_without(without, _OF_RUNS),
    )


def wanted_instances(
    dag_id: str | None,
    states: Collection[TaskState] | None,
    types: Collection[RunType] | None,
    owner: str | None,
    tags: Collection[str] | None,
    task: str | None,
    operator: str | None,
    pool: str | None,
    error: str | None,
    since: str | None,
    until: str | None,
    longer_than: str | None,
    shorter_than: str | None,
    without: Collection[str] | None = None,
) -> WantedInstances:
    """The task instances that options name. Raises UsageProblem."""
    from aiosched.db.lists.instance_lists import WantedInstances
    from aiosched.db.lists.of_dags import Without

    lengths = wanted_runs(None, None, longer_than=longer_than, shorter_than=shorter_than)
    left_out = read_without(without, {**_OF_RUNS, **_OF_INSTANCES}, TaskState)
    return WantedInstances(
        runs=replace(
            wanted_runs(dag_id, None, types, owner, tags, since, until),
            without=replace(left_out, states=(), operators=(), pools=()),
        ),
        states=tuple(states or ()),
        task_id=task,
        operators=() if operator is None else (operator,),
        pools=() if pool is None else (pool,),
        min_seconds=lengths.min_seconds,
        max_seconds=lengths.max_seconds,
        reason=error,
        without=Without(states=left_out.states, operators=left_out.operators, pools=left_out.pools),
    )


async def read_runs(db: Database, wanted: WantedRuns, limit: int) -> list[RunRow]:
    """The newest `limit` of the wanted runs. Raises NotFound for a DAG that does not exist."""
    from aiosched.db.lists.run_lists import page_of_runs
    from aiosched.db.queries.queries import get_dag

    if wanted.dags.dag_id is not None:
        await get_dag(db, wanted.dags.dag_id)
    order: RunOrder = "-end_date" if wanted.ended_since else "-run_after"
    return await page_of_runs(db, wanted, order=order, limit=limit)


def show_runs(wanted: WantedRuns, limit: int, dsn: str | None, output: Format | None) -> None:
    """Show the newest of the wanted runs. Raises NotFound for a DAG that does not exist."""
    rows = with_database(dsn, lambda db: read_runs(db, wanted, limit + 1))
    from aiosched.db.lists.of_dags import OfDags

    is_filtered = wanted != type(wanted)(dags=OfDags(dag_ids=wanted.dags.dag_ids))
    show_list(rows[:limit], RUN_COLUMNS, output, empty="no such runs" if is_filtered else "no runs yet")
    if len(rows) > limit:
        talk(f"the newest {limit} by {'end' if wanted.ended_since else 'RUN AFTER'}; more with --limit")


def list_instances(
    dag: OfDag = None,
    state: OfTaskState = None,
    type_: OfType = None,
    owner: OfOwner = None,
    tag: OfTag = None,
    task: OfTask = None,
    operator: OfOperator = None,
    pool: OfPool = None,
    error: OfError = None,
    since: Since = None,
    until: Until = None,
    longer_than: LongerThan = None,
    shorter_than: ShorterThan = None,
    without: Without_ = None,
    limit: Limit = 25,
    open_: Open = False,
    dsn: Dsn = None,
    output: Output = None,
) -> None:
    """List task instances of all DAGs, those of the newest runs (by run after) first."""
    wanted = wanted_instances(
        dag, state, type_, owner, tag, task, operator, pool, error, since, until, longer_than, shorter_than, without
    )
    rows = with_database(dsn, lambda db: read_instances(db, wanted, limit + 1))
    show_list(rows[:limit], INSTANCE_COLUMNS, output, empty="no such task instances")
    if len(rows) > limit:
        talk(f"{limit} of the newest runs; more with --limit")
    if open_:
        filters = {"task_id": task, "operator": operator, "pool": pool, "reason": error}
        lengths = {"longer": wanted.min_seconds, "shorter": wanted.max_seconds}
        left_out = {
            "not_state": wanted.without.states,
            "not_operator": wanted.without.operators,
            "not_pool": wanted.without.pools,
        }
        open_page(dsn, list_path("task-instances", wanted.runs, state=wanted.states, **filters, **lengths, **left_out))


async def read_instances(db: Database, wanted: WantedInstances, limit: int) -> list[InstanceRow]:
    """The first `limit` instances, in as many pages as they take. Raises NotFound for a DAG that does not exist."""
    from aiosched.db.lists.instance_lists import page_of_instances
    from aiosched.db.queries.queries import get_dag

    if wanted.runs.dags.dag_id is not None:
        await get_dag(db, wanted.runs.dags.dag_id)
    rows: list[InstanceRow] = []
    after: InstanceKey | None = None
    while len(rows) < limit:
        page = await page_of_instances(db, wanted, after=after, limit=limit - len(rows))
        rows += page.rows
        if page.searched_to is not None and not rows:
            talk(f"nothing yet in the runs since {page.searched_to:%Y-%m-%d %H:%M} UTC, looking further …")
        if (after := page.next) is None:
            break
    return rows
