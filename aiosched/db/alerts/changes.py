"""What people do to alert rules, each with its entry in the audit log. Rules of the settings are changed only there."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from aiosched.core.alerts.messages import test_text
from aiosched.core.audit.kinds import AuditKind
from aiosched.db.access.visibility import Seen
from aiosched.db.alerts import alerts, rules
from aiosched.db.alerts.alerts import AlertRow
from aiosched.db.alerts.rules import RuleFields, RuleRow
from aiosched.db.audit.entries import record
from aiosched.db.names.existing import IfExists, check_existing, exists_already
from aiosched.db.server.connection import DatabaseConnection
from aiosched.db.server.engine import Database
from aiosched.errors import NotFound, Refused, did_you_mean

_LOOK: Final = 0.5  # seconds between two looks for the outcome of a test


async def list_rules(db: Database, *, after: str = "", limit: int = 1000) -> list[RuleRow]:
    """Rules by name, after the name `after`."""
    async with db.acquire() as conn:
        return await rules.list_rules(conn, after=after, limit=limit)


async def get_rule(db: Database, name: str) -> RuleRow:
    """One rule. Raises NotFound."""
    async with db.acquire() as conn:
        return await _found(conn, name)


async def list_alerts(
    db: Database,
    *,
    before: int | None = None,
    is_open: bool | None = None,
    rule: str | None = None,
    limit: int = 100,
    seen: Seen = None,
) -> list[AlertRow]:
    """Alerts, newest first, before the id `before`; with `is_open`, those that are open, or are not."""
    async with db.acquire() as conn:
        return await alerts.list_alerts(conn, before=before, is_open=is_open, rule=rule, limit=limit, seen=seen)


async def set_rule(
    db: Database, rule: RuleFields, now: datetime, *, existing: IfExists = IfExists.OVERWRITE
) -> RuleRow:
    """Create or change a rule; its open alerts are closed in silence if it changes. Raises Refused, and NotFound."""
    if (problem := rule.problem()) is not None:
        raise Refused(f"This rule cannot be: {problem}.")
    async with db.transaction() as conn:
        before = await rules.get_rule(conn, rule.name, lock=True)
        check_existing(existing, "rule", [rule.name], [] if before is None else [rule.name])
        if before is not None:
            await rules.close_alerts(conn, rule.name, now)
        is_new = existing is IfExists.FAIL
        if not await rules.set_rule(conn, rule, now, is_new=is_new):
            raise exists_already("rule", [rule.name]) if is_new else _in_settings(rule.name)
        kind = AuditKind.ALERT_RULE_CREATED if before is None else AuditKind.ALERT_RULE_CHANGED
        await record(conn, kind, rule.name, watches=rule.kind, notifier=rule.notifier)
        return await _found(conn, rule.name)


async def pause_rule(db: Database, name: str, now: datetime, *, paused: bool) -> RuleRow:
    """Pause a rule, whose open alerts are closed in silence, or take it up again. Raises NotFound."""
    async with db.transaction() as conn:
        await _found(conn, name)
        if await rules.pause_rule(conn, name, now, paused=paused):
            await rules.close_alerts(conn, name, now)
            await record(conn, AuditKind.ALERT_RULE_PAUSED if paused else AuditKind.ALERT_RULE_RESUMED, name)
        return await _found(conn, name)


async def delete_rule(db: Database, name: str) -> None:
    """Delete a rule and its alerts. Raises NotFound, and Refused for one of the settings."""
    async with db.transaction() as conn:
        await _found(conn, name)
        if not await rules.delete_rules(conn, [name]):
            raise _in_settings(name)
        await record(conn, AuditKind.ALERT_RULE_DELETED, name)


async def test_rule(db: Database, name: str, now: datetime) -> int:
    """Have a test message delivered at the next evaluation; the id of its alert. Raises NotFound, and Refused."""
    async with db.transaction() as conn:
        rule = await _found(conn, name)
        if rule.is_paused:
            raise Refused(f"The rule {name!r} is paused, and delivers nothing: resume it first.")
        number = await alerts.add_test(conn, name, test_text(name), now)
        await record(conn, AuditKind.ALERT_RULE_TESTED, name)
    assert number is not None
    return number


@dataclass(frozen=True, slots=True)
class TestOutcome:
    """What has become of a test message: delivered, failed with an error, or still waiting."""

    delivered: bool
    error: str | None


async def wait_for_test(db: Database, alert: int, seconds: float) -> TestOutcome:
    """Wait at most so long for a test message to be delivered, or to fail."""
    until = time.monotonic() + seconds
    while True:
        async with db.acquire() as conn:
            told, error = await alerts.outcome_of(conn, alert)
        if told or error is not None or time.monotonic() >= until:
            return TestOutcome(told, error)
        await asyncio.sleep(_LOOK)


async def _found(conn: DatabaseConnection, name: str) -> RuleRow:
    row = await rules.get_rule(conn, name)
    if row is None:
        names = [one.name for one in await rules.list_rules(conn)]
        raise NotFound(f"There is no alert rule {name!r}.{did_you_mean(name, names)}")
    return row


def _in_settings(name: str) -> Refused:
    return Refused(f"The rule {name!r} is in the settings of the schedulers (alerts.rules): change it there.")
