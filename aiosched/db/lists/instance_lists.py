"""Lists of task instances across DAGs, in the order of their runs. Read only.

`task_instance` has no index but its key, which keeps its updates cheap. So a list follows its runs, newest first, and
reads their instances by key; a page looks at a bounded number of them, and says up to where it has looked.
Source: docs/decisions/0047-lists-search-a-bounded-part.md.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from sqlalchemy import ColumnElement, Select, Subquery, and_, func, or_, select, true, tuple_

from aiosched.core.values.states import TaskState
from aiosched.db.access.sight import Seen
from aiosched.db.lists.chosen import WantedRuns, chosen_runs, in_state, lasting
from aiosched.db.lists.facets import Facets, counted, read_facets, size_of
from aiosched.db.queries.queries import fetch, like, shown_state, unknown_task
from aiosched.db.schema.schema import dag_run, task_instance, task_note, version_task
from aiosched.db.server.engine import Database

MOST_SEARCHED: Final = 10_000  # instances that one page looks at
MOST_SAMPLED: Final = 5_000  # instances of which the values are counted, the newest

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
    operator: str | None = None
    pool: str | None = None
    min_seconds: float | None = None
    max_seconds: float | None = None
    reason: str | None = None  # part of why it waits, failed or was skipped


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
    looked_at = _looked_at(wanted, after, most, seen)
    rows = [_row(row) for row in await fetch(db, _page(looked_at, wanted).limit(limit + 1))]
    if len(rows) > limit:
        return InstancePage(rows[:limit], rows[limit - 1].key, None)
    place = select(looked_at.c.run_after, looked_at.c.run_key, looked_at.c.task_index, looked_at.c.map_index)
    last = await fetch(db, place.offset(most - 1).limit(1))
    if not last:
        return InstancePage(rows, None, None)
    instant, run, task_index, map_index = last[0]
    return InstancePage(rows, (instant, run, task_index, map_index), instant)


def _looked_at(wanted: WantedInstances, after: InstanceKey | None, most: int, seen: Seen) -> Subquery:
    """The first instances of the wanted runs, after the one with the key `after`, in order."""
    query = select(
        dag_run.c.dag_id,
        dag_run.c.run_id.label("run_name"),
        dag_run.c.run_type,
        dag_run.c.run_after,
        dag_run.c.version_id,
        dag_run.c.id.label("run_key"),
        *(task_instance.c[name] for name in _COLUMNS),
    ).join(task_instance, task_instance.c.run_id == dag_run.c.id)
    query = in_state(chosen_runs(query, wanted.runs, seen), wanted.runs.states or _states_of_runs(wanted))
    run, place = (dag_run.c.run_after, dag_run.c.id), (task_instance.c.task_index, task_instance.c.map_index)
    if after is not None:
        this, last = tuple_(*after[:2]), tuple_(*after[2:])
        query = query.where(tuple_(*run) <= this, or_(tuple_(*run) < this, tuple_(*place) > last))
    query = query.order_by(*(column.desc() for column in run), *place)
    return query.limit(most).subquery("looked_at")


def _states_of_runs(wanted: WantedInstances) -> tuple[str, ...]:
    """The states of runs that have instances in the wanted states; none: all."""
    return ("queued", "running") if wanted.states and _UNDER_WAY.issuperset(wanted.states) else ()


def _page(looked_at: Subquery, wanted: WantedInstances) -> Select[Any]:
    """Those of the instances that are wanted, with the names of their tasks, in order."""
    note = and_(
        task_note.c.run_id == looked_at.c.run_key,
        task_note.c.task_index == looked_at.c.task_index,
        task_note.c.map_index == looked_at.c.map_index,
    )
    query = (
        select(looked_at, version_task.c.task_id, version_task.c.operator, version_task.c.pool, task_note.c.note)
        .outerjoin(version_task, _is_task_of(looked_at))
        .outerjoin(task_note, note)
        .order_by(looked_at.c.run_after.desc(), looked_at.c.run_key.desc(), looked_at.c.task_index,
                  looked_at.c.map_index)
    )  # fmt: skip
    return _of_tasks(query, looked_at, wanted).where(_in_states(looked_at, wanted))


def _is_task_of(instances: Subquery) -> ColumnElement[bool]:
    same_version = version_task.c.version_id == instances.c.version_id
    return and_(same_version, version_task.c.task_index == instances.c.task_index)


def _of_tasks(query: Select[Any], instances: Subquery, wanted: WantedInstances) -> Select[Any]:
    """The query for the wanted instances, in any state; it joins `version_task`."""
    if wanted.task_id is not None:
        query = query.where(version_task.c.task_id.like(like(f"*{wanted.task_id}*"), escape="\\"))
    if wanted.operator is not None:
        query = query.where(version_task.c.operator == wanted.operator)
    if wanted.pool is not None:
        query = query.where(version_task.c.pool == wanted.pool)
    if wanted.reason is not None:
        query = query.where(instances.c.reason.ilike(like(f"*{wanted.reason}*"), escape="\\"))
    return lasting(query, instances.c.start_date, instances.c.end_date, wanted.min_seconds, wanted.max_seconds)


def _in_states(instances: Subquery, wanted: WantedInstances) -> ColumnElement[bool]:
    if not wanted.states:
        return true()
    named = [state.value for state in wanted.states if state is not TaskState.NONE]
    return or_(instances.c.state.in_(named), instances.c.state.is_(None) & (TaskState.NONE in wanted.states))


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
        start_date=row.start_date,
        end_date=row.end_date,
        reason=row.reason,
        note=row.note,
        run_key=row.run_key,
        task_index=row.task_index,
    )


async def instance_facets(
    db: Database, wanted: WantedInstances, *, most: int = MOST_SAMPLED, seen: Seen = None
) -> Facets:
    """The values of the filters among the newest `most` instances of the wanted runs, with their numbers."""
    looked_at = _looked_at(wanted, None, most + 1, seen)
    columns = select(
        looked_at.c.dag_id,
        looked_at.c.run_type,
        looked_at.c.reason,
        func.coalesce(looked_at.c.state, TaskState.NONE.value).label("state"),
        version_task.c.operator,
        version_task.c.pool,
        _in_states(looked_at, wanted).label("is_wanted"),
    ).outerjoin(version_task, _is_task_of(looked_at))
    sample = _of_tasks(columns, looked_at, wanted).cte("sample")
    of_wanted = ("dag_id", "run_type", "reason", "operator", "pool")
    parts = [
        counted("state", sample, sample.c.state),
        *(counted(name, sample, sample.c[name], sample.c.is_wanted) for name in of_wanted),
        size_of(looked_at),
    ]
    return await read_facets(db, parts, most)
