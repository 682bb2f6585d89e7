"""The tables: the one declaration of every column. Alembic migrates to exactly this.

Statements take names, types and texts from here (table.py), SQLAlchemy its metadata (schema.py).
Source: docs/architecture.md, "The tables". Two rules shape it. `task_instance` is narrow, has no index except its key,
and has free space in each page, so that every update is heap-only. Write access is divided: only the owner of a
partition writes `dag_run` and `task_instance`; parsing writes `dag_file`, `dag_version` and the definition columns of
`dag`; all others append to `request` and `task_report`.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from aiosched.core.values.asset_checks import CheckStatus
from aiosched.core.values.ids import PARTITIONS
from aiosched.core.values.states import RunState, RunType, TaskState
from aiosched.db.schema.table import Check, Index, Table, Unique, one_of

_INSTANCE: Final = {
    "run_id": "bigint PRIMARY KEY",  # dag_run.id
    "task_index": "int PRIMARY KEY",
    "map_index": "int PRIMARY KEY",
}
_TRY: Final = {**_INSTANCE, "try_number": "smallint PRIMARY KEY"}

DAG: Final = Table(
    "dag",
    {
        "dag_id": "text PRIMARY KEY",
        "partition": "smallint NOT NULL",
        # written by parsing
        "file": "text",  # relative path; NULL: registered by a process that embeds a scheduler
        "registered_by": "text",  # the application that registers it; NULL: none has
        "version_id": "bigint",  # the newest dag_version
        "has_import_errors": "boolean NOT NULL DEFAULT false",
        "is_stale": "boolean NOT NULL DEFAULT false",
        "max_active_runs": "int NOT NULL DEFAULT 16",
        "max_active_tasks": "int NOT NULL DEFAULT 16",
        "schedule": "text",  # summary for users
        "description": "text",
        "owner": "text",
        "tags": "text[] NOT NULL DEFAULT '{}'",
        "last_parsed_at": "timestamptz",
        # written by the owner (at creation by parsing)
        "is_paused": "boolean NOT NULL DEFAULT false",
        "next_dagrun": "timestamptz",
        "next_dagrun_data_interval_start": "timestamptz",
        "next_dagrun_data_interval_end": "timestamptz",
        "next_dagrun_create_after": "timestamptz",
        "asset_scheduled_at": "timestamptz",  # by parsing: when it was first scheduled on assets; NULL: never
        "last_asset_run_after": "timestamptz",  # run_after of its newest asset-triggered run
        "is_partitioned": "boolean NOT NULL DEFAULT false",  # its runs are of partitions
        "team": "text",  # whose folder holds its file; NULL: nobody's
        "access_control": "json",  # a role for each group or team to which its author gives one; NULL: to none
        "created_at": "timestamptz NOT NULL DEFAULT now()",
        "task_ids": "text",  # of the newest version, one a line, for the search; NULL: not parsed
        "schedule_timezone": "text",  # by parsing: whose clock the schedule follows; NULL: none, or not known
        "display_name": "text",  # by parsing: shown in place of its id; NULL: the id is shown
    },
    Check("partition", f"partition BETWEEN 0 AND {PARTITIONS - 1}"),
    Index("partition"),
)

DAG_VERSION: Final = Table(
    "dag_version",
    {
        "id": "bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
        "dag_id": "text NOT NULL",
        "number": "int NOT NULL",
        "content_hash": "text NOT NULL",
        "spec": "json NOT NULL",  # aiosched.core.graph.spec.DagSpec
        "file": "text",
        "file_hash": "text",
        "source": "text",
        "created_at": "timestamptz NOT NULL DEFAULT now()",
        "source_hash": "text",  # of `sources`; NULL: registered by a process
        "sources": "json",  # the file and its imports from the DAGs folder: relative path -> content hash
        "bundle": "text",  # NULL: the DAGs folder
        "bundle_version": "text",  # its runs keep this code; NULL: they run the newest
    },
    Unique("dag_id", "number"),
    Check("number", "number >= 1"),
)

# The other DAGs that the tasks of a DAG start or wait for. Written by parsing; none for stale DAGs.
DAG_DEPENDENCY: Final = Table(
    "dag_dependency",
    {
        "dag_id": "text PRIMARY KEY",
        "kind": "text PRIMARY KEY",
        "task_id": "text PRIMARY KEY",
        "other_dag_id": "text PRIMARY KEY",  # empty: known only when the task runs
    },
    Check("kind", one_of("kind", ("triggers", "waits_for", "marks"))),
    Index("other_dag_id"),
)

# The tasks of a version, for lists of task instances; a trigger adds them with the version, from its document.
VERSION_TASK: Final = Table(
    "version_task",
    {
        "version_id": "bigint PRIMARY KEY REFERENCES dag_version (id) ON DELETE CASCADE",
        "task_index": "int PRIMARY KEY",
        "task_id": "text NOT NULL",
        "operator": "text NOT NULL",
        "pool": "text NOT NULL",
        "display_name": "text",  # shown in place of its id; NULL: the id is shown
    },
)

# The texts of modules that DAG files import, by the content hashes in `sources` of their versions. Written by parsing.
MODULE_SOURCE: Final = Table(
    "module_source",
    {
        "digest": "text PRIMARY KEY",
        "source": "text NOT NULL",
        "needed_at": "timestamptz NOT NULL DEFAULT now()",  # by the parsing that marked it last
    },
)

DAG_FILE: Final = Table(
    "dag_file",
    {
        "file": "text PRIMARY KEY",  # relative to the DAGs folder; members of zips as a.zip/b.py
        "partition": "smallint NOT NULL",
        "content_hash": "text",
        "dag_ids": "text[] NOT NULL DEFAULT '{}'",
        "parsed_at": "timestamptz",
        "parse_seconds": "float8",
        "error": "text",  # one line; NULL when the last parse succeeded
        "error_line": "int",
        "traceback": "text",
        "code_frame": "text",
        "warnings": "text[] NOT NULL DEFAULT '{}'",
        "sources": "json",  # as in dag_version; for a file with an error, without the file itself; NULL: unknown
        "bundle_version": "text",  # that was parsed last; NULL: its bundle has no versions
        "error_since": "timestamptz",  # of the first of the parses with an error that no other has followed
    },
)

DAG_RUN: Final = Table(
    "dag_run",
    {
        "id": "bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
        "dag_id": "text NOT NULL",
        "run_id": "text NOT NULL",
        "partition": "smallint NOT NULL",
        "version_id": "bigint NOT NULL REFERENCES dag_version (id)",
        "run_type": "text NOT NULL",
        "triggered_by": "text NOT NULL",
        "state": "text NOT NULL",
        "logical_date": "timestamptz",
        "data_interval_start": "timestamptz",
        "data_interval_end": "timestamptz",
        "run_after": "timestamptz NOT NULL",
        "queued_at": "timestamptz",
        "start_date": "timestamptz",
        "end_date": "timestamptz",
        "conf": "json NOT NULL DEFAULT '{}'",
        "partition_key": "text",  # of the partition of assets that it is about
        "partition_date": "timestamptz",
        "reason": "text",  # why it failed: task_failure, all_tasks_deadlocked, timed_out, cancelled …
        "note": "text",
        "clear_number": "int NOT NULL DEFAULT 0",
        "backfill_id": "bigint",
        "backfill_order": "int",
        "created_by": "bigint",  # incarnation
        "created_at": "timestamptz NOT NULL DEFAULT now()",
        "unique_key": "text",  # of its request: while the newest run of a DAG with it is unfinished, there is no other
        "priority": "int NOT NULL DEFAULT 0",  # it starts before those with less, and its tasks weigh so much more
        "traceparent": "text",  # of the span in which somebody asked for it, as W3C writes it
        "expires_at": "timestamptz",  # it fails if it has not started by then
    },
    Unique("dag_id", "run_id"),
    Unique("dag_id", "logical_date"),
    Check("state", one_of("state", RunState)),
    Check("run_type", one_of("run_type", RunType)),
    Check("run_id", "run_id ~ '^[A-Za-z0-9_.~:+-]+$'"),
    Check("data_interval", "(data_interval_start IS NULL) = (data_interval_end IS NULL)"),
    Check("logical_date", "logical_date IS NOT NULL OR data_interval_start IS NULL"),
    Index("partition", name="ix_dag_run_unfinished", where="state IN ('queued', 'running')"),
    Index("dag_id", "id", name="ix_dag_run_dag_id_id"),
    Index("run_after", "id", name="ix_dag_run_run_after_id"),
    Index("dag_id", "run_after", "id", name="ix_dag_run_dag_id_run_after_id"),
    Index("end_date", "id", name="ix_dag_run_end_date_id", where="end_date IS NOT NULL"),
    Index("end_date", "id", name="ix_dag_run_failed", where="state = 'failed'"),
    Index("dag_id", "id", name="ix_dag_run_failed_of_dag", where="state = 'failed'"),
    Index("dag_id", "run_after", name="ix_dag_run_undated", where="logical_date IS NULL"),
    Index("dag_id", "unique_key", "id", name="ix_dag_run_unique_key", where="unique_key IS NOT NULL"),
    fillfactor=80,
)

TASK_INSTANCE: Final = Table(
    "task_instance",
    {
        **_INSTANCE,
        "try_number": "smallint NOT NULL DEFAULT 0",
        "max_tries": "smallint NOT NULL DEFAULT 0",
        "losses": "smallint NOT NULL DEFAULT 0",  # attempts lost in a row
        "queued_by": "bigint",  # incarnation that queued the current try
        "scheduled_at": "timestamptz",
        "queued_at": "timestamptz",
        "start_date": "timestamptz",
        "end_date": "timestamptz",
        "next_at": "timestamptz",  # retry or reschedule instant
        "state": "text",  # NULL: no state yet
        "reason": "text",  # one line: why it waits, failed or was skipped
        "is_stopped": "boolean NOT NULL DEFAULT false",  # by the end of its run
    },
    Check("state", one_of("state", (s for s in TaskState if s is not TaskState.NONE))),
    Check("tries", "try_number >= 0 AND max_tries >= 0 AND losses >= 0"),
    Check("map_index", "map_index >= -1"),
    fillfactor=25,  # rows double in length over their life, and a batch updates a whole page
)

# A finished attempt that is no longer the task instance's current row (retried, lost, cleared).
TASK_TRY: Final = Table(
    "task_try",
    {
        **_TRY,
        "state": "text NOT NULL",  # failed, lost, success …
        "queued_by": "bigint",
        "queued_at": "timestamptz",
        "start_date": "timestamptz",
        "end_date": "timestamptz",
        "reason": "text",
        "details": "text",  # traceback
        "hostname": "text",
        "pid": "int",
    },
)

# The code that a try ran if it differs from its run's version: the version, if stored, and the source.
TRY_SOURCE: Final = Table(
    "try_source",
    {
        **_TRY,
        "version_id": "bigint REFERENCES dag_version (id)",
        "source_hash": "text",
    },
    Index("version_id"),
    Index("source_hash", name="ix_try_source_unknown", where="version_id IS NULL"),
)

# The template fields of a try as they were rendered, if it has templates.
RENDERED_FIELDS: Final = Table(
    "rendered_fields",
    {
        **_TRY,
        "fields": "json NOT NULL",  # masked, and cut to a length
    },
)

# Output of a try that could not be written to its log, if there is some.
UNWRITTEN_LOG: Final = Table(
    "unwritten_log",
    {
        **_TRY,
        "hostname": "text NOT NULL",
        "why": "text NOT NULL",
        "lost": "bigint NOT NULL",  # bytes
        "tail": "text NOT NULL",  # the last of them, masked
        "created_at": "timestamptz NOT NULL DEFAULT now()",
    },
)

# What is shown instead of the map index of an instance whose task has a `map_index_template`.
MAP_LABEL: Final = Table(
    "map_label",
    {
        **_INSTANCE,
        "label": "text NOT NULL",
    },
)

XCOM: Final = Table(
    "xcom",
    {
        **_INSTANCE,
        "key": "text PRIMARY KEY",
        "value": "json NOT NULL",  # of a value in remote storage: its beginning, as a string
        "created_at": "timestamptz NOT NULL DEFAULT now()",
        "stored": "json",  # of a value in remote storage: {"path": …, "size": …, "length": …}
    },
)

RATE_PATTERN: Final = "[1-9][0-9]{0,6}/([1-9][0-9]{0,4})?(s|min|h|day)"  # core/slots/rates.py

POOL: Final = Table(
    "pool",
    {
        "name": "text PRIMARY KEY",
        "slots": "int NOT NULL",  # -1: infinite
        "used": "int NOT NULL DEFAULT 0",
        "include_deferred": "boolean NOT NULL DEFAULT false",
        "description": "text",
        "demands": "jsonb NOT NULL DEFAULT '{}'",  # waiting work, by incarnation
        "team": "text REFERENCES team (name)",  # NULL: for the DAGs of all teams
        "rate": "text",  # most starts per period, as 100/min
        "starts": "jsonb NOT NULL DEFAULT '[]'",  # the recent ones, if it has a rate (core/slots/rates.py)
    },
    Check("slots", "slots >= -1"),
    Check("used", "used >= 0"),
    Check("rate", f"rate ~ '^{RATE_PATTERN}$'"),
    fillfactor=20,
)

BACKFILL: Final = Table(
    "backfill",
    {
        "id": "bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
        "dag_id": "text NOT NULL",
        "partition": "smallint NOT NULL",
        "from_date": "timestamptz NOT NULL",
        "to_date": "timestamptz NOT NULL",
        "max_active_runs": "int NOT NULL DEFAULT 10",
        "backwards": "boolean NOT NULL DEFAULT false",
        "rerun": "text NOT NULL DEFAULT 'missing'",
        "conf": "json NOT NULL DEFAULT '{}'",
        "is_paused": "boolean NOT NULL DEFAULT false",
        "completed_at": "timestamptz",
        "created_at": "timestamptz NOT NULL DEFAULT now()",
    },
    Check("rerun", one_of("rerun", ("missing", "failed", "all"))),
    Index("dag_id", name="uq_backfill_unfinished", unique=True, where="completed_at IS NULL"),
)

DEFERRED_TRIGGER: Final = Table(
    "deferred_trigger",
    {
        **_INSTANCE,
        "classpath": "text NOT NULL",
        "kwargs": "json NOT NULL",
        "next_method": "text NOT NULL",
        "next_kwargs": "json NOT NULL DEFAULT '{}'",
        "timeout_at": "timestamptz",
        "holds_pool": "boolean NOT NULL DEFAULT false",  # its pool slots count as used
        "event": "json",  # of the trigger, after it fired
        "error": "text",  # why it can no longer fire: the task resumes and fails with this
        "timed_out": "boolean NOT NULL DEFAULT false",
        "created_at": "timestamptz NOT NULL DEFAULT now()",
    },
)

# When the tries of deferred task instances waited for their triggers. `until` is NULL during the wait, and remains NULL
# if the try ends meanwhile.
DEFERRAL: Final = Table(
    "deferral",
    {
        **_TRY,
        "since": "timestamptz PRIMARY KEY",
        "until": "timestamptz",
    },
    fillfactor=70,
)

VARIABLE: Final = Table(
    "variable",
    {
        "key": "text PRIMARY KEY",
        "value": "text NOT NULL",  # Fernet token
        "description": "text",
        "created_at": "timestamptz NOT NULL DEFAULT now()",
        "team": "text REFERENCES team (name)",  # NULL: for the DAGs of all teams
        "is_secret": "boolean NOT NULL DEFAULT false",  # whatever its key; one with the name of a secret is one anyway
        "changed_at": "timestamptz",
        "changed_by": "text",
    },
)

CONNECTION: Final = Table(
    "connection",
    {
        "conn_id": "text PRIMARY KEY",
        "conn_type": "text NOT NULL",
        "secret": "text NOT NULL",  # Fernet token of the whole connection as JSON
        "description": "text",
        "created_at": "timestamptz NOT NULL DEFAULT now()",
        "team": "text REFERENCES team (name)",  # NULL: for the DAGs of all teams
        "changed_at": "timestamptz",
        "changed_by": "text",
    },
)

# Schedules of DAGs that are data: each of them may have thousands. Written by the owner of the DAG.
DAG_SCHEDULE: Final = Table(
    "dag_schedule",
    {
        "id": "bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
        "dag_id": "text NOT NULL",
        "name": "text NOT NULL",
        "partition": "smallint NOT NULL",
        # one of the next three
        "cron": "text",
        "every": "float8",  # seconds
        "at": "timestamptz",
        "timezone": "text NOT NULL",
        "starts_at": "timestamptz",
        "ends_at": "timestamptz",
        "catchup": "boolean NOT NULL DEFAULT false",
        "since": "timestamptz NOT NULL",  # when it got these terms
        "conf": "json NOT NULL DEFAULT '{}'",
        "is_paused": "boolean NOT NULL DEFAULT false",
        "last_at": "timestamptz",  # the last instant for which a run was asked for
        "next_at": "timestamptz",  # NULL: none
        "created_at": "timestamptz NOT NULL DEFAULT now()",
        "error": "text",  # why its next instant cannot be computed
    },
    Unique("dag_id", "name"),
    Check("terms", "num_nonnulls(cron, every, at) = 1"),
    Index("partition", "next_at", name="ix_dag_schedule_next", where="next_at IS NOT NULL AND NOT is_paused"),
)

# The inbox of requests. When one is answered, a trigger adds an entry to `audit_log`.
REQUEST: Final = Table(
    "request",
    {
        "id": "bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
        "partition": "smallint",  # NULL: for any scheduler (pools)
        "dag_id": "text",
        "verb": "text NOT NULL",
        "args": "json NOT NULL DEFAULT '{}'",
        "requested_by": "text NOT NULL",
        "reason": "text",
        "state": "text NOT NULL DEFAULT 'waiting'",
        "result": "json",  # {"error": …} if refused
        "applied_by": "bigint",
        "applied_at": "timestamptz",
        "created_at": "timestamptz NOT NULL DEFAULT now()",
        "idempotency_key": "uuid",  # of a caller that may have to send the request again, else NULL
        "attempts": "smallint NOT NULL DEFAULT 0",  # to apply it
        "address": "text",  # from where it was sent; this and the next two only for the audit log
        "session_id": "bigint",
        "token_id": "bigint",
    },
    Check("state", one_of("state", ("waiting", "applied", "refused"))),
    Index("partition", "id", name="ix_request_waiting", where="state = 'waiting'"),
    Index("dag_id", "id"),
    Index("idempotency_key", unique=True, where="idempotency_key IS NOT NULL"),
)

# The inbox of reports from workers whose scheduler is not the owner.
TASK_REPORT: Final = Table(
    "task_report",
    {
        "id": "bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
        "partition": "smallint NOT NULL",
        "run_id": "bigint NOT NULL",
        "task_index": "int NOT NULL",
        "map_index": "int NOT NULL",
        "try_number": "smallint NOT NULL",
        "outcome": "text NOT NULL",
        "body": "json NOT NULL",
        "created_at": "timestamptz NOT NULL DEFAULT now()",
        "queued_by": "bigint",  # the incarnation that the attempt belongs to
    },
    Index("partition", "id"),
    Index(
        "run_id",
        "task_index",
        "map_index",
        "try_number",
        name="uq_task_report_started",
        unique=True,
        where="outcome = 'started'",
    ),
)

# One row per incarnation; its process holds a session advisory lock on its number while it lives.
SCHEDULER: Final = Table(
    "scheduler",
    {
        "incarnation": "bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
        "name": "text NOT NULL",
        "hostname": "text NOT NULL",
        "pid": "int NOT NULL",
        "version": "text NOT NULL",
        "executor": "text NOT NULL",
        "slots": "int NOT NULL",
        "draining": "boolean NOT NULL DEFAULT false",
        "started_at": "timestamptz NOT NULL DEFAULT now()",
        "renewed_at": "timestamptz NOT NULL DEFAULT now()",
        "lease_expires_at": "timestamptz NOT NULL",
        "renewals": "bigint NOT NULL DEFAULT 0",  # of its lease (core/fleet/positions.py)
        "figures": "json",  # from scheduler/observability/metrics_snapshot.py, with each renewal of the lease
        "partition_loads": "real[]",  # rows a second, by partition from 0 (core/fleet/loads.py); as the figures
    },
    fillfactor=20,
)

# Processes that parse DAG files and are no schedulers (db/statements/parsers.py).
PARSER: Final = Table(
    "parser",
    {
        "id": "text PRIMARY KEY DEFAULT gen_random_uuid()::text",
        "name": "text NOT NULL",
        "hostname": "text NOT NULL",
        "pid": "int NOT NULL",
        "version": "text NOT NULL",
        "bundles": "text[] NOT NULL",  # empty: the DAGs folder
        "started_at": "timestamptz NOT NULL DEFAULT now()",
        "renewed_at": "timestamptz NOT NULL DEFAULT now()",
        "figures": "json NOT NULL",  # ParserFigures, with each renewal
    },
)

PARTITION_LEASE: Final = Table(
    "partition_lease",
    {
        "partition": "smallserial PRIMARY KEY",
        "incarnation": "bigint REFERENCES scheduler (incarnation)",
        "since": "timestamptz",
        "load": "real",  # as published by its owner when it changed hands
    },
    Check("partition", f"partition BETWEEN 0 AND {PARTITIONS - 1}"),
    fillfactor=20,
)

CALLBACK_OUTBOX: Final = Table(
    "callback_outbox",
    {
        "id": "bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
        "partition": "smallint NOT NULL",
        "kind": "text NOT NULL",  # dag_success, dag_failure, task_failure, task_retry, deadline, sla_miss
        "dag_id": "text NOT NULL",
        "run_id": "bigint NOT NULL",
        "task_id": "text",
        "map_index": "int",
        "try_number": "smallint",
        "deadline_index": "int",
        "reason": "text",
        "attempts": "smallint NOT NULL DEFAULT 0",  # deliveries to workers
        "given_up_at": "timestamptz",  # lost too often: kept for inspection, no longer delivered
        "error": "text",
        "created_at": "timestamptz NOT NULL DEFAULT now()",
    },
    Index("partition", "id", name="ix_callback_outbox_waiting", where="given_up_at IS NULL"),
    Index("run_id"),
)

# Deadlines of runs: pending and missed ones.
DEADLINE: Final = Table(
    "deadline",
    {
        "run_id": "bigint PRIMARY KEY",  # dag_run.id
        "deadline_index": "int PRIMARY KEY",  # position in the DAG version
        "partition": "smallint NOT NULL",
        "deadline_time": "timestamptz NOT NULL",
        "missed": "boolean NOT NULL DEFAULT false",
        "created_at": "timestamptz NOT NULL DEFAULT now()",
    },
    Index("partition", name="ix_deadline_pending", where="NOT missed"),
    Index("deadline_time", name="ix_deadline_missed", where="missed"),
)

# Schedule dates for which a task was not done in time, as in Airflow 1.10; each is recorded once.
SLA_MISS: Final = Table(
    "sla_miss",
    {
        "id": "bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
        "partition": "smallint NOT NULL",
        "dag_id": "text NOT NULL",
        "task_id": "text NOT NULL",
        "logical_date": "timestamptz NOT NULL",
        "missed_at": "timestamptz NOT NULL",  # time of recording
        "callback_id": "bigint",  # the callback_outbox row of its report; NULL: not reported
    },
    Unique("dag_id", "task_id", "logical_date"),
    Index("callback_id"),
)

# User notes on task instances; notes on runs are in dag_run.note.
TASK_NOTE: Final = Table(
    "task_note",
    {
        **_INSTANCE,
        "note": "text NOT NULL",
    },
)

# What a run has besides its row: tables with its key as `run_id`, each with an index that begins with it.
OF_RUNS: Final = (
    "callback_outbox", "deadline", "deferred_trigger", "deferral", "xcom", "try_source", "rendered_fields", "task_try",
    "task_note", "task_state", "asset_check", "human_input", "map_label", "unwritten_log", "task_instance",
)  # fmt: skip


# ---- Assets, their events, and the runs that events have triggered or will trigger.

ASSET: Final = Table(
    "asset",
    {
        "id": "bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
        "name": "text NOT NULL UNIQUE",  # identifies the asset
        "uri": "text NOT NULL",
        "is_active": "boolean NOT NULL DEFAULT true",  # referenced by a DAG
        "extra": "json NOT NULL DEFAULT '{}'",
        "group_name": "text NOT NULL DEFAULT 'asset'",  # asset: none
        "created_at": "timestamptz NOT NULL DEFAULT now()",
    },
    Index("uri"),
)

# The assets that an alias has resolved to so far.
ASSET_ALIAS: Final = Table(
    "asset_alias",
    {
        "alias": "text PRIMARY KEY",
        "asset_id": "bigint PRIMARY KEY REFERENCES asset (id) ON DELETE CASCADE",
        "created_at": "timestamptz NOT NULL DEFAULT now()",
    },
    Index("asset_id"),
)

# The references from DAGs to assets, and their kinds. Written by parsing; none for stale DAGs.
ASSET_REFERENCE: Final = Table(
    "asset_reference",
    {
        "dag_id": "text PRIMARY KEY",
        "role": "text PRIMARY KEY",
        "kind": "text PRIMARY KEY",  # asset and alias are definitions, name and uri are references
        "name": "text PRIMARY KEY",  # of the asset or alias; the URI for kind uri
        "task_id": "text PRIMARY KEY",  # empty for the schedule
        "uri": "text NOT NULL DEFAULT ''",
        "watchers": "json",  # of the asset, as the schedule defines it; NULL: none
        "fresh_within": "float8",  # of the asset, in seconds; NULL: this mention says nothing
        "is_check": "boolean NOT NULL DEFAULT false",  # of an inlet: the task checks the asset
    },
    Check("role", one_of("role", ("schedule", "inlet", "outlet"))),
    Check("kind", one_of("kind", ("asset", "alias", "name", "uri"))),
    Index("name", "role"),
)

ASSET_EVENT: Final = Table(
    "asset_event",
    {
        "id": "bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
        "asset_id": "bigint NOT NULL REFERENCES asset (id) ON DELETE CASCADE",
        "timestamp": "timestamptz NOT NULL",
        "source_dag_id": "text",  # the source is NULL for events created by users
        "source_run_id": "bigint",  # dag_run.id
        "source_task_index": "int",
        "source_map_index": "int",
        "alias": "text",  # the alias through which a task added it
        "extra": "json NOT NULL DEFAULT '{}'",
        "partition_key": "text",  # of the partition of the asset; NULL: it is about the whole asset
        "partition_date": "timestamptz",
        "created_at": "timestamptz NOT NULL DEFAULT now()",
    },
    Index("asset_id", "timestamp"),
)

# Assets with events that no run of the DAG has consumed yet: one row for any number of events.
ASSET_QUEUE: Final = Table(
    "asset_queue",
    {
        "dag_id": "text PRIMARY KEY",
        "asset_id": "bigint PRIMARY KEY REFERENCES asset (id) ON DELETE CASCADE",
        "partition": "smallint NOT NULL",
        "first_at": "timestamptz NOT NULL",  # of the oldest and the newest of these events
        "newest_at": "timestamptz NOT NULL",
        "created_at": "timestamptz NOT NULL DEFAULT now()",
    },
    Index("partition"),
)

# The events that triggered an asset-triggered run. Each counts once for a DAG; with partitions, once for each key.
ASSET_CONSUMPTION: Final = Table(
    "asset_consumption",
    {
        "dag_id": "text PRIMARY KEY",
        "event_id": "bigint PRIMARY KEY REFERENCES asset_event (id) ON DELETE CASCADE",
        "run_id": "bigint PRIMARY KEY",  # dag_run.id
    },
    Index("run_id"),
    Index("event_id"),
)

# Events with a partition key whose runs the owner of the DAG has not determined yet.
ASSET_KEY_EVENT: Final = Table(
    "asset_key_event",
    {
        "dag_id": "text PRIMARY KEY",
        "event_id": "bigint PRIMARY KEY REFERENCES asset_event (id) ON DELETE CASCADE",
        "partition": "smallint NOT NULL",
        "refused": "text",  # why no run follows from it; NULL: it waits to be mapped
        "mapping": "text",  # the digest of the schedule that refused it
    },
    Index("partition", "event_id", name="ix_asset_key_event_waiting", where="refused IS NULL"),
    Index("event_id"),
)

# Partitions whose run has not been created yet: some of their events have arrived.
ASSET_PARTITION: Final = Table(
    "asset_partition",
    {
        "id": "bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
        "dag_id": "text NOT NULL",
        "partition_key": "text NOT NULL",  # of the run
        "partition": "smallint NOT NULL",
        "mapping": "text NOT NULL",  # the digest of the schedule by which the events were mapped
        "partition_date": "timestamptz",  # that of the events, if they agree
        "newest_at": "timestamptz NOT NULL",  # of the newest of these events
        "due_at": "timestamptz",  # since when the condition is met; NULL: it is not
        "created_at": "timestamptz NOT NULL DEFAULT now()",
    },
    Unique("dag_id", "partition_key"),
    Index("partition", name="ix_asset_partition_due", where="due_at IS NOT NULL"),
)

# Their events: each key of an event at an asset counts once, however often it comes.
ASSET_PARTITION_EVENT: Final = Table(
    "asset_partition_event",
    {
        "asset_partition_id": "bigint PRIMARY KEY REFERENCES asset_partition (id) ON DELETE CASCADE",
        "event_id": "bigint PRIMARY KEY REFERENCES asset_event (id) ON DELETE CASCADE",
    },
    Index("event_id"),
)

# What checks of assets have said, once for each try. Results count while the DAG's file has the check.
ASSET_CHECK: Final = Table(
    "asset_check",
    {
        "id": "bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
        "asset_id": "bigint NOT NULL REFERENCES asset (id) ON DELETE CASCADE",
        "dag_id": "text NOT NULL",
        "task_id": "text NOT NULL",
        "run_id": "bigint NOT NULL",  # dag_run.id
        "map_index": "int NOT NULL",
        "try_number": "smallint NOT NULL",
        "status": "text NOT NULL",
        "message": "text NOT NULL DEFAULT ''",
        "metadata": "json NOT NULL DEFAULT '{}'",
        "checked_at": "timestamptz NOT NULL DEFAULT now()",
    },
    Unique("run_id", "task_id", "map_index", "try_number"),
    Check("status", one_of("status", CheckStatus)),
    Index("asset_id", "dag_id", "task_id", "id"),
)


# ---- State stores: small values that tasks keep for their own later tries, and about assets.

TASK_STATE: Final = Table(
    "task_state",
    {
        "id": "bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
        "run_id": "bigint NOT NULL",  # dag_run.id
        "task_id": "text NOT NULL",  # not its index: the value stays with the task in every version
        "map_index": "int NOT NULL",
        "key": "text NOT NULL",
        "value": "json NOT NULL",
        "updated_at": "timestamptz NOT NULL DEFAULT now()",
        "expires_at": "timestamptz",  # NULL: with its run
    },
    Unique("run_id", "task_id", "map_index", "key"),
    Index("expires_at"),
)

ASSET_STATE: Final = Table(
    "asset_state",
    {
        "id": "bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
        "name": "text NOT NULL",  # of the asset; it may be one that no DAG mentions any more
        "key": "text NOT NULL",
        "value": "json NOT NULL",
        "updated_at": "timestamptz NOT NULL DEFAULT now()",
        "expires_at": "timestamptz",  # NULL: never
    },
    Unique("name", "key"),
    Index("expires_at"),
)


# ---- What tasks ask people.

# The newest question of a task instance. It waits while its instance is deferred in the same try; the task itself
# stores how it was answered.
HUMAN_INPUT: Final = Table(
    "human_input",
    {
        **_INSTANCE,
        "try_number": "smallint NOT NULL",
        "task_id": "text NOT NULL",
        "question": "json NOT NULL",
        "asked_at": "timestamptz NOT NULL",
        "expires_at": "timestamptz",  # then nobody can answer any more
        "answer": "json",
        "answered_by": "text",  # as in the audit log; NULL with an answer: the defaults, since nobody answered
        "answered_at": "timestamptz",
    },
    Index("asked_at"),
)


# ---- Files in remote storage that no XCom refers to.
# A file is entered here before a task writes it. Triggers on `xcom` delete the row when the XCom is stored, and enter
# the file again when that XCom is deleted or replaced, whoever does so. Schedulers remove the files of the rows
# (scheduler/loops/stored_xcoms.py).

UNREFERENCED_XCOM: Final = Table(
    "unreferenced_xcom",
    {
        "path": "text PRIMARY KEY",  # below xcom.remote
        # the try that writes it; NULL: an XCom referred to it, which is gone
        "run_id": "bigint",
        "task_index": "int",
        "map_index": "int",
        "try_number": "smallint",
        "since": "timestamptz NOT NULL",
    },
    Index("since"),
)


# ---- Attempts that run on engines (Dask, Celery, Kubernetes and the like).

# The attempts that an engine was given and that have not ended. Whatever ends one replaces its row by its final report
# in `task_report`, in one transaction: so each of them gets exactly one.
ENGINE_ATTEMPT: Final = Table(
    "engine_attempt",
    {
        "id": "bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
        "partition": "smallint NOT NULL",
        "run_id": "bigint NOT NULL",
        "task_index": "int NOT NULL",
        "map_index": "int NOT NULL",
        "try_number": "smallint NOT NULL",
        "queued_by": "bigint NOT NULL",  # the incarnation that queued it
        "executor": "text NOT NULL",  # the name by which tasks choose the engine
        "attempt": "bytea NOT NULL",  # msgpack of core.values.messages.Attempt
        "created_at": "timestamptz NOT NULL DEFAULT now()",
        "worker": "text",  # the id of the worker that claimed its start; NULL: it has not begun
        "hostname": "text",
        "pid": "int",
        "begun_at": "timestamptz",
        "alive_until": "timestamptz",  # the worker has to renew this before it has passed, by the database's clock
        "is_announced": "boolean NOT NULL DEFAULT false",  # its start was reported
        "stop_grace": "int",  # seconds in which it is to end, since its result is not wanted; NULL: it goes on
    },
    Unique("run_id", "task_index", "map_index", "try_number"),
    Index("partition"),
    fillfactor=50,  # a row is updated in place by its worker's heartbeats
)


# ---- DAGs in quarantine, and reports that are set aside.

# DAGs that an unforeseen error concerned: while a row has no `tried_at`, nothing of its DAG is decided.
DAG_QUARANTINE: Final = Table(
    "dag_quarantine",
    {
        "dag_id": "text PRIMARY KEY REFERENCES dag (dag_id) ON DELETE CASCADE",
        "failures": "int NOT NULL",  # in a row
        "since": "timestamptz NOT NULL",  # the first of them
        "retry_at": "timestamptz NOT NULL",
        "tried_at": "timestamptz",  # when its owner took it up again; NULL: it is in quarantine
        "place": "text NOT NULL",  # what failed, in words
        "error": "text NOT NULL",
        "traceback": "text NOT NULL",
        "version": "text NOT NULL",  # of the aiosched in which it failed
        "dag_version_id": "bigint",  # the newest version of the DAG at that time
    },
)

# Reports of attempts that could not be applied or stored, time after time: kept for people until their run is removed.
SET_ASIDE_REPORT: Final = Table(
    "set_aside_report",
    {
        "id": "bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
        "run_id": "bigint NOT NULL REFERENCES dag_run (id) ON DELETE CASCADE",
        "task_index": "int NOT NULL",
        "map_index": "int NOT NULL",
        "try_number": "smallint NOT NULL",  # negative: of the trigger of that try
        "outcome": "text NOT NULL",
        "body": "json NOT NULL",
        "queued_by": "bigint NOT NULL",  # the incarnation that the attempt belongs to
        "failures": "int NOT NULL",
        "error": "text NOT NULL",
        "version": "text NOT NULL",  # of the aiosched that could not apply it
        "set_aside_at": "timestamptz NOT NULL",
    },
    Index("run_id"),
)


# ---- The files of versions of bundles that come from nowhere else. Source: decision 33.

# Folders as they were, as zip archives.
BUNDLE_SNAPSHOT: Final = Table(
    "bundle_snapshot",
    {
        "version": "text PRIMARY KEY",
        "archive": "bytea NOT NULL",
        "created_at": "timestamptz NOT NULL DEFAULT now()",
    },
)


# ---- A database that may be a copy, or older than its schedulers have seen: its fleet, and lost spans.

# One row: whose schedulers this database is for.
FLEET: Final = Table(
    "fleet",
    {
        "id": "text PRIMARY KEY DEFAULT gen_random_uuid()::text",
        "former": "text[] NOT NULL DEFAULT '{}'",  # of which fleets it is a copy
        "accepts_former": "boolean NOT NULL DEFAULT false",  # their schedulers may work here
        "since": "timestamptz NOT NULL DEFAULT now()",
    },
)

# The next number of a transaction when a scheduler met the timeline first: what was seen in an earlier timeline with
# that number or a larger one was lost, whoever has used it since.
TIMELINE_START: Final = Table(
    "timeline_start",
    {
        "system": "bigint PRIMARY KEY",
        "timeline": "int PRIMARY KEY",
        "first_number": "bigint NOT NULL",
    },
)

# What was stored between two instants is gone: a failover to a replica that was behind, or a restore.
LOST_SPAN: Final = Table(
    "lost_span",
    {
        "id": "bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
        "noticed_at": "timestamptz NOT NULL",  # not before `lost_to`
        "lost_from": "timestamptz",  # NULL: unknown
        "lost_to": "timestamptz NOT NULL",
        "noticed_by": "text NOT NULL",  # the name of the scheduler
        "seen": "text",  # where PostgreSQL was when that was stored; NULL: it does not tell
        "found": "text",  # where it is since
    },
)


# ---- Alerts: rules, alerts, and schedulers that were taken over.

ALERT_RULE: Final = Table(
    "alert_rule",
    {
        "id": "bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
        "name": "text NOT NULL UNIQUE",
        "kind": "text NOT NULL",  # core/alerts/rules.py
        "notifier": "text NOT NULL",  # a name of the setting alerts.notifiers
        "dags": "text[] NOT NULL DEFAULT '{}'",  # globs; empty: all
        "tags": "text[] NOT NULL DEFAULT '{}'",
        "owners": "text[] NOT NULL DEFAULT '{}'",
        "run_types": "text[] NOT NULL DEFAULT '{}'",  # empty: all
        "severity": "text NOT NULL DEFAULT 'warning'",  # core/alerts/rules.py
        "seconds": "float8",
        "factor": "float8",
        "remind_seconds": "float8",
        "quiet_from": "text",  # HH:MM
        "quiet_until": "text",
        "time_zone": "text NOT NULL DEFAULT 'UTC'",
        "is_paused": "boolean NOT NULL DEFAULT false",
        "from_settings": "boolean NOT NULL DEFAULT false",  # changed only there
        "since": "timestamptz NOT NULL DEFAULT now()",  # what happened before does not concern it
        "looked_until": "timestamptz",  # it has been evaluated until then
        "error": "text",  # of the last delivery or evaluation; NULL: it worked
        "failed_at": "timestamptz",
        "created_at": "timestamptz NOT NULL DEFAULT now()",
    },
)

# One that is open at most for each rule and subject. Something is to be said of those that owe a message.
ALERT: Final = Table(
    "alert",
    {
        "id": "bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
        "rule_id": "bigint NOT NULL REFERENCES alert_rule (id) ON DELETE CASCADE",
        "subject": "text NOT NULL",  # DAG, run, file, pool or scheduler
        "dag_ids": "text[] NOT NULL DEFAULT '{}'",  # that it concerns; empty: the fleet
        "run_id": "text",
        "text": "text NOT NULL",
        "opened_at": "timestamptz NOT NULL",
        "last_at": "timestamptz NOT NULL",  # its newest event
        "events": "int NOT NULL DEFAULT 1",
        "recovered_at": "timestamptz",
        "owes": "text",  # opened, reminder, recovered, test
        "deliver_at": "timestamptz",  # not before
        "callback_id": "bigint",  # the callback_outbox row that delivers it
        "told_at": "timestamptz",  # the last delivery
        "failures": "int NOT NULL DEFAULT 0",  # deliveries in a row
        "error": "text",  # of the last one
        "acknowledged_by": "text",  # as in the audit log
        "acknowledged_at": "timestamptz",
    },
    Index("rule_id", "subject", name="uq_alert_open", unique=True, where="recovered_at IS NULL"),
    Index("id", name="ix_alert_owed", where="owes IS NOT NULL"),
    Index("rule_id"),
    Index("last_at"),
    Index("callback_id", where="callback_id IS NOT NULL"),
)

# Nothing is said before `ends_at` about one alert (a subject of a rule), a DAG, or the DAGs with a tag.
ALERT_SILENCE: Final = Table(
    "alert_silence",
    {
        "id": "bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
        "rule_id": "bigint REFERENCES alert_rule (id) ON DELETE CASCADE",  # with `subject`
        "subject": "text",
        "dag_id": "text",
        "tag": "text",
        "dag_ids": "text[] NOT NULL DEFAULT '{}'",  # that it is about, for who may see it; of a tag: none
        "reason": "text NOT NULL",
        "created_by": "text NOT NULL",  # as in the audit log
        "created_at": "timestamptz NOT NULL",
        "ends_at": "timestamptz NOT NULL",
        "ended_by": "text",  # before its time
    },
    Check("one", "num_nonnulls(subject, dag_id, tag) = 1 AND (rule_id IS NULL) = (subject IS NULL)"),
    Index("ends_at"),
    Index("rule_id"),
)

# Schedulers that another one has taken over, without having been asked to stop.
LOST_SCHEDULER: Final = Table(
    "lost_scheduler",
    {
        "incarnation": "bigint PRIMARY KEY",
        "name": "text NOT NULL",
        "hostname": "text NOT NULL",
        "lost_at": "timestamptz NOT NULL DEFAULT now()",
        "renewals": "bigint",  # as in its row
        "renewed_at": "timestamptz",
    },
)


# ---- Figures over time: a row a scheduler and minute, rolled up to a row a scheduler and hour.
# Histograms are counts (core/figures/histograms.py) without zeros at the end. States of an hour are means over its
# `minutes`. `pools` is an object of `[slots, used, queued, waiting]` by pool: slots and used ones of the whole fleet at
# the end of the minute, the rest of this scheduler. Pools without any are not there; NULL stands for not known.

_FIGURES: Final = {
    "minutes": "smallint NOT NULL DEFAULT 1",  # that the row covers
    "ended": "bigint NOT NULL",
    "task_lag": "int[] NOT NULL DEFAULT '{}'",
    "commits": "int[] NOT NULL DEFAULT '{}'",
    "loop_lag": "int[] NOT NULL DEFAULT '{}'",
    "waiting": "float8 NOT NULL",
    "queued": "float8 NOT NULL",
    "running": "float8 NOT NULL",
    "memory": "float8",  # bytes
    "parsing": "float8 NOT NULL",  # seconds that parsing of files took
    "pools": "jsonb",
}


FIGURES_MINUTE: Final = Table(
    "figures_minute",
    {
        "at": "timestamptz PRIMARY KEY",
        "incarnation": "bigint PRIMARY KEY",
        "scheduler": "text NOT NULL",  # its name
        **_FIGURES,
    },
)

FIGURES_HOUR: Final = Table(
    "figures_hour",
    {
        "at": "timestamptz PRIMARY KEY",
        "scheduler": "text PRIMARY KEY",
        **_FIGURES,
    },
)


# ---- The audit log, and what the application's role may do with it.
# Nobody changes an entry: a trigger refuses UPDATE and TRUNCATE, also by the owner of the table, and DELETE of entries
# younger than a week. Old ones are removed by the function `purge_audit_log`, which runs as its owner: the role of the
# application needs no DELETE. Another trigger adds an entry when a request is answered. All are in the
# migrations.

# The audit log. Entries are only added.
AUDIT_LOG: Final = Table(
    "audit_log",
    {
        "id": "bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
        "at": "timestamptz NOT NULL DEFAULT now()",
        "kind": "text NOT NULL",  # see core/audit/kinds.py
        "who": "text NOT NULL",
        "address": "text",
        "session_id": "bigint",  # web_session.id, which may be gone
        "token_id": "bigint",  # api_token.id, which may be gone
        "object": "text",  # the name of what it is about: a user, a variable, a run …
        "dag_id": "text",
        "result": "text NOT NULL DEFAULT 'done'",
        "detail": "json NOT NULL DEFAULT '{}'",
        "times": "int NOT NULL DEFAULT 1",  # entries that this one stands for
        "command_id": "bigint",  # request.id, which may be gone
    },
    Index("at"),
    Index("dag_id", "id"),
    Index("who", "id"),
)

# What is refused again and again is counted here, and written down once a minute. See db/audit/repeated.py.
AUDIT_REPEATED: Final = Table(
    "audit_repeated",
    {
        "key": "text PRIMARY KEY",
        "until": "timestamptz NOT NULL",
        "times": "int NOT NULL",  # beside the first one, which has an entry already
        "kind": "text NOT NULL",
        "who": "text NOT NULL",
        "address": "text",
        "object": "text",
        "dag_id": "text",
        "detail": "json NOT NULL",
    },
)

# Entries that were not sent to syslog yet; only written while there is a row in `audit_receiver`.
AUDIT_UNSENT: Final = Table("audit_unsent", {"id": "bigint PRIMARY KEY"})
AUDIT_RECEIVER: Final = Table(
    "audit_receiver",
    {
        "name": "text PRIMARY KEY",
        "since": "timestamptz NOT NULL DEFAULT now()",
    },
)

# For the role of the application; the tables belong to the role that migrates.
GRANTS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "audit_log": ("SELECT", "INSERT"),
        "audit_repeated": ("SELECT", "INSERT", "UPDATE", "DELETE"),
        "audit_unsent": ("SELECT", "INSERT", "UPDATE", "DELETE"),
        "audit_receiver": ("SELECT", "INSERT", "DELETE"),
    }
)
FUNCTION_GRANTS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {"purge_audit_log(timestamptz, integer)": ("EXECUTE",)}
)


# ---- Teams. What belongs to a team has its name in a column `team`; NULL there: it belongs to nobody.

TEAM: Final = Table(
    "team",
    {
        "name": "text PRIMARY KEY",
        "description": "text",
        "created_at": "timestamptz NOT NULL DEFAULT now()",
    },
)

# Where the DAG files of a team lie: a folder (POSIX, relative, '' for all) of a bundle ('' for the DAGs folder). Of two
# folders that hold a file, the longer one decides.
TEAM_FOLDER: Final = Table(
    "team_folder",
    {
        "bundle": "text PRIMARY KEY DEFAULT ''",
        "folder": "text PRIMARY KEY DEFAULT ''",
        "team": "text NOT NULL REFERENCES team (name) ON DELETE CASCADE",
        "created_at": "timestamptz NOT NULL DEFAULT now()",
    },
    Index("team"),
)

# Views of lists that are shared: filters of the web UI under a name. NULL as `team`: with everybody.
LIST_VIEW: Final = Table(
    "list_view",
    {
        "id": "bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
        "page": "text NOT NULL",
        "name": "text NOT NULL",
        "team": "text REFERENCES team (name) ON DELETE CASCADE",
        "query": "text NOT NULL",
        "changed_at": "timestamptz NOT NULL DEFAULT now()",
        "changed_by": "text NOT NULL",  # as in the audit log
    },
    Index("team", "page", "name", name="uq_list_view_of_team", unique=True),
    Index("page", "name", name="uq_list_view_of_all", unique=True, where="team IS NULL"),
)


# ---- The web server: users, grants, sessions, failed logins, tokens, the keys that sign.

_ROLES: Final = ("viewer", "operator", "editor", "admin")
# A person logs in; a service account only has tokens; `local` is whoever may use a server at a loopback address.
_KINDS: Final = ("person", "service", "local")

# Users of the web server.
WEB_USER: Final = Table(
    "web_user",
    {
        "name": "text PRIMARY KEY",
        "role": "text NOT NULL",  # everywhere; none: only what is granted, see user_grant
        "password": "text",  # scrypt, see aiosched.web.auth.passwords; NULL: has none
        "is_disabled": "boolean NOT NULL DEFAULT false",
        "sessions_void": "int NOT NULL DEFAULT 0",  # incremented to end all sessions
        # No namesake of a deleted user gets its id.
        "id": "bigint GENERATED ALWAYS AS IDENTITY NOT NULL UNIQUE",
        "last_login_at": "timestamptz NOT NULL DEFAULT now()",
        "kind": "text NOT NULL DEFAULT 'person'",
        # Who it is at an identity provider. An issuer without a subject: only the name was known when that was stored.
        "issuer": "text",
        "subject": "text",
        "groups": "text[] NOT NULL DEFAULT '{}'",  # at the identity provider
        "created_at": "timestamptz NOT NULL DEFAULT now()",
    },
    Check("role", one_of("role", ("none", *_ROLES))),
    Check("kind", one_of("kind", _KINDS)),
    Unique("issuer", "subject"),
)

# A role of a user for some DAGs: those with a tag, of a folder or of a team, or whose ids match a glob (core/access).
USER_GRANT: Final = Table(
    "user_grant",
    {
        "id": "bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
        "user_id": "bigint NOT NULL REFERENCES web_user (id) ON DELETE CASCADE",
        "role": "text NOT NULL",
        "kind": "text NOT NULL",
        "name": "text NOT NULL",
        "from_provider": "boolean NOT NULL",  # replaced at each login
        "created_at": "timestamptz NOT NULL DEFAULT now()",
    },
    Unique("user_id", "kind", "name", "from_provider"),
)

# A session of a user in a browser. Only the hash of its cookie is stored. `void`: see web_user.sessions_void.
WEB_SESSION: Final = Table(
    "web_session",
    {
        "id": "bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
        "user_id": "bigint NOT NULL REFERENCES web_user (id) ON DELETE CASCADE",
        "token_hash": "text NOT NULL UNIQUE",
        "void": "int NOT NULL",
        "address": "text NOT NULL",
        "agent": "text NOT NULL",
        "last_used_at": "timestamptz NOT NULL DEFAULT now()",
        "expires_at": "timestamptz NOT NULL",
        "created_at": "timestamptz NOT NULL DEFAULT now()",
    },
    Index("user_id"),
    Index("expires_at"),
)

# How often logins have failed, by hashes of who tried from where; no attempt before `until`.
LOGIN_FAILURE: Final = Table(
    "login_failure",
    {
        "key": "text PRIMARY KEY",
        "failures": "int NOT NULL",
        "last_at": "timestamptz NOT NULL",
        "until": "timestamptz NOT NULL",
    },
    Index("last_at"),
)

# Tokens of programs. Only their hashes are stored.
API_TOKEN: Final = Table(
    "api_token",
    {
        "id": "bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
        "owner": "text NOT NULL REFERENCES web_user (name) ON DELETE CASCADE",
        "label": "text NOT NULL",
        "token_hash": "text NOT NULL UNIQUE",
        "role": "text NOT NULL",  # at most its owner's role
        "read_only": "boolean NOT NULL DEFAULT false",  # only requests that change nothing
        "grants": "text[]",  # of what its owner may do, only this; NULL: all of it
        "expires_at": "timestamptz",
        "last_used_at": "timestamptz",
        "created_at": "timestamptz NOT NULL DEFAULT now()",
    },
    Check("role", one_of("role", _ROLES)),
    Index("owner"),
)

# One-time tokens that log in at a loopback address. Only their hashes are stored.
LOGIN_LINK: Final = Table(
    "login_link",
    {
        "token_hash": "text PRIMARY KEY",
        "expires_at": "timestamptz NOT NULL",
        "created_at": "timestamptz NOT NULL DEFAULT now()",
    },
)

# The keys that sign, shared by all web servers and schedulers: the newest one that signs already does.
WEB_KEY: Final = Table(
    "web_key",
    {
        "id": "smallint PRIMARY KEY",
        "key": "bytea NOT NULL",
        "signs_from": "timestamptz NOT NULL DEFAULT now()",
    },
)
