"""The upcoming runs of a DAG, and the calendar of past ones."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Annotated, Final

from fastapi import APIRouter, Query
from pydantic import BaseModel

from aiosched.core.creation.next_run import coming_runs
from aiosched.core.graph.spec import DagSpec
from aiosched.core.values.states import RunState
from aiosched.db.queries import run_queries
from aiosched.db.queries.queries import get_dag
from aiosched.db.queries.version_queries import get_version
from aiosched.db.server.engine import Database
from aiosched.db.statements.schedules import schedule_positions
from aiosched.errors import DagError
from aiosched.web.api.base.models import Instant, Name, Stored
from aiosched.web.auth.access import Role, RoleScope, allow
from aiosched.web.requests.request_client import TheRequestClient

router: APIRouter = APIRouter(tags=["DAGs"])

_MOST_COMING: Final = 400
_COMING_DAYS: Final = 92


class Coming(BaseModel):
    """An upcoming run; `note` explains the effect of a clock change on it."""

    logical_date: Instant
    data_interval_start: Instant
    data_interval_end: Instant
    run_after: Instant
    note: str | None


class ComingList(BaseModel):
    """Upcoming runs, in order."""

    items: list[Coming]


@router.get("/dags/{dag_id}/next")
@allow(Role.VIEWER, RoleScope.DAG)
async def next_runs(
    request_client: TheRequestClient, dag_id: Name, n: Annotated[int, Query(ge=1, le=1000)] = 5
) -> ComingList:
    """The next scheduled runs, as `aiosched dags next` shows them."""
    spec = (await get_version(request_client.db, dag_id)).spec
    return ComingList(items=await _coming(request_client.db, spec, request_client.clock.now(), n))


async def _coming(db: Database, spec: DagSpec, now: datetime, n: int) -> list[Coming]:
    if not (await get_dag(db, spec.dag_id)).is_in_its_file:
        return []  # whatever its last version says
    async with db.acquire() as conn:
        position = (await schedule_positions(conn, [spec], now))[spec.dag_id]
    return [
        Coming(
            logical_date=one.run.logical_date,
            data_interval_start=one.run.interval.start,
            data_interval_end=one.run.interval.end,
            run_after=one.run.run_after,
            note=one.note,
        )
        for one in coming_runs(spec, position, now=now, n=n)
    ]


class Day(BaseModel):
    """The runs of one day (UTC) by state, and the number of upcoming ones."""

    date: date
    counts: dict[Stored[RunState], int]
    coming: int = 0


class Calendar(BaseModel):
    """The days of a year that have runs, in order."""

    year: int
    days: list[Day]


@router.get("/dags/{dag_id}/calendar")
@allow(Role.VIEWER, RoleScope.DAG)
async def calendar(
    request_client: TheRequestClient, dag_id: Name, year: Annotated[int | None, Query(ge=1970, le=9998)] = None
) -> Calendar:
    """The runs of a year by day, and the upcoming ones of the next three months."""
    now = request_client.clock.now()
    year = year or now.year
    spec = (await get_version(request_client.db, dag_id)).spec
    since, until = datetime(year, 1, 1, tzinfo=UTC), datetime(year + 1, 1, 1, tzinfo=UTC)
    days: dict[date, Day] = {}
    for row in await run_queries.read_days(request_client.db, dag_id, since, until):
        day = days.setdefault(row.day, Day(date=row.day, counts={}))
        day.counts[row.state] = row.number
    try:
        coming = await _coming(request_client.db, spec, now, _MOST_COMING)
    except DagError:
        coming = []  # a custom timetable that fails has no upcoming runs
    for one in coming:
        if since <= one.logical_date < until and one.run_after < now + timedelta(days=_COMING_DAYS):
            key = one.logical_date.astimezone(UTC).date()
            days.setdefault(key, Day(date=key, counts={})).coming += 1
    return Calendar(year=year, days=sorted(days.values(), key=lambda day: day.date))
