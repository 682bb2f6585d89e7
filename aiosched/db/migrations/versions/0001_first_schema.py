"""The first schema: all tables, the rows that always exist, and the view for people.

Revision 0001. Source: docs/architecture.md, "The tables".
"""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

# Task instances as people name them. The names of a run's tasks are unpacked once per run (OFFSET 0 keeps the
# planner from doing it once per row), so ask by dag_id and run_id, or for few runs.
TASK_INSTANCE_NAMED: Final = """
    CREATE VIEW task_instance_named AS
    SELECT r.dag_id, r.run_id, ti.task_id, ti.map_index, ti.state, ti.try_number, ti.max_tries, ti.losses,
           ti.reason, ti.operator, ti.pool, ti.queued_by, ti.scheduled_at, ti.queued_at, ti.start_date, ti.end_date,
           ti.next_at, r.logical_date, r.state AS run_state, r.id AS run_key, ti.task_index
      FROM dag_run AS r
      JOIN dag_version AS v ON v.id = r.version_id
     CROSS JOIN LATERAL (
           SELECT i.*, task.spec ->> 'task_id' AS task_id, task.spec ->> 'operator' AS operator,
                  coalesce(task.spec ->> 'pool', 'default_pool') AS pool
             FROM task_instance AS i
             LEFT JOIN json_array_elements(v.spec -> 'tasks') WITH ORDINALITY AS task (spec, position)
               ON task.position = i.task_index + 1
            WHERE i.run_id = r.id
           OFFSET 0
     ) AS ti
"""

PARTITION_ROWS: Final = "INSERT INTO partition_lease (partition) SELECT generate_series(0, 63)"
DEFAULT_POOL: Final = """
    INSERT INTO pool (name, slots, description) VALUES ('default_pool', 128, 'where tasks go that name no pool')
"""


def upgrade() -> None:
    op.create_table(
        "asset",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("uri", sa.Text(), nullable=False),
        sa.Column("is_active", sa.Boolean(), server_default=sa.text("true"), nullable=False),
        sa.Column("extra", sa.JSON(), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_asset")),
        sa.UniqueConstraint("name", name=op.f("uq_asset_name")),
    )
    op.create_index(op.f("ix_asset_uri"), "asset", ["uri"], unique=False)
    op.create_table(
        "asset_reference",
        sa.Column("dag_id", sa.Text(), nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("task_id", sa.Text(), nullable=False),
        sa.Column("uri", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.CheckConstraint("role IN ('schedule', 'inlet', 'outlet')", name=op.f("ck_asset_reference_role")),
        sa.CheckConstraint("kind IN ('asset', 'alias', 'name', 'uri')", name=op.f("ck_asset_reference_kind")),
        sa.PrimaryKeyConstraint("dag_id", "role", "kind", "name", "task_id", name=op.f("pk_asset_reference")),
    )
    op.create_index(op.f("ix_asset_reference_name_role"), "asset_reference", ["name", "role"], unique=False)
    op.create_table(
        "backfill",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("dag_id", sa.Text(), nullable=False),
        sa.Column("partition", sa.SmallInteger(), nullable=False),
        sa.Column("from_date", sa.DateTime(timezone=True), nullable=False),
        sa.Column("to_date", sa.DateTime(timezone=True), nullable=False),
        sa.Column("max_active_runs", sa.Integer(), server_default=sa.text("10"), nullable=False),
        sa.Column("backwards", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("rerun", sa.Text(), server_default=sa.text("'missing'"), nullable=False),
        sa.Column("conf", sa.JSON(), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("is_paused", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("completed_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.CheckConstraint("rerun IN ('missing', 'failed', 'all')", name=op.f("ck_backfill_rerun")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_backfill")),
    )
    op.create_index(
        "uq_backfill_unfinished", "backfill", ["dag_id"], unique=True, postgresql_where=sa.text("completed_at IS NULL")
    )
    op.create_table(
        "callback_outbox",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("partition", sa.SmallInteger(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("dag_id", sa.Text(), nullable=False),
        sa.Column("run_id", sa.BigInteger(), nullable=False),
        sa.Column("task_id", sa.Text(), nullable=True),
        sa.Column("map_index", sa.Integer(), nullable=True),
        sa.Column("try_number", sa.SmallInteger(), nullable=True),
        sa.Column("deadline_index", sa.Integer(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("attempts", sa.SmallInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("given_up_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_callback_outbox")),
    )
    op.create_index(op.f("ix_callback_outbox_run_id"), "callback_outbox", ["run_id"], unique=False)
    op.create_index(
        "ix_callback_outbox_waiting",
        "callback_outbox",
        ["partition", "id"],
        unique=False,
        postgresql_where=sa.text("given_up_at IS NULL"),
    )
    op.create_table(
        "command",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("partition", sa.SmallInteger(), nullable=True),
        sa.Column("dag_id", sa.Text(), nullable=True),
        sa.Column("verb", sa.Text(), nullable=False),
        sa.Column("args", sa.JSON(), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("requested_by", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("state", sa.Text(), server_default=sa.text("'waiting'"), nullable=False),
        sa.Column("result", sa.JSON(), nullable=True),
        sa.Column("applied_by", sa.BigInteger(), nullable=True),
        sa.Column("applied_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.CheckConstraint("state IN ('waiting', 'applied', 'refused')", name=op.f("ck_command_state")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_command")),
    )
    op.create_index(
        "ix_command_waiting",
        "command",
        ["partition", "id"],
        unique=False,
        postgresql_where=sa.text("state = 'waiting'"),
    )
    op.create_table(
        "connection",
        sa.Column("conn_id", sa.Text(), nullable=False),
        sa.Column("conn_type", sa.Text(), nullable=False),
        sa.Column("secret", sa.Text(), nullable=False),
        sa.Column("description", sa.Text(), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("conn_id", name=op.f("pk_connection")),
    )
    op.create_table(
        "dag",
        sa.Column("dag_id", sa.Text(), nullable=False),
        sa.Column("partition", sa.SmallInteger(), nullable=False),
        sa.Column("file", sa.Text(), nullable=True),
        sa.Column("version_id", sa.BigInteger(), nullable=True),
        sa.Column("has_import_errors", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("is_stale", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("max_active_runs", sa.Integer(), server_default=sa.text("16"), nullable=False),
        sa.Column("max_active_tasks", sa.Integer(), server_default=sa.text("16"), nullable=False),
        sa.Column("schedule", sa.Text(), nullable=True),
        sa.Column("description", sa.Text(), nullable=True),
        sa.Column("owner", sa.Text(), nullable=True),
        sa.Column("tags", postgresql.ARRAY(sa.Text()), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("last_parsed_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("is_paused", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("next_dagrun", sa.DateTime(timezone=True), nullable=True),
        sa.Column("next_dagrun_data_interval_start", sa.DateTime(timezone=True), nullable=True),
        sa.Column("next_dagrun_data_interval_end", sa.DateTime(timezone=True), nullable=True),
        sa.Column("next_dagrun_create_after", sa.DateTime(timezone=True), nullable=True),
        sa.Column("asset_scheduled_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("last_asset_run_after", sa.DateTime(timezone=True), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.CheckConstraint("partition BETWEEN 0 AND 63", name=op.f("ck_dag_partition")),
        sa.PrimaryKeyConstraint("dag_id", name=op.f("pk_dag")),
    )
    op.create_index(op.f("ix_dag_partition"), "dag", ["partition"], unique=False)
    op.create_table(
        "dag_file",
        sa.Column("file", sa.Text(), nullable=False),
        sa.Column("partition", sa.SmallInteger(), nullable=False),
        sa.Column("content_hash", sa.Text(), nullable=True),
        sa.Column("dag_ids", postgresql.ARRAY(sa.Text()), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("parsed_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("parse_seconds", sa.DOUBLE_PRECISION(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("error_line", sa.Integer(), nullable=True),
        sa.Column("traceback", sa.Text(), nullable=True),
        sa.Column("code_frame", sa.Text(), nullable=True),
        sa.Column("warnings", postgresql.ARRAY(sa.Text()), server_default=sa.text("'{}'"), nullable=False),
        sa.PrimaryKeyConstraint("file", name=op.f("pk_dag_file")),
    )
    op.create_table(
        "dag_version",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("dag_id", sa.Text(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("content_hash", sa.Text(), nullable=False),
        sa.Column("spec", sa.JSON(), nullable=False),
        sa.Column("file", sa.Text(), nullable=True),
        sa.Column("file_hash", sa.Text(), nullable=True),
        sa.Column("source", sa.Text(), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.CheckConstraint("number >= 1", name=op.f("ck_dag_version_number")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_dag_version")),
        sa.UniqueConstraint("dag_id", "number", name=op.f("uq_dag_version_dag_id_number")),
    )
    op.create_table(
        "deadline",
        sa.Column("run_id", sa.BigInteger(), nullable=False),
        sa.Column("deadline_index", sa.Integer(), nullable=False),
        sa.Column("partition", sa.SmallInteger(), nullable=False),
        sa.Column("deadline_time", sa.DateTime(timezone=True), nullable=False),
        sa.Column("missed", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("run_id", "deadline_index", name=op.f("pk_deadline")),
    )
    op.create_index(
        "ix_deadline_pending", "deadline", ["partition"], unique=False, postgresql_where=sa.text("NOT missed")
    )
    op.create_table(
        "deferred_trigger",
        sa.Column("run_id", sa.BigInteger(), nullable=False),
        sa.Column("task_index", sa.Integer(), nullable=False),
        sa.Column("map_index", sa.Integer(), nullable=False),
        sa.Column("classpath", sa.Text(), nullable=False),
        sa.Column("kwargs", sa.JSON(), nullable=False),
        sa.Column("next_method", sa.Text(), nullable=False),
        sa.Column("next_kwargs", sa.JSON(), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("timeout_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("holds_pool", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("event", sa.JSON(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("timed_out", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("run_id", "task_index", "map_index", name=op.f("pk_deferred_trigger")),
    )
    op.create_table(
        "pool",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("slots", sa.Integer(), nullable=False),
        sa.Column("used", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("include_deferred", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("description", sa.Text(), nullable=True),
        sa.CheckConstraint("slots >= -1", name=op.f("ck_pool_slots")),
        sa.CheckConstraint("used >= 0", name=op.f("ck_pool_used")),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_pool")),
        postgresql_with={"fillfactor": "20"},
    )
    op.create_table(
        "scheduler",
        sa.Column("incarnation", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("hostname", sa.Text(), nullable=False),
        sa.Column("pid", sa.Integer(), nullable=False),
        sa.Column("version", sa.Text(), nullable=False),
        sa.Column("executor", sa.Text(), nullable=False),
        sa.Column("slots", sa.Integer(), nullable=False),
        sa.Column("draining", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("renewed_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("lease_expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("incarnation", name=op.f("pk_scheduler")),
        postgresql_with={"fillfactor": "20"},
    )
    op.create_table(
        "task_instance",
        sa.Column("run_id", sa.BigInteger(), nullable=False),
        sa.Column("task_index", sa.Integer(), nullable=False),
        sa.Column("map_index", sa.Integer(), nullable=False),
        sa.Column("try_number", sa.SmallInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("max_tries", sa.SmallInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("losses", sa.SmallInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("queued_by", sa.BigInteger(), nullable=True),
        sa.Column("scheduled_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("queued_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("start_date", sa.DateTime(timezone=True), nullable=True),
        sa.Column("end_date", sa.DateTime(timezone=True), nullable=True),
        sa.Column("next_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("state", sa.Text(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.CheckConstraint(
            "state IN ('scheduled', 'queued', 'running', 'restarting', 'shutdown', 'up_for_retry', "
            "'up_for_reschedule', 'deferred', 'success', 'skipped', 'failed', 'upstream_failed', 'removed')",
            name=op.f("ck_task_instance_state"),
        ),
        sa.CheckConstraint("map_index >= -1", name=op.f("ck_task_instance_map_index")),
        sa.CheckConstraint("try_number >= 0 AND max_tries >= 0 AND losses >= 0", name=op.f("ck_task_instance_tries")),
        sa.PrimaryKeyConstraint("run_id", "task_index", "map_index", name=op.f("pk_task_instance")),
        postgresql_with={"fillfactor": "60"},
    )
    op.create_table(
        "task_report",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("partition", sa.SmallInteger(), nullable=False),
        sa.Column("run_id", sa.BigInteger(), nullable=False),
        sa.Column("task_index", sa.Integer(), nullable=False),
        sa.Column("map_index", sa.Integer(), nullable=False),
        sa.Column("try_number", sa.SmallInteger(), nullable=False),
        sa.Column("outcome", sa.Text(), nullable=False),
        sa.Column("body", sa.JSON(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_task_report")),
    )
    op.create_index(op.f("ix_task_report_partition_id"), "task_report", ["partition", "id"], unique=False)
    op.create_index(
        "uq_task_report_started",
        "task_report",
        ["run_id", "task_index", "map_index", "try_number"],
        unique=True,
        postgresql_where=sa.text("outcome = 'started'"),
    )
    op.create_table(
        "task_try",
        sa.Column("run_id", sa.BigInteger(), nullable=False),
        sa.Column("task_index", sa.Integer(), nullable=False),
        sa.Column("map_index", sa.Integer(), nullable=False),
        sa.Column("try_number", sa.SmallInteger(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("queued_by", sa.BigInteger(), nullable=True),
        sa.Column("queued_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("start_date", sa.DateTime(timezone=True), nullable=True),
        sa.Column("end_date", sa.DateTime(timezone=True), nullable=True),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("details", sa.Text(), nullable=True),
        sa.Column("hostname", sa.Text(), nullable=True),
        sa.Column("pid", sa.Integer(), nullable=True),
        sa.PrimaryKeyConstraint("run_id", "task_index", "map_index", "try_number", name=op.f("pk_task_try")),
    )
    op.create_table(
        "variable",
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.Column("description", sa.Text(), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_variable")),
    )
    op.create_table(
        "xcom",
        sa.Column("run_id", sa.BigInteger(), nullable=False),
        sa.Column("task_index", sa.Integer(), nullable=False),
        sa.Column("map_index", sa.Integer(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("value", sa.JSON(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("run_id", "task_index", "map_index", "key", name=op.f("pk_xcom")),
    )
    op.create_table(
        "asset_alias",
        sa.Column("alias", sa.Text(), nullable=False),
        sa.Column("asset_id", sa.BigInteger(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.ForeignKeyConstraint(["asset_id"], ["asset.id"], name=op.f("fk_asset_alias_asset_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("alias", "asset_id", name=op.f("pk_asset_alias")),
    )
    op.create_table(
        "asset_event",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("asset_id", sa.BigInteger(), nullable=False),
        sa.Column("timestamp", sa.DateTime(timezone=True), nullable=False),
        sa.Column("source_dag_id", sa.Text(), nullable=True),
        sa.Column("source_run_id", sa.BigInteger(), nullable=True),
        sa.Column("source_task_index", sa.Integer(), nullable=True),
        sa.Column("source_map_index", sa.Integer(), nullable=True),
        sa.Column("alias", sa.Text(), nullable=True),
        sa.Column("extra", sa.JSON(), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.ForeignKeyConstraint(["asset_id"], ["asset.id"], name=op.f("fk_asset_event_asset_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_asset_event")),
    )
    op.create_index(op.f("ix_asset_event_asset_id_timestamp"), "asset_event", ["asset_id", "timestamp"], unique=False)
    op.create_table(
        "asset_queue",
        sa.Column("dag_id", sa.Text(), nullable=False),
        sa.Column("asset_id", sa.BigInteger(), nullable=False),
        sa.Column("partition", sa.SmallInteger(), nullable=False),
        sa.Column("first_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("newest_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.ForeignKeyConstraint(["asset_id"], ["asset.id"], name=op.f("fk_asset_queue_asset_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("dag_id", "asset_id", name=op.f("pk_asset_queue")),
    )
    op.create_index(op.f("ix_asset_queue_partition"), "asset_queue", ["partition"], unique=False)
    op.create_table(
        "asset_consumption",
        sa.Column("dag_id", sa.Text(), nullable=False),
        sa.Column("event_id", sa.BigInteger(), nullable=False),
        sa.Column("run_id", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["event_id"], ["asset_event.id"], name=op.f("fk_asset_consumption_event_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("dag_id", "event_id", name=op.f("pk_asset_consumption")),
    )
    op.create_index(op.f("ix_asset_consumption_event_id"), "asset_consumption", ["event_id"], unique=False)
    op.create_index(op.f("ix_asset_consumption_run_id"), "asset_consumption", ["run_id"], unique=False)
    op.create_table(
        "dag_run",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("dag_id", sa.Text(), nullable=False),
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("partition", sa.SmallInteger(), nullable=False),
        sa.Column("version_id", sa.BigInteger(), nullable=False),
        sa.Column("run_type", sa.Text(), nullable=False),
        sa.Column("triggered_by", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("logical_date", sa.DateTime(timezone=True), nullable=True),
        sa.Column("data_interval_start", sa.DateTime(timezone=True), nullable=True),
        sa.Column("data_interval_end", sa.DateTime(timezone=True), nullable=True),
        sa.Column("run_after", sa.DateTime(timezone=True), nullable=False),
        sa.Column("queued_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("start_date", sa.DateTime(timezone=True), nullable=True),
        sa.Column("end_date", sa.DateTime(timezone=True), nullable=True),
        sa.Column("conf", sa.JSON(), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("note", sa.Text(), nullable=True),
        sa.Column("clear_number", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("backfill_id", sa.BigInteger(), nullable=True),
        sa.Column("backfill_order", sa.Integer(), nullable=True),
        sa.Column("created_by", sa.BigInteger(), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.CheckConstraint("run_id ~ '^[A-Za-z0-9_.~:+-]+$'", name=op.f("ck_dag_run_run_id")),
        sa.CheckConstraint(
            "run_type IN ('scheduled', 'manual', 'backfill', 'asset_triggered')", name=op.f("ck_dag_run_run_type")
        ),
        sa.CheckConstraint("state IN ('queued', 'running', 'success', 'failed')", name=op.f("ck_dag_run_state")),
        sa.CheckConstraint(
            "(data_interval_start IS NULL) = (data_interval_end IS NULL)", name=op.f("ck_dag_run_data_interval")
        ),
        sa.CheckConstraint(
            "logical_date IS NOT NULL OR data_interval_start IS NULL", name=op.f("ck_dag_run_logical_date")
        ),
        sa.ForeignKeyConstraint(["version_id"], ["dag_version.id"], name=op.f("fk_dag_run_version_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_dag_run")),
        sa.UniqueConstraint("dag_id", "logical_date", name=op.f("uq_dag_run_dag_id_logical_date")),
        sa.UniqueConstraint("dag_id", "run_id", name=op.f("uq_dag_run_dag_id_run_id")),
        postgresql_with={"fillfactor": "80"},
    )
    op.create_index("ix_dag_run_dag_id_id", "dag_run", ["dag_id", "id"], unique=False)
    op.create_index(
        "ix_dag_run_unfinished",
        "dag_run",
        ["partition"],
        unique=False,
        postgresql_where=sa.text("state IN ('queued', 'running')"),
    )
    op.create_table(
        "partition_lease",
        sa.Column("partition", sa.SmallInteger(), nullable=False),
        sa.Column("incarnation", sa.BigInteger(), nullable=True),
        sa.Column("since", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint("partition BETWEEN 0 AND 63", name=op.f("ck_partition_lease_partition")),
        sa.ForeignKeyConstraint(
            ["incarnation"], ["scheduler.incarnation"], name=op.f("fk_partition_lease_incarnation")
        ),
        sa.PrimaryKeyConstraint("partition", name=op.f("pk_partition_lease")),
        postgresql_with={"fillfactor": "20"},
    )
    op.execute(TASK_INSTANCE_NAMED)
    op.execute(PARTITION_ROWS)
    op.execute(DEFAULT_POOL)


def downgrade() -> None:
    op.execute("DROP VIEW task_instance_named")
    for table in (
        "partition_lease",
        "dag_run",
        "asset_consumption",
        "asset_queue",
        "asset_event",
        "asset_alias",
        "asset_reference",
        "xcom",
        "variable",
        "task_try",
        "task_report",
        "task_instance",
        "scheduler",
        "pool",
        "deferred_trigger",
        "deadline",
        "dag_version",
        "dag_file",
        "dag",
        "connection",
        "command",
        "callback_outbox",
        "backfill",
        "asset",
    ):
        op.drop_table(table)
