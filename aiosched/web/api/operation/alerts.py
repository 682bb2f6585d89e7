"""Alerts, silences, and the rules by which alerts open. Where they are sent is in the settings only."""

from __future__ import annotations

from collections.abc import Collection
from typing import Annotated

from fastapi import APIRouter, Path, Query
from fastapi.responses import Response
from pydantic import BaseModel, Field

from aiosched.core.alerts.silences import LEAST_SECONDS, LONGEST_REASON, MOST_SECONDS
from aiosched.db.alerts import changes, silences
from aiosched.db.alerts.rules import fields_of
from aiosched.web.api.base.models import Body, Etag, Instant, Resource
from aiosched.web.api.base.paging import Cursor, Limit, Page, decode_cursor, page_of
from aiosched.web.auth.access import Role, RoleScope, allow
from aiosched.web.auth.visibility import TheVisible, Visible
from aiosched.web.requests.condition import TheCondition, TheVersion
from aiosched.web.requests.request_client import TheRequestClient

router: APIRouter = APIRouter(tags=["Alerts"])

_NAME = r"^[A-Za-z0-9_.-]{1,100}$"
Number = Annotated[int, Path(ge=1, lt=2**63)]
RuleName = Annotated[str, Path(min_length=1, max_length=100, pattern=_NAME)]
_Words = Annotated[
    list[Annotated[str, Field(min_length=1, max_length=250, pattern=r"^[^\x00]+$")]], Field(max_length=100)
]
_Seconds = Annotated[float | None, Field(ge=0, le=1e9)]
_Text = Annotated[str, Field(max_length=100, pattern=r"^[^\x00]*$")]


class AlertResource(Resource):
    """An alert. `owes` is the message that is to be delivered (opened, reminder, recovered, test), not before
    `deliver_at`; `told_at` is the last delivery, `failures` counts those that failed since. Nothing is said before
    `silenced_until`."""

    id: int
    rule: str
    kind: str
    severity: str
    subject: str
    dag_ids: list[str]
    run_id: str | None
    text: str
    opened_at: Instant
    last_at: Instant
    recovered_at: Instant | None
    events: int
    owes: str | None
    deliver_at: Instant | None
    told_at: Instant | None
    failures: int
    error: str | None
    acknowledged_by: str | None
    acknowledged_at: Instant | None
    silenced_until: Instant | None


class SilenceResource(Resource):
    """A silence: nothing is said before `ends_at` about one alert (`rule` and `subject`), a DAG, or a tag."""

    id: int
    rule: str | None
    subject: str | None
    dag_id: str | None
    tag: str | None
    reason: str
    created_by: str
    created_at: Instant
    ends_at: Instant
    ended_by: str | None


class NewSilence(Body):
    """What is silenced (give one of `alert`, a number, `dag_id` and `tag`), for how many seconds, and why.

    A silence of an alert holds if it recovers and opens again.
    """

    alert: Annotated[int | None, Field(ge=1, lt=2**63)] = None
    dag_id: Annotated[str | None, Field(min_length=1, max_length=250, pattern=r"^[^\x00]+$")] = None
    tag: Annotated[str | None, Field(min_length=1, max_length=250, pattern=r"^[^\x00]+$")] = None
    seconds: Annotated[float, Field(ge=LEAST_SECONDS, le=MOST_SECONDS)]
    reason: Annotated[str, Field(min_length=1, max_length=LONGEST_REASON)]


class AlertRuleResource(Resource):
    """A rule. `error` is why its last delivery or evaluation failed. One `from_settings` is changed only there."""

    name: str
    kind: str
    notifier: str
    dags: list[str]
    tags: list[str]
    owners: list[str]
    run_types: list[str]
    severity: str
    seconds: float | None
    factor: float | None
    remind_seconds: float | None
    quiet_from: str | None
    quiet_until: str | None
    time_zone: str
    is_paused: bool
    from_settings: bool
    error: str | None
    failed_at: Instant | None
    open_alerts: int
    etag: Etag


class AlertRules(BaseModel):
    """Rules by name, and the names of the notifiers that this server's settings have."""

    items: list[AlertRuleResource]
    notifiers: list[str]


class AlertRuleUpdate(Body):
    """What a rule watches (`kind`), of which DAGs (globs, tags, owners; empty: all), and where it tells.

    `run_types`: of which runs (empty: all); `severity`: info, warning or critical, which messages have.
    `seconds`: how long it lasts at least, or how much longer than usual; `factor`: times the usual p95, for long runs.
    """

    kind: _Text
    notifier: Annotated[str, Field(pattern=_NAME)]
    dags: _Words = []
    tags: _Words = []
    owners: _Words = []
    run_types: _Words = []
    severity: _Text = "warning"
    seconds: _Seconds = None
    factor: Annotated[float | None, Field(ge=1, le=1000)] = None
    remind_seconds: _Seconds = None
    quiet_from: _Text | None = None
    quiet_until: _Text | None = None
    time_zone: _Text = "UTC"


class AlertRulePause(Body):
    """Whether a rule is paused."""

    is_paused: bool


class AlertTest(BaseModel):
    """A test message that is delivered at the next evaluation: the alert that says what has become of it."""

    alert: int


@router.get("/alerts")
@allow(Role.VIEWER, RoleScope.SEEN)
async def list_alerts(
    request_client: TheRequestClient,
    visible: TheVisible,
    is_open: Annotated[bool | None, Query(description="only open alerts, or only others")] = None,
    rule: Annotated[str | None, Query(max_length=100, pattern=_NAME, description="only alerts of this rule")] = None,
    limit: Limit = 100,
    cursor: Cursor = None,
) -> Page[AlertResource]:
    """Alerts, newest first: those about DAGs that one may see; those about the fleet for who sees everything."""
    rows = await changes.list_alerts(
        request_client.db,
        request_client.clock.now(),
        before=decode_cursor(cursor, int),
        is_open=is_open,
        rule=rule,
        limit=limit + 1,
        seen=visible.dags,
    )
    return page_of(AlertResource, rows, limit, lambda row: row.id)


@router.post("/alerts/{number}/acknowledge")
@allow(Role.OPERATOR, RoleScope.SEEN)
async def acknowledge_alert(request_client: TheRequestClient, visible: TheVisible, number: Number) -> AlertResource:
    """Say that one has an open alert in hand: there are no more reminders. The first one's name stays."""
    db, now = request_client.db, request_client.clock.now()
    row = await changes.get_alert(db, number, now, seen=visible.dags)
    await _check(visible, row.dag_ids)
    return AlertResource.model_validate(await changes.acknowledge(db, number, now))


async def _check(visible: Visible, dag_ids: Collection[str]) -> None:
    """Raise Problem 403 for too low a role for one of the DAGs. What is about none, or a tag, takes it everywhere."""
    for dag_id in dag_ids:
        await visible.check_dag(dag_id, Role.OPERATOR)
    if not dag_ids:
        visible.check_team(None, Role.OPERATOR)


@router.get("/alert-silences")
@allow(Role.VIEWER, RoleScope.SEEN)
async def list_silences(
    request_client: TheRequestClient,
    visible: TheVisible,
    is_active: Annotated[bool, Query(description="only those that have not ended")] = False,
    limit: Limit = 100,
    cursor: Cursor = None,
) -> Page[SilenceResource]:
    """Silences, newest first: those of DAGs that one may see; all for who sees everything."""
    rows = await silences.list_silences(
        request_client.db,
        before=decode_cursor(cursor, int),
        active_at=request_client.clock.now() if is_active else None,
        limit=limit + 1,
        seen=visible.dags,
    )
    return page_of(SilenceResource, rows, limit, lambda row: row.id)


@router.post("/alert-silences", status_code=201)
@allow(Role.OPERATOR, RoleScope.SEEN)
async def add_silence(request_client: TheRequestClient, visible: TheVisible, body: NewSilence) -> SilenceResource:
    """Say nothing for a time about an alert, a DAG or (with the role everywhere) the DAGs with a tag."""
    db, now = request_client.db, request_client.clock.now()
    if body.alert is not None:
        row = await changes.get_alert(db, body.alert, now, seen=visible.dags)
        await _check(visible, row.dag_ids)
    elif body.dag_id is not None:
        await visible.check_dag(body.dag_id, Role.OPERATOR)
    else:
        visible.check_team(None, Role.OPERATOR)
    silence = await changes.silence(
        db, body.seconds, body.reason, now, alert=body.alert, dag_id=body.dag_id, tag=body.tag
    )
    return SilenceResource.model_validate(silence)


@router.delete("/alert-silences/{number}", status_code=204)
@allow(Role.OPERATOR, RoleScope.SEEN)
async def end_silence(request_client: TheRequestClient, visible: TheVisible, number: Number) -> Response:
    """End a silence now; one that has ended stays as it is. What is still open is said at the next evaluation."""
    row = await changes.get_silence(request_client.db, number, seen=visible.dags)
    await _check(visible, row.dag_ids)
    await changes.end_silence(request_client.db, number, request_client.clock.now())
    return Response(status_code=204)


@router.get("/alert-rules")
@allow(Role.OPERATOR, RoleScope.EVERYWHERE)
async def list_alert_rules(request_client: TheRequestClient) -> AlertRules:
    """All alert rules by name, and the notifiers that there are."""
    rows = await changes.list_rules(request_client.db)
    return AlertRules(
        items=[AlertRuleResource.model_validate(row) for row in rows],
        notifiers=sorted(notifier.name for notifier in request_client.settings.alerts.notifiers),
    )


@router.get("/alert-rules/{name}")
@allow(Role.OPERATOR, RoleScope.EVERYWHERE)
async def one_alert_rule(request_client: TheRequestClient, name: RuleName) -> AlertRuleResource:
    """One rule."""
    return AlertRuleResource.model_validate(await changes.get_rule(request_client.db, name))


@router.put("/alert-rules/{name}")
@allow(Role.OPERATOR, RoleScope.EVERYWHERE)
async def set_alert_rule(
    request_client: TheRequestClient, name: RuleName, body: AlertRuleUpdate, existing: TheCondition
) -> AlertRuleResource:
    """Create or change a rule; idempotent. When it changes, its open alerts are closed without a message."""
    rule = fields_of({**body.model_dump(), "name": name})
    now = request_client.clock.now()
    return AlertRuleResource.model_validate(await changes.set_rule(request_client.db, rule, now, existing=existing))


@router.patch("/alert-rules/{name}")
@allow(Role.OPERATOR, RoleScope.EVERYWHERE)
async def pause_alert_rule(request_client: TheRequestClient, name: RuleName, body: AlertRulePause) -> AlertRuleResource:
    """Pause a rule, also one of the settings, or take it up again. Its open alerts are closed without a message."""
    now = request_client.clock.now()
    row = await changes.pause_rule(request_client.db, name, now, paused=body.is_paused)
    return AlertRuleResource.model_validate(row)


@router.delete("/alert-rules/{name}", status_code=204)
@allow(Role.OPERATOR, RoleScope.EVERYWHERE)
async def delete_alert_rule(request_client: TheRequestClient, name: RuleName, existing: TheVersion) -> Response:
    """Delete a rule with its alerts."""
    await changes.delete_rule(request_client.db, name, existing=existing)
    return Response(status_code=204)


@router.post("/alert-rules/{name}/test", status_code=202)
@allow(Role.OPERATOR, RoleScope.EVERYWHERE)
async def test_alert_rule(request_client: TheRequestClient, name: RuleName) -> AlertTest:
    """Send a test message by the notifier of a rule; quiet hours do not hold it."""
    return AlertTest(alert=await changes.test_rule(request_client.db, name, request_client.clock.now()))
