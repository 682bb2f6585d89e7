"""One row in every table that people read, and statements that make all of them unreadable in one way.

It stands for what a newer aiosched writes (words that are unknown here) and for what a hand or a damaged disk has left.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

from aiosched.core.figures.minutes import MINUTE, start_of_minute
from aiosched.core.graph.spec import GroupSpec, TaskSpec
from aiosched.core.values.ids import partition_of
from aiosched.db.server.engine import Database
from tests.cli.records import NOON, add_dag, add_file, add_run, add_scheduler, add_task, insert, quarantine

DAG, RUN, TASK, ASSET, POOL, MODULE = "sales", "r1", "g.extract", "orders", "etl", "helper.py"
SCHEDULE = "nightly"
WORD: Final = "teleported"  # a state, kind, role, verb … of a newer version

FIGURES_ROW: Final = {
    "scheduler": "one", "ended": 3, "task_lag": [1, 2], "commits": [3], "loop_lag": [60], "waiting": 1.0, "queued": 1.0,
    "running": 2.0, "memory": 1e8, "parsing": 0.5, "pools": {POOL: [4, 2, 1, 1]},
}  # fmt: skip

_TASKS: Final = (
    TaskSpec(task_id=TASK, operator="PythonOperator", retries=1, group_id="g", pool=POOL),
    TaskSpec(task_id="load", operator="PythonOperator", upstream=(TASK,), pool=POOL, pool_slots=2),
)


async def seed(db: Database) -> None:
    """The rows, each with a value in every column that a page shows."""
    later = NOON + timedelta(minutes=1)
    version = await add_dag(
        db, DAG, tasks=_TASKS, groups=(GroupSpec(group_id="g"),), sources={MODULE: "0" * 64},
        schedule="@daily", tags=["a"], owner="ann",
        description="all sales", next_dagrun=NOON, next_dagrun_data_interval_start=NOON,
        next_dagrun_data_interval_end=later, next_dagrun_create_after=later, last_parsed_at=NOON,
    )  # fmt: skip
    await add_dag(db, "held", is_paused=True)
    await quarantine(db, "held")
    times = {"queued_at": NOON, "start_date": NOON, "end_date": later}
    backfill = {"dag_id": DAG, "partition": partition_of(DAG), "from_date": NOON, "to_date": later}
    async with db.acquire() as conn:
        schedule = {"dag_id": DAG, "partition": 1, "name": SCHEDULE, "every": 60.0, "timezone": "UTC", "since": NOON}
        await insert(conn, "dag_schedule", schedule, returning="id")
        number = await insert(conn, "backfill", backfill, returning="id")
    run = await add_run(
        db, DAG, version, RUN, state="success", logical_date=NOON, data_interval_start=NOON, data_interval_end=later,
        backfill_id=number, conf={"day": 1}, **times,
    )  # fmt: skip
    await add_run(db, "held", version, "waits", state="queued")
    details = {"scheduled_at": NOON, "next_at": later, "reason": "ValueError: x", **times}
    await add_task(db, run, 0, "success", try_number=2, max_tries=1, **details)
    await add_task(db, run, 1, "queued", try_number=1, **details)
    await add_file(db, "bad.py", error="NameError: x", error_line=3, parse_seconds=0.1, dag_ids=["bad"], warnings=["w"])
    await add_scheduler(db, "one")
    stamp = start_of_minute(datetime.now(UTC)) - MINUTE
    key = {"run_id": run, "task_index": 0, "map_index": -1}
    asset_key = {"dag_id": DAG, "name": ASSET, "task_id": ""}
    rows: list[tuple[str, dict[str, Any]]] = [
        ("task_try", key | {"try_number": 1, "state": "failed", "hostname": "here", "pid": 7, **times}),
        ("xcom", key | {"key": "k", "value": {"a": 1}}),
        ("task_note", key | {"note": "n"}),
        ("rendered_fields", key | {"try_number": 2, "fields": {"sql": "select 1"}}),
        ("map_label", key | {"label": "north"}),
        ("task_state", {"run_id": run, "task_id": TASK, "map_index": -1, "key": "k", "value": {"a": 1},
                        "expires_at": later}),
        ("asset_state", {"name": ASSET, "key": "k", "value": {"a": 1}, "expires_at": later}),
        ("deferral", key | {"try_number": 2, "since": NOON, "until": later}),
        ("deferred_trigger", key | {"classpath": "a.B", "kwargs": {}, "next_method": "go", "timeout_at": later}),
        ("pool", {"name": POOL, "slots": 4}),
        ("list_view", {"page": "runs", "name": "late", "query": "state=failed", "changed_by": "ann"}),
        ("asset", {"name": ASSET, "uri": "s3://orders", "extra": {"a": 1}}),
        ("asset_reference", asset_key | {"role": "schedule", "kind": "asset", "uri": "s3://orders"}),
        ("asset_reference", asset_key | {"role": "inlet", "kind": "asset", "task_id": TASK, "is_check": True}),
        ("variable", {"key": "k", "value": "secret"}),
        ("connection", {"conn_id": "c", "conn_type": "http", "secret": "secret"}),
        ("request", {"partition": partition_of(DAG), "dag_id": DAG, "verb": "clear", "args": {}, "requested_by": "ann",
                     "state": "applied", "applied_at": later, "result": {"instances": [
                         {"run_id": RUN, "task_id": TASK, "map_index": -1}]}}),
        ("callback_outbox", {"partition": partition_of(DAG), "kind": "dag_failure", "dag_id": DAG, "run_id": run,
                             "given_up_at": later}),
        ("deadline", {"partition": partition_of(DAG), "run_id": run, "deadline_index": 0, "deadline_time": later}),
        ("sla_miss", {"partition": partition_of(DAG), "dag_id": DAG, "task_id": TASK, "logical_date": NOON,
                      "missed_at": later}),
        ("web_user", {"name": "ann", "role": "viewer"}),
        ("api_token", {"owner": "ann", "label": "l", "token_hash": "h", "role": "viewer", "expires_at": later,
                       "last_used_at": NOON, "grants": ["viewer@tag:a"]}),
        ("alert_rule", {"name": "rule", "kind": "run_failed", "notifier": "ops", "dags": ["*"], "seconds": 1.0,
                        "quiet_from": "22:00", "quiet_until": "07:00", "looked_until": NOON}),
        ("lost_scheduler", {"incarnation": 77, "name": "two", "hostname": "here", "lost_at": NOON}),
        ("figures_minute", FIGURES_ROW | {"at": stamp, "incarnation": 1}),
        ("figures_hour", FIGURES_ROW | {"at": stamp.replace(minute=0)}),
        ("team", {"name": "t", "description": "d"}),
        ("team_folder", {"bundle": "", "folder": "elsewhere", "team": "t"}),
    ]  # fmt: skip
    async with db.acquire() as conn:
        for table, row in rows:
            await insert(conn, table, row)
        await conn.execute(
            "INSERT INTO user_grant (user_id, role, kind, name, from_provider) "
            "SELECT id, 'viewer', 'tag', 'a', false FROM web_user"
        )
        await conn.execute(
            "INSERT INTO alert (rule_id, subject, dag_ids, run_id, text, opened_at, last_at, owes, deliver_at, "
            "told_at) "
            "SELECT id, $2, ARRAY[$2], $3, 'it failed', $1, $1, 'opened', $1, $1 FROM alert_rule",
            later, DAG, RUN,
        )  # fmt: skip
        silence = {"dag_id": DAG, "dag_ids": [DAG], "reason": "known", "created_by": "ann", "created_at": NOON}
        await insert(conn, "alert_silence", silence | {"ends_at": datetime(2100, 1, 1, tzinfo=UTC)})
        await conn.execute(
            "INSERT INTO web_session (user_id, token_hash, void, address, agent, expires_at) "
            "SELECT id, 'h', 0, 'a', 'b', $1 FROM web_user",
            later,
        )
        await conn.execute(
            "INSERT INTO asset_event (asset_id, timestamp, source_dag_id, source_run_id, source_task_index, "
            "source_map_index, extra) SELECT id, $1, $2, $3, 0, -1, '{}' FROM asset", NOON, DAG, run,
        )  # fmt: skip
        await conn.execute(
            "INSERT INTO asset_check (asset_id, dag_id, task_id, run_id, map_index, try_number, status, message) "
            "SELECT id, $1, $2, $3, -1, 1, 'warn', 'm' FROM asset", DAG, TASK, run,
        )  # fmt: skip


class Change(NamedTuple):
    """What all rows get: `value`, an SQL literal, in `columns` (`table.column`) or in every column of `types`."""

    value: str
    types: tuple[str, ...] = ()
    columns: Sequence[str] = ()


# The columns that hold one word of a list.
WORDS: Final = (
    "dag_run.state", "dag_run.run_type", "dag_run.triggered_by", "dag_run.reason", "task_instance.state",
    "task_try.state", "backfill.rerun", "asset_reference.role", "asset_reference.kind", "request.verb", "request.state",
    "callback_outbox.kind", "web_user.role", "web_user.kind", "api_token.role",
    "user_grant.role", "user_grant.kind", "scheduler.executor", "connection.conn_type",
)  # fmt: skip
_KEYS: Final = frozenset(
    {
        "id", "partition", "run_id", "version_id", "asset_id", "event_id", "backfill_id", "source_run_id",
        "incarnation", "callback_id", "dag_version_id", "applied_by", "dag_version.number", "dag_version.spec",
        "task_index", "source_task_index", "user_id", "rule_id",
    }
)  # fmt: skip
_TASK_INDEXES: Final = tuple(f"{table}.task_index" for table in ("task_instance", "task_try", "xcom", "deferral"))
CHANGES: Final = {
    "unknown words": Change(f"'{WORD}'", columns=WORDS),
    "no end": Change("'infinity'", ("timestamp with time zone",)),
    "no beginning": Change("'-infinity'", ("timestamp with time zone",)),
    "the year 20000": Change("'20000-01-01'", ("timestamp with time zone",)),
    "JSON null": Change("'null'", ("json", "jsonb")),
    "a JSON list": Change("'[[], 1]'", ("json", "jsonb")),
    "a JSON object of lists": Change("""'{"a": [], "instances": 5, "error": {}}'""", ("json", "jsonb")),
    "the largest numbers": Change("32767", ("smallint", "integer", "bigint")),
    "the smallest numbers": Change("-32768", ("smallint", "integer", "bigint")),
    "tasks that the DAG does not have": Change("100 + task_index", columns=_TASK_INDEXES),
    "no number": Change("'NaN'", ("double precision", "real")),
    "an infinite number": Change("'Infinity'", ("double precision", "real")),
    "arrays with nothing": Change("'{NULL,a}'", ("ARRAY",)),
    "loads that are none": Change("'{NULL,NaN,-1,Infinity}'", ("loads",)),
    "lists without numbers": Change("'{NULL,-1}'", ("numbers",)),
}
_COLUMNS: Final = """
    SELECT c.table_name, c.column_name,
           CASE c.udt_name WHEN '_int4' THEN 'numbers' WHEN '_float4' THEN 'loads' ELSE c.data_type END
      FROM information_schema.columns AS c JOIN information_schema.tables AS t USING (table_schema, table_name)
     WHERE table_schema = 'public' AND t.table_type = 'BASE TABLE'
"""
_DROP_CHECKS: Final = """
    DO $$ DECLARE c record; BEGIN
        FOR c IN SELECT conrelid::regclass AS t, conname FROM pg_constraint
                  WHERE contype = 'c' AND connamespace = 'public'::regnamespace
        LOOP EXECUTE format('ALTER TABLE %s DROP CONSTRAINT %I', c.t, c.conname); END LOOP;
        ALTER TABLE audit_log DISABLE TRIGGER USER;
    END $$
"""


async def make_foreign(db: Database, change: Change) -> None:
    """Give all rows the value of `change`, as a newer schema, or none, may allow."""
    async with db.acquire() as conn:
        await conn.execute(_DROP_CHECKS)
        for table, column, kind in await conn.fetch(_COLUMNS):
            name = f"{table}.{column}"
            if name in change.columns or (kind in change.types and not {column, name} & _KEYS):
                await conn.execute(f"UPDATE {table} SET {column} = {change.value}")
