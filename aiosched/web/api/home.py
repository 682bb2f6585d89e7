"""The first page: health, what runs and waits, what needs attention, and a timeline of past and upcoming runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from itertools import chain
from typing import Annotated, Final

from fastapi import APIRouter, Query
from pydantic import BaseModel

from aiosched.core.values.states import RunState, RunType
from aiosched.db.alerts.alerts import count_open
from aiosched.db.lists.chosen import failed_since
from aiosched.db.lists.dag_lists import LATE_AFTER
from aiosched.db.lists.run_lists import count_runs
from aiosched.db.names.days import span_of
from aiosched.db.people.human_inputs import count_waiting
from aiosched.db.queries import home_queries
from aiosched.db.queries.queries import read_display_names
from aiosched.db.queries.schedulers import SchedulerRow
from aiosched.web.api.attention import Attention, of_dags, of_lost_commits, of_schedulers, shown_part
from aiosched.web.api.base.models import FilterDayOrInstant, Instant, PartStatus, Resource, Stored
from aiosched.web.auth.access import Role, RoleScope, allow
from aiosched.web.auth.visibility import TheVisible, Visible
from aiosched.web.requests.request_client import RequestClient, ThePrimary, TheRequestClient
from aiosched.web.requests.seen_files import count_import_errors
from aiosched.web.views import health
from aiosched.web.views.health import Status

router: APIRouter = APIRouter(tags=["Home"])

_MOST: Final = 20  # DAGs that are late
_MOST_COUNTED: Final = 100  # of a badge
_COUNTED: Final = ("running", "queued", "scheduled", "deferred")


class Counts(BaseModel):
    """Totals: task instances of all schedulers (as of their last heartbeats), runs, and what is late.

    With `failed_runs_24h_more` at least so many runs failed.
    """

    running: int
    queued: int
    scheduled: int
    deferred: int
    oldest_queued_at: Instant | None
    running_runs: int
    queued_runs: int
    failed_runs_24h: int
    failed_runs_24h_more: bool = False
    late_dags: int


class Summary(BaseModel):
    """The content of the first page. `dag_display_names`: of those DAGs that it names and that have one."""

    status: Status
    components: dict[str, PartStatus]
    counts: Counts
    attention: list[Attention]
    dag_display_names: dict[str, str]


class Badges(BaseModel):
    """Questions that wait for an answer, alerts that are open, and DAG files that cannot be imported."""

    inputs: int
    alerts: int
    import_errors: int


class TimelineRun(Resource):
    """A run on the timeline; one without an end is still running."""

    dag_id: str
    run_id: str
    run_type: Stored[RunType]
    state: Stored[RunState]
    start_date: Instant | None
    end_date: Instant | None


class TimelineComing(Resource):
    """The next scheduled run of a DAG."""

    dag_id: str
    logical_date: Instant | None
    run_after: Instant


class Timeline(BaseModel):
    """Runs within a period (latest start first), and upcoming ones (in order).

    `dag_display_names`: of those of their DAGs that have one.
    """

    since: Instant
    until: Instant
    runs: list[TimelineRun]
    coming: list[TimelineComing]
    dag_display_names: dict[str, str]


@router.get("/summary")
@allow(Role.VIEWER, RoleScope.SEEN)
async def summary(request_client: ThePrimary, visible: TheVisible) -> Summary:
    """The state of the system, and of the DAGs that one may see; details of its parts are for those who see all."""
    db, now = request_client.db, request_client.clock.now()
    found = await health.examine(db)
    late = await home_queries.late_dags(db, now - LATE_AFTER, limit=_MOST, seen=visible.dags)
    running, queued = await home_queries.active_runs(db, seen=visible.dags)
    tasks, oldest = await _tasks(request_client, visible, found.schedulers)
    failed = await count_runs(db, failed_since(now - timedelta(days=1)), seen=visible.dags)
    counts = Counts(
        running=tasks["running"],
        queued=tasks["queued"],
        scheduled=tasks["scheduled"],
        deferred=tasks["deferred"],
        oldest_queued_at=oldest,
        running_runs=running,
        queued_runs=queued,
        failed_runs_24h=failed.number,
        failed_runs_24h_more=failed.more,
        late_dags=len(late),
    )
    attention = [
        *of_schedulers(found, visible),
        *await of_lost_commits(request_client),
        *await of_dags(request_client, visible, late),
    ]
    return Summary(
        status=found.status,
        components={name: shown_part(part, visible) for name, part in found.parts.items()},
        counts=counts,
        attention=attention,
        dag_display_names=await read_display_names(
            db, chain.from_iterable((one.dag_id, *one.dags) for one in attention)
        ),
    )


async def _tasks(
    request_client: RequestClient, visible: Visible, schedulers: Sequence[SchedulerRow]
) -> tuple[Mapping[str, int], datetime | None]:
    """The number of task instances by state, and since when the oldest one is queued.

    Of the whole fleet they are figures that its schedulers have published; of some DAGs they are counted.
    """
    if visible.dags is not None:
        counts, oldest = await home_queries.active_tasks(request_client.db, visible.dags)
        return Counter(counts), oldest
    figures = [row.figures or {} for row in schedulers]
    waits = [s for each in figures if (s := each.get("oldest_queued_seconds")) is not None]
    alive = [(row.figures or {}).get("tasks", {}) for row in schedulers if row.alive]
    total = Counter({state: sum(one.get(state, 0) for one in alive) for state in _COUNTED})
    return total, request_client.clock.now() - timedelta(seconds=max(waits)) if waits else None


@router.get("/badges")
@allow(Role.VIEWER, RoleScope.SEEN)
async def badges(request_client: TheRequestClient, visible: TheVisible) -> Badges:
    """How many things wait for somebody, for the navigation; each number is at most 100."""
    db, seen = request_client.db, visible.dags
    return Badges(
        inputs=await count_waiting(db, limit=_MOST_COUNTED, seen=seen),
        alerts=await count_open(db, limit=_MOST_COUNTED, seen=seen),
        import_errors=await count_import_errors(db, visible, limit=_MOST_COUNTED),
    )


@router.get("/timeline")
@allow(Role.VIEWER, RoleScope.SEEN)
async def timeline(
    request_client: TheRequestClient,
    visible: TheVisible,
    since: Annotated[FilterDayOrInstant | None, Query(description="default: six hours ago")] = None,
    until: Annotated[FilterDayOrInstant | None, Query(description="default: in six hours")] = None,
    limit: Annotated[int, Query(ge=1, le=2000)] = 500,
) -> Timeline:
    """Runs within a period, and the upcoming ones in it; days are those of UTC."""
    now = request_client.clock.now()
    given, ends = await span_of(request_client.db, None, since, until)
    first, final = given or now - timedelta(hours=6), ends or now + timedelta(hours=6)
    runs = await home_queries.recent_runs(request_client.db, first, final, limit=limit, seen=visible.dags)
    coming = await home_queries.coming_runs(request_client.db, max(first, now), final, limit=limit, seen=visible.dags)
    dag_ids = {*(run.dag_id for run in runs), *(run.dag_id for run in coming)}
    return Timeline(
        since=first,
        until=final,
        runs=[TimelineRun.model_validate(run) for run in runs],
        coming=[TimelineComing.model_validate(run) for run in coming],
        dag_display_names=await read_display_names(request_client.db, dag_ids),
    )
