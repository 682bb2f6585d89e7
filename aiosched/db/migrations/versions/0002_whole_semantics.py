"""What the rest of the semantics, many schedulers and the web need.

Only additions, so that the schedulers of version 0.1 go on.

Revision 0002. Source: docs/architecture.md, "The tables".
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("ALTER TABLE task_instance SET (fillfactor = 25)")  # holds for pages from now on
    op.add_column("pool", sa.Column("demands", JSONB(), server_default=sa.text("'{}'"), nullable=False))
    op.add_column("asset_reference", sa.Column("watchers", sa.JSON(), nullable=True))
    op.add_column("scheduler", sa.Column("figures", sa.JSON(), nullable=True))
    op.add_column("scheduler", sa.Column("protocol", sa.SmallInteger(), server_default=sa.text("1"), nullable=False))
    op.add_column("task_report", sa.Column("queued_by", sa.BigInteger(), nullable=True))
    op.create_index(op.f("ix_command_dag_id_id"), "command", ["dag_id", "id"])
    op.create_table(
        "sla_miss",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("partition", sa.SmallInteger(), nullable=False),
        sa.Column("dag_id", sa.Text(), nullable=False),
        sa.Column("task_id", sa.Text(), nullable=False),
        sa.Column("logical_date", sa.DateTime(timezone=True), nullable=False),
        sa.Column("missed_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("callback_id", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_sla_miss")),
        sa.UniqueConstraint("dag_id", "task_id", "logical_date", name=op.f("uq_sla_miss_dag_id_task_id_logical_date")),
    )
    op.create_index(op.f("ix_sla_miss_callback_id"), "sla_miss", ["callback_id"], unique=False)
    op.create_table(
        "task_note",
        sa.Column("run_id", sa.BigInteger(), nullable=False),
        sa.Column("task_index", sa.Integer(), nullable=False),
        sa.Column("map_index", sa.Integer(), nullable=False),
        sa.Column("note", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("run_id", "task_index", "map_index", name=op.f("pk_task_note")),
    )
    op.create_table(
        "web_user",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("password", sa.Text(), nullable=True),
        sa.Column("is_disabled", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("sessions_void", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.CheckConstraint("role IN ('viewer', 'operator', 'admin')", name=op.f("ck_web_user_role")),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_web_user")),
    )
    op.create_table(
        "api_token",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("label", sa.Text(), nullable=False),
        sa.Column("token_hash", sa.Text(), nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("last_used_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.CheckConstraint("role IN ('viewer', 'operator', 'admin')", name=op.f("ck_api_token_role")),
        sa.ForeignKeyConstraint(["owner"], ["web_user.name"], name=op.f("fk_api_token_owner"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_api_token")),
        sa.UniqueConstraint("token_hash", name=op.f("uq_api_token_token_hash")),
    )
    op.create_index(op.f("ix_api_token_owner"), "api_token", ["owner"])
    op.create_table(
        "deferral",
        sa.Column("run_id", sa.BigInteger(), nullable=False),
        sa.Column("task_index", sa.Integer(), nullable=False),
        sa.Column("map_index", sa.Integer(), nullable=False),
        sa.Column("try_number", sa.SmallInteger(), nullable=False),
        sa.Column("since", sa.DateTime(timezone=True), nullable=False),
        sa.Column("until", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("run_id", "task_index", "map_index", "try_number", "since", name=op.f("pk_deferral")),
        postgresql_with={"fillfactor": "70"},
    )
    op.create_index(op.f("ix_asset_alias_asset_id"), "asset_alias", ["asset_id"])
    op.create_table(
        "web_key",
        sa.Column("id", sa.SmallInteger(), autoincrement=False, nullable=False),
        sa.Column("key", sa.LargeBinary(), nullable=False),
        sa.CheckConstraint("id = 1", name=op.f("ck_web_key_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_web_key")),
    )


def downgrade() -> None:
    op.execute("ALTER TABLE task_instance SET (fillfactor = 60)")
    for table in ("web_key", "api_token", "web_user"):
        op.drop_table(table)
    op.drop_index(op.f("ix_asset_alias_asset_id"), "asset_alias")
    op.drop_table("deferral")
    op.drop_index(op.f("ix_command_dag_id_id"), "command")
    op.drop_column("task_report", "queued_by")
    op.drop_column("scheduler", "protocol")
    op.drop_column("scheduler", "figures")
    op.drop_column("asset_reference", "watchers")
    op.drop_column("pool", "demands")
    op.drop_table("task_note")
    op.drop_table("sla_miss")
