"""The tables, as SQLAlchemy metadata; Alembic migrates to exactly this.

Source: docs/architecture.md, "The tables". Two rules shape it. `task_instance` is narrow, has no index except its key,
and has free space in each page, so that every update is heap-only. Write access is divided: only the owner of a
partition writes `dag_run` and `task_instance`; parsing writes `dag_file`, `dag_version` and the definition columns of
`dag`; all others append to `command` and `task_report`. Other files of this folder have the tables of
single subjects.
"""

from __future__ import annotations

from sqlalchemy import (
    JSON,
    REAL,
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    DateTime,
    ForeignKey,
    Identity,
    Index,
    Integer,
    SmallInteger,
    Table,
    Text,
    UniqueConstraint,
    Uuid,
    func,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY, DOUBLE_PRECISION, JSONB

from aiosched.core.values.ids import PARTITIONS
from aiosched.core.values.states import RunState, RunType, TaskState
from aiosched.db.schema import (
    alert_schema,
    asset_schema,
    audit_schema,
    bundle_schema,
    engine_schema,
    figure_schema,
    input_schema,
    quarantine_schema,
    remote_schema,
    state_schema,
    team_schema,
    web_schema,
)
from aiosched.db.schema.columns import created_at, identity, instant, metadata, one_of, partition, task_key

# beside the tables below
__all__ = [
    "alert_schema", "asset_schema", "audit_schema", "bundle_schema", "engine_schema", "figure_schema", "input_schema",
    "metadata", "quarantine_schema", "remote_schema", "state_schema", "team_schema", "web_schema",
]  # fmt: skip

dag = Table(
    "dag",
    metadata,
    Column("dag_id", Text, primary_key=True),
    partition(),
    # written by parsing
    Column("file", Text),  # relative path; NULL: registered by a process that embeds a scheduler
    Column("version_id", BigInteger),  # the newest dag_version
    Column("has_import_errors", Boolean, nullable=False, server_default=text("false")),
    Column("is_stale", Boolean, nullable=False, server_default=text("false")),
    Column("max_active_runs", Integer, nullable=False, server_default=text("16")),
    Column("max_active_tasks", Integer, nullable=False, server_default=text("16")),
    Column("schedule", Text),  # summary for users
    Column("description", Text),
    Column("owner", Text),
    Column("tags", ARRAY(Text), nullable=False, server_default=text("'{}'")),
    instant("last_parsed_at"),
    # written by the owner (at creation by parsing)
    Column("is_paused", Boolean, nullable=False, server_default=text("false")),
    instant("next_dagrun"),
    instant("next_dagrun_data_interval_start"),
    instant("next_dagrun_data_interval_end"),
    instant("next_dagrun_create_after"),
    instant("asset_scheduled_at"),  # by parsing: when it was first scheduled on assets; NULL: never
    instant("last_asset_run_after"),  # run_after of its newest asset-triggered run
    Column("is_partitioned", Boolean, nullable=False, server_default=text("false")),  # its runs are of partitions
    Column("team", Text),  # whose folder holds its file; NULL: nobody's
    Column("access_control", JSON),  # a role for each group or team to which its author gives one; NULL: to none
    created_at(),
    Column("task_ids", Text),  # of the newest version, one a line, for the search; NULL: not parsed since 0024
    CheckConstraint(f"partition BETWEEN 0 AND {PARTITIONS - 1}", name="partition"),
    Index(None, "partition"),
)

dag_version = Table(
    "dag_version",
    metadata,
    identity(),
    Column("dag_id", Text, nullable=False),
    Column("number", Integer, nullable=False),
    Column("content_hash", Text, nullable=False),
    Column("spec", JSON, nullable=False),  # aiosched.core.graph.spec.DagSpec
    Column("file", Text),
    Column("file_hash", Text),
    Column("source", Text),
    created_at(),
    Column("source_hash", Text),  # of `sources`; NULL: registered by a process, or stored by an older aiosched
    Column("sources", JSON),  # the file and its imports from the DAGs folder: relative path -> content hash
    Column("bundle", Text),  # NULL: the DAGs folder
    Column("bundle_version", Text),  # its runs keep this code; NULL: they run the newest
    UniqueConstraint("dag_id", "number"),
    CheckConstraint("number >= 1", name="number"),
)

# The other DAGs that the tasks of a DAG start or wait for. Written by parsing; none for stale DAGs.
dag_dependency = Table(
    "dag_dependency",
    metadata,
    Column("dag_id", Text, primary_key=True),
    Column("kind", Text, primary_key=True),
    Column("task_id", Text, primary_key=True),
    Column("other_dag_id", Text, primary_key=True),  # empty: known only when the task runs
    CheckConstraint(one_of("kind", ("triggers", "waits_for", "marks")), name="kind"),
    Index(None, "other_dag_id"),
)

# The tasks of a version, for lists of task instances; a trigger adds them with the version, from its document.
version_task = Table(
    "version_task",
    metadata,
    Column("version_id", BigInteger, ForeignKey("dag_version.id", ondelete="CASCADE"), primary_key=True),
    Column("task_index", Integer, primary_key=True),
    Column("task_id", Text, nullable=False),
    Column("operator", Text, nullable=False),
    Column("pool", Text, nullable=False),
)

dag_file = Table(
    "dag_file",
    metadata,
    Column("file", Text, primary_key=True),  # relative to the DAGs folder; members of zips as a.zip/b.py
    partition(),
    Column("content_hash", Text),
    Column("dag_ids", ARRAY(Text), nullable=False, server_default=text("'{}'")),
    instant("parsed_at"),
    Column("parse_seconds", DOUBLE_PRECISION),
    Column("error", Text),  # one line; NULL when the last parse succeeded
    Column("error_line", Integer),
    Column("traceback", Text),
    Column("code_frame", Text),
    Column("warnings", ARRAY(Text), nullable=False, server_default=text("'{}'")),
    Column("sources", JSON),  # as in dag_version; for a file with an error, without the file itself; NULL: unknown
    Column("bundle_version", Text),  # that was parsed last; NULL: its bundle has no versions
)

dag_run = Table(
    "dag_run",
    metadata,
    identity(),
    Column("dag_id", Text, nullable=False),
    Column("run_id", Text, nullable=False),
    partition(),
    Column("version_id", BigInteger, ForeignKey("dag_version.id"), nullable=False),
    Column("run_type", Text, nullable=False),
    Column("triggered_by", Text, nullable=False),
    Column("state", Text, nullable=False),
    instant("logical_date"),
    instant("data_interval_start"),
    instant("data_interval_end"),
    instant("run_after", nullable=False),
    instant("queued_at"),
    instant("start_date"),
    instant("end_date"),
    Column("conf", JSON, nullable=False, server_default=text("'{}'")),
    Column("partition_key", Text),  # of the partition of assets that it is about
    instant("partition_date"),
    Column("reason", Text),  # why it failed: task_failure, all_tasks_deadlocked, timed_out, cancelled …
    Column("note", Text),
    Column("clear_number", Integer, nullable=False, server_default=text("0")),
    Column("backfill_id", BigInteger),
    Column("backfill_order", Integer),
    Column("created_by", BigInteger),  # incarnation
    created_at(),
    UniqueConstraint("dag_id", "run_id"),
    UniqueConstraint("dag_id", "logical_date"),
    CheckConstraint(one_of("state", RunState), name="state"),
    CheckConstraint(one_of("run_type", RunType), name="run_type"),
    CheckConstraint("run_id ~ '^[A-Za-z0-9_.~:+-]+$'", name="run_id"),
    CheckConstraint("(data_interval_start IS NULL) = (data_interval_end IS NULL)", name="data_interval"),
    CheckConstraint("logical_date IS NOT NULL OR data_interval_start IS NULL", name="logical_date"),
    Index("ix_dag_run_unfinished", "partition", postgresql_where=text("state IN ('queued', 'running')")),
    Index("ix_dag_run_dag_id_id", "dag_id", "id"),
    Index("ix_dag_run_run_after_id", "run_after", "id"),
    Index("ix_dag_run_dag_id_run_after_id", "dag_id", "run_after", "id"),
    Index("ix_dag_run_end_date_id", "end_date", "id", postgresql_where=text("end_date IS NOT NULL")),
    Index("ix_dag_run_failed", "end_date", "id", postgresql_where=text("state = 'failed'")),
    Index("ix_dag_run_failed_of_dag", "dag_id", "id", postgresql_where=text("state = 'failed'")),
    Index("ix_dag_run_undated", "dag_id", "run_after", postgresql_where=text("logical_date IS NULL")),
    postgresql_with={"fillfactor": "80"},
)

_TASK_STATES = one_of("state", (s for s in TaskState if s is not TaskState.NONE))

task_instance = Table(
    "task_instance",
    metadata,
    *task_key(try_number=False),
    Column("try_number", SmallInteger, nullable=False, server_default=text("0")),
    Column("max_tries", SmallInteger, nullable=False, server_default=text("0")),
    Column("losses", SmallInteger, nullable=False, server_default=text("0")),  # attempts lost in a row
    Column("queued_by", BigInteger),  # incarnation that queued the current try
    instant("scheduled_at"),
    instant("queued_at"),
    instant("start_date"),
    instant("end_date"),
    instant("next_at"),  # retry or reschedule instant
    Column("state", Text),  # NULL: no state yet
    Column("reason", Text),  # one line: why it waits, failed or was skipped
    CheckConstraint(_TASK_STATES, name="state"),
    CheckConstraint("try_number >= 0 AND max_tries >= 0 AND losses >= 0", name="tries"),
    CheckConstraint("map_index >= -1", name="map_index"),
    postgresql_with={"fillfactor": "25"},  # rows double in length over their life, and a batch updates a whole page
)

# A finished attempt that is no longer the task instance's current row (retried, lost, cleared).
task_try = Table(
    "task_try",
    metadata,
    *task_key(try_number=True),
    Column("state", Text, nullable=False),  # failed, lost, success …
    Column("queued_by", BigInteger),
    instant("queued_at"),
    instant("start_date"),
    instant("end_date"),
    Column("reason", Text),
    Column("details", Text),  # traceback
    Column("hostname", Text),
    Column("pid", Integer),
)

# The code that a try ran if it differs from its run's version: the version, if stored, and the source.
try_source = Table(
    "try_source",
    metadata,
    *task_key(try_number=True),
    Column("version_id", BigInteger, ForeignKey("dag_version.id")),
    Column("source_hash", Text),
    Index(None, "version_id"),
    Index("ix_try_source_unknown", "source_hash", postgresql_where=text("version_id IS NULL")),
)

# The template fields of a try as they were rendered, if it has templates.
rendered_fields = Table(
    "rendered_fields",
    metadata,
    *task_key(try_number=True),
    Column("fields", JSON, nullable=False),  # masked, and cut to a length
)

# What is shown instead of the map index of an instance whose task has a `map_index_template`.
map_label = Table(
    "map_label",
    metadata,
    *task_key(try_number=False),
    Column("label", Text, nullable=False),
)

xcom = Table(
    "xcom",
    metadata,
    *task_key(try_number=False),
    Column("key", Text, primary_key=True),
    Column("value", JSON, nullable=False),  # of a value in remote storage: its beginning, as a string
    created_at(),
    Column("stored", JSON),  # of a value in remote storage: {"path": …, "size": …, "length": …}
)

pool = Table(
    "pool",
    metadata,
    Column("name", Text, primary_key=True),
    Column("slots", Integer, nullable=False),  # -1: infinite
    Column("used", Integer, nullable=False, server_default=text("0")),
    Column("include_deferred", Boolean, nullable=False, server_default=text("false")),
    Column("description", Text),
    Column("demands", JSONB, nullable=False, server_default=text("'{}'")),  # waiting work, by incarnation
    Column("team", Text, ForeignKey("team.name")),  # NULL: for the DAGs of all teams
    CheckConstraint("slots >= -1", name="slots"),
    CheckConstraint("used >= 0", name="used"),
    postgresql_with={"fillfactor": "20"},
)

backfill = Table(
    "backfill",
    metadata,
    identity(),
    Column("dag_id", Text, nullable=False),
    partition(),
    instant("from_date", nullable=False),
    instant("to_date", nullable=False),
    Column("max_active_runs", Integer, nullable=False, server_default=text("10")),
    Column("backwards", Boolean, nullable=False, server_default=text("false")),
    Column("rerun", Text, nullable=False, server_default=text("'missing'")),
    Column("conf", JSON, nullable=False, server_default=text("'{}'")),
    Column("is_paused", Boolean, nullable=False, server_default=text("false")),
    instant("completed_at"),
    created_at(),
    CheckConstraint(one_of("rerun", ("missing", "failed", "all")), name="rerun"),
    Index("uq_backfill_unfinished", "dag_id", unique=True, postgresql_where=text("completed_at IS NULL")),
)

deferred_trigger = Table(
    "deferred_trigger",
    metadata,
    *task_key(try_number=False),
    Column("classpath", Text, nullable=False),
    Column("kwargs", JSON, nullable=False),
    Column("next_method", Text, nullable=False),
    Column("next_kwargs", JSON, nullable=False, server_default=text("'{}'")),
    instant("timeout_at"),
    Column("holds_pool", Boolean, nullable=False, server_default=text("false")),  # its pool slots count as used
    Column("event", JSON),  # of the trigger, after it fired
    Column("error", Text),  # why it can no longer fire: the task resumes and fails with this
    Column("timed_out", Boolean, nullable=False, server_default=text("false")),
    created_at(),
)

# When the tries of deferred task instances waited for their triggers. `until` is NULL during the wait, and remains NULL
# if the try ends meanwhile.
deferral = Table(
    "deferral",
    metadata,
    *task_key(try_number=True),
    Column("since", DateTime(timezone=True), primary_key=True),
    instant("until"),
    postgresql_with={"fillfactor": "70"},
)

variable = Table(
    "variable",
    metadata,
    Column("key", Text, primary_key=True),
    Column("value", Text, nullable=False),  # Fernet token
    Column("description", Text),
    created_at(),
    Column("team", Text, ForeignKey("team.name")),  # NULL: for the DAGs of all teams
)

connection = Table(
    "connection",
    metadata,
    Column("conn_id", Text, primary_key=True),
    Column("conn_type", Text, nullable=False),
    Column("secret", Text, nullable=False),  # Fernet token of the whole connection as JSON
    Column("description", Text),
    created_at(),
    Column("team", Text, ForeignKey("team.name")),  # NULL: for the DAGs of all teams
)

# The inbox of requests. When one is answered, a trigger adds an entry to `audit_log`.
command = Table(
    "command",
    metadata,
    identity(),
    partition(nullable=True),  # NULL: for any scheduler (pools)
    Column("dag_id", Text),
    Column("verb", Text, nullable=False),
    Column("args", JSON, nullable=False, server_default=text("'{}'")),
    Column("requested_by", Text, nullable=False),
    Column("reason", Text),
    Column("state", Text, nullable=False, server_default=text("'waiting'")),
    Column("result", JSON),  # {"error": …} if refused
    Column("applied_by", BigInteger),
    instant("applied_at"),
    created_at(),
    Column("request_id", Uuid),  # of a caller that may have to retry the request, else NULL
    Column("attempts", SmallInteger, nullable=False, server_default=text("0")),  # to apply it
    Column("address", Text),  # from where it was sent; this and the next two only for the audit log
    Column("session_id", BigInteger),
    Column("token_id", BigInteger),
    CheckConstraint(one_of("state", ("waiting", "applied", "refused")), name="state"),
    Index("ix_command_waiting", "partition", "id", postgresql_where=text("state = 'waiting'")),
    Index(None, "dag_id", "id"),
    Index(None, "request_id", unique=True, postgresql_where=text("request_id IS NOT NULL")),
)

# The inbox of reports from workers whose scheduler is not the owner.
task_report = Table(
    "task_report",
    metadata,
    identity(),
    partition(),
    Column("run_id", BigInteger, nullable=False),
    Column("task_index", Integer, nullable=False),
    Column("map_index", Integer, nullable=False),
    Column("try_number", SmallInteger, nullable=False),
    Column("outcome", Text, nullable=False),
    Column("body", JSON, nullable=False),
    created_at(),
    Column("queued_by", BigInteger),  # the incarnation that the attempt belongs to
    Index(None, "partition", "id"),
    Index(
        "uq_task_report_started",
        "run_id",
        "task_index",
        "map_index",
        "try_number",
        unique=True,
        postgresql_where=text("outcome = 'started'"),
    ),
)

# One row per incarnation; its process holds a session advisory lock on its number while it lives.
scheduler = Table(
    "scheduler",
    metadata,
    Column("incarnation", BigInteger, Identity(always=True), primary_key=True),
    Column("name", Text, nullable=False),
    Column("hostname", Text, nullable=False),
    Column("pid", Integer, nullable=False),
    Column("version", Text, nullable=False),
    Column("executor", Text, nullable=False),
    Column("slots", Integer, nullable=False),
    Column("draining", Boolean, nullable=False, server_default=text("false")),
    instant("started_at", nullable=False, server_default=func.now()),
    instant("renewed_at", nullable=False, server_default=func.now()),
    instant("lease_expires_at", nullable=False),
    Column("protocol", SmallInteger, nullable=False, server_default=text("1")),  # see db/statements/ownership.py
    Column("figures", JSON),  # from scheduler/observability/metrics_snapshot.py, with each renewal of the lease
    Column("partition_loads", ARRAY(REAL)),  # rows a second, by partition from 0 (core/fleet/loads.py); as the figures
    postgresql_with={"fillfactor": "20"},
)

partition_lease = Table(
    "partition_lease",
    metadata,
    Column("partition", SmallInteger, primary_key=True),
    Column("incarnation", BigInteger, ForeignKey("scheduler.incarnation")),
    instant("since"),
    Column("load", REAL),  # as published by its owner when it changed hands
    CheckConstraint(f"partition BETWEEN 0 AND {PARTITIONS - 1}", name="partition"),
    postgresql_with={"fillfactor": "20"},
)

callback_outbox = Table(
    "callback_outbox",
    metadata,
    identity(),
    partition(),
    Column("kind", Text, nullable=False),  # dag_success, dag_failure, task_failure, task_retry, deadline, sla_miss
    Column("dag_id", Text, nullable=False),
    Column("run_id", BigInteger, nullable=False),
    Column("task_id", Text),
    Column("map_index", Integer),
    Column("try_number", SmallInteger),
    Column("deadline_index", Integer),
    Column("reason", Text),
    Column("attempts", SmallInteger, nullable=False, server_default=text("0")),  # deliveries to workers
    instant("given_up_at"),  # lost too often: kept for inspection, no longer delivered
    Column("error", Text),
    created_at(),
    Index("ix_callback_outbox_waiting", "partition", "id", postgresql_where=text("given_up_at IS NULL")),
    Index(None, "run_id"),
)

# Deadlines of runs: pending and missed ones.
deadline = Table(
    "deadline",
    metadata,
    Column("run_id", BigInteger, primary_key=True),  # dag_run.id
    Column("deadline_index", Integer, primary_key=True),  # position in the DAG version
    partition(),
    instant("deadline_time", nullable=False),
    Column("missed", Boolean, nullable=False, server_default=text("false")),
    created_at(),
    Index("ix_deadline_pending", "partition", postgresql_where=text("NOT missed")),
    Index("ix_deadline_missed", "deadline_time", postgresql_where=text("missed")),
)

# Schedule dates for which a task was not done in time, as in Airflow 1.10; each is recorded once.
sla_miss = Table(
    "sla_miss",
    metadata,
    identity(),
    partition(),
    Column("dag_id", Text, nullable=False),
    Column("task_id", Text, nullable=False),
    instant("logical_date", nullable=False),
    instant("missed_at", nullable=False),  # time of recording
    Column("callback_id", BigInteger, index=True),  # the callback_outbox row of its report; NULL: not reported
    UniqueConstraint("dag_id", "task_id", "logical_date"),
)

# User notes on task instances; notes on runs are in dag_run.note.
task_note = Table(
    "task_note",
    metadata,
    *task_key(try_number=False),
    Column("note", Text, nullable=False),
)
