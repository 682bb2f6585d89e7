"""What people do to alert rules, each with its entry in the audit log. Rules of the settings are changed only there."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from aiosched.core.alerts.messages import test_text
from aiosched.core.alerts.silences import Silence, problem_of_silence
from aiosched.core.audit.actor import actor
from aiosched.core.audit.kinds import AuditKind
from aiosched.db.access.visibility import Seen
from aiosched.db.alerts import alerts, rules, silences
from aiosched.db.alerts.alerts import AlertRow
from aiosched.db.alerts.rules import RuleFields, RuleRow
from aiosched.db.alerts.silences import SilenceRow
from aiosched.db.audit.entries import record
from aiosched.db.names.existing import Existing, IfExists, check_existing, exists_already
from aiosched.db.server.connection import DatabaseConnection, Queryable
from aiosched.db.server.engine import Database
from aiosched.errors import NotFound, Refused, did_you_mean

_LOOK: Final = 0.5  # seconds between two looks for the outcome of a test


async def list_rules(db: Database, *, after: str = "", limit: int = 1000) -> list[RuleRow]:
    """Rules by name, after the name `after`."""
    return await rules.list_rules(db, after=after, limit=limit)


async def get_rule(conn: Queryable, name: str, *, lock: bool = False) -> RuleRow:
    """One rule; with `lock`, nobody else changes or deletes it before the transaction ends. Raises NotFound."""
    row = await rules.get_rule(conn, name, lock=lock)
    if row is None:
        names = [one.name for one in await rules.list_rules(conn)]
        raise NotFound(f"There is no alert rule {name!r}.{did_you_mean(name, names)}")
    return row


async def list_alerts(
    db: Database,
    now: datetime,
    *,
    before: int | None = None,
    is_open: bool | None = None,
    rule: str | None = None,
    limit: int = 100,
    seen: Seen = None,
) -> list[AlertRow]:
    """Alerts, newest first, before the id `before`; with `is_open`, those that are open, or are not."""
    async with db.acquire() as conn:
        rows = await alerts.list_alerts(conn, before=before, is_open=is_open, rule=rule, limit=limit, seen=seen)
        return await _with_silences(conn, rows, now)


async def _with_silences(conn: DatabaseConnection, rows: list[AlertRow], now: datetime) -> list[AlertRow]:
    until = await silences.read_silences(conn, {dag_id for row in rows for dag_id in row.dag_ids}, now)
    return [replace(row, silenced_until=until(row.rule_id, row.subject, row.dag_ids)) for row in rows]


async def get_alert(db: Database, number: int, now: datetime, *, seen: Seen = None) -> AlertRow:
    """One alert. Raises NotFound, also for one that is about DAGs that are not `seen`."""
    async with db.acquire() as conn:
        (row,) = await _with_silences(conn, [await _found_alert(conn, number, seen)], now)
        return row


async def acknowledge(db: Database, number: int, now: datetime) -> AlertRow:
    """Note that whoever the context is of has an alert in hand: it is not reminded of any more.

    Somebody who has it already keeps it. Raises NotFound, and Refused for an alert that has recovered.
    """
    async with db.transaction() as conn:
        row = await _found_alert(conn, number)
        if await alerts.acknowledge(conn, number, actor().who, now):
            await record(conn, AuditKind.ALERT_ACKNOWLEDGED, row.subject, alert=number, rule=row.rule)
        elif (await _found_alert(conn, number)).acknowledged_at is None:
            raise Refused(f"The alert {number} has recovered: there is nothing to acknowledge.")
    return await get_alert(db, number, now)


async def get_silence(conn: Queryable, number: int, *, seen: Seen = None) -> SilenceRow:
    """One silence. Raises NotFound, also for one that is about DAGs that are not `seen`."""
    if (row := await silences.get_silence(conn, number)) is None or not _sees(seen, row.dag_ids):
        raise NotFound(f"There is no silence {number}; see `aiosched alerts silences --all`.")
    return row


async def silence(
    db: Database,
    seconds: float,
    reason: str,
    now: datetime,
    *,
    alert: int | None = None,
    dag_id: str | None = None,
    tag: str | None = None,
) -> SilenceRow:
    """Say nothing for so many seconds about one alert (also if it recovers and opens again), a DAG, or a tag.

    Give one of the three. Raises NotFound for one that does not exist, and Refused.
    """
    if (problem := problem_of_silence(seconds, reason)) is not None:
        raise Refused(f"This silence cannot be: {problem}.")
    if (alert is not None) + (dag_id is not None) + (tag is not None) != 1:
        raise Refused("A silence is about an alert, a DAG or a tag: give one of them.")
    wanted = Silence(now + timedelta(seconds=seconds), dag_id=dag_id, tag=tag)
    dag_ids: tuple[str, ...] = ()
    async with db.transaction() as conn:
        if await silences.number_active(conn, now) >= silences.MOST_ACTIVE:
            raise Refused(f"There are {silences.MOST_ACTIVE} silences: end one, or silence a tag.")
        if alert is not None:
            row = await _found_alert(conn, alert)
            wanted, dag_ids = replace(wanted, rule=row.rule_id, subject=row.subject), row.dag_ids
        elif dag_id is not None:
            known = await silences.names_of(conn, tags=False)
            if dag_id not in known:
                raise NotFound(f"There is no DAG {dag_id!r}.{did_you_mean(dag_id, known)}")
            dag_ids = (dag_id,)
        elif tag is not None and tag not in (known := await silences.names_of(conn, tags=True)):
            raise NotFound(f"There is no DAG with the tag {tag!r}.{did_you_mean(tag, known)}")
        number = await silences.add_silence(conn, wanted, dag_ids, reason.strip(), actor().who, now)
        row_ = await get_silence(conn, number)
        until = row_.ends_at.isoformat()
        await record(
            conn, AuditKind.ALERT_SILENCED, row_.about, dag_id=dag_id, silence=number, reason=reason, until=until
        )
    return row_


async def end_silence(db: Database, number: int, now: datetime) -> SilenceRow:
    """End a silence before its time; one that has ended stays as it is. Raises NotFound."""
    async with db.transaction() as conn:
        row = await get_silence(conn, number)
        if await silences.end_silence(conn, number, actor().who, now):
            await record(conn, AuditKind.ALERT_SILENCE_ENDED, row.about, dag_id=row.dag_id, silence=number)
        return await get_silence(conn, number)


def _sees(seen: Seen, dag_ids: Collection[str]) -> bool:
    return seen is None or (bool(dag_ids) and set(dag_ids) <= set(seen))


async def _found_alert(conn: DatabaseConnection, number: int, seen: Seen = None) -> AlertRow:
    if (row := await alerts.get_alert(conn, number)) is None or not _sees(seen, row.dag_ids):
        raise NotFound(f"There is no alert {number}; see `aiosched alerts list --all`.")
    return row


async def set_rule(
    db: Database, rule: RuleFields, now: datetime, *, existing: Existing = IfExists.OVERWRITE
) -> RuleRow:
    """Create or change a rule; its open alerts are closed in silence if it changes. Raises Refused, and NotFound."""
    if (problem := rule.problem()) is not None:
        raise Refused(f"This rule cannot be: {problem}.")
    async with db.transaction() as conn:
        before = await rules.get_rule(conn, rule.name, lock=True)
        await check_existing(conn, existing, "rule", [rule.name], {} if before is None else {rule.name: before.etag})
        if before is not None:
            await rules.close_alerts(conn, rule.name, now)
        is_new = existing is IfExists.FAIL
        if not await rules.set_rule(conn, rule, now, is_new=is_new):
            raise exists_already("rule", [rule.name]) if is_new else _in_settings(rule.name)
        kind = AuditKind.ALERT_RULE_CREATED if before is None else AuditKind.ALERT_RULE_CHANGED
        await record(conn, kind, rule.name, watches=rule.kind, notifier=rule.notifier)
        return await get_rule(conn, rule.name)


async def pause_rule(db: Database, name: str, now: datetime, *, paused: bool) -> RuleRow:
    """Pause a rule, whose open alerts are closed in silence, or take it up again. Raises NotFound."""
    async with db.transaction() as conn:
        await get_rule(conn, name)
        if await rules.pause_rule(conn, name, now, paused=paused):
            await rules.close_alerts(conn, name, now)
            await record(conn, AuditKind.ALERT_RULE_PAUSED if paused else AuditKind.ALERT_RULE_RESUMED, name)
        return await get_rule(conn, name)


async def delete_rule(db: Database, name: str, *, existing: Existing = IfExists.OVERWRITE) -> None:
    """Delete a rule and its alerts.

    Raises NotFound, Refused for one of the settings, and ChangedMeanwhile as `existing` says.
    """
    async with db.transaction() as conn:
        rule = await get_rule(conn, name, lock=True)
        await check_existing(conn, existing, "rule", [name], {name: rule.etag})
        if not await rules.delete_rules(conn, [name]):
            raise _in_settings(name)
        await record(conn, AuditKind.ALERT_RULE_DELETED, name)


async def test_rule(db: Database, name: str, now: datetime) -> int:
    """Have a test message delivered at the next evaluation; the id of its alert. Raises NotFound, and Refused."""
    async with db.transaction() as conn:
        rule = await get_rule(conn, name)
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
        told, error = await alerts.outcome_of(db, alert)
        if told or error is not None or time.monotonic() >= until:
            return TestOutcome(told, error)
        await asyncio.sleep(_LOOK)


def _in_settings(name: str) -> Refused:
    return Refused(f"The rule {name!r} is in the settings of the schedulers (alerts.rules): change it there.")
