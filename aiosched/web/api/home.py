"""The first page: health, what runs and waits, what needs attention, and a timeline of past and upcoming runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Annotated, Final, Literal

from fastapi import APIRouter, Query
from pydantic import BaseModel

from aiosched.core.slots.allocation import full_pool_words
from aiosched.core.values.durations import duration
from aiosched.core.values.states import RunState, RunType
from aiosched.db.finding.activity import LongRun, running_long
from aiosched.db.lists.chosen import failed_since
from aiosched.db.lists.dag_lists import LATE_AFTER
from aiosched.db.lists.run_lists import count_runs
from aiosched.db.names.days import span_of
from aiosched.db.people.pools import list_pools
from aiosched.db.queries import home_queries
from aiosched.db.queries.home_queries import DagProblem
from aiosched.db.queries.quarantine_queries import list_quarantined
from aiosched.db.queries.schedulers import SchedulerRow
from aiosched.db.statements.positions import recent_spans
from aiosched.db.statements.waiting_runs import NOTHING_AT_WORK
from aiosched.web.api.base.models import FilterDayOrInstant, Instant, PartStatus, Resource, Stored
from aiosched.web.auth.access import Role, RoleScope, allow
from aiosched.web.auth.visibility import TheVisible, Visible
from aiosched.web.requests.owned import seen_things
from aiosched.web.requests.request_client import RequestClient, TheRequestClient
from aiosched.web.requests.seen_files import seen_import_errors
from aiosched.web.views import health
from aiosched.web.views.health import Status

router: APIRouter = APIRouter(tags=["Home"])

_MOST: Final = 20  # entries of one kind
_SLOW: Final = 1.25  # times the usual duration
_NOTICED: Final = 30  # seconds beyond it
_COUNTED: Final = ("running", "queued", "scheduled", "deferred")

Kind = Literal[
    "scheduler", "quarantine", "import_error", "failed", "paused", "late", "slow", "pool", "callback", "lost"
]


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


class Attention(BaseModel):
    """Something that needs attention."""

    kind: Kind
    words: str
    dag_id: str | None = None
    run_id: str | None = None
    pool: str | None = None
    since: Instant | None = None


class Summary(BaseModel):
    """The content of the first page."""

    status: Status
    components: dict[str, PartStatus]
    counts: Counts
    attention: list[Attention]


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
    """Runs within a period (latest start first), and upcoming ones (in order)."""

    since: Instant
    until: Instant
    runs: list[TimelineRun]
    coming: list[TimelineComing]


@router.get("/summary")
@allow(Role.VIEWER, RoleScope.SEEN)
async def summary(request_client: TheRequestClient, visible: TheVisible) -> Summary:
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
    return Summary(
        status=found.status,
        components={name: _shown(part, visible) for name, part in found.parts.items()},
        counts=counts,
        attention=[
            *_schedulers(found, visible),
            *await _lost(request_client),
            *await _attention(request_client, visible, late, found.schedulers),
        ],
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


def _shown(part: health.HealthPart, visible: Visible) -> PartStatus:
    if visible.is_whole:
        return PartStatus.model_validate(part)
    return PartStatus(status=part.status, detail=str(part.status))


def _schedulers(found: health.Health, visible: Visible) -> Iterator[Attention]:
    part = found.parts["schedulers"]
    if part.status is not Status.HEALTHY:
        yield Attention(kind="scheduler", words=f"schedulers: {_shown(part, visible).detail}")
    part = found.parts["parser"]
    if part.status is Status.UNHEALTHY:
        yield Attention(kind="scheduler", words=f"parser: {_shown(part, visible).detail}")


async def _lost(request_client: RequestClient) -> list[Attention]:
    """What the database has lost lately; it concerns everybody."""
    async with request_client.db.acquire() as conn:
        spans = await recent_spans(conn)
    return [Attention(kind="lost", words=f"the database went back: {span}", since=span.noticed_at) for span in spans]


async def _attention(
    request_client: RequestClient, visible: Visible, late: Sequence[DagProblem], schedulers: Sequence[SchedulerRow]
) -> list[Attention]:
    db, seen = request_client.db, visible.dags
    found = [
        Attention(kind="quarantine", words=str(row), dag_id=row.dag_id, since=row.since)
        for row in await list_quarantined(db, limit=_MOST, seen=seen)
    ]
    found += [
        Attention(kind="import_error", words=f"{row.file}: {row.error}", since=row.since)
        for row in await seen_import_errors(db, visible, limit=_MOST)
    ]
    for one in await home_queries.paused_with_runs(db, limit=_MOST, seen=seen):
        runs = "a run waits" if one.number == 1 else f"{one.number} runs wait"
        found.append(_about(one, "paused", f"{one.dag_id} is paused while {runs}"))
    found += [_about(one, "late", f"the next run of {one.dag_id} is late") for one in late]
    found += list(_slow(await running_long(db, seen=seen), request_client.clock.now()))
    for pool in await seen_things(db, visible, "pool", await list_pools(db), lambda pool: pool.name):
        waiting = sum((row.figures or {}).get("waiting", {}).get(pool.name, 0) for row in schedulers if row.alive)
        if waiting and pool.slots >= 0 and pool.used >= pool.slots:
            words = f"pool {pool.name}: {full_pool_words(pool.slots, waiting)}"
            found.append(Attention(kind="pool", words=words, pool=pool.name))
    for one in await home_queries.callbacks_given_up(db, limit=_MOST, seen=seen):
        callbacks = "a callback" if one.number == 1 else f"{one.number} callbacks"
        found.append(_about(one, "callback", f"{callbacks} of {one.dag_id} could not be delivered"))
    found += [
        _about(one, "failed", f"the last run of {one.dag_id} failed")
        for one in await home_queries.last_failed(db, limit=_MOST, seen=seen)
    ]
    return found


def _slow(runs: Sequence[LongRun], now: datetime) -> Iterator[Attention]:
    """Those that run for much longer than usual, at most 20."""
    for run in [run for run in runs if _is_slow(run, now)][:_MOST]:
        seconds = (now - run.start_date).total_seconds()
        more = f", {seconds / run.usual_seconds - 1:.0%} longer than usual" if run.usual_seconds else ""
        words = f"{run.dag_id} has been running for {duration(seconds)}{more}"
        if run.only_waits:
            words = f"run {run.run_id} of {run.dag_id} has not ended after {duration(seconds)}{NOTHING_AT_WORK}"
        yield Attention(kind="slow", words=words, dag_id=run.dag_id, run_id=run.run_id, since=run.start_date)


def _is_slow(run: LongRun, now: datetime) -> bool:
    seconds = (now - run.start_date).total_seconds()
    return seconds > _SLOW * run.usual_seconds and seconds - run.usual_seconds > _NOTICED


def _about(one: DagProblem, kind: Kind, words: str) -> Attention:
    return Attention(kind=kind, words=words, dag_id=one.dag_id, run_id=one.run_id, since=one.since)


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
    return Timeline(
        since=first,
        until=final,
        runs=[TimelineRun.model_validate(run) for run in runs],
        coming=[TimelineComing.model_validate(run) for run in coming],
    )
