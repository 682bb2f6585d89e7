"""The first schema: all tables, the rows that always exist, the functions with their triggers, and the view for people.

Revision 0200, of version 0.2.0. What later versions add are further files of this folder. Lower numbers were used
during development, and are not migrated. Source: docs/architecture.md, "The tables".
"""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0200"
down_revision = None
branch_labels = None
depends_on = None

# Task instances as people name them. The names of a run's tasks are unpacked once per run (OFFSET 0 keeps the
# planner from doing it once per row), so ask by dag_id and run_id, or for few runs.
_TASK_INSTANCE_NAMED: Final = """
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

_ROWS: Final = (
    "INSERT INTO partition_lease (partition) SELECT generate_series(0, 63)",
    "INSERT INTO pool (name, slots, description) VALUES ('default_pool', 128, 'where tasks go that name no pool')",
    "INSERT INTO fleet DEFAULT VALUES",
)

_XCOM_RELEASED: Final = """
    CREATE OR REPLACE FUNCTION aiosched_xcom_released() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        INSERT INTO unreferenced_xcom (path, since) VALUES (OLD.stored ->> 'path', now())
            ON CONFLICT (path) DO UPDATE SET try_number = NULL, since = now();
        RETURN NULL;
    END $$
"""
_XCOM_STORED: Final = """
    CREATE OR REPLACE FUNCTION aiosched_xcom_stored() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        DELETE FROM unreferenced_xcom WHERE path = NEW.stored ->> 'path';
        RETURN NULL;
    END $$
"""

# A document that nobody can read has no tasks here, and is stored nevertheless; a warning says so.
_VERSION_TASKS: Final = """
    CREATE OR REPLACE FUNCTION aiosched_version_tasks() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        INSERT INTO version_task (version_id, task_index, task_id, operator, pool)
        SELECT NEW.id, place - 1, task ->> 'task_id', task ->> 'operator', coalesce(task ->> 'pool', 'default_pool')
          FROM json_array_elements(NEW.spec -> 'tasks') WITH ORDINALITY AS each (task, place);
        RETURN NULL;
    EXCEPTION WHEN others THEN
        RAISE WARNING 'The tasks of version % of DAG % cannot be listed: %', NEW.number, NEW.dag_id, SQLERRM
            USING DETAIL = 'Lists of task instances lack the tasks of this version; its runs are not affected.',
                  HINT = 'A change of the DAG file makes a new version.';
        RETURN NULL;
    END $$
"""

# Of the arguments of a request, those with data of users are left out, since they may hold secrets, and all of them if
# they are long. Arguments that cannot be read (someone else wrote them) cost no request its answer.
_AUDIT_REQUEST: Final = """
    CREATE OR REPLACE FUNCTION aiosched_audit_request() RETURNS trigger LANGUAGE plpgsql AS $$
    DECLARE
        arguments json;
        error text;
        about text;
    BEGIN
        BEGIN
            IF octet_length(NEW.args::text) <= 100000 AND json_typeof(NEW.args) = 'object' THEN
                SELECT json_object_agg(key, CASE
                           WHEN key NOT IN ('conf', 'input', 'params', 'extra', 'answer', 'note') THEN value
                           WHEN json_typeof(value) = 'object' THEN
                               (SELECT coalesce(json_object_agg(k, '***'), '{}') FROM json_object_keys(value) AS k)
                           ELSE '"***"' END)
                  INTO arguments FROM json_each(NEW.args);
                about := coalesce(NEW.args ->> 'run_id', NEW.args ->> 'name');
            END IF;
            IF octet_length(arguments::text) > 4000 THEN
                arguments := NULL;
            END IF;
            error := left(NEW.result ->> 'error', 500);
        EXCEPTION WHEN others THEN
            arguments := NULL;
        END;
        INSERT INTO audit_log
               (kind, who, address, session_id, token_id, object, dag_id, result, detail, command_id)
        VALUES ('request.' || NEW.verb, NEW.requested_by, NEW.address, NEW.session_id, NEW.token_id, left(about, 250),
                NEW.dag_id, CASE NEW.state WHEN 'applied' THEN 'done' ELSE 'refused' END,
                json_strip_nulls(json_build_object(
                    'asked_at', NEW.created_at, 'reason', NEW.reason, 'arguments', arguments, 'error', error)),
                NEW.id);
        RETURN NULL;
    END $$
"""

_AUDIT_IS_KEPT: Final = """
    CREATE OR REPLACE FUNCTION aiosched_audit_is_kept() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF TG_OP = 'DELETE' AND OLD.at < now() - interval '7 days' THEN
            RETURN OLD;
        END IF;
        RAISE EXCEPTION 'entries of audit_log are not changed, and not deleted before they are 7 days old'
            USING ERRCODE = 'insufficient_privilege',
                  HINT = 'The setting audit.retention_days says how long entries are kept.';
    END $$
"""

_AUDIT_ADDED: Final = """
    CREATE OR REPLACE FUNCTION aiosched_audit_added() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF EXISTS (SELECT FROM audit_receiver) THEN
            INSERT INTO audit_unsent (id) VALUES (NEW.id);
        END IF;
        RETURN NULL;
    END $$
"""

# It runs as its owner, so its search path is the schema of the tables, and nothing of the caller's.
_PURGE_AUDIT_LOG: Final = """
    DO $make$
    BEGIN
        EXECUTE format($text$
            CREATE OR REPLACE FUNCTION purge_audit_log(before timestamptz, most integer) RETURNS integer
            LANGUAGE sql SECURITY DEFINER SET search_path = %I, pg_temp AS $$
                WITH gone AS (
                    DELETE FROM audit_log WHERE id IN (
                        SELECT id FROM audit_log WHERE at < least(before, now() - interval '7 days')
                         ORDER BY at LIMIT most)
                    RETURNING id
                ), sent AS (
                    DELETE FROM audit_unsent WHERE id IN (SELECT id FROM gone)
                )
                SELECT count(*)::integer FROM gone
            $$ $text$, current_schema());
    END $make$
"""

_TRIGGERS: Final = {
    "version_tasks": "AFTER INSERT ON dag_version FOR EACH ROW EXECUTE FUNCTION aiosched_version_tasks()",
    "xcom_deleted": "AFTER DELETE ON xcom FOR EACH ROW WHEN (OLD.stored ->> 'path' IS NOT NULL) EXECUTE FUNCTION "
    "aiosched_xcom_released()",
    "xcom_replaced": "AFTER UPDATE ON xcom FOR EACH ROW WHEN (OLD.stored ->> 'path' IS NOT NULL AND "
    "OLD.stored ->> 'path' IS DISTINCT FROM NEW.stored ->> 'path') EXECUTE FUNCTION aiosched_xcom_released()",
    "xcom_stored": "AFTER INSERT OR UPDATE ON xcom FOR EACH ROW WHEN (NEW.stored ->> 'path' IS NOT NULL) "
    "EXECUTE FUNCTION aiosched_xcom_stored()",
    "audit_request_answered": "AFTER UPDATE OF state ON request FOR EACH ROW "
    "WHEN (OLD.state = 'waiting' AND NEW.state <> 'waiting') EXECUTE FUNCTION aiosched_audit_request()",
    "audit_request_made": "AFTER INSERT ON request FOR EACH ROW WHEN (NEW.state <> 'waiting') "
    "EXECUTE FUNCTION aiosched_audit_request()",
    "audit_is_kept": "BEFORE UPDATE OR DELETE ON audit_log FOR EACH ROW EXECUTE FUNCTION aiosched_audit_is_kept()",
    "audit_is_whole": "BEFORE TRUNCATE ON audit_log FOR EACH STATEMENT EXECUTE FUNCTION aiosched_audit_is_kept()",
    "audit_added": "AFTER INSERT ON audit_log FOR EACH ROW EXECUTE FUNCTION aiosched_audit_added()",
}


def upgrade() -> None:
    _create_tables()
    for statement in (_TASK_INSTANCE_NAMED, *_ROWS):
        op.execute(statement)
    for function in (
        _XCOM_RELEASED, _XCOM_STORED, _VERSION_TASKS, _AUDIT_REQUEST, _AUDIT_IS_KEPT, _AUDIT_ADDED, _PURGE_AUDIT_LOG,
    ):  # fmt: skip
        op.execute(function)
    op.execute("REVOKE EXECUTE ON FUNCTION purge_audit_log(timestamptz, integer) FROM PUBLIC")
    for name, trigger in _TRIGGERS.items():
        op.execute(f"CREATE TRIGGER {name} {trigger}")


def _create_tables() -> None:
    op.create_table(
        "alert_rule",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("notifier", sa.Text(), nullable=False),
        sa.Column("dags", sa.ARRAY(sa.Text()), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("tags", sa.ARRAY(sa.Text()), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("owners", sa.ARRAY(sa.Text()), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("seconds", sa.DOUBLE_PRECISION()),
        sa.Column("factor", sa.DOUBLE_PRECISION()),
        sa.Column("remind_seconds", sa.DOUBLE_PRECISION()),
        sa.Column("quiet_from", sa.Text()),
        sa.Column("quiet_until", sa.Text()),
        sa.Column("time_zone", sa.Text(), server_default=sa.text("'UTC'"), nullable=False),
        sa.Column("is_paused", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("from_settings", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("since", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("looked_until", sa.DateTime(timezone=True)),
        sa.Column("error", sa.Text()),
        sa.Column("failed_at", sa.DateTime(timezone=True)),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_alert_rule"),
        sa.UniqueConstraint("name", name="uq_alert_rule_name"),
    )
    op.create_table(
        "asset",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("uri", sa.Text(), nullable=False),
        sa.Column("is_active", sa.Boolean(), server_default=sa.text("true"), nullable=False),
        sa.Column("extra", sa.JSON(), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_asset"),
        sa.UniqueConstraint("name", name="uq_asset_name"),
    )
    op.create_index("ix_asset_uri", "asset", ["uri"])
    op.create_table(
        "asset_partition",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("dag_id", sa.Text(), nullable=False),
        sa.Column("partition_key", sa.Text(), nullable=False),
        sa.Column("partition", sa.SmallInteger(), nullable=False),
        sa.Column("mapping", sa.Text(), nullable=False),
        sa.Column("partition_date", sa.DateTime(timezone=True)),
        sa.Column("newest_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("due_at", sa.DateTime(timezone=True)),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_asset_partition"),
        sa.UniqueConstraint("dag_id", "partition_key", name="uq_asset_partition_dag_id_partition_key"),
    )
    op.create_index(
        "ix_asset_partition_due", "asset_partition", ["partition"], postgresql_where=sa.text("due_at IS NOT NULL")
    )
    op.create_table(
        "asset_reference",
        sa.Column("dag_id", sa.Text(), nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("task_id", sa.Text(), nullable=False),
        sa.Column("uri", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("watchers", sa.JSON()),
        sa.Column("fresh_within", sa.Float()),
        sa.CheckConstraint("kind IN ('asset', 'alias', 'name', 'uri')", name=op.f("ck_asset_reference_kind")),
        sa.CheckConstraint("role IN ('schedule', 'inlet', 'outlet')", name=op.f("ck_asset_reference_role")),
        sa.PrimaryKeyConstraint("dag_id", "role", "kind", "name", "task_id", name="pk_asset_reference"),
    )
    op.create_index("ix_asset_reference_name_role", "asset_reference", ["name", "role"])
    op.create_table(
        "asset_state",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("value", sa.JSON(), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True)),
        sa.PrimaryKeyConstraint("id", name="pk_asset_state"),
        sa.UniqueConstraint("name", "key", name="uq_asset_state_name_key"),
    )
    op.create_index("ix_asset_state_expires_at", "asset_state", ["expires_at"])
    op.create_table(
        "audit_log",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("who", sa.Text(), nullable=False),
        sa.Column("address", sa.Text()),
        sa.Column("session_id", sa.BigInteger()),
        sa.Column("token_id", sa.BigInteger()),
        sa.Column("object", sa.Text()),
        sa.Column("dag_id", sa.Text()),
        sa.Column("result", sa.Text(), server_default=sa.text("'done'"), nullable=False),
        sa.Column("detail", sa.JSON(), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("times", sa.Integer(), server_default=sa.text("1"), nullable=False),
        sa.Column("command_id", sa.BigInteger()),
        sa.PrimaryKeyConstraint("id", name="pk_audit_log"),
    )
    op.create_index("ix_audit_log_at", "audit_log", ["at"])
    op.create_index("ix_audit_log_dag_id_id", "audit_log", ["dag_id", "id"])
    op.create_index("ix_audit_log_who_id", "audit_log", ["who", "id"])
    op.create_table(
        "audit_receiver",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("since", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_audit_receiver"),
    )
    op.create_table(
        "audit_repeated",
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("until", sa.DateTime(timezone=True), nullable=False),
        sa.Column("times", sa.Integer(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("who", sa.Text(), nullable=False),
        sa.Column("address", sa.Text()),
        sa.Column("object", sa.Text()),
        sa.Column("dag_id", sa.Text()),
        sa.Column("detail", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("key", name="pk_audit_repeated"),
    )
    op.create_table(
        "audit_unsent",
        sa.Column("id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_audit_unsent"),
    )
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
        sa.Column("completed_at", sa.DateTime(timezone=True)),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.CheckConstraint("rerun IN ('missing', 'failed', 'all')", name=op.f("ck_backfill_rerun")),
        sa.PrimaryKeyConstraint("id", name="pk_backfill"),
    )
    op.create_index(
        "uq_backfill_unfinished", "backfill", ["dag_id"], unique=True, postgresql_where=sa.text("completed_at IS NULL")
    )
    op.create_table(
        "bundle_snapshot",
        sa.Column("version", sa.Text(), nullable=False),
        sa.Column("archive", sa.LargeBinary(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("version", name="pk_bundle_snapshot"),
    )
    op.create_table(
        "callback_outbox",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("partition", sa.SmallInteger(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("dag_id", sa.Text(), nullable=False),
        sa.Column("run_id", sa.BigInteger(), nullable=False),
        sa.Column("task_id", sa.Text()),
        sa.Column("map_index", sa.Integer()),
        sa.Column("try_number", sa.SmallInteger()),
        sa.Column("deadline_index", sa.Integer()),
        sa.Column("reason", sa.Text()),
        sa.Column("attempts", sa.SmallInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("given_up_at", sa.DateTime(timezone=True)),
        sa.Column("error", sa.Text()),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_callback_outbox"),
    )
    op.create_index("ix_callback_outbox_run_id", "callback_outbox", ["run_id"])
    op.create_index(
        "ix_callback_outbox_waiting",
        "callback_outbox",
        ["partition", "id"],
        postgresql_where=sa.text("given_up_at IS NULL"),
    )
    op.create_table(
        "request",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("partition", sa.SmallInteger()),
        sa.Column("dag_id", sa.Text()),
        sa.Column("verb", sa.Text(), nullable=False),
        sa.Column("args", sa.JSON(), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("requested_by", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text()),
        sa.Column("state", sa.Text(), server_default=sa.text("'waiting'"), nullable=False),
        sa.Column("result", sa.JSON()),
        sa.Column("applied_by", sa.BigInteger()),
        sa.Column("applied_at", sa.DateTime(timezone=True)),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("idempotency_key", sa.Uuid()),
        sa.Column("attempts", sa.SmallInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("address", sa.Text()),
        sa.Column("session_id", sa.BigInteger()),
        sa.Column("token_id", sa.BigInteger()),
        sa.CheckConstraint("state IN ('waiting', 'applied', 'refused')", name=op.f("ck_request_state")),
        sa.PrimaryKeyConstraint("id", name="pk_request"),
    )
    op.create_index("ix_request_dag_id_id", "request", ["dag_id", "id"])
    op.create_index(
        "ix_request_idempotency_key",
        "request",
        ["idempotency_key"],
        unique=True,
        postgresql_where=sa.text("idempotency_key IS NOT NULL"),
    )
    op.create_index("ix_request_waiting", "request", ["partition", "id"], postgresql_where=sa.text("state = 'waiting'"))
    op.create_table(
        "dag",
        sa.Column("dag_id", sa.Text(), nullable=False),
        sa.Column("partition", sa.SmallInteger(), nullable=False),
        sa.Column("file", sa.Text()),
        sa.Column("registered_by", sa.Text()),
        sa.Column("version_id", sa.BigInteger()),
        sa.Column("has_import_errors", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("is_stale", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("max_active_runs", sa.Integer(), server_default=sa.text("16"), nullable=False),
        sa.Column("max_active_tasks", sa.Integer(), server_default=sa.text("16"), nullable=False),
        sa.Column("schedule", sa.Text()),
        sa.Column("description", sa.Text()),
        sa.Column("owner", sa.Text()),
        sa.Column("tags", sa.ARRAY(sa.Text()), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("last_parsed_at", sa.DateTime(timezone=True)),
        sa.Column("is_paused", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("next_dagrun", sa.DateTime(timezone=True)),
        sa.Column("next_dagrun_data_interval_start", sa.DateTime(timezone=True)),
        sa.Column("next_dagrun_data_interval_end", sa.DateTime(timezone=True)),
        sa.Column("next_dagrun_create_after", sa.DateTime(timezone=True)),
        sa.Column("asset_scheduled_at", sa.DateTime(timezone=True)),
        sa.Column("last_asset_run_after", sa.DateTime(timezone=True)),
        sa.Column("is_partitioned", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("team", sa.Text()),
        sa.Column("access_control", sa.JSON()),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("task_ids", sa.Text()),
        sa.Column("schedule_timezone", sa.Text()),
        sa.CheckConstraint("partition BETWEEN 0 AND 63", name=op.f("ck_dag_partition")),
        sa.PrimaryKeyConstraint("dag_id", name="pk_dag"),
    )
    op.create_index("ix_dag_partition", "dag", ["partition"])
    op.create_table(
        "dag_dependency",
        sa.Column("dag_id", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("task_id", sa.Text(), nullable=False),
        sa.Column("other_dag_id", sa.Text(), nullable=False),
        sa.CheckConstraint("kind IN ('triggers', 'waits_for', 'marks')", name=op.f("ck_dag_dependency_kind")),
        sa.PrimaryKeyConstraint("dag_id", "kind", "task_id", "other_dag_id", name="pk_dag_dependency"),
    )
    op.create_index("ix_dag_dependency_other_dag_id", "dag_dependency", ["other_dag_id"])
    op.create_table(
        "dag_file",
        sa.Column("file", sa.Text(), nullable=False),
        sa.Column("partition", sa.SmallInteger(), nullable=False),
        sa.Column("content_hash", sa.Text()),
        sa.Column("dag_ids", sa.ARRAY(sa.Text()), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("parsed_at", sa.DateTime(timezone=True)),
        sa.Column("parse_seconds", sa.DOUBLE_PRECISION()),
        sa.Column("error", sa.Text()),
        sa.Column("error_line", sa.Integer()),
        sa.Column("traceback", sa.Text()),
        sa.Column("code_frame", sa.Text()),
        sa.Column("warnings", sa.ARRAY(sa.Text()), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("sources", sa.JSON()),
        sa.Column("bundle_version", sa.Text()),
        sa.Column("error_since", sa.DateTime(timezone=True)),
        sa.PrimaryKeyConstraint("file", name="pk_dag_file"),
    )
    op.create_table(
        "dag_schedule",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("dag_id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("partition", sa.SmallInteger(), nullable=False),
        sa.Column("cron", sa.Text()),
        sa.Column("every", sa.Double()),
        sa.Column("at", sa.DateTime(timezone=True)),
        sa.Column("timezone", sa.Text(), nullable=False),
        sa.Column("starts_at", sa.DateTime(timezone=True)),
        sa.Column("ends_at", sa.DateTime(timezone=True)),
        sa.Column("catchup", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("since", sa.DateTime(timezone=True), nullable=False),
        sa.Column("conf", sa.JSON(), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("is_paused", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("last_at", sa.DateTime(timezone=True)),
        sa.Column("next_at", sa.DateTime(timezone=True)),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("error", sa.Text()),
        sa.CheckConstraint("num_nonnulls(cron, every, at) = 1", name=op.f("ck_dag_schedule_terms")),
        sa.PrimaryKeyConstraint("id", name="pk_dag_schedule"),
        sa.UniqueConstraint("dag_id", "name", name="uq_dag_schedule_dag_id_name"),
    )
    op.create_index(
        "ix_dag_schedule_next",
        "dag_schedule",
        ["partition", "next_at"],
        postgresql_where=sa.text("next_at IS NOT NULL AND NOT is_paused"),
    )
    op.create_table(
        "dag_version",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("dag_id", sa.Text(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("content_hash", sa.Text(), nullable=False),
        sa.Column("spec", sa.JSON(), nullable=False),
        sa.Column("file", sa.Text()),
        sa.Column("file_hash", sa.Text()),
        sa.Column("source", sa.Text()),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("source_hash", sa.Text()),
        sa.Column("sources", sa.JSON()),
        sa.Column("bundle", sa.Text()),
        sa.Column("bundle_version", sa.Text()),
        sa.CheckConstraint("number >= 1", name=op.f("ck_dag_version_number")),
        sa.PrimaryKeyConstraint("id", name="pk_dag_version"),
        sa.UniqueConstraint("dag_id", "number", name="uq_dag_version_dag_id_number"),
    )
    op.create_table(
        "deadline",
        sa.Column("run_id", sa.BigInteger(), nullable=False),
        sa.Column("deadline_index", sa.Integer(), nullable=False),
        sa.Column("partition", sa.SmallInteger(), nullable=False),
        sa.Column("deadline_time", sa.DateTime(timezone=True), nullable=False),
        sa.Column("missed", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("run_id", "deadline_index", name="pk_deadline"),
    )
    op.create_index("ix_deadline_missed", "deadline", ["deadline_time"], postgresql_where=sa.text("missed"))
    op.create_index("ix_deadline_pending", "deadline", ["partition"], postgresql_where=sa.text("NOT missed"))
    op.create_table(
        "deferral",
        sa.Column("run_id", sa.BigInteger(), nullable=False),
        sa.Column("task_index", sa.Integer(), nullable=False),
        sa.Column("map_index", sa.Integer(), nullable=False),
        sa.Column("try_number", sa.SmallInteger(), nullable=False),
        sa.Column("since", sa.DateTime(timezone=True), nullable=False),
        sa.Column("until", sa.DateTime(timezone=True)),
        sa.PrimaryKeyConstraint("run_id", "task_index", "map_index", "try_number", "since", name="pk_deferral"),
        postgresql_with={"fillfactor": "70"},
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
        sa.Column("timeout_at", sa.DateTime(timezone=True)),
        sa.Column("holds_pool", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("event", sa.JSON()),
        sa.Column("error", sa.Text()),
        sa.Column("timed_out", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("run_id", "task_index", "map_index", name="pk_deferred_trigger"),
    )
    op.create_table(
        "engine_attempt",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("partition", sa.SmallInteger(), nullable=False),
        sa.Column("run_id", sa.BigInteger(), nullable=False),
        sa.Column("task_index", sa.Integer(), nullable=False),
        sa.Column("map_index", sa.Integer(), nullable=False),
        sa.Column("try_number", sa.SmallInteger(), nullable=False),
        sa.Column("queued_by", sa.BigInteger(), nullable=False),
        sa.Column("executor", sa.Text(), nullable=False),
        sa.Column("attempt", sa.LargeBinary(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("worker", sa.Text()),
        sa.Column("hostname", sa.Text()),
        sa.Column("pid", sa.Integer()),
        sa.Column("begun_at", sa.DateTime(timezone=True)),
        sa.Column("alive_until", sa.DateTime(timezone=True)),
        sa.Column("is_announced", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("stop_grace", sa.Integer()),
        sa.PrimaryKeyConstraint("id", name="pk_engine_attempt"),
        sa.UniqueConstraint(
            "run_id",
            "task_index",
            "map_index",
            "try_number",
            name="uq_engine_attempt_run_id_task_index_map_index_try_number",
        ),
        postgresql_with={"fillfactor": "50"},
    )
    op.create_index("ix_engine_attempt_partition", "engine_attempt", ["partition"])
    op.create_table(
        "figures_hour",
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("scheduler", sa.Text(), nullable=False),
        sa.Column("minutes", sa.SmallInteger(), server_default=sa.text("1"), nullable=False),
        sa.Column("ended", sa.BigInteger(), nullable=False),
        sa.Column("task_lag", sa.ARRAY(sa.Integer()), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("commits", sa.ARRAY(sa.Integer()), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("loop_lag", sa.ARRAY(sa.Integer()), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("waiting", sa.DOUBLE_PRECISION(), nullable=False),
        sa.Column("queued", sa.DOUBLE_PRECISION(), nullable=False),
        sa.Column("running", sa.DOUBLE_PRECISION(), nullable=False),
        sa.Column("memory", sa.DOUBLE_PRECISION()),
        sa.Column("parsing", sa.DOUBLE_PRECISION(), nullable=False),
        sa.Column("pools", JSONB()),
        sa.PrimaryKeyConstraint("at", "scheduler", name="pk_figures_hour"),
    )
    op.create_table(
        "figures_minute",
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("incarnation", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("scheduler", sa.Text(), nullable=False),
        sa.Column("minutes", sa.SmallInteger(), server_default=sa.text("1"), nullable=False),
        sa.Column("ended", sa.BigInteger(), nullable=False),
        sa.Column("task_lag", sa.ARRAY(sa.Integer()), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("commits", sa.ARRAY(sa.Integer()), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("loop_lag", sa.ARRAY(sa.Integer()), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("waiting", sa.DOUBLE_PRECISION(), nullable=False),
        sa.Column("queued", sa.DOUBLE_PRECISION(), nullable=False),
        sa.Column("running", sa.DOUBLE_PRECISION(), nullable=False),
        sa.Column("memory", sa.DOUBLE_PRECISION()),
        sa.Column("parsing", sa.DOUBLE_PRECISION(), nullable=False),
        sa.Column("pools", JSONB()),
        sa.PrimaryKeyConstraint("at", "incarnation", name="pk_figures_minute"),
    )
    op.create_table(
        "fleet",
        sa.Column("id", sa.Text(), server_default=sa.text("gen_random_uuid()::text"), nullable=False),
        sa.Column("former", sa.ARRAY(sa.Text()), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("accepts_former", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("since", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_fleet"),
    )
    op.create_table(
        "human_input",
        sa.Column("run_id", sa.BigInteger(), nullable=False),
        sa.Column("task_index", sa.Integer(), nullable=False),
        sa.Column("map_index", sa.Integer(), nullable=False),
        sa.Column("try_number", sa.SmallInteger(), nullable=False),
        sa.Column("task_id", sa.Text(), nullable=False),
        sa.Column("question", sa.JSON(), nullable=False),
        sa.Column("asked_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True)),
        sa.Column("answer", sa.JSON()),
        sa.Column("answered_by", sa.Text()),
        sa.Column("answered_at", sa.DateTime(timezone=True)),
        sa.PrimaryKeyConstraint("run_id", "task_index", "map_index", name="pk_human_input"),
    )
    op.create_index("ix_human_input_asked_at", "human_input", ["asked_at"])
    op.create_table(
        "login_failure",
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("failures", sa.Integer(), nullable=False),
        sa.Column("last_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("until", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("key", name="pk_login_failure"),
    )
    op.create_index("ix_login_failure_last_at", "login_failure", ["last_at"])
    op.create_table(
        "login_link",
        sa.Column("token_hash", sa.Text(), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("token_hash", name="pk_login_link"),
    )
    op.create_table(
        "lost_scheduler",
        sa.Column("incarnation", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("hostname", sa.Text(), nullable=False),
        sa.Column("lost_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("renewals", sa.BigInteger()),
        sa.Column("renewed_at", sa.DateTime(timezone=True)),
        sa.PrimaryKeyConstraint("incarnation", name="pk_lost_scheduler"),
    )
    op.create_table(
        "lost_span",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("noticed_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("lost_from", sa.DateTime(timezone=True)),
        sa.Column("lost_to", sa.DateTime(timezone=True), nullable=False),
        sa.Column("noticed_by", sa.Text(), nullable=False),
        sa.Column("seen", sa.Text()),
        sa.Column("found", sa.Text()),
        sa.PrimaryKeyConstraint("id", name="pk_lost_span"),
    )
    op.create_table(
        "map_label",
        sa.Column("run_id", sa.BigInteger(), nullable=False),
        sa.Column("task_index", sa.Integer(), nullable=False),
        sa.Column("map_index", sa.Integer(), nullable=False),
        sa.Column("label", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("run_id", "task_index", "map_index", name="pk_map_label"),
    )
    op.create_table(
        "module_source",
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("needed_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("digest", name="pk_module_source"),
    )
    op.create_table(
        "rendered_fields",
        sa.Column("run_id", sa.BigInteger(), nullable=False),
        sa.Column("task_index", sa.Integer(), nullable=False),
        sa.Column("map_index", sa.Integer(), nullable=False),
        sa.Column("try_number", sa.SmallInteger(), nullable=False),
        sa.Column("fields", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("run_id", "task_index", "map_index", "try_number", name="pk_rendered_fields"),
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
        sa.Column("protocol", sa.SmallInteger(), server_default=sa.text("1"), nullable=False),
        sa.Column("renewals", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("figures", sa.JSON()),
        sa.Column("partition_loads", sa.ARRAY(sa.REAL())),
        sa.PrimaryKeyConstraint("incarnation", name="pk_scheduler"),
        postgresql_with={"fillfactor": "20"},
    )
    op.create_table(
        "sla_miss",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("partition", sa.SmallInteger(), nullable=False),
        sa.Column("dag_id", sa.Text(), nullable=False),
        sa.Column("task_id", sa.Text(), nullable=False),
        sa.Column("logical_date", sa.DateTime(timezone=True), nullable=False),
        sa.Column("missed_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("callback_id", sa.BigInteger()),
        sa.PrimaryKeyConstraint("id", name="pk_sla_miss"),
        sa.UniqueConstraint("dag_id", "task_id", "logical_date", name="uq_sla_miss_dag_id_task_id_logical_date"),
    )
    op.create_index("ix_sla_miss_callback_id", "sla_miss", ["callback_id"])
    op.create_table(
        "task_instance",
        sa.Column("run_id", sa.BigInteger(), nullable=False),
        sa.Column("task_index", sa.Integer(), nullable=False),
        sa.Column("map_index", sa.Integer(), nullable=False),
        sa.Column("try_number", sa.SmallInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("max_tries", sa.SmallInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("losses", sa.SmallInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("queued_by", sa.BigInteger()),
        sa.Column("scheduled_at", sa.DateTime(timezone=True)),
        sa.Column("queued_at", sa.DateTime(timezone=True)),
        sa.Column("start_date", sa.DateTime(timezone=True)),
        sa.Column("end_date", sa.DateTime(timezone=True)),
        sa.Column("next_at", sa.DateTime(timezone=True)),
        sa.Column("state", sa.Text()),
        sa.Column("reason", sa.Text()),
        sa.Column("is_stopped", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.CheckConstraint(
            "state IN ('scheduled', 'queued', 'running', 'restarting', 'shutdown', 'up_for_retry', "
            "'up_for_reschedule', 'deferred', 'success', 'skipped', 'failed', 'upstream_failed', 'removed')",
            name=op.f("ck_task_instance_state"),
        ),
        sa.CheckConstraint("map_index >= -1", name=op.f("ck_task_instance_map_index")),
        sa.CheckConstraint("try_number >= 0 AND max_tries >= 0 AND losses >= 0", name=op.f("ck_task_instance_tries")),
        sa.PrimaryKeyConstraint("run_id", "task_index", "map_index", name="pk_task_instance"),
        postgresql_with={"fillfactor": "25"},
    )
    op.create_table(
        "task_note",
        sa.Column("run_id", sa.BigInteger(), nullable=False),
        sa.Column("task_index", sa.Integer(), nullable=False),
        sa.Column("map_index", sa.Integer(), nullable=False),
        sa.Column("note", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("run_id", "task_index", "map_index", name="pk_task_note"),
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
        sa.Column("queued_by", sa.BigInteger()),
        sa.PrimaryKeyConstraint("id", name="pk_task_report"),
    )
    op.create_index("ix_task_report_partition_id", "task_report", ["partition", "id"])
    op.create_index(
        "uq_task_report_started",
        "task_report",
        ["run_id", "task_index", "map_index", "try_number"],
        unique=True,
        postgresql_where=sa.text("outcome = 'started'"),
    )
    op.create_table(
        "task_state",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("run_id", sa.BigInteger(), nullable=False),
        sa.Column("task_id", sa.Text(), nullable=False),
        sa.Column("map_index", sa.Integer(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("value", sa.JSON(), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True)),
        sa.PrimaryKeyConstraint("id", name="pk_task_state"),
        sa.UniqueConstraint("run_id", "task_id", "map_index", "key", name="uq_task_state_run_id_task_id_map_index_key"),
    )
    op.create_index("ix_task_state_expires_at", "task_state", ["expires_at"])
    op.create_table(
        "task_try",
        sa.Column("run_id", sa.BigInteger(), nullable=False),
        sa.Column("task_index", sa.Integer(), nullable=False),
        sa.Column("map_index", sa.Integer(), nullable=False),
        sa.Column("try_number", sa.SmallInteger(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("queued_by", sa.BigInteger()),
        sa.Column("queued_at", sa.DateTime(timezone=True)),
        sa.Column("start_date", sa.DateTime(timezone=True)),
        sa.Column("end_date", sa.DateTime(timezone=True)),
        sa.Column("reason", sa.Text()),
        sa.Column("details", sa.Text()),
        sa.Column("hostname", sa.Text()),
        sa.Column("pid", sa.Integer()),
        sa.PrimaryKeyConstraint("run_id", "task_index", "map_index", "try_number", name="pk_task_try"),
    )
    op.create_table(
        "team",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("description", sa.Text()),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_team"),
    )
    op.create_table(
        "timeline_start",
        sa.Column("system", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("timeline", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("first_number", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("system", "timeline", name="pk_timeline_start"),
    )
    op.create_table(
        "unreferenced_xcom",
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("run_id", sa.BigInteger()),
        sa.Column("task_index", sa.Integer()),
        sa.Column("map_index", sa.Integer()),
        sa.Column("try_number", sa.SmallInteger()),
        sa.Column("since", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("path", name="pk_unreferenced_xcom"),
    )
    op.create_index("ix_unreferenced_xcom_since", "unreferenced_xcom", ["since"])
    op.create_table(
        "unwritten_log",
        sa.Column("run_id", sa.BigInteger(), nullable=False),
        sa.Column("task_index", sa.Integer(), nullable=False),
        sa.Column("map_index", sa.Integer(), nullable=False),
        sa.Column("try_number", sa.SmallInteger(), nullable=False),
        sa.Column("hostname", sa.Text(), nullable=False),
        sa.Column("why", sa.Text(), nullable=False),
        sa.Column("lost", sa.BigInteger(), nullable=False),
        sa.Column("tail", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("run_id", "task_index", "map_index", "try_number", name="pk_unwritten_log"),
    )
    op.create_table(
        "web_key",
        sa.Column("id", sa.SmallInteger(), autoincrement=False, nullable=False),
        sa.Column("key", sa.LargeBinary(), nullable=False),
        sa.Column("signs_from", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_web_key"),
    )
    op.create_table(
        "web_user",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("password", sa.Text()),
        sa.Column("is_disabled", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("sessions_void", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("last_login_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("kind", sa.Text(), server_default="person", nullable=False),
        sa.Column("issuer", sa.Text()),
        sa.Column("subject", sa.Text()),
        sa.Column("groups", sa.ARRAY(sa.Text()), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.CheckConstraint("kind IN ('person', 'service', 'local')", name=op.f("ck_web_user_kind")),
        sa.CheckConstraint("role IN ('none', 'viewer', 'operator', 'editor', 'admin')", name=op.f("ck_web_user_role")),
        sa.PrimaryKeyConstraint("name", name="pk_web_user"),
        sa.UniqueConstraint("id", name="uq_web_user_id"),
        sa.UniqueConstraint("issuer", "subject", name="uq_web_user_issuer_subject"),
    )
    op.create_table(
        "xcom",
        sa.Column("run_id", sa.BigInteger(), nullable=False),
        sa.Column("task_index", sa.Integer(), nullable=False),
        sa.Column("map_index", sa.Integer(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("value", sa.JSON(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("stored", sa.JSON()),
        sa.PrimaryKeyConstraint("run_id", "task_index", "map_index", "key", name="pk_xcom"),
    )
    op.create_table(
        "alert",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("rule_id", sa.BigInteger(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("dag_ids", sa.ARRAY(sa.Text()), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("run_id", sa.Text()),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("opened_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("last_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("events", sa.Integer(), server_default=sa.text("1"), nullable=False),
        sa.Column("recovered_at", sa.DateTime(timezone=True)),
        sa.Column("owes", sa.Text()),
        sa.Column("deliver_at", sa.DateTime(timezone=True)),
        sa.Column("callback_id", sa.BigInteger()),
        sa.Column("told_at", sa.DateTime(timezone=True)),
        sa.Column("failures", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("error", sa.Text()),
        sa.ForeignKeyConstraint(["rule_id"], ["alert_rule.id"], name="fk_alert_rule_id", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name="pk_alert"),
    )
    op.create_index(
        "ix_alert_callback_id", "alert", ["callback_id"], postgresql_where=sa.text("callback_id IS NOT NULL")
    )
    op.create_index("ix_alert_last_at", "alert", ["last_at"])
    op.create_index("ix_alert_owed", "alert", ["id"], postgresql_where=sa.text("owes IS NOT NULL"))
    op.create_index("ix_alert_rule_id", "alert", ["rule_id"])
    op.create_index(
        "uq_alert_open", "alert", ["rule_id", "subject"], unique=True, postgresql_where=sa.text("recovered_at IS NULL")
    )
    op.create_table(
        "api_token",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("label", sa.Text(), nullable=False),
        sa.Column("token_hash", sa.Text(), nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("read_only", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("grants", sa.ARRAY(sa.Text())),
        sa.Column("expires_at", sa.DateTime(timezone=True)),
        sa.Column("last_used_at", sa.DateTime(timezone=True)),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.CheckConstraint("role IN ('viewer', 'operator', 'editor', 'admin')", name=op.f("ck_api_token_role")),
        sa.ForeignKeyConstraint(["owner"], ["web_user.name"], name="fk_api_token_owner", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name="pk_api_token"),
        sa.UniqueConstraint("token_hash", name="uq_api_token_token_hash"),
    )
    op.create_index("ix_api_token_owner", "api_token", ["owner"])
    op.create_table(
        "asset_alias",
        sa.Column("alias", sa.Text(), nullable=False),
        sa.Column("asset_id", sa.BigInteger(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.ForeignKeyConstraint(["asset_id"], ["asset.id"], name="fk_asset_alias_asset_id", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("alias", "asset_id", name="pk_asset_alias"),
    )
    op.create_index("ix_asset_alias_asset_id", "asset_alias", ["asset_id"])
    op.create_table(
        "asset_event",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("asset_id", sa.BigInteger(), nullable=False),
        sa.Column("timestamp", sa.DateTime(timezone=True), nullable=False),
        sa.Column("source_dag_id", sa.Text()),
        sa.Column("source_run_id", sa.BigInteger()),
        sa.Column("source_task_index", sa.Integer()),
        sa.Column("source_map_index", sa.Integer()),
        sa.Column("alias", sa.Text()),
        sa.Column("extra", sa.JSON(), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("partition_key", sa.Text()),
        sa.Column("partition_date", sa.DateTime(timezone=True)),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.ForeignKeyConstraint(["asset_id"], ["asset.id"], name="fk_asset_event_asset_id", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name="pk_asset_event"),
    )
    op.create_index("ix_asset_event_asset_id_timestamp", "asset_event", ["asset_id", "timestamp"])
    op.create_table(
        "asset_queue",
        sa.Column("dag_id", sa.Text(), nullable=False),
        sa.Column("asset_id", sa.BigInteger(), nullable=False),
        sa.Column("partition", sa.SmallInteger(), nullable=False),
        sa.Column("first_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("newest_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.ForeignKeyConstraint(["asset_id"], ["asset.id"], name="fk_asset_queue_asset_id", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("dag_id", "asset_id", name="pk_asset_queue"),
    )
    op.create_index("ix_asset_queue_partition", "asset_queue", ["partition"])
    op.create_table(
        "connection",
        sa.Column("conn_id", sa.Text(), nullable=False),
        sa.Column("conn_type", sa.Text(), nullable=False),
        sa.Column("secret", sa.Text(), nullable=False),
        sa.Column("description", sa.Text()),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("team", sa.Text()),
        sa.ForeignKeyConstraint(["team"], ["team.name"], name="fk_connection_team"),
        sa.PrimaryKeyConstraint("conn_id", name="pk_connection"),
    )
    op.create_table(
        "dag_quarantine",
        sa.Column("dag_id", sa.Text(), nullable=False),
        sa.Column("failures", sa.Integer(), nullable=False),
        sa.Column("since", sa.DateTime(timezone=True), nullable=False),
        sa.Column("retry_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("tried_at", sa.DateTime(timezone=True)),
        sa.Column("place", sa.Text(), nullable=False),
        sa.Column("error", sa.Text(), nullable=False),
        sa.Column("traceback", sa.Text(), nullable=False),
        sa.Column("version", sa.Text(), nullable=False),
        sa.Column("dag_version_id", sa.BigInteger()),
        sa.ForeignKeyConstraint(["dag_id"], ["dag.dag_id"], name="fk_dag_quarantine_dag_id", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("dag_id", name="pk_dag_quarantine"),
    )
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
        sa.Column("logical_date", sa.DateTime(timezone=True)),
        sa.Column("data_interval_start", sa.DateTime(timezone=True)),
        sa.Column("data_interval_end", sa.DateTime(timezone=True)),
        sa.Column("run_after", sa.DateTime(timezone=True), nullable=False),
        sa.Column("queued_at", sa.DateTime(timezone=True)),
        sa.Column("start_date", sa.DateTime(timezone=True)),
        sa.Column("end_date", sa.DateTime(timezone=True)),
        sa.Column("conf", sa.JSON(), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("partition_key", sa.Text()),
        sa.Column("partition_date", sa.DateTime(timezone=True)),
        sa.Column("reason", sa.Text()),
        sa.Column("note", sa.Text()),
        sa.Column("clear_number", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("backfill_id", sa.BigInteger()),
        sa.Column("backfill_order", sa.Integer()),
        sa.Column("created_by", sa.BigInteger()),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("unique_key", sa.Text()),
        sa.Column("expires_at", sa.DateTime(timezone=True)),
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
        sa.ForeignKeyConstraint(["version_id"], ["dag_version.id"], name="fk_dag_run_version_id"),
        sa.PrimaryKeyConstraint("id", name="pk_dag_run"),
        sa.UniqueConstraint("dag_id", "logical_date", name="uq_dag_run_dag_id_logical_date"),
        sa.UniqueConstraint("dag_id", "run_id", name="uq_dag_run_dag_id_run_id"),
        postgresql_with={"fillfactor": "80"},
    )
    op.create_index("ix_dag_run_dag_id_id", "dag_run", ["dag_id", "id"])
    op.create_index("ix_dag_run_dag_id_run_after_id", "dag_run", ["dag_id", "run_after", "id"])
    op.create_index(
        "ix_dag_run_end_date_id", "dag_run", ["end_date", "id"], postgresql_where=sa.text("end_date IS NOT NULL")
    )
    op.create_index("ix_dag_run_failed", "dag_run", ["end_date", "id"], postgresql_where=sa.text("state = 'failed'"))
    op.create_index(
        "ix_dag_run_failed_of_dag", "dag_run", ["dag_id", "id"], postgresql_where=sa.text("state = 'failed'")
    )
    op.create_index("ix_dag_run_run_after_id", "dag_run", ["run_after", "id"])
    op.create_index(
        "ix_dag_run_undated", "dag_run", ["dag_id", "run_after"], postgresql_where=sa.text("logical_date IS NULL")
    )
    op.create_index(
        "ix_dag_run_unique_key",
        "dag_run",
        ["dag_id", "unique_key", "id"],
        postgresql_where=sa.text("unique_key IS NOT NULL"),
    )
    op.create_index(
        "ix_dag_run_unfinished", "dag_run", ["partition"], postgresql_where=sa.text("state IN ('queued', 'running')")
    )
    op.create_table(
        "partition_lease",
        sa.Column("partition", sa.SmallInteger(), nullable=False),
        sa.Column("incarnation", sa.BigInteger()),
        sa.Column("since", sa.DateTime(timezone=True)),
        sa.Column("load", sa.REAL()),
        sa.CheckConstraint("partition BETWEEN 0 AND 63", name=op.f("ck_partition_lease_partition")),
        sa.ForeignKeyConstraint(["incarnation"], ["scheduler.incarnation"], name="fk_partition_lease_incarnation"),
        sa.PrimaryKeyConstraint("partition", name="pk_partition_lease"),
        postgresql_with={"fillfactor": "20"},
    )
    op.create_table(
        "pool",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("slots", sa.Integer(), nullable=False),
        sa.Column("used", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("include_deferred", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("description", sa.Text()),
        sa.Column("demands", JSONB(), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("team", sa.Text()),
        sa.CheckConstraint("slots >= -1", name=op.f("ck_pool_slots")),
        sa.CheckConstraint("used >= 0", name=op.f("ck_pool_used")),
        sa.ForeignKeyConstraint(["team"], ["team.name"], name="fk_pool_team"),
        sa.PrimaryKeyConstraint("name", name="pk_pool"),
        postgresql_with={"fillfactor": "20"},
    )
    op.create_table(
        "team_folder",
        sa.Column("bundle", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("folder", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("team", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.ForeignKeyConstraint(["team"], ["team.name"], name="fk_team_folder_team", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("bundle", "folder", name="pk_team_folder"),
    )
    op.create_index("ix_team_folder_team", "team_folder", ["team"])
    op.create_table(
        "try_source",
        sa.Column("run_id", sa.BigInteger(), nullable=False),
        sa.Column("task_index", sa.Integer(), nullable=False),
        sa.Column("map_index", sa.Integer(), nullable=False),
        sa.Column("try_number", sa.SmallInteger(), nullable=False),
        sa.Column("version_id", sa.BigInteger()),
        sa.Column("source_hash", sa.Text()),
        sa.ForeignKeyConstraint(["version_id"], ["dag_version.id"], name="fk_try_source_version_id"),
        sa.PrimaryKeyConstraint("run_id", "task_index", "map_index", "try_number", name="pk_try_source"),
    )
    op.create_index(
        "ix_try_source_unknown", "try_source", ["source_hash"], postgresql_where=sa.text("version_id IS NULL")
    )
    op.create_index("ix_try_source_version_id", "try_source", ["version_id"])
    op.create_table(
        "user_grant",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("user_id", sa.BigInteger(), nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("from_provider", sa.Boolean(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.ForeignKeyConstraint(["user_id"], ["web_user.id"], name="fk_user_grant_user_id", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name="pk_user_grant"),
        sa.UniqueConstraint(
            "user_id", "kind", "name", "from_provider", name="uq_user_grant_user_id_kind_name_from_provider"
        ),
    )
    op.create_table(
        "variable",
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.Column("description", sa.Text()),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("team", sa.Text()),
        sa.ForeignKeyConstraint(["team"], ["team.name"], name="fk_variable_team"),
        sa.PrimaryKeyConstraint("key", name="pk_variable"),
    )
    op.create_table(
        "version_task",
        sa.Column("version_id", sa.BigInteger(), nullable=False),
        sa.Column("task_index", sa.Integer(), nullable=False),
        sa.Column("task_id", sa.Text(), nullable=False),
        sa.Column("operator", sa.Text(), nullable=False),
        sa.Column("pool", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["version_id"], ["dag_version.id"], name="fk_version_task_version_id", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("version_id", "task_index", name="pk_version_task"),
    )
    op.create_table(
        "web_session",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("user_id", sa.BigInteger(), nullable=False),
        sa.Column("token_hash", sa.Text(), nullable=False),
        sa.Column("void", sa.Integer(), nullable=False),
        sa.Column("address", sa.Text(), nullable=False),
        sa.Column("agent", sa.Text(), nullable=False),
        sa.Column("last_used_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.ForeignKeyConstraint(["user_id"], ["web_user.id"], name="fk_web_session_user_id", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name="pk_web_session"),
        sa.UniqueConstraint("token_hash", name="uq_web_session_token_hash"),
    )
    op.create_index("ix_web_session_expires_at", "web_session", ["expires_at"])
    op.create_index("ix_web_session_user_id", "web_session", ["user_id"])
    op.create_table(
        "asset_consumption",
        sa.Column("dag_id", sa.Text(), nullable=False),
        sa.Column("event_id", sa.BigInteger(), nullable=False),
        sa.Column("run_id", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["event_id"], ["asset_event.id"], name="fk_asset_consumption_event_id", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("dag_id", "event_id", "run_id", name="pk_asset_consumption"),
    )
    op.create_index("ix_asset_consumption_event_id", "asset_consumption", ["event_id"])
    op.create_index("ix_asset_consumption_run_id", "asset_consumption", ["run_id"])
    op.create_table(
        "asset_key_event",
        sa.Column("dag_id", sa.Text(), nullable=False),
        sa.Column("event_id", sa.BigInteger(), nullable=False),
        sa.Column("partition", sa.SmallInteger(), nullable=False),
        sa.Column("refused", sa.Text()),
        sa.Column("mapping", sa.Text()),
        sa.ForeignKeyConstraint(
            ["event_id"], ["asset_event.id"], name="fk_asset_key_event_event_id", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("dag_id", "event_id", name="pk_asset_key_event"),
    )
    op.create_index("ix_asset_key_event_event_id", "asset_key_event", ["event_id"])
    op.create_index(
        "ix_asset_key_event_waiting",
        "asset_key_event",
        ["partition", "event_id"],
        postgresql_where=sa.text("refused IS NULL"),
    )
    op.create_table(
        "asset_partition_event",
        sa.Column("asset_partition_id", sa.BigInteger(), nullable=False),
        sa.Column("event_id", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["asset_partition_id"],
            ["asset_partition.id"],
            name="fk_asset_partition_event_asset_partition_id",
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["event_id"], ["asset_event.id"], name="fk_asset_partition_event_event_id", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("asset_partition_id", "event_id", name="pk_asset_partition_event"),
    )
    op.create_index("ix_asset_partition_event_event_id", "asset_partition_event", ["event_id"])
    op.create_table(
        "set_aside_report",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("run_id", sa.BigInteger(), nullable=False),
        sa.Column("task_index", sa.Integer(), nullable=False),
        sa.Column("map_index", sa.Integer(), nullable=False),
        sa.Column("try_number", sa.SmallInteger(), nullable=False),
        sa.Column("outcome", sa.Text(), nullable=False),
        sa.Column("body", sa.JSON(), nullable=False),
        sa.Column("queued_by", sa.BigInteger(), nullable=False),
        sa.Column("failures", sa.Integer(), nullable=False),
        sa.Column("error", sa.Text(), nullable=False),
        sa.Column("version", sa.Text(), nullable=False),
        sa.Column("set_aside_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["dag_run.id"], name="fk_set_aside_report_run_id", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name="pk_set_aside_report"),
    )
    op.create_index("ix_set_aside_report_run_id", "set_aside_report", ["run_id"])
