"""Pictures of a DAG: its last runs as bars, grid, graph, calendar, and the runs to come."""

from __future__ import annotations

import functools
from collections import Counter, defaultdict
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Query
from pydantic import BaseModel

from aiosched.core.run_creation import restriction_of
from aiosched.core.spec import DagSpec, decode_spec, encode_spec
from aiosched.core.states import FINISHED, RunState, RunType, TaskState
from aiosched.core.timetables import upcoming
from aiosched.db import queries, run_queries
from aiosched.db import runs as run_statements
from aiosched.db.engine import Database
from aiosched.db.queries import RunRow
from aiosched.db.run_queries import Cell
from aiosched.db.version_queries import get_version
from aiosched.errors import DagError
from aiosched.web.access import Role, allow
from aiosched.web.api.models import Instant, Name
from aiosched.web.api.runs import Run
from aiosched.web.etags import RARELY
from aiosched.web.gateway import TheGateway
from aiosched.web.layout import Layout, lay_out
from aiosched.web.paging import Cursor, decode_cursor, encode_cursor

router = APIRouter(tags=["DAGs"])

_MOST_COMING: Final = 400
_COMING_DAYS: Final = 92

# ---- bars ----


class RunBar(BaseModel):
    """One of the last runs."""

    run_id: str
    state: RunState
    run_after: Instant
    seconds: float | None


class Statistics(BaseModel):
    """The last runs of a DAG (at most 30, oldest first), and what they say: rate of success, usual durations in s."""

    dag_id: str
    last_runs: list[RunBar]
    success_rate: float | None
    p50: float | None
    p95: float | None


class StatisticsList(BaseModel):
    """Statistics of several DAGs."""

    items: list[Statistics]


@router.get("/dag-statistics")
@allow(Role.VIEWER)
async def statistics(
    gateway: TheGateway, dag_id: Annotated[list[str], Query(min_length=1, max_length=200)]
) -> StatisticsList:
    """The last runs of DAGs, as bars and figures."""
    bars = await run_queries.last_runs(gateway.db, [one for one in dict.fromkeys(dag_id) if "\0" not in one])
    by_dag: dict[str, list[run_queries.Bar]] = defaultdict(list)
    for bar in bars:
        by_dag[bar.dag_id].append(bar)
    return StatisticsList(items=[_statistics(one, by_dag[one]) for one in dict.fromkeys(dag_id)])


def _statistics(dag_id: str, bars: Sequence[run_queries.Bar]) -> Statistics:
    ended = [bar for bar in bars if bar.state in (RunState.SUCCESS, RunState.FAILED)]
    seconds = sorted(bar.seconds for bar in ended if bar.seconds is not None)
    good = sum(bar.state == RunState.SUCCESS for bar in ended)
    return Statistics(
        dag_id=dag_id,
        last_runs=[RunBar.model_validate(bar, from_attributes=True) for bar in bars],
        success_rate=good / len(ended) if ended else None,
        p50=_quantile(seconds, 0.5),
        p95=_quantile(seconds, 0.95),
    )


def _quantile(ordered: Sequence[float], share: float) -> float | None:
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)] if ordered else None


# ---- what comes ----


class Coming(BaseModel):
    """A run to come; `note` says in words what a clock change does to it."""

    logical_date: Instant
    data_interval_start: Instant
    data_interval_end: Instant
    run_after: Instant
    note: str | None


class ComingList(BaseModel):
    """Runs to come, in order."""

    items: list[Coming]


@router.get("/dags/{dag_id}/next")
@allow(Role.VIEWER)
async def next_runs(gateway: TheGateway, dag_id: Name, n: Annotated[int, Query(ge=1, le=1000)] = 5) -> ComingList:
    """The next scheduled runs, as `aiosched dags next` tells them."""
    spec = (await get_version(gateway.db, dag_id)).spec
    return ComingList(items=await _coming(gateway.db, spec, gateway.clock.now(), n))


async def _coming(db: Database, spec: DagSpec, now: datetime, n: int) -> list[Coming]:
    async with db.acquire() as conn:
        last = (await run_statements.latest_automated_intervals(conn, [spec.dag_id])).get(spec.dag_id)
    return [
        Coming(
            logical_date=one.run.logical_date,
            data_interval_start=one.run.interval.start,
            data_interval_end=one.run.interval.end,
            run_after=one.run.run_after,
            note=one.note,
        )
        for one in upcoming(spec.timetable, restriction=restriction_of(spec), now=now, n=n, last=last)
    ]


class Day(BaseModel):
    """The runs of one day (UTC) of the year, by state, and how many are to come."""

    date: date
    counts: dict[RunState, int]
    coming: int = 0


class Calendar(BaseModel):
    """The days of a year that have runs, in order."""

    year: int
    days: list[Day]


@router.get("/dags/{dag_id}/calendar")
@allow(Role.VIEWER)
async def calendar(
    gateway: TheGateway, dag_id: Name, year: Annotated[int | None, Query(ge=1970, le=9998)] = None
) -> Calendar:
    """The runs of a year by day, and those to come in the next three months."""
    now = gateway.clock.now()
    year = year or now.year
    spec = (await get_version(gateway.db, dag_id)).spec
    since, until = datetime(year, 1, 1, tzinfo=UTC), datetime(year + 1, 1, 1, tzinfo=UTC)
    days: dict[date, Day] = {}
    for row in await run_queries.read_days(gateway.db, dag_id, since, until):
        day = days.setdefault(row.day, Day(date=row.day, counts={}))
        day.counts[RunState(row.state)] = row.number
    try:
        coming = await _coming(gateway.db, spec, now, _MOST_COMING)
    except DagError:
        coming = []  # a timetable of an author's that fails has no runs to come
    for one in coming:
        if since <= one.logical_date < until and one.run_after < now + timedelta(days=_COMING_DAYS):
            key = one.logical_date.astimezone(UTC).date()
            days.setdefault(key, Day(date=key, counts={})).coming += 1
    return Calendar(year=year, days=sorted(days.values(), key=lambda day: day.date))


# ---- the grid ----


class Row(BaseModel):
    """A row of the grid: a task, or a group that holds the rows below it with a greater depth."""

    id: str
    label: str
    kind: Literal["task", "group"]
    depth: int
    is_mapped: bool
    task_index: int | None  # in the newest version, as news of runs name tasks; null for groups


class Grid(BaseModel):
    """Runs across (oldest first), tasks down.

    `cells` has for each run what each row is: a state, for several instances an object of counts by state,
    null where the run does not have the task. `rows` are those of the newest version.
    """

    version: int
    rows: list[Row]
    runs: list[Run]
    cells: list[list[str | dict[str, int] | None]]
    next_cursor: str | None


@router.get("/dags/{dag_id}/grid")
@allow(Role.VIEWER)
async def grid(
    gateway: TheGateway,
    dag_id: Name,
    state: Annotated[list[RunState] | None, Query(max_length=10)] = None,
    run_type: Annotated[list[RunType] | None, Query(max_length=10)] = None,
    limit: Annotated[int, Query(ge=1, le=365, description="runs")] = 30,
    cursor: Cursor = None,
) -> Grid:
    """The last runs with the states of all their tasks. The cursor leads to older runs."""
    newest = await get_version(gateway.db, dag_id)
    spec = newest.spec
    before = decode_cursor(cursor, tuple[int])
    wanted = run_queries.RunFilter(dag_id, tuple(map(str, state or ())), tuple(map(str, run_type or ())))
    runs = await run_queries.find_runs(gateway.db, wanted, before=before[0] if before else None, limit=limit + 1)
    more = encode_cursor(runs[limit - 1].key) if len(runs) > limit else None
    runs = runs[:limit][::-1]
    rows = grid_rows(spec)
    return Grid(
        version=newest.number,
        rows=rows,
        runs=[Run.model_validate(run) for run in runs],
        cells=await _cells(gateway.db, spec, runs, rows),
        next_cursor=more,
    )


def grid_rows(spec: DagSpec) -> list[Row]:
    """Tasks in the order of the DAG, each group before what it holds."""
    parents = {group.group_id: group.parent_id for group in spec.groups}
    members: dict[str | None, list[tuple[str, bool]]] = defaultdict(list)
    seen: set[str] = set()

    def enter(group: str | None) -> None:
        if group is not None and group not in seen:
            seen.add(group)
            enter(parents.get(group))
            members[parents.get(group)].append((group, True))

    mapped_groups = {group.group_id for group in spec.groups if group.mapping is not None}
    mapped = {task.task_id for task in spec.tasks if task.mapping is not None}
    for task in spec.tasks:
        enter(task.group_id)
        members[task.group_id].append((task.task_id, False))
        if any(group in mapped_groups for group in _groups_of(task.group_id, parents)):
            mapped.add(task.task_id)
    rows: list[Row] = []
    index = {task.task_id: position for position, task in enumerate(spec.tasks)}

    def walk(container: str | None, depth: int) -> None:
        for each, is_group in members[container]:
            label = each.removeprefix(f"{container}.") if container else each
            is_mapped = each in (mapped_groups if is_group else mapped)
            kind: Literal["task", "group"] = "group" if is_group else "task"
            row_index = None if is_group else index[each]
            rows.append(Row(id=each, label=label, kind=kind, depth=depth, is_mapped=is_mapped, task_index=row_index))
            if is_group:
                walk(each, depth + 1)

    walk(None, 0)
    return rows


def _groups_of(group: str | None, parents: dict[str, str | None]) -> list[str]:
    found: list[str] = []
    while group is not None:
        found.append(group)
        group = parents.get(group)
    return found


async def _cells(
    db: Database, spec: DagSpec, runs: Sequence[RunRow], rows: Sequence[Row]
) -> list[list[str | dict[str, int] | None]]:
    states = await _states(db, runs)
    parents = {group.group_id: group.parent_id for group in spec.groups}
    around = {task.task_id: _groups_of(task.group_id, parents) for task in spec.tasks}
    cells: list[list[str | dict[str, int] | None]] = []
    for run in runs:
        of_group: dict[str, Counter[str]] = defaultdict(Counter)
        for task_id, counts in states[run.key].items():
            for group in around.get(task_id, ()):
                of_group[group].update(counts)
        found = [of_group[row.id] if row.kind == "group" else states[run.key].get(row.id) for row in rows]
        cells.append([_shown(counts, row) for counts, row in zip(found, rows, strict=True)])
    return cells


def _shown(counts: Counter[str] | None, row: Row) -> str | dict[str, int] | None:
    if not counts:
        return None
    if row.kind == "task" and not row.is_mapped and counts.total() == 1:
        return next(iter(counts))
    return dict(counts)


async def _states(db: Database, runs: Sequence[RunRow]) -> dict[int, dict[str, Counter[str]]]:
    """For each run, by task id, how many instances are in each state."""
    names = await run_queries.read_task_ids(db, {run.version_key for run in runs})
    version = {run.key: run.version_key for run in runs}
    found: dict[int, dict[str, Counter[str]]] = {run.key: defaultdict(Counter) for run in runs}
    for cell in await run_queries.read_cells(db, list(version)):
        found[cell.run][names[version[cell.run]][cell.task_index]][_state(cell)] += cell.number
    return found


def _state(cell: Cell) -> str:
    return TaskState.of(cell.state).value


# ---- the graph ----


class GraphNode(BaseModel):
    """A box: a task, or a group (folded: it stands for all that is in it). `counts` are states in the asked run."""

    id: str
    label: str
    kind: Literal["task", "group"]
    parent: str | None
    x: float
    y: float
    width: float
    height: float
    is_folded: bool
    is_mapped: bool
    operator: str | None
    trigger_rule: str | None
    counts: dict[str, int] | None = None


class GraphEdge(BaseModel):
    """A line between two boxes."""

    source: str
    target: str
    label: str | None
    points: list[tuple[float, float]]


class DagGraph(BaseModel):
    """The boxes (groups before what is in them), the lines, and the ids on the critical path of the asked run."""

    version: int
    width: float
    height: float
    nodes: list[GraphNode]
    edges: list[GraphEdge]
    critical_path: list[str]


@router.get("/dags/{dag_id}/graph", dependencies=[RARELY])
@allow(Role.VIEWER)
async def graph(
    gateway: TheGateway,
    dag_id: Name,
    version: Annotated[int | None, Query(ge=1, lt=2**31)] = None,
    run: Annotated[str | None, Query(max_length=250, pattern=r"^[^\x00]+$", description="overlay of this run")] = None,
    fold: Annotated[list[str] | None, Query(max_length=500, description="groups to fold")] = None,
) -> DagGraph:
    """The tasks of a DAG with their places; with `run` in the version of that run, with its states."""
    row = None if run is None else await queries.find_run(gateway.db, dag_id, run)
    found = await get_version(gateway.db, dag_id, version if row is None else row.version)
    spec = found.spec
    layout = _placed(encode_spec(spec), frozenset(fold or ()))
    counts: dict[str, Counter[str]] = {}
    path: list[str] = []
    if row is not None:
        counts = (await _states(gateway.db, [row]))[row.key]
        path = critical_path(spec, await run_queries.read_segments(gateway.db, row.key, limit=20_000))
    return _graph(spec, layout, found.number, counts, path)


@functools.lru_cache(maxsize=32)
def _placed(document: bytes, folded: frozenset[str]) -> Layout:
    spec = decode_spec(document)
    groups = {group.group_id: group.parent_id for group in spec.groups}
    tasks = {task.task_id: task.group_id if task.group_id in groups else None for task in spec.tasks}
    edges = [(up, task.task_id) for task in spec.tasks for up in task.upstream]
    labels = {each: _label(each, group) for each, group in (*tasks.items(), *groups.items())}
    return lay_out(tasks, edges, groups, labels=labels, folded=folded)


def _label(each: str, group: str | None) -> str:
    return each.removeprefix(f"{group}.") if group else each


def _graph(spec: DagSpec, layout: Layout, version: int, counts: dict[str, Counter[str]], path: list[str]) -> DagGraph:
    tasks = {task.task_id: task for task in spec.tasks}
    groups = {group.group_id: group for group in spec.groups}
    parents = {group.group_id: group.parent_id for group in spec.groups}
    folded: dict[str, Counter[str]] = defaultdict(Counter)
    for task_id, found in counts.items():
        for around_it in _groups_of(tasks[task_id].group_id, parents) if task_id in tasks else ():
            folded[around_it].update(found)
    nodes: list[dict[str, Any]] = []
    for box in layout.boxes:
        task, group = tasks.get(box.id), groups.get(box.id)
        states = folded.get(box.id) if box.is_group else counts.get(box.id)
        mapping = group.mapping if group is not None else task.mapping if task is not None else None
        around = group.parent_id if group is not None else task.group_id if task is not None else None
        nodes.append(
            {
                "id": box.id,
                "label": _label(box.id, around),
                "kind": "group" if box.is_group else "task",
                "parent": box.parent,
                "x": round(box.x, 1),
                "y": round(box.y, 1),
                "width": round(box.width, 1),
                "height": round(box.height, 1),
                "is_folded": box.is_folded,
                "is_mapped": mapping is not None,
                "operator": None if task is None else task.operator,
                "trigger_rule": None if task is None else task.trigger_rule,
                "counts": dict(states) if states else None,
            }
        )
    edges = [
        GraphEdge(
            source=line.source,
            target=line.target,
            label=spec.edge_labels.get(f"{line.source}>{line.target}"),
            points=[(round(x, 1), round(y, 1)) for x, y in line.points],
        )
        for line in layout.lines
    ]
    return DagGraph(
        version=version,
        width=layout.width,
        height=layout.height,
        nodes=[GraphNode.model_validate(node) for node in nodes],
        edges=edges,
        critical_path=path,
    )


def critical_path(spec: DagSpec, segments: Sequence[run_queries.Segment]) -> list[str]:
    """The tasks that the end of a run waited for: from the one that ended last back to who it waited for, in order."""
    ends: dict[int, datetime] = {}
    for segment in segments:
        if segment.end_date is not None and TaskState.of(segment.state) in FINISHED:
            latest = ends.get(segment.task_index)
            ends[segment.task_index] = segment.end_date if latest is None else max(latest, segment.end_date)
    index = {task.task_id: i for i, task in enumerate(spec.tasks)}
    if not ends:
        return []
    each: int | None = max(ends, key=lambda i: ends[i])
    path: list[str] = []
    while each is not None:
        path.append(spec.tasks[each].task_id)
        before = [index[up] for up in spec.tasks[each].upstream if index[up] in ends]
        each = max(before, key=lambda i: ends[i], default=None)
    return path[::-1]
