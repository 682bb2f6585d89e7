"""Alerts, and the rules by which they open. Where they are sent is in the settings only."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query
from fastapi.responses import Response
from pydantic import BaseModel, Field

from aiosched.db.alerts import changes
from aiosched.db.alerts.rules import fields_of
from aiosched.web.api.base.models import Body, Instant, Resource
from aiosched.web.api.base.paging import Cursor, Limit, Page, decode_cursor, page_of
from aiosched.web.auth.access import Role, RoleScope, allow
from aiosched.web.auth.visibility import TheVisible
from aiosched.web.requests.condition import TheCondition
from aiosched.web.requests.request_client import TheRequestClient

router: APIRouter = APIRouter(tags=["Alerts"])

_NAME = r"^[A-Za-z0-9_.-]{1,100}$"
RuleName = Annotated[str, Path(min_length=1, max_length=100, pattern=_NAME)]
_Words = Annotated[
    list[Annotated[str, Field(min_length=1, max_length=250, pattern=r"^[^\x00]+$")]], Field(max_length=100)
]
_Seconds = Annotated[float | None, Field(ge=0, le=1e9)]
_Text = Annotated[str, Field(max_length=100, pattern=r"^[^\x00]*$")]


class AlertResource(Resource):
    """An alert. `owes` is the message that is to be delivered (opened, reminder, recovered, test), not before
    `deliver_at`; `told_at` is the last delivery, `failures` counts those that failed since."""

    id: int
    rule: str
    kind: str
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


class AlertRuleResource(Resource):
    """A rule. `error` is why its last delivery or evaluation failed. One `from_settings` is changed only there."""

    name: str
    kind: str
    notifier: str
    dags: list[str]
    tags: list[str]
    owners: list[str]
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


class AlertRules(BaseModel):
    """Rules by name, and the names of the notifiers that this server's settings have."""

    items: list[AlertRuleResource]
    notifiers: list[str]


class AlertRuleUpdate(Body):
    """What a rule watches (`kind`), of which DAGs (globs, tags, owners; empty: all), and where it tells.

    `seconds`: how long it lasts at least, or how much longer than usual; `factor`: times the usual p95, for long runs.
    """

    kind: _Text
    notifier: Annotated[str, Field(pattern=_NAME)]
    dags: _Words = []
    tags: _Words = []
    owners: _Words = []
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
        before=decode_cursor(cursor, int),
        is_open=is_open,
        rule=rule,
        limit=limit + 1,
        seen=visible.dags,
    )
    return page_of(AlertResource, rows, limit, lambda row: row.id)


@router.get("/alert-rules")
@allow(Role.OPERATOR, RoleScope.EVERYWHERE)
async def list_alert_rules(request_client: TheRequestClient) -> AlertRules:
    """All alert rules by name, and the notifiers that there are."""
    rows = await changes.list_rules(request_client.db)
    return AlertRules(
        items=[AlertRuleResource.model_validate(row) for row in rows],
        notifiers=sorted(notifier.name for notifier in request_client.settings.alerts.notifiers),
    )


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
async def delete_alert_rule(request_client: TheRequestClient, name: RuleName) -> Response:
    """Delete a rule with its alerts."""
    await changes.delete_rule(request_client.db, name)
    return Response(status_code=204)


@router.post("/alert-rules/{name}/test", status_code=202)
@allow(Role.OPERATOR, RoleScope.EVERYWHERE)
async def test_alert_rule(request_client: TheRequestClient, name: RuleName) -> AlertTest:
    """Send a test message by the notifier of a rule; quiet hours do not hold it."""
    return AlertTest(alert=await changes.test_rule(request_client.db, name, request_client.clock.now()))
