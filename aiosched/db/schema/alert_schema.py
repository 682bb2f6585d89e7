"""The tables of alerts: rules, alerts, and schedulers that were taken over."""

from __future__ import annotations

from sqlalchemy import (
    ARRAY,
    BigInteger,
    Boolean,
    Column,
    ForeignKey,
    Index,
    Integer,
    Table,
    Text,
    func,
    text,
)
from sqlalchemy.dialects.postgresql import DOUBLE_PRECISION

from aiosched.db.schema.columns import created_at, identity, instant, metadata

alert_rule = Table(
    "alert_rule",
    metadata,
    identity(),
    Column("name", Text, nullable=False, unique=True),
    Column("kind", Text, nullable=False),  # core/alerts/rules.py
    Column("notifier", Text, nullable=False),  # a name of the setting alerts.notifiers
    Column("dags", ARRAY(Text), nullable=False, server_default=text("'{}'")),  # globs; empty: all
    Column("tags", ARRAY(Text), nullable=False, server_default=text("'{}'")),
    Column("owners", ARRAY(Text), nullable=False, server_default=text("'{}'")),
    Column("seconds", DOUBLE_PRECISION),
    Column("factor", DOUBLE_PRECISION),
    Column("remind_seconds", DOUBLE_PRECISION),
    Column("quiet_from", Text),  # HH:MM
    Column("quiet_until", Text),
    Column("time_zone", Text, nullable=False, server_default=text("'UTC'")),
    Column("is_paused", Boolean, nullable=False, server_default=text("false")),
    Column("from_settings", Boolean, nullable=False, server_default=text("false")),  # changed only there
    instant("since", nullable=False, server_default=func.now()),  # what happened before does not concern it
    instant("looked_until"),  # it has been evaluated until then
    Column("error", Text),  # of the last delivery or evaluation; NULL: it worked
    instant("failed_at"),
    created_at(),
)

# One that is open at most for each rule and subject. Something is to be said of those that owe a message.
alert = Table(
    "alert",
    metadata,
    identity(),
    Column("rule_id", BigInteger, ForeignKey("alert_rule.id", ondelete="CASCADE"), nullable=False),
    Column("subject", Text, nullable=False),  # DAG, run, file, pool or scheduler
    Column("dag_ids", ARRAY(Text), nullable=False, server_default=text("'{}'")),  # that it concerns; empty: the fleet
    Column("run_id", Text),
    Column("text", Text, nullable=False),
    instant("opened_at", nullable=False),
    instant("last_at", nullable=False),  # its newest event
    Column("events", Integer, nullable=False, server_default=text("1")),
    instant("recovered_at"),
    Column("owes", Text),  # opened, reminder, recovered, test
    instant("deliver_at"),  # not before
    Column("callback_id", BigInteger),  # the callback_outbox row that delivers it
    instant("told_at"),  # the last delivery
    Column("failures", Integer, nullable=False, server_default=text("0")),  # deliveries in a row
    Column("error", Text),  # of the last one
    Index("uq_alert_open", "rule_id", "subject", unique=True, postgresql_where=text("recovered_at IS NULL")),
    Index("ix_alert_owed", "id", postgresql_where=text("owes IS NOT NULL")),
    Index(None, "rule_id"),
    Index(None, "last_at"),
    Index(None, "callback_id", postgresql_where=text("callback_id IS NOT NULL")),
)

# Schedulers that another one has taken over, without having been asked to stop.
lost_scheduler = Table(
    "lost_scheduler",
    metadata,
    Column("incarnation", BigInteger, primary_key=True, autoincrement=False),
    Column("name", Text, nullable=False),
    Column("hostname", Text, nullable=False),
    instant("lost_at", nullable=False, server_default=func.now()),
)
