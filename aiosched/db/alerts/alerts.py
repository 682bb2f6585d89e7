"""Statements on alerts and their deliveries. No decisions live here.

An alert is announced by a request in the callback outbox, stored by the transaction that opens it. Its row says what it
owes until the delivery has succeeded, so a delivery that was lost or has failed is made again.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, Final

from aiosched.core.alerts.decision import Alert, AlertMessage, OpenAlert, RepeatAlert, UpdateAlert, pause_after
from aiosched.db.access.visibility import ScopedStatement, Seen
from aiosched.db.server.connection import DatabaseConnection, Queryable

_NO_PARTITION: Final = 0  # alerts belong to whoever owns this one, as the evaluation of rules does
NO_RUN: Final = -(2**63)  # as run of a request in the outbox: it concerns none, and does not go with one
_MESSAGES: Final = {str(message): message for message in AlertMessage}  # what others say is for a newer aiosched

_COLUMNS: Final = """
    a.id, a.rule_id AS rule, a.subject, a.opened_at, a.last_at, a.recovered_at, a.owes, a.deliver_at,
    EXISTS (SELECT FROM callback_outbox AS c WHERE c.id = a.callback_id AND c.given_up_at IS NULL) AS in_flight,
    a.told_at, a.failures, array_remove(a.dag_ids, NULL) AS dag_ids, a.acknowledged_at IS NOT NULL AS is_acknowledged
"""
# Indexes: uq_alert_open, ix_alert_owed.
LIVE: Final = f"""
    SELECT {_COLUMNS} FROM alert AS a WHERE recovered_at IS NULL
     UNION ALL
    SELECT {_COLUMNS} FROM alert AS a WHERE owes IS NOT NULL AND recovered_at IS NOT NULL
"""


async def live_alerts(conn: DatabaseConnection) -> list[Alert]:
    """The alerts that are open, or of which something is to be said."""
    rows = [dict(row) for row in await conn.fetch(LIVE)]
    return [Alert(**{**row, "owes": _MESSAGES.get(row["owes"]), "dag_ids": tuple(row["dag_ids"])}) for row in rows]


# Index: ix_alert_last_at.
HANDLED: Final = "SELECT rule_id, subject, max(last_at) FROM alert WHERE last_at >= $1 GROUP BY 1, 2"


async def handled_events(conn: DatabaseConnection, since: datetime) -> dict[tuple[int, str], datetime]:
    """The newest event after `since` of each rule and subject that an alert was opened for."""
    return {(rule, subject): at for rule, subject, at in await conn.fetch(HANDLED, since)}


# Guard: one that is open for each rule and subject.
OPEN: Final = """
    INSERT INTO alert (rule_id, subject, dag_ids, run_id, text, opened_at, last_at, owes, deliver_at)
    SELECT r.id, $2, $3, $4, $5, $6, $7, $8, $9 FROM alert_rule AS r WHERE r.id = $1 AND NOT r.is_paused
    ON CONFLICT (rule_id, subject) WHERE recovered_at IS NULL DO NOTHING
    RETURNING id
"""
AGAIN: Final = "UPDATE alert SET last_at = $2, text = $3, run_id = $4, events = events + 1 WHERE id = $1"
OWE: Final = """
    UPDATE alert SET owes = $2, deliver_at = $3, recovered_at = CASE WHEN $4 THEN $5::timestamptz ELSE recovered_at END
     WHERE id = $1 AND recovered_at IS NULL
"""


async def open_alert(conn: DatabaseConnection, change: OpenAlert, now: datetime) -> int | None:
    """Store a new alert, which owes its announcement; its id, or None if the rule has gone or has one by now."""
    fact = change.fact
    number: int | None = await conn.fetchval(
        OPEN, change.rule.id, fact.subject, list(fact.dag_ids), fact.run_id, fact.text, now,
        fact.at, AlertMessage.OPENED, change.deliver_at,
    )  # fmt: skip
    return number


async def store_change(conn: DatabaseConnection, change: RepeatAlert | UpdateAlert, now: datetime) -> None:
    """Store what has become of an open alert."""
    if isinstance(change, RepeatAlert):
        await conn.execute(AGAIN, change.alert, change.fact.at, change.fact.text, change.fact.run_id)
    else:
        await conn.execute(OWE, change.alert, change.message, change.deliver_at, change.recovers, now)


# The request says which message it delivers, in the column of the task. Guard: not while another one delivers it.
BEGIN: Final = """
    WITH wanted AS (
        SELECT a.id, a.dag_ids, a.owes FROM alert AS a
         WHERE a.id = ANY($1::bigint[]) AND a.owes IS NOT NULL
           AND NOT EXISTS (SELECT FROM callback_outbox AS c WHERE c.id = a.callback_id AND c.given_up_at IS NULL)
         ORDER BY a.id FOR UPDATE
    ), requests AS (
        INSERT INTO callback_outbox (partition, kind, dag_id, run_id, reason, task_id)
        SELECT $2, 'alert', coalesce(dag_ids[1], ''), $3, id::text, owes FROM wanted
        RETURNING id, reason::bigint AS alert, dag_id
    ), noted AS (
        UPDATE alert SET callback_id = r.id FROM requests AS r WHERE alert.id = r.alert
    )
    SELECT id, dag_id FROM requests ORDER BY id
"""


async def request_deliveries(conn: DatabaseConnection, alerts: Sequence[int]) -> dict[int, str]:
    """Request the delivery of what these alerts owe; the new requests in the outbox, each with its DAG or ''."""
    return dict(await conn.fetch(BEGIN, list(alerts), _NO_PARTITION, NO_RUN))


@dataclass(frozen=True, slots=True)
class Notice:
    """What is to be delivered: the alert, its rule, and where to."""

    alert: int
    rule: str
    kind: str
    severity: str
    notifier: str
    message: str | None
    subject: str
    dag_ids: tuple[str, ...]
    run_id: str | None
    text: str
    opened_at: datetime
    last_at: datetime
    recovered_at: datetime | None
    events: int


# Index: ix_alert_callback_id.
NOTICES: Final = """
    SELECT a.callback_id, a.id AS alert, r.name AS rule, r.kind, r.severity, r.notifier, c.task_id AS message,
           a.subject, array_remove(a.dag_ids, NULL) AS dag_ids, a.run_id, a.text, a.opened_at, a.last_at,
           a.recovered_at, a.events
      FROM alert AS a
      JOIN alert_rule AS r ON r.id = a.rule_id
      JOIN callback_outbox AS c ON c.id = a.callback_id
     WHERE a.callback_id = ANY($1::bigint[])
"""


async def notices_of(conn: DatabaseConnection, callbacks: Collection[int]) -> dict[int, Notice]:
    """What each of these requests delivers; those of a rule that has gone are absent."""
    found = {}
    for row in await conn.fetch(NOTICES, list(callbacks)):
        values = dict(row)
        callback = values.pop("callback_id")
        found[callback] = Notice(**{**values, "dag_ids": tuple(values["dag_ids"])})
    return found


# What has come to be owed since the delivery began is still owed.
DELIVERED: Final = """
    WITH done AS (
        UPDATE alert SET told_at = $2, failures = 0, error = NULL, callback_id = NULL,
                         owes = CASE WHEN owes = (SELECT task_id FROM callback_outbox WHERE id = $1) THEN NULL
                                     ELSE owes END
         WHERE callback_id = $1 RETURNING rule_id
    )
    UPDATE alert_rule SET error = NULL, failed_at = NULL FROM done WHERE id = done.rule_id AND error IS NOT NULL
"""


async def note_delivered(conn: DatabaseConnection, callback: int, now: datetime) -> None:
    """The request has delivered what the alert owed when it was stored. Call it before the request is deleted."""
    await conn.execute(DELIVERED, callback, now)


FAILURES: Final = "SELECT failures FROM alert WHERE callback_id = $1 FOR UPDATE"
FAILED: Final = """
    WITH failed AS (
        UPDATE alert SET failures = failures + 1, error = $2, callback_id = NULL,
                         deliver_at = $3::timestamptz + make_interval(secs => $4)
         WHERE callback_id = $1 RETURNING rule_id
    )
    UPDATE alert_rule SET error = $2, failed_at = $3 FROM failed WHERE id = failed.rule_id
"""


async def note_failed(conn: DatabaseConnection, callback: int, error: str, now: datetime) -> None:
    """The request could not deliver: the alert is delivered again later, and its rule shows why."""
    failures = await conn.fetchval(FAILURES, callback)
    if failures is not None:
        await conn.execute(FAILED, callback, error, now, pause_after(failures + 1))


# They are shown on their rules, and tried again. Index: ix_alert_owed.
GIVEN_UP: Final = """
    SELECT c.id, c.error FROM alert AS a JOIN callback_outbox AS c ON c.id = a.callback_id
     WHERE a.owes IS NOT NULL AND c.given_up_at IS NOT NULL
"""


async def given_up(conn: DatabaseConnection) -> dict[int, str | None]:
    """The requests for deliveries of alerts that were lost too often, each with its error."""
    return dict(await conn.fetch(GIVEN_UP))


TEST: Final = """
    INSERT INTO alert (rule_id, subject, text, opened_at, last_at, recovered_at, owes, deliver_at)
    SELECT id, $2, $3, $4, $5, $4, 'test', $4 FROM alert_rule WHERE name = $1 RETURNING id
"""
_LONG_AGO: Final = datetime.fromisoformat("2000-01-01T00:00:00+00:00")  # a test has no event


async def add_test(conn: DatabaseConnection, rule: str, text: str, now: datetime) -> int | None:
    """Have a test message of a rule delivered; the id of its alert, None without such a rule."""
    number: int | None = await conn.fetchval(TEST, rule, "test", text, now, _LONG_AGO)
    return number


OUTCOME: Final = "SELECT told_at IS NOT NULL, error FROM alert WHERE id = $1"


async def outcome_of(conn: Queryable, alert: int) -> tuple[bool, str | None]:
    """Whether something of an alert was delivered, and the error of its last delivery."""
    row = await conn.fetchrow(OUTCOME, alert)
    return (False, "its rule was deleted") if row is None else (row[0], row[1])


# A few at a time. Index: the primary key, oldest first.
PURGE: Final = """
    DELETE FROM alert WHERE id IN (SELECT id FROM alert WHERE recovered_at < $1 ORDER BY id LIMIT $2)
"""
PURGE_LOST: Final = "DELETE FROM lost_scheduler WHERE lost_at < $1"


async def purge_alerts(conn: DatabaseConnection, before: datetime, *, limit: int) -> None:
    """Remove alerts that recovered before that, and what is known of schedulers lost before."""
    await conn.execute(PURGE, before, limit)
    await conn.execute(PURGE_LOST, before)


@dataclass(frozen=True, slots=True)
class AlertRow:
    """An alert, for people."""

    id: int
    rule: str
    kind: str
    severity: str
    subject: str
    dag_ids: tuple[str, ...]
    run_id: str | None
    text: str
    opened_at: datetime
    last_at: datetime
    recovered_at: datetime | None
    events: int
    owes: str | None
    deliver_at: datetime | None
    told_at: datetime | None
    failures: int
    error: str | None
    acknowledged_by: str | None
    acknowledged_at: datetime | None
    rule_id: int
    silenced_until: datetime | None = None


_SHOWN: Final = ", ".join(
    {
        "rule": "r.name AS rule",
        "kind": "r.kind",
        "severity": "r.severity",
        "dag_ids": "array_remove(a.dag_ids, NULL) AS dag_ids",  # it may hold NULL
    }.get(field.name, f"a.{field.name}")
    for field in fields(AlertRow)
    if field.name != "silenced_until"  # not of the row: silences.py
)
MOST_SEARCHED: Final = 5_000  # alerts, newest first
# Those of DAGs that are seen, all of them: the text may name each. Index: the primary key, backwards.
LIST: Final = ScopedStatement.of(
    f"""
    SELECT {_SHOWN} FROM (SELECT * FROM alert WHERE id < $1 ORDER BY id DESC LIMIT {MOST_SEARCHED}) AS a
      JOIN alert_rule AS r ON r.id = a.rule_id
     WHERE ($2::bool IS NULL OR (a.recovered_at IS NULL) = $2) AND ($3::text IS NULL OR r.name = $3) [seen]
     ORDER BY a.id DESC LIMIT $4
""",
    "cardinality(a.dag_ids) > 0 AND a.dag_ids <@ ?::text[]",
)
# Index: uq_alert_open.
COUNT_OPEN: Final = ScopedStatement.of(
    "SELECT count(*)::int FROM (SELECT FROM alert AS a WHERE a.recovered_at IS NULL [seen] LIMIT $1) AS found",
    "cardinality(a.dag_ids) > 0 AND a.dag_ids <@ ?::text[]",
)
GET: Final = f"SELECT {_SHOWN} FROM alert AS a JOIN alert_rule AS r ON r.id = a.rule_id WHERE a.id = $1"
# Guard: the first one's name stays.
ACKNOWLEDGE: Final = """
    UPDATE alert SET acknowledged_by = $2, acknowledged_at = $3
     WHERE id = $1 AND recovered_at IS NULL AND acknowledged_at IS NULL
"""


async def list_alerts(
    conn: DatabaseConnection, *, before: int | None, is_open: bool | None, rule: str | None, limit: int, seen: Seen
) -> list[AlertRow]:
    """Alerts, newest first, before the id `before`."""
    rows = await LIST.fetch(conn, before or 2**62, is_open, rule, limit, seen=seen)
    return [_row(row) for row in rows]


def _row(row: Any) -> AlertRow:
    return AlertRow(**{**dict(row), "dag_ids": tuple(row["dag_ids"])})


async def count_open(conn: Queryable, *, limit: int, seen: Seen) -> int:
    """The number of open alerts, at most `limit`."""
    ((number,),) = await COUNT_OPEN.fetch(conn, limit, seen=seen)
    return int(number)


async def get_alert(conn: DatabaseConnection, number: int) -> AlertRow | None:
    """One alert."""
    row = await conn.fetchrow(GET, number)
    return None if row is None else _row(row)


async def acknowledge(conn: DatabaseConnection, number: int, by: str, now: datetime) -> bool:
    """Note who has an open alert in hand; False if it has recovered, or somebody has it."""
    tag: str = await conn.execute(ACKNOWLEDGE, number, by, now)
    return tag == "UPDATE 1"
