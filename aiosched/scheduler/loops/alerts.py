"""Evaluates the alert rules every `alerts.interval`: the owner of partition 0 does it for the whole fleet.

A pass reads what rules watch, one statement for each kind of rule there is, decides (core/alerts), and stores what has
changed together with the requests for deliveries, in one transaction: whatever is killed after that, the alert is
delivered. A rule that cannot be evaluated shows why, and the others go on.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Final

from aiosched.core.alerts.decision import Alert, Change, Fact, Facts, IsSilenced, OpenAlert, UpdateAlert, decide, due
from aiosched.core.alerts.rules import AlertKind, AlertRule
from aiosched.db.alerts import alerts, facts, silences
from aiosched.db.alerts.rules import (
    NOT_EVALUATED,
    RuleRow,
    fields_of,
    list_rules,
    note_error,
    note_looked,
    take_from_settings,
)
from aiosched.db.queries.schedulers import SchedulerRow, read_schedulers
from aiosched.db.queries.starving import Starving, read_starving
from aiosched.db.server.connection import DatabaseConnection, Queryable
from aiosched.db.statements.outbox import WaitingCallback, delete_callbacks
from aiosched.scheduler.failures.isolation import is_unforeseen, spare_others
from aiosched.scheduler.session.session import Session

logger: logging.Logger = logging.getLogger(__name__)

_HOUR: Final = timedelta(hours=1)
_REMOVED_AT_ONCE: Final = 5_000
_PARTITION: Final = 0
_LONGEST_ERROR: Final = 1_000  # characters that a rule shows


class AlertLoop:
    """What the loop of one session remembers: since when pools are full, and what it does only once."""

    def __init__(self) -> None:
        self._full_since: dict[str, datetime] = {}
        self._has_taken_settings = False
        self._removed_at: datetime | None = None
        self._failed: set[int] = set()  # rules that this pass could not evaluate
        self._broken: dict[int, str] = {}  # what is said of rules that are no rules

    async def evaluate(self, session: Session) -> float | None:
        """One pass; returns how long to rest: None when there is no other pass."""
        settings = session.env.settings
        interval = settings.alerts.interval
        if session.membership.draining or not interval:
            return None
        if _PARTITION in session.cache.partitions:
            async with session.locks.ownership:  # the partition must not leave before its requests are in memory
                await self._pass(session, session.env.clock.now())
        else:
            self._full_since, self._has_taken_settings = {}, False
        return interval

    async def _pass(self, session: Session, now: datetime) -> None:
        self._failed = set()
        all_rows = await list_rules(session.env.db)
        if not self._has_taken_settings:
            all_rows = await self._take_settings(session, all_rows, now)
        rows = [row for row in all_rows if not row.is_paused]
        if rows:
            async with session.env.db.acquire() as conn:
                await self._note_broken(conn, rows, now)
                rules = [row.rule() for row in rows if row.id not in self._broken]
                known, there = await self._read(session, conn, rules, now), await alerts.live_alerts(conn)
                handled = await alerts.handled_events(conn, _looked_since(rules, now))
                is_silenced = await _silenced(conn, [*known.found, *there], now)
            changes = list[Change]()
            for rule in rules:
                try:
                    changes += decide([rule], known, there, now, handled=handled, is_silenced=is_silenced)
                except Exception as error:  # a row that is not as expected: the other rules go on
                    await self._note_failure(session, [rule], error, now)
            changes = await _with_failed_tasks(session.env.db, changes)
            await spare_others("an alert", changes, _rule_of(there), partial(_store, session, now=now))
            await self._deliver(session, rules, now)
        if self._removed_at is None:  # without rules there is no hurry
            self._removed_at = now - _HOUR if all_rows else now
        if now >= self._removed_at + _HOUR:
            await self._remove_old(session, now)

    async def _take_settings(self, session: Session, there: list[RuleRow], now: datetime) -> list[RuleRow]:
        """Store the rules of the settings, once for each session that evaluates; the rules that there are then."""
        settings = session.env.settings
        if not settings.alerts.rules and not any(row.from_settings for row in there):
            self._has_taken_settings = True
            return there
        wanted = []
        for rule in settings.alerts.rules:
            given = fields_of(rule.model_dump())
            if (problem := given.problem()) is None:
                wanted.append(given)
            else:
                logger.error("the rule %r of the setting alerts.rules is left out: %s", rule.name, problem)
        async with session.env.side_journal.transaction() as transaction:
            await take_from_settings(transaction.conn, wanted, now)
        self._has_taken_settings = True
        return await list_rules(session.env.db)

    async def _note_broken(self, conn: DatabaseConnection, rows: Collection[RuleRow], now: datetime) -> None:
        """Find the rules that this aiosched cannot evaluate, and show why on their rows."""
        broken: dict[int, str] = {}
        for row in rows:
            try:
                row.rule()
            except ValueError as error:
                broken[row.id] = f"{NOT_EVALUATED}{error}"
                if self._broken.get(row.id) != broken[row.id]:
                    await note_error(conn, row.id, broken[row.id], now)
        self._broken = broken

    async def _read(
        self, session: Session, conn: DatabaseConnection, rules: Sequence[AlertRule], now: datetime
    ) -> Facts:
        kinds, since = {rule.kind for rule in rules}, _looked_since(rules, now)
        found: list[Fact] = []
        cut: set[AlertKind] = set()
        for kind in sorted(kinds & facts.READERS.keys()):
            try:
                some = await facts.READERS[kind](conn, since, now)
            except Exception as error:
                if not is_unforeseen(error):
                    raise
                await self._note_failure(session, [rule for rule in rules if rule.kind is kind], error, now)
                cut.add(kind)
                continue
            found += some
            if len(some) >= facts.MOST:
                cut.add(kind)
        if AlertKind.POOL_STARVING in kinds:
            found += self._starving(await read_starving(conn), now)
        if AlertKind.MACHINES_DIFFER in kinds:
            found += _differing((await read_schedulers(conn))[1], now)
        dag_ids = {dag_id for fact in found for dag_id in fact.dag_ids}
        selects = any(rule.selection.tags or rule.selection.owners for rule in rules)
        labels = await facts.labels_of(conn, dag_ids) if selects and dag_ids else {}
        return Facts(found, labels, await facts.made_good(conn), cut)

    async def _note_failure(
        self, session: Session, rules: Sequence[AlertRule], error: Exception, now: datetime
    ) -> None:
        """Show on rules that they could not be evaluated; the next pass tries it again."""
        words = f"{NOT_EVALUATED}{type(error).__name__}: {error}"[:_LONGEST_ERROR]
        logger.error("the alert rules %s: %s", ", ".join(rule.name for rule in rules), words)
        async with session.env.db.acquire() as conn:
            for rule in rules:
                self._failed.add(rule.id)
                await note_error(conn, rule.id, words, now)

    def _starving(self, starving: Sequence[Starving], now: datetime) -> list[Fact]:
        """What tasks wait for, each since the pass in which that was first seen; of a pool that can never give a slot
        and is also full, both in one text."""
        words: dict[str, str] = {}
        for one in starving:
            words[one.subject] = f"{words[one.subject]}; {one.words}" if one.subject in words else one.words
        self._full_since = {subject: self._full_since.get(subject, now) for subject in words}
        return [
            Fact(
                AlertKind.POOL_STARVING, subject, text[:1].upper() + text[1:],
                self._full_since[subject], seconds=(now - self._full_since[subject]).total_seconds(),
            )
            for subject, text in words.items()
        ]  # fmt: skip

    async def _deliver(self, session: Session, rules: Sequence[AlertRule], now: datetime) -> None:
        """Request what is due now, and take up again what was lost too often."""
        async with session.env.side_journal.transaction() as transaction:
            conn = transaction.conn
            if lost := await alerts.given_up(conn):
                for callback, error in lost.items():
                    reason = error or "its worker died"
                    logger.warning("an alert could not be delivered, and is tried again: %s", reason)
                    await alerts.note_failed(conn, callback, reason, now)
                await delete_callbacks(conn, list(lost))
            there = await alerts.live_alerts(conn)
            is_silenced = await _silenced(conn, there, now)
            ready = due({rule.id: rule for rule in rules}, there, now, is_silenced=is_silenced)
            requests = await alerts.request_deliveries(conn, [alert.id for alert in ready]) if ready else {}
            await note_looked(conn, [rule.id for rule in rules if rule.id not in self._failed], now)
        _wait(session, requests)

    async def _remove_old(self, session: Session, now: datetime) -> None:
        settings = session.env.settings
        before = now - timedelta(days=settings.alerts.retention_days)
        async with session.env.db.acquire() as conn:
            await alerts.purge_alerts(conn, before, limit=_REMOVED_AT_ONCE)
            await silences.purge_silences(conn, before, limit=_REMOVED_AT_ONCE)
        self._removed_at = now


async def _silenced(conn: DatabaseConnection, found: Collection[Fact | Alert], now: datetime) -> IsSilenced:
    """Whether nothing is to be said about these now."""
    until = await silences.read_silences(conn, {dag_id for one in found for dag_id in one.dag_ids}, now)
    return lambda rule, subject, dag_ids: until(rule, subject, dag_ids) is not None


async def _with_failed_tasks(conn: Queryable, changes: Collection[Change]) -> list[Change]:
    """The changes, with what failed: it is read only for what is said now."""
    told = await facts.with_failed_tasks(conn, [one.fact for one in changes if not isinstance(one, UpdateAlert)])
    return [one if isinstance(one, UpdateAlert) else replace(one, fact=told.get(one.fact, one.fact)) for one in changes]


async def _store(session: Session, changes: Sequence[Change], *, now: datetime) -> None:
    """Store changes of alerts, each new one with the request to announce it, unless that waits."""
    async with session.env.side_journal.transaction() as transaction:
        conn, opened = transaction.conn, list[int]()
        for change in changes:
            if isinstance(change, OpenAlert):
                number = await alerts.open_alert(conn, change, now)
                if number is not None and change.deliver_at is not None and change.deliver_at <= now:
                    opened.append(number)
            else:
                await alerts.store_change(conn, change, now)
        requests = await alerts.request_deliveries(conn, opened) if opened else {}
    _wait(session, requests)


def _wait(session: Session, requests: dict[int, str]) -> None:
    """These requests are stored: they wait for their delivery."""
    session.outbox.waiting.add({number: WaitingCallback(_PARTITION, dag_id) for number, dag_id in requests.items()})
    if requests:
        session.wakeups.callbacks.wake()


def _differing(rows: Sequence[SchedulerRow], now: datetime) -> list[Fact]:
    """What schedulers say of their machines."""
    return [
        Fact(AlertKind.MACHINES_DIFFER, row.name, f"Machines of schedulers differ: {'; '.join(row.remarks)}", now)
        for row in rows
        if row.remarks
    ]


def _rule_of(there: Collection[Alert]) -> Callable[[Change], str]:
    """By which rule a change is made: what fails of one leaves the others alone."""
    rules = {alert.id: alert.rule for alert in there}

    def name(change: Change) -> str:
        return f"rule {change.rule.id if isinstance(change, OpenAlert) else rules[change.alert]}"

    return name


def _looked_since(rules: Sequence[AlertRule], now: datetime) -> datetime:
    """From when on events are read: a little before the oldest of the last evaluations of these rules."""
    return min((min(rule.looked_until or rule.since, now) for rule in rules), default=now) - facts.OVERLAP
