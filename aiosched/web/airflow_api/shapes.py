"""Rows in the shapes of Airflow's REST API v2. Pure.

Fields of Airflow that have no counterpart here are null or have the value that says "none".
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final
from uuid import NAMESPACE_URL, UUID, uuid5

from aiosched.core.graph.secret_params import hide_defaults
from aiosched.core.graph.spec import DagSpec
from aiosched.core.values.connections import ConnectionValue
from aiosched.db.people.pools import Pool
from aiosched.db.people.secrets import VariableValue
from aiosched.db.queries.queries import DagListRow, RunRow, TaskRow

_TRIGGERED_BY: Final[Mapping[str, str]] = {
    "api": "rest_api", "ui": "ui", "cli": "cli", "timetable": "timetable", "operator": "operator",
    "backfill": "backfill", "asset": "asset",
}  # fmt: skip


def instant(value: datetime | None) -> str | None:
    """An instant in RFC 3339, UTC."""
    return None if value is None else value.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _dag_names(row: DagListRow | RunRow) -> dict[str, str]:
    return {"dag_id": row.dag_id, "dag_display_name": row.dag_display_name or row.dag_id}


def dag_shape(row: DagListRow, folder: Path) -> dict[str, Any]:
    """A DAG of a list. `folder` is the DAGs folder."""
    names = _dag_names(row)
    return {
        **names,
        "is_paused": row.is_paused,
        "is_stale": row.is_stale,
        "last_parsed_time": instant(row.last_parsed_at),
        "last_parse_duration": None,
        "last_expired": None,
        "bundle_name": row.bundle or "dags-folder",
        "bundle_version": row.bundle_version,
        "relative_fileloc": row.file,
        "fileloc": str(folder / (row.file or "")),
        "file_token": row.file or "",
        "description": row.description,
        "timetable_summary": row.schedule,
        "timetable_description": row.schedule,
        "timetable_partitioned": False,
        "timetable_periodic": row.schedule is not None,
        "tags": [{"name": tag, **names} for tag in row.tags],
        "max_active_tasks": row.max_active_tasks,
        "max_active_runs": row.max_active_runs,
        "max_consecutive_failed_dag_runs": 0,
        "has_task_concurrency_limits": False,
        "has_import_errors": row.has_import_errors,
        "next_dagrun_logical_date": instant(row.next_logical_date),
        "next_dagrun_data_interval_start": None,
        "next_dagrun_data_interval_end": None,
        "next_dagrun_run_after": instant(row.next_run_after),
        "allowed_run_types": None,
        "owners": [row.owner] if row.owner else [],
        "is_backfillable": row.schedule is not None,
    }


def dag_details_shape(row: DagListRow, spec: DagSpec, folder: Path) -> dict[str, Any]:
    """One DAG with what its file says."""
    return dag_shape(row, folder) | {
        "catchup": spec.catchup,
        "concurrency": row.max_active_tasks,
        "start_date": instant(spec.start_date),
        "end_date": instant(spec.end_date),
        "timezone": spec.timezone,
        "is_paused_upon_creation": spec.is_paused_upon_creation,
        "active_runs_count": row.active_runs,
        "render_template_as_native_obj": False,
        "last_parsed": instant(row.last_parsed_at),
        "params": {name: param.value for name, param in hide_defaults(spec).params.items()},
        "doc_md": spec.doc_md,
    }


def run_shape(row: RunRow) -> dict[str, Any]:
    """A run."""
    return {
        "dag_run_id": row.run_id,
        **_dag_names(row),
        "logical_date": instant(row.logical_date),
        "queued_at": instant(row.queued_at),
        "start_date": instant(row.start_date),
        "end_date": instant(row.end_date),
        "duration": row.seconds,
        "data_interval_start": instant(row.data_interval_start),
        "data_interval_end": instant(row.data_interval_end),
        "run_after": instant(row.run_after),
        "last_scheduling_decision": None,
        "run_type": row.run_type,
        "state": row.state,
        "triggered_by": _TRIGGERED_BY.get(row.triggered_by),
        "triggering_user_name": None,
        "conf": row.conf,
        "note": row.note,
        "dag_versions": [_version_shape(row)],
        "bundle_version": None,
        "partition_key": None,
        "partition_date": None,
    }


def _version_shape(row: RunRow) -> dict[str, Any]:
    return {
        "id": str(uuid5(NAMESPACE_URL, f"aiosched:version:{row.version_key}")),
        "version_number": row.version,
        **_dag_names(row),
        "bundle_name": None,
        "bundle_version": None,
        "bundle_url": None,
        "created_at": instant(row.run_after),
    }


def task_shape(row: TaskRow, run: RunRow, spec: DagSpec, rendered: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """A task instance of `run`, whose DAG version is `spec`, with its stored template fields if they are given."""
    task = spec.tasks[row.task_index]
    return {
        "id": str(_instance_id(run.key, row)),
        "task_id": row.task_id,
        "task_display_name": row.task_display_name or row.task_id,
        **_dag_names(run),
        "dag_run_id": run.run_id,
        "map_index": row.map_index,
        "rendered_map_index": row.map_label,
        "logical_date": instant(run.logical_date),
        "run_after": instant(run.run_after),
        "start_date": instant(row.start_date),
        "end_date": instant(row.end_date),
        "duration": row.seconds,
        "state": None if row.state == "none" else row.state,
        "try_number": row.try_number,
        "max_tries": row.max_tries,
        "hostname": None,
        "unixname": None,
        "pid": None,
        "pool": row.pool,
        "pool_slots": task.pool_slots,
        "queue": task.queue,
        "priority_weight": task.priority_weight,
        "operator": row.operator,
        "operator_name": row.operator,
        "queued_when": instant(row.queued_at),
        "scheduled_when": instant(row.scheduled_at),
        "executor": task.executor,
        "executor_config": str(task.executor_config),
        "note": row.note,
        "rendered_fields": dict(rendered or {}),
        "trigger": None,
        "triggerer_job": None,
        "dag_version": _version_shape(run),
    }


def _instance_id(run: int, row: TaskRow) -> UUID:
    return uuid5(NAMESPACE_URL, f"aiosched:instance:{run}:{row.task_index}:{row.map_index}")


def variable_shape(key: str, found: VariableValue | None, description: str | None) -> dict[str, Any]:
    """A variable; a value that is a secret by its name is `***`. None: without its value."""
    value = None if found is None else found.shown(key)
    return {"key": key, "value": value, "description": description, "is_encrypted": True, "team_name": None}


def connection_shape(value: ConnectionValue) -> dict[str, Any]:
    """A connection without its secrets."""
    shown = value.masked()
    return {
        "connection_id": shown.conn_id,
        "conn_type": shown.conn_type,
        "description": shown.description,
        "host": shown.host,
        "login": shown.login,
        "schema": shown.schema,
        "port": shown.port,
        "password": shown.password,
        "extra": shown.extra,
        "team_name": None,
    }


def pool_shape(pool: Pool) -> dict[str, Any]:
    """A pool. What holds its slots counts as running."""
    return {
        "name": pool.name,
        "slots": pool.slots,
        "description": pool.description,
        "include_deferred": pool.include_deferred,
        "occupied_slots": pool.used,
        "running_slots": pool.used,
        "queued_slots": 0,
        "scheduled_slots": 0,
        "deferred_slots": 0,
        "open_slots": -1 if pool.open is None else pool.open,
        "team_name": None,
    }
