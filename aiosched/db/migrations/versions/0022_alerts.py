"""Alerts: rules, alerts, and schedulers that were taken over; missed deadlines by their time.

Only an addition: an older scheduler neither evaluates rules nor delivers alerts, which wait for a newer one; it writes
down no scheduler that it takes over. Revision 0022.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import DOUBLE_PRECISION

revision = "0022"
down_revision = "0021"
branch_labels = None
depends_on = None


def _instant(name: str, **options: object) -> sa.Column[object]:
    return sa.Column(name, sa.DateTime(timezone=True), **options)  # type: ignore[arg-type]


def _texts(name: str) -> sa.Column[object]:
    return sa.Column(name, sa.ARRAY(sa.Text()), nullable=False, server_default=sa.text("'{}'"))


def upgrade() -> None:
    op.create_table(
        "alert_rule",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("notifier", sa.Text(), nullable=False),
        _texts("dags"),
        _texts("tags"),
        _texts("owners"),
        sa.Column("seconds", DOUBLE_PRECISION()),
        sa.Column("factor", DOUBLE_PRECISION()),
        sa.Column("remind_seconds", DOUBLE_PRECISION()),
        sa.Column("quiet_from", sa.Text()),
        sa.Column("quiet_until", sa.Text()),
        sa.Column("time_zone", sa.Text(), nullable=False, server_default=sa.text("'UTC'")),
        sa.Column("is_paused", sa.Boolean(), nullable=False, server_default=sa.text("false")),
        sa.Column("from_settings", sa.Boolean(), nullable=False, server_default=sa.text("false")),
        _instant("since", nullable=False, server_default=sa.text("now()")),
        _instant("looked_until"),
        sa.Column("error", sa.Text()),
        _instant("failed_at"),
        _instant("created_at", nullable=False, server_default=sa.text("now()")),
        sa.PrimaryKeyConstraint("id", name="pk_alert_rule"),
        sa.UniqueConstraint("name", name="uq_alert_rule_name"),
    )
    rule = sa.ForeignKey("alert_rule.id", name="fk_alert_rule_id", ondelete="CASCADE")
    op.create_table(
        "alert",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("rule_id", sa.BigInteger(), rule, nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        _texts("dag_ids"),
        sa.Column("run_id", sa.Text()),
        sa.Column("text", sa.Text(), nullable=False),
        _instant("opened_at", nullable=False),
        _instant("last_at", nullable=False),
        sa.Column("events", sa.Integer(), nullable=False, server_default=sa.text("1")),
        _instant("recovered_at"),
        sa.Column("owes", sa.Text()),
        _instant("deliver_at"),
        sa.Column("callback_id", sa.BigInteger()),
        _instant("told_at"),
        sa.Column("failures", sa.Integer(), nullable=False, server_default=sa.text("0")),
        sa.Column("error", sa.Text()),
        sa.PrimaryKeyConstraint("id", name="pk_alert"),
    )
    is_open, owes = sa.text("recovered_at IS NULL"), sa.text("owes IS NOT NULL")
    op.create_index("uq_alert_open", "alert", ["rule_id", "subject"], unique=True, postgresql_where=is_open)
    op.create_index("ix_alert_owed", "alert", ["id"], postgresql_where=owes)
    op.create_index("ix_alert_rule_id", "alert", ["rule_id"])
    op.create_index("ix_alert_last_at", "alert", ["last_at"])
    in_flight = sa.text("callback_id IS NOT NULL")
    op.create_index("ix_alert_callback_id", "alert", ["callback_id"], postgresql_where=in_flight)
    op.create_table(
        "lost_scheduler",
        sa.Column("incarnation", sa.BigInteger(), nullable=False, autoincrement=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("hostname", sa.Text(), nullable=False),
        _instant("lost_at", nullable=False, server_default=sa.text("now()")),
        sa.PrimaryKeyConstraint("incarnation", name="pk_lost_scheduler"),
    )
    op.create_index("ix_deadline_missed", "deadline", ["deadline_time"], postgresql_where=sa.text("missed"))


def downgrade() -> None:
    op.drop_index("ix_deadline_missed", "deadline")
    op.execute("DELETE FROM callback_outbox WHERE kind = 'alert'")
    op.drop_table("lost_scheduler")
    op.drop_table("alert")
    op.drop_table("alert_rule")
