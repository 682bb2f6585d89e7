"""What needs somebody, for the first page: failures by error, questions, alerts, and what is stuck, late or wrong."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Final, Literal

from pydantic import BaseModel

from aiosched.core.values.durations import duration
from aiosched.core.values.ids import instance_name
from aiosched.core.why.error_groups import FailedInstance, group_errors
from aiosched.db.alerts.alerts import AlertRow
from aiosched.db.alerts.changes import list_alerts, list_rules
from aiosched.db.finding.activity import LongRun, running_long
from aiosched.db.people.human_inputs import list_inputs
from aiosched.db.queries import home_queries
from aiosched.db.queries.home_queries import DagProblem
from aiosched.db.queries.quarantine_queries import list_quarantined
from aiosched.db.queries.status import ImportErrorRow
from aiosched.db.server.engine import Database
from aiosched.db.statements.failed_tasks import failed_tasks
from aiosched.db.statements.positions import recent_spans
from aiosched.db.statements.waiting_runs import NOTHING_AT_WORK
from aiosched.web.api.base.models import Instant, PartStatus
from aiosched.web.auth.visibility import Visible
from aiosched.web.requests.request_client import RequestClient
from aiosched.web.requests.seen_files import seen_import_errors
from aiosched.web.requests.seen_starving import seen_starving
from aiosched.web.views import health
from aiosched.web.views.health import Status

_MOST: Final = 20  # entries of one kind
_MOST_FAILED: Final = 100  # DAGs whose newest run failed
_MOST_NAMED: Final = 3  # files of one line
_SLOW: Final = 1.25  # times the usual duration
_NOTICED: Final = 30  # seconds beyond it

Kind = Literal[
    "scheduler", "quarantine", "import_error", "failed", "paused", "late", "slow", "pool", "callback", "lost", "input",
    "alert", "undelivered",
]  # fmt: skip


class Attention(BaseModel):
    """Something that needs attention. `dags`: those that failed with one error (at most 20), `number` how many there
    are; `search`: a part of that error that all have."""

    kind: Kind
    words: str
    dag_id: str | None = None
    run_id: str | None = None
    task_id: str | None = None
    map_index: int = -1
    pool: str | None = None
    since: Instant | None = None
    dags: list[str] = []
    number: int = 1
    search: str | None = None


def shown_part(part: health.HealthPart, visible: Visible) -> PartStatus:
    """A part of the system; its details are for who sees everything."""
    if visible.is_whole:
        return PartStatus.model_validate(part)
    return PartStatus(status=part.status, detail=str(part.status))


def of_schedulers(found: health.Health, visible: Visible) -> Iterator[Attention]:
    """Parts of the system that are not well."""
    part = found.parts["schedulers"]
    if part.status is not Status.HEALTHY:
        yield Attention(kind="scheduler", words=f"schedulers: {shown_part(part, visible).detail}")
    part = found.parts["parser"]
    if part.status is Status.UNHEALTHY:
        yield Attention(kind="scheduler", words=f"parser: {shown_part(part, visible).detail}")


async def of_lost_commits(request_client: RequestClient) -> list[Attention]:
    """What the database has lost lately; it concerns everybody."""
    spans = await recent_spans(request_client.db)
    return [Attention(kind="lost", words=f"the database went back: {span}", since=span.noticed_at) for span in spans]


async def of_dags(request_client: RequestClient, visible: Visible, late: Sequence[DagProblem]) -> list[Attention]:
    """What is wrong with the DAGs, files, pools and alerts that one may see."""
    db, seen = request_client.db, visible.dags
    found = [
        Attention(kind="quarantine", words=str(row), dag_id=row.dag_id, since=row.since)
        for row in await list_quarantined(db, limit=_MOST, seen=seen)
    ]
    found += _import_errors(await seen_import_errors(db, visible, limit=_MOST + 1))
    for one in await home_queries.paused_with_runs(db, limit=_MOST, seen=seen):
        runs = "a run waits" if one.number == 1 else f"{one.number} runs wait"
        found.append(_about(one, "paused", f"{one.dag_id} is paused while {runs}"))
    found += [_about(one, "late", f"the next run of {one.dag_id} is late") for one in late]
    found += list(_slow(await running_long(db, seen=seen), request_client.clock.now()))
    found += [
        Attention(kind="pool", words=one.words, pool=one.name if one.exists else None)
        for one in (await seen_starving(db, visible))[:_MOST]
    ]
    for one in await home_queries.callbacks_given_up(db, limit=_MOST, seen=seen):
        callbacks = "a callback" if one.number == 1 else f"{one.number} callbacks"
        found.append(_about(one, "callback", f"{callbacks} of {one.dag_id} could not be delivered"))
    found += await _failures(db, await home_queries.last_failed(db, limit=_MOST_FAILED, seen=seen))
    for asked in await list_inputs(db, only_waiting=True, limit=_MOST, seen=seen):
        words = f"{instance_name(asked.task_id, asked.map_index)} of {asked.dag_id} asks: {asked.question.subject}"
        found.append(
            Attention(
                kind="input", words=words, dag_id=asked.dag_id, run_id=asked.run_id, task_id=asked.task_id,
                map_index=asked.map_index, since=asked.asked_at,
            )
        )  # fmt: skip
    found += await _alerts(request_client, visible)
    return found


def _slow(runs: Sequence[LongRun], now: datetime) -> Iterator[Attention]:
    """Those that run for much longer than usual, at most 20."""
    for run in [run for run in runs if _is_slow(run, now)][:_MOST]:
        seconds = (now - run.start_date).total_seconds()
        more = f", {seconds / run.usual_seconds - 1:.0%} longer than usual" if run.usual_seconds else ""
        words = f"run {run.run_id} of {run.dag_id} has been running for {duration(seconds)}{more}"
        if run.only_waits:
            words = f"run {run.run_id} of {run.dag_id} has not ended after {duration(seconds)}{NOTHING_AT_WORK}"
        yield Attention(kind="slow", words=words, dag_id=run.dag_id, run_id=run.run_id, since=run.start_date)


def _is_slow(run: LongRun, now: datetime) -> bool:
    seconds = (now - run.start_date).total_seconds()
    return seconds > _SLOW * run.usual_seconds and seconds - run.usual_seconds > _NOTICED


def _about(one: DagProblem, kind: Kind, words: str) -> Attention:
    return Attention(kind=kind, words=words, dag_id=one.dag_id, run_id=one.run_id, since=one.since)


def _import_errors(rows: Sequence[ImportErrorRow]) -> Iterator[Attention]:
    """One line for all files, since when the first of them is wrong."""
    if not rows:
        return
    since = min((row.since for row in rows if row.since is not None), default=None)
    words = f"{rows[0].file}: {rows[0].error}"
    if len(rows) > 1:
        number = str(len(rows)) if len(rows) <= _MOST else f"more than {_MOST}"
        more = ", …" if len(rows) > _MOST_NAMED else ""
        words = f"{number} DAG files cannot be imported: {', '.join(row.file for row in rows[:_MOST_NAMED])}{more}"
    yield Attention(kind="import_error", words=words, since=since, number=len(rows))


async def _failures(db: Database, failed: Sequence[DagProblem]) -> list[Attention]:
    """The DAGs whose newest run failed: those with the same error together, latest first."""
    runs = {(one.dag_id, one.run_id): one for one in failed if one.run_id is not None}
    tasks = await failed_tasks(db, runs.keys())
    known = [tasks[run].first for run in runs if run in tasks and tasks[run].first.reason]
    found = []
    for group in group_errors(known, most=_MOST):
        first = group.newest
        one = Attention(
            kind="failed", words="", dag_id=first.dag_id, run_id=first.run_id, task_id=first.task_id,
            map_index=first.map_index, since=runs[first.dag_id, first.run_id].since, number=len(group.dags),
            search=group.search,
        )  # fmt: skip
        if len(group.dags) > 1:
            one.dags = list(group.dags[:_MOST])
            one.words = f"{len(group.dags)} DAGs failed: {_line(first)}"
        else:
            one.words = f"{first.dag_id} failed in {instance_name(first.task_id, first.map_index)}: {_line(first)}"
        found.append(one)
    explained = {(one.dag_id, one.run_id) for one in known}
    for run, problem in runs.items():
        if run not in explained and len(found) < _MOST:
            found.append(_about(problem, "failed", f"the last run of {problem.dag_id} failed"))
    return found


def _line(failure: FailedInstance) -> str:
    return (failure.reason or "").strip().partition("\n")[0][:300]


async def _alerts(request_client: RequestClient, visible: Visible) -> list[Attention]:
    """Open alerts that nobody has in hand or has silenced, as one line; and rules whose messages do not arrive."""
    db = request_client.db
    rows = await list_alerts(db, request_client.clock.now(), is_open=True, seen=visible.dags)
    found = []
    if news := [row for row in rows if row.acknowledged_at is None and row.silenced_until is None]:
        one = Attention(kind="alert", words=news[0].text, since=news[0].opened_at, number=len(news))
        if len(news) > 1:
            one.words = f"{len(news)} alerts are open, the newest: {news[0].text}"
        elif len(news[0].dag_ids) == 1:
            one.dag_id, one.run_id = news[0].dag_ids[0], news[0].run_id
        found.append(one)
    if visible.is_whole:
        wrong = {rule.name: (rule.error, rule.failed_at) for rule in await list_rules(db) if rule.error}
    else:
        wrong = _undelivered(rows)
    for name, (error, since) in list(wrong.items())[:_MOST]:
        words = f"messages of the alert rule {name} do not arrive: {error}"
        found.append(Attention(kind="undelivered", words=words, since=since))
    return found


def _undelivered(rows: Iterable[AlertRow]) -> dict[str, tuple[str, datetime | None]]:
    return {row.rule: (row.error, row.opened_at) for row in rows if row.error}
