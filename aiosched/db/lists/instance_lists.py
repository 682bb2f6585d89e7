"""Lists of task instances across DAGs, in the order of their runs. Read only.

`task_instance` has no index but its key, which keeps its updates cheap. So a list follows its runs, newest first, and
reads their instances by key; a page looks at a bounded number of them, and says up to where it has looked.
Source: docs/decisions/0047-lists-search-a-bounded-part.md.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from sqlalchemy import CTE, ColumnElement, FromClause, Select, and_, func, literal, or_, select, true, tuple_

from aiosched.core.values.states import TaskState, began
from aiosched.db.access.visibility import Seen
from aiosched.db.lists.chosen import WantedRuns, chosen_runs, is_in_state, lasting, resolved
from aiosched.db.lists.facets import Facets, counted, counted_errors, read_facets, size_of
from aiosched.db.lists.of_dags import NOTHING, Without, among
from aiosched.db.queries.queries import NAMED_DAG, fetch, find_run, like, shown_state, unknown_task
from aiosched.db.schema.schema import dag_run, task_instance, task_note, version_task
from aiosched.db.server.engine import Database
from aiosched.errors import NotFound

MOST_SEARCHED: Final = 5_000  # instances that one page looks at
MOST_SAMPLED: Final = 3_000  # instances of which the values are counted, the newest

# Only runs that have not ended have instances in these states.
_UNDER_WAY: Final = frozenset(
    {
        TaskState.SCHEDULED,
        TaskState.QUEUED,
        TaskState.RUNNING,
        TaskState.RESTARTING,
        TaskState.UP_FOR_RETRY,
        TaskState.UP_FOR_RESCHEDULE,
        TaskState.DEFERRED,
    }
)

_COLUMNS: Final = (
    "task_index", "map_index", "state", "try_number", "queued_at", "start_date", "end_date", "reason",
)  # fmt: skip

_ALL_RUNS: Final = WantedRuns()

InstanceKey = tuple[datetime, int, int, int]  # run_after, the run's key, task index, map index


@dataclass(frozen=True, slots=True)
class WantedInstances:
    """Which task instances are selected, of which runs; empty fields do not filter.

    The duration of an instance that has not ended is that until now.
    """

    runs: WantedRuns = _ALL_RUNS
    states: Collection[TaskState] = ()
    task_id: str | None = None  # a part of it
    operators: Collection[str] = ()
    pools: Collection[str] = ()
    min_seconds: float | None = None
    max_seconds: float | None = None
    reason: str | None = None  # part of why it waits, failed or was skipped
    without: Without = NOTHING  # states, operators and pools

    @property
    def narrows(self) -> bool:
        """Whether not all instances of the runs are wanted."""
        return replace(self, runs=_ALL_RUNS) != WantedInstances()


@dataclass(frozen=True, slots=True)
class InstanceRow:
    """A task instance in a list across DAGs; `map_index` -1 for a task that is not mapped."""

    dag_id: str
    run_id: str
    run_type: str
    run_after: datetime
    task_id: str
    map_index: int
    state: str
    try_number: int
    operator: str
    pool: str
    queued_at: datetime | None
    start_date: datetime | None
    end_date: datetime | None
    reason: str | None
    note: str | None
    run_key: int
    task_index: int
    dag_display_name: str | None = None  # shown in place of the id; None: the id is
    task_display_name: str | None = None

    @property
    def name(self) -> str:
        return self.task_id if self.map_index < 0 else f"{self.task_id}[{self.map_index}]"

    @property
    def seconds(self) -> float | None:
        return None if not (self.start_date and self.end_date) else (self.end_date - self.start_date).total_seconds()

    @property
    def key(self) -> InstanceKey:
        return self.run_after, self.run_key, self.task_index, self.map_index


@dataclass(frozen=True, slots=True)
class InstancePage:
    """Found instances. `next` is the key after which to go on, None at the end; `searched_to`: of the run that was
    looked at last, if the page is not full and there is more."""

    rows: list[InstanceRow]
    next: InstanceKey | None
    searched_to: datetime | None


# Indexes: as of the list of runs; then the primary key of task_instance, once for each run, until there are enough.
async def page_of_instances(
    db: Database,
    wanted: WantedInstances,
    *,
    after: InstanceKey | None = None,
    limit: int = 50,
    most: int = MOST_SEARCHED,
    seen: Seen = None,
) -> InstancePage:
    """Task instances by their run's `run_after`, newest first, then in the order of the DAG, after the one with that
    key; looks at no more than `most`."""
    wanted = replace(wanted, runs=await resolved(db, wanted.runs))
    looked_at = _looked_at(wanted, after, most, seen)
    if not wanted.narrows:
        rows = [_row(row) for row in await fetch(db, _page(looked_at.subquery(), wanted).limit(limit + 1))]
        if len(rows) > limit:
            return InstancePage(rows[:limit], rows[limit - 1].key, None)
    found = await fetch(db, _page_and_end(looked_at.cte("looked_at"), wanted, limit + 1, most))
    rows = [_row(row) for row in found if row.run_key is not None]
    if len(rows) > limit:
        return InstancePage(rows[:limit], rows[limit - 1].key, None)
    end = found[0]
    if end.last_run_after is None:
        return InstancePage(rows, None, None)
    key = (end.last_run_after, end.last_run_key, end.last_task_index, end.last_map_index)
    return InstancePage(rows, key, end.last_run_after)


async def find_key(db: Database, dag_id: str, run_id: str, task_id: str, map_index: int) -> InstanceKey:
    """The place of a task instance in a list. Raises NotFound."""
    run = await find_run(db, dag_id, run_id)
    of_version = select(version_task.c.task_index).where(version_task.c.version_id == run.version_key)
    rows = await fetch(db, of_version.where(version_task.c.task_id == task_id))
    if not rows:
        raise NotFound(f"Run {run_id!r} of DAG {dag_id!r} has no task {task_id!r}.")
    return run.run_after, run.key, rows[0].task_index, map_index


def _page_and_end(looked_at: CTE, wanted: WantedInstances, limit: int, most: int) -> Select[Any]:
    """The page, each row with the place of the last instance that was looked at if these were `most`; at least a row.

    The instances are looked at once for both.
    """
    page = _page(looked_at, wanted).limit(limit).subquery("page")
    places = (looked_at.c[name].label(f"last_{name}") for name in ("run_after", "run_key", "task_index", "map_index"))
    last = select(*places).offset(most - 1).limit(1).subquery("last")
    always = select(literal(1).label("one")).subquery("always")
    query: Select[Any] = select(page, last).select_from(always.outerjoin(last, true()).outerjoin(page, true()))
    return query.order_by(*_in_order(page))


def _in_order(instances: FromClause) -> tuple[ColumnElement[Any], ...]:
    return (
        instances.c.run_after.desc(),
        instances.c.run_key.desc(),
        instances.c.task_index,
        instances.c.map_index,
    )


def _looked_at(wanted: WantedInstances, after: InstanceKey | None, most: int, seen: Seen) -> Select[Any]:
    """The first instances of the wanted runs, after the one with the key `after`, in order."""
    key, place = (dag_run.c.run_after, dag_run.c.id), (task_instance.c.task_index, task_instance.c.map_index)
    query: Select[Any] = select(
        dag_run.c.dag_id,
        dag_run.c.run_id.label("run_name"),
        dag_run.c.run_type,
        dag_run.c.run_after,
        dag_run.c.version_id,
        dag_run.c.id.label("run_key"),
    ).order_by(*(column.desc() for column in key))
    of_runs = replace(wanted.runs, states=wanted.runs.states or _states_of_runs(wanted))
    query = chosen_runs(query, of_runs, seen).where(is_in_state(of_runs))
    if after is not None:
        query = query.where(tuple_(*key) <= tuple_(*after[:2]))
    runs = query.limit(most).subquery("runs")  # each has a row below, also without an instance
    of_run = select(*(task_instance.c[name] for name in _COLUMNS)).where(task_instance.c.run_id == runs.c.run_key)
    if after is not None:
        is_later_run = tuple_(runs.c.run_after, runs.c.run_key) < tuple_(*after[:2])
        of_run = of_run.where(or_(is_later_run, tuple_(*place) > tuple_(*after[2:])))
    instances = of_run.order_by(*place).lateral("instances")
    columns = [column for column in instances.c if column.name not in ("task_index", "map_index")]
    index, map_index = (func.coalesce(instances.c[column.name], -1).label(column.name) for column in place)
    found = select(runs, *columns, index, map_index).select_from(runs.outerjoin(instances, true()))
    found = found.order_by(runs.c.run_after.desc(), runs.c.run_key.desc(), index, map_index)
    return found.limit(most)


def _states_of_runs(wanted: WantedInstances) -> tuple[str, ...]:
    """The states of runs that have instances in the wanted states; none: all."""
    return ("queued", "running") if wanted.states and _UNDER_WAY.issuperset(wanted.states) else ()


def _page(looked_at: FromClause, wanted: WantedInstances) -> Select[Any]:
    """Those of the instances that are wanted, with the names of their tasks, in order."""
    note = and_(
        task_note.c.run_id == looked_at.c.run_key,
        task_note.c.task_index == looked_at.c.task_index,
        task_note.c.map_index == looked_at.c.map_index,
    )
    is_instance = looked_at.c.try_number.is_not(None)
    query = (
        select(
            looked_at,
            version_task.c.task_id,
            version_task.c.operator,
            version_task.c.pool,
            version_task.c.display_name.label("task_display_name"),
            NAMED_DAG.c.display_name.label("dag_display_name"),
            task_note.c.note,
        )
        .outerjoin(version_task, _is_task_of(looked_at))
        .outerjoin(NAMED_DAG, NAMED_DAG.c.dag_id == looked_at.c.dag_id)
        .outerjoin(task_note, note)
        .order_by(*_in_order(looked_at))
    )
    return _of_tasks(query, looked_at, wanted).where(is_instance, _in_states(looked_at, wanted))


def _is_task_of(instances: FromClause) -> ColumnElement[bool]:
    same_version = version_task.c.version_id == instances.c.version_id
    return and_(same_version, version_task.c.task_index == instances.c.task_index)


def _of_tasks(query: Select[Any], instances: FromClause, wanted: WantedInstances) -> Select[Any]:
    """The query for the wanted instances, in any state; it joins `version_task`."""
    if wanted.task_id is not None:
        query = query.where(version_task.c.task_id.like(like(f"*{wanted.task_id}*"), escape="\\"))
    query = query.where(
        *among(version_task.c.operator, wanted.operators, wanted.without.operators),
        *among(version_task.c.pool, wanted.pools, wanted.without.pools),
    )
    if wanted.reason is not None:
        query = query.where(instances.c.reason.ilike(like(f"*{wanted.reason}*"), escape="\\"))
    return lasting(query, instances.c.start_date, instances.c.end_date, wanted.min_seconds, wanted.max_seconds)


def _in_states(instances: FromClause, wanted: WantedInstances) -> ColumnElement[bool]:
    state = func.coalesce(instances.c.state, TaskState.NONE.value)
    return and_(true(), *among(state, wanted.states, wanted.without.states))


def _row(row: Any) -> InstanceRow:
    return InstanceRow(
        dag_id=row.dag_id,
        run_id=row.run_name,
        run_type=row.run_type,
        run_after=row.run_after,
        task_id=unknown_task(row.task_index) if row.task_id is None else row.task_id,
        map_index=row.map_index,
        state=shown_state(row.state),
        try_number=row.try_number,
        operator=row.operator or "",
        pool=row.pool or "",
        queued_at=row.queued_at,
        start_date=began(row.state, row.start_date, row.end_date),
        end_date=row.end_date,
        reason=row.reason,
        note=row.note,
        run_key=row.run_key,
        task_index=row.task_index,
        dag_display_name=row.dag_display_name,
        task_display_name=row.task_display_name,
    )


async def instance_facets(
    db: Database, wanted: WantedInstances, *, most: int = MOST_SAMPLED, seen: Seen = None
) -> Facets:
    """The values of the filters among the newest `most` instances of the wanted runs, with their numbers."""
    wanted = replace(wanted, runs=await resolved(db, wanted.runs))
    looked_at = _looked_at(wanted, None, most + 1, seen).cte("looked_at")
    columns = select(
        looked_at.c.dag_id,
        looked_at.c.run_type,
        looked_at.c.reason,
        func.coalesce(looked_at.c.state, TaskState.NONE.value).label("state"),
        version_task.c.operator,
        version_task.c.pool,
        _in_states(looked_at, wanted).label("is_wanted"),
    ).outerjoin(version_task, _is_task_of(looked_at))
    columns = columns.where(looked_at.c.try_number.is_not(None))
    sample = _of_tasks(columns, looked_at, wanted).cte("sample")
    of_wanted = ("dag_id", "run_type", "operator", "pool")
    parts = [
        counted("state", sample, sample.c.state),
        *(counted(name, sample, sample.c[name], sample.c.is_wanted) for name in of_wanted),
        counted_errors(sample, sample.c.reason, sample.c.is_wanted),
        size_of(looked_at),
    ]
    return await read_facets(db, parts, most)
