"""Queries on DAGs, runs and tasks, for people. Read only, paged, with SQLAlchemy Core.

Every list takes `limit` and a key to continue from, so its cost does not depend on the size of the history. The
scheduler uses none of these. The state of parsing is in status.py, that of schedulers in schedulers.py.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, Final

from sqlalchemy import (
    ColumnElement,
    Select,
    Text,
    and_,
    bindparam,
    case,
    cast,
    false,
    func,
    null,
    or_,
    select,
    true,
    tuple_,
)

from aiosched.core.graph.spec import DagSpec, TaskSpec, read_document
from aiosched.core.run.shown_run import ShownRun
from aiosched.core.timetables.days import DayOrInstant, read_day_or_instant
from aiosched.core.values.ids import instance_name, read_instance_name
from aiosched.core.values.states import RunState, RunType, TaskState, began
from aiosched.db.names.days import span_of
from aiosched.db.queries.quarantine_queries import QuarantineRow
from aiosched.db.schema.schema import dag, dag_quarantine, dag_run, dag_version, map_label, task_instance, task_note
from aiosched.db.server.engine import Database
from aiosched.errors import NotFound, did_you_mean

# ---- DAGs ----


@dataclass(frozen=True, slots=True)
class DagListRow:
    """A DAG in a list. `next_run_after` is when its next scheduled run is due; None if its file is gone or broken."""

    dag_id: str
    dag_display_name: str | None  # None: its id is shown
    schedule: str | None
    schedule_timezone: str | None
    is_paused: bool
    is_stale: bool
    has_import_errors: bool
    file: str | None
    description: str | None
    owner: str | None
    tags: tuple[str, ...]
    max_active_runs: int
    max_active_tasks: int
    next_logical_date: datetime | None
    next_run_after: datetime | None
    last_parsed_at: datetime | None
    version: int | None
    last_run_id: str | None
    last_run_state: str | None
    active_runs: int
    quarantine: QuarantineRow | None
    bundle: str | None = None
    bundle_version: str | None = None
    last_run_after: datetime | None = None

    @property
    def is_in_its_file(self) -> bool:
        """Whether its file gives it now; otherwise nothing of it is scheduled."""
        return not (self.is_stale or self.has_import_errors)

    @property
    def status(self) -> str:
        """One word for people: quarantine, error, stale, paused or active."""
        if self.quarantine is not None:
            return "quarantine"
        if self.has_import_errors:
            return "error"
        if self.is_stale:
            return "stale"
        return "paused" if self.is_paused else "active"


_QUARANTINE: Final = tuple(
    dag_quarantine.c[each.name].label(f"quarantine_{each.name}") for each in fields(QuarantineRow)
)


def _promised(instant: ColumnElement[datetime]) -> ColumnElement[datetime | None]:
    """What a DAG's schedule says, unless its file is gone or broken: then no run comes."""
    return case((or_(dag.c.is_stale, dag.c.has_import_errors), null()), else_=instant)


NEXT_RUN_AFTER: Final = _promised(dag.c.next_dagrun_create_after)

# A DAG's newest run. Index: ix_dag_run_dag_id_id.
NEWEST_RUN: Final = (
    select(dag_run.c.run_id, dag_run.c.state, dag_run.c.run_after)
    .where(dag_run.c.dag_id == dag.c.dag_id)
    .order_by(dag_run.c.id.desc())
    .limit(1)
    .lateral("newest")
)


def select_dags() -> Select[Any]:
    """All DAGs, as `dag_row` reads them."""
    active = (
        select(func.count())
        .where(
            # the partial index of unfinished runs begins with it; incomplete ones have another (as_incomplete)
            dag_run.c.partition.in_([dag.c.partition, -1 - dag.c.partition]),
            dag_run.c.dag_id == dag.c.dag_id,
            dag_run.c.state.in_(["queued", "running"]),
        )
        .scalar_subquery()
    )
    return select(
        dag.c.dag_id,
        dag.c.display_name.label("dag_display_name"),
        dag.c.schedule,
        dag.c.schedule_timezone,
        dag.c.is_paused,
        dag.c.is_stale,
        dag.c.has_import_errors,
        dag.c.file,
        dag.c.description,
        dag.c.owner,
        dag.c.tags,
        dag.c.max_active_runs,
        dag.c.max_active_tasks,
        _promised(dag.c.next_dagrun).label("next_logical_date"),
        NEXT_RUN_AFTER.label("next_run_after"),
        dag.c.last_parsed_at,
        dag_version.c.number.label("version"),
        dag_version.c.bundle,
        dag_version.c.bundle_version,
        NEWEST_RUN.c.run_id.label("last_run_id"),
        NEWEST_RUN.c.state.label("last_run_state"),
        NEWEST_RUN.c.run_after.label("last_run_after"),
        active.label("active_runs"),
        *_QUARANTINE,
    ).select_from(
        dag.outerjoin(dag_version, dag_version.c.id == dag.c.version_id)
        .outerjoin(NEWEST_RUN, true())
        .outerjoin(dag_quarantine, and_(dag_quarantine.c.dag_id == dag.c.dag_id, dag_quarantine.c.tried_at.is_(None))),
    )


_DAG_BY_ID: Final = select_dags().where(dag.c.dag_id == bindparam("dag_id"))


async def get_dag(db: Database, dag_id: str) -> DagListRow:
    """One DAG; raises NotFound with suggestions."""
    rows = await fetch(db, _DAG_BY_ID, dag_id=dag_id)
    if not rows:
        raise NotFound(f"There is no DAG {dag_id!r}.{await _near_dag(db, dag_id)}")
    return dag_row(rows[0])


# Index: primary key.
DISPLAY_NAMES: Final = "SELECT dag_id, display_name FROM dag WHERE dag_id = ANY ($1::text[]) AND display_name <> ''"


async def read_display_names(db: Database, dag_ids: Iterable[str | None]) -> dict[str, str]:
    """What is shown in place of these ids of DAGs, for those that have it."""
    ids = sorted({dag_id for dag_id in dag_ids if dag_id is not None})
    return {row["dag_id"]: row["display_name"] for row in await db.fetch(DISPLAY_NAMES, ids)} if ids else {}


async def matching_dags(db: Database, pattern: str) -> list[str]:
    """The ids that match the glob `pattern` (`*`, `?`) or plain id; raises NotFound without any."""
    query = select(dag.c.dag_id).where(dag.c.dag_id.like(like(pattern), escape="\\")).order_by(dag.c.dag_id)
    found = [row.dag_id for row in await fetch(db, query)]
    if not found:
        raise NotFound(f"There is no DAG {pattern!r}.{await _near_dag(db, pattern)}")
    return found


async def get_spec(db: Database, dag_id: str) -> DagSpec:
    """The newest version of a DAG as parsing stored it. Raises NotFound, and Refused if it cannot be read."""
    query = (
        select(dag_version.c.number, cast(dag_version.c.spec, Text).label("spec"))
        .join(dag, dag.c.version_id == dag_version.c.id)
        .where(dag.c.dag_id == dag_id)
    )
    rows = await fetch(db, query)
    if not rows:
        raise NotFound(f"There is no DAG {dag_id!r}.{await _near_dag(db, dag_id)}")
    return read_document(rows[0].spec, dag_id, rows[0].number)


async def _near_dag(db: Database, dag_id: str) -> str:
    ids = [row.dag_id for row in await fetch(db, select(dag.c.dag_id).order_by(dag.c.dag_id))]
    return did_you_mean(dag_id, ids) or ("" if ids else " The database holds no DAG yet.")


def dag_row(row: Any) -> DagListRow:
    """The DAG of a row of `select_dags`."""
    columns = dict(row._mapping)
    held = QuarantineRow(*(columns.pop(each.name) for each in _QUARANTINE))
    quarantine = None if row.quarantine_dag_id is None else held
    return DagListRow(**{**columns, "tags": shown_words(row.tags)}, quarantine=quarantine)


def like(pattern: str) -> str:
    """The LIKE pattern (escape: backslash) of a glob with `*` and `?`."""
    escaped = pattern.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return escaped.replace("*", "%").replace("?", "_")


# ---- runs ----

NAMED_DAG: Final = dag.alias("named_dag")  # apart from the DAG by which a list is filtered


@dataclass
class RunRow(ShownRun):
    """A run as it is stored."""

    version_key: int

    @property
    def finished(self) -> bool:
        return self.state in (RunState.SUCCESS, RunState.FAILED)


_SHOWN: Final = dict(dag_run.c.items()) | {
    "key": dag_run.c.id,
    "version_key": dag_run.c.version_id,
    "version": dag_version.c.number,
    "dag_display_name": NAMED_DAG.c.display_name,
}
RUN_COLUMNS: Final = (
    select(*(_SHOWN[each.name].label(each.name) for each in fields(RunRow) if each.init))
    .join(dag_version, dag_version.c.id == dag_run.c.version_id)
    .outerjoin(NAMED_DAG, NAMED_DAG.c.dag_id == dag_run.c.dag_id)
)
_RUN_BY_ID: Final = RUN_COLUMNS.where(dag_run.c.dag_id == bindparam("dag_id"), dag_run.c.run_id == bindparam("run_id"))


async def list_runs(
    db: Database,
    *,
    dag_id: str | None = None,
    states: Collection[str] = (),
    run_types: Collection[str] = (),
    before: int | None = None,
    limit: int = 25,
) -> list[RunRow]:
    """Runs, newest first, older than the one with the key `before`."""
    query = RUN_COLUMNS.order_by(dag_run.c.id.desc()).limit(limit)
    if dag_id is not None:
        query = query.where(dag_run.c.dag_id == dag_id)
    if states:
        query = query.where(dag_run.c.state.in_(sorted(states)))
    if run_types:
        query = query.where(dag_run.c.run_type.in_(sorted(run_types)))
    if before is not None:
        query = query.where(dag_run.c.id < before)
    return [RunRow(**row._mapping) for row in await fetch(db, query)]


_NOT_BACKFILLED: Final = frozenset(RunType) - {RunType.BACKFILL}
# What is looked for, in turn: states and types of runs; none: any.
_LATEST: Final[dict[str, tuple[tuple[Collection[str], Collection[str]], ...]]] = {
    "latest": (((), _NOT_BACKFILLED), ((), ())),
    "latest-failed": (((RunState.FAILED,), ()),),
    "latest-backfill": (((), (RunType.BACKFILL,)),),
}
_MOST_OF_DAY: Final = 5  # runs that are named
_SHORTEST: Final = 4  # characters of a short form
_NEWEST_RUNS: Final = 10_000  # runs of a DAG among which a short form is looked for
_MOST_NAMED: Final = 4  # of several that are named
_NAMES: Final = {"latest": "run yet", "latest-failed": "failed run", "latest-backfill": "run of a backfill"}


async def find_run(db: Database, dag_id: str, reference: str) -> RunRow:
    """The run named by `latest`, `latest-failed`, `latest-backfill`, a run id, a logical date or a short id.

    A date without a time means the only run of that day in the DAG's time zone; a time without a zone is in UTC. The
    latest run is the one created last that is not of a backfill; of a DAG
    with runs of backfills only, the last of these. A failed one can be of any type. Raises NotFound with the DAG or the
    newest run.
    """
    if reference in _LATEST:
        for states, types in _LATEST[reference]:
            if found := await list_runs(db, dag_id=dag_id, states=states, run_types=types, limit=1):
                return found[0]
        await get_dag(db, dag_id)
        raise NotFound(f"DAG {dag_id!r} has no {_NAMES[reference]}.")
    if rows := await fetch(db, _RUN_BY_ID, dag_id=dag_id, run_id=reference):
        return RunRow(**rows[0]._mapping)
    of_dag = RUN_COLUMNS.where(dag_run.c.dag_id == dag_id)
    rows, instant = [], _instant(reference)
    if isinstance(instant, datetime):
        rows = await fetch(db, of_dag.where(dag_run.c.logical_date == instant))
    elif instant is not None:
        first, end = await span_of(db, dag_id, instant, instant)
        of_day = of_dag.where(dag_run.c.logical_date >= first, dag_run.c.logical_date < end)
        rows = await fetch(db, of_day.order_by(dag_run.c.logical_date).limit(_MOST_OF_DAY))
        if len(rows) > 1:
            named = ", ".join(row.run_id for row in rows)
            raise NotFound(f"{reference} has several runs of {dag_id!r}: {named}. Name one, or write its time, too.")
    if not rows and len(reference) >= _SHORTEST and not (instant and "-" in reference):
        short = [row.run_id for row in await fetch(db, _named_shortly(dag_id, reference))]
        if len(short) > 1:
            raise NotFound(f"{reference!r} can be several runs of {dag_id!r}: {', '.join(short)}. Write more of it.")
        rows = await fetch(db, of_dag.where(dag_run.c.run_id.in_(short))) if short else []
    if rows:
        return RunRow(**rows[0]._mapping)
    await get_dag(db, dag_id)
    newest = [run.run_id for run in await list_runs(db, dag_id=dag_id, limit=200)]
    hint = did_you_mean(reference, newest) or (f" The newest is {newest[0]}." if newest else " It has no runs yet.")
    raise NotFound(f"DAG {dag_id!r} has no run {reference!r}.{hint}")


def _named_shortly(dag_id: str, short: str) -> Select[Any]:
    """The ids of a few runs with this short form, newest first.

    It is the beginning of the id, of what follows its type, or of its random suffix. The newest runs of the DAG are
    read by the index of (DAG, id).
    """
    newest = (
        select(dag_run.c.id, dag_run.c.run_id)
        .where(dag_run.c.dag_id == dag_id)
        .order_by(dag_run.c.id.desc())
        .limit(_NEWEST_RUNS)
        .subquery("newest")
    )
    run_id = newest.c.run_id
    return (
        select(run_id)
        .where(or_(run_id.startswith(short, autoescape=True), run_id.contains(f"_{short}", autoescape=True)))
        .order_by(newest.c.id.desc())
        .limit(_MOST_NAMED)
    )


def _instant(text: str) -> DayOrInstant | None:
    try:
        return read_day_or_instant(text)
    except (ValueError, OverflowError):
        return None


# ---- task instances ----


@dataclass(frozen=True, slots=True)
class TaskRow:
    """A task instance with the names of its DAG version; `map_index` -1 for a task that is not mapped."""

    task_id: str
    map_index: int
    state: str
    try_number: int
    max_tries: int
    operator: str
    pool: str
    task_display_name: str | None  # None: its id is shown
    scheduled_at: datetime | None
    queued_at: datetime | None
    start_date: datetime | None
    end_date: datetime | None
    next_at: datetime | None
    reason: str | None
    task_index: int
    note: str | None = None
    map_label: str | None = None  # shown instead of the map index

    @property
    def name(self) -> str:
        return instance_name(self.task_id, self.map_index)

    @property
    def seconds(self) -> float | None:
        return None if not (self.start_date and self.end_date) else (self.end_date - self.start_date).total_seconds()


async def get_version_spec(db: Database, version_key: int) -> DagSpec:
    """The DAG version to which a run is pinned. Raises NotFound, and Refused if it cannot be read."""
    document = cast(dag_version.c.spec, Text).label("spec")
    query = select(dag_version.c.dag_id, dag_version.c.number, document).where(dag_version.c.id == version_key)
    rows = await fetch(db, query)
    if not rows:
        raise NotFound(f"There is no DAG version with the key {version_key}.")
    return read_document(rows[0].spec, rows[0].dag_id, rows[0].number)


async def count_tasks(db: Database, run: RunRow) -> dict[str, int]:
    """The number of task instances of a run in each state; `none` for those without a state.

    States that this aiosched does not know come last, by name.
    """
    query = (
        select(task_instance.c.state, func.count().label("number"))
        .where(task_instance.c.run_id == run.key)
        .group_by(task_instance.c.state)
    )
    counts = {shown_state(row.state): row.number for row in await fetch(db, query)}
    known = [state.value for state in TaskState]
    return {state: counts[state] for state in (*known, *sorted(counts.keys() - {*known})) if state in counts}


async def list_run_tasks(
    db: Database,
    run: RunRow,
    *,
    task_id: str | None = None,
    states: Collection[TaskState] = (),
    after: tuple[int, int] | None = None,
    limit: int = 200,
) -> list[TaskRow]:
    """Task instances of a run in the order of the DAG, after (task index, map index) `after`.

    `task_id` can be `load[3]`, too. Raises NotFound for one that the run's DAG version does not have.
    """
    spec = await get_version_spec(db, run.version_key)
    query = (
        select(task_instance, task_note.c.note, map_label.c.label)
        .outerjoin(task_note, and_(*(task_note.c[key.name] == key for key in task_instance.primary_key)))
        .outerjoin(map_label, and_(*(map_label.c[key.name] == key for key in task_instance.primary_key)))
        .where(task_instance.c.run_id == run.key)
        .order_by(task_instance.c.task_index, task_instance.c.map_index)
        .limit(limit)
    )
    if task_id is not None:
        task_id, map_index = read_instance_name(task_id)
        query = query.where(task_instance.c.task_index == _index_of(spec, task_id))
        if map_index is not None:
            query = query.where(task_instance.c.map_index == map_index)
    if states:
        named = [state.value for state in states if state is not TaskState.NONE]
        stateless = task_instance.c.state.is_(None) if TaskState.NONE in states else false()
        query = query.where(or_(task_instance.c.state.in_(named), stateless))
    if after is not None:
        query = query.where(tuple_(task_instance.c.task_index, task_instance.c.map_index) > tuple_(*after))
    return [_task_row(row, spec) for row in await fetch(db, query)]


def _index_of(spec: DagSpec, task_id: str) -> int:
    ids = [task.task_id for task in spec.tasks]
    if task_id not in ids:
        raise NotFound(f"DAG {spec.dag_id!r} has no task {task_id!r}.{did_you_mean(task_id, ids)}")
    return ids.index(task_id)


def _task_row(row: Any, spec: DagSpec) -> TaskRow:
    index = row.task_index
    task = spec.tasks[index] if 0 <= index < len(spec.tasks) else TaskSpec(task_id=unknown_task(index), operator="")
    return TaskRow(
        task_id=task.task_id,
        map_index=row.map_index,
        state=shown_state(row.state),
        try_number=row.try_number,
        max_tries=row.max_tries,
        operator=task.operator,
        pool=task.pool,
        task_display_name=task.display_name or None,
        scheduled_at=row.scheduled_at,
        queued_at=row.queued_at,
        start_date=began(row.state, row.start_date, row.end_date),
        end_date=row.end_date,
        next_at=row.next_at,
        reason=row.reason,
        task_index=row.task_index,
        note=row.note,
        map_label=row.label,
    )


# ---- what a newer version or a hand has stored ----


def shown_state(stored: str | None) -> str:
    """The state of a task instance for people, also one that this aiosched does not know."""
    return TaskState.NONE.value if stored is None else stored


def unknown_task(index: int) -> str:
    """The place of a task's id if its DAG version has no task with this index."""
    return f"task {index}, which this version does not have"


def shown_task(names: Sequence[str], index: int) -> str:
    """The id of a task by its index."""
    return names[index] if 0 <= index < len(names) else unknown_task(index)


def shown_words(stored: Sequence[str | None]) -> tuple[str, ...]:
    """The words in an array, which may hold NULL."""
    return tuple(word for word in stored if word is not None)


async def fetch(db: Database, query: Select[Any], **values: Any) -> Sequence[Any]:
    """All rows of `query`, with `values` of its parameters: one statement, which needs no BEGIN and ROLLBACK."""
    async with db.for_query() as conn:
        await conn.execution_options(isolation_level="AUTOCOMMIT")
        rows: Sequence[Any] = (await conn.execute(query, values)).all()
    return rows
