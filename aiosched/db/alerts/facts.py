"""What alert rules watch: one statement for each kind, bounded, and run only if there is a rule of the kind.

No decisions live here: what a rule makes of a fact is in core/alerts.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import PurePath
from typing import Any, Final

from aiosched.core.alerts.decision import Fact
from aiosched.core.alerts.messages import failure_text
from aiosched.core.alerts.rules import AlertKind, DagLabels
from aiosched.core.values.durations import duration
from aiosched.core.values.ids import instance_name
from aiosched.db.server.connection import DatabaseConnection, Queryable
from aiosched.db.statements.failed_tasks import failed_tasks
from aiosched.db.statements.parsers import list_parsers
from aiosched.db.statements.positions import lost_spans
from aiosched.db.statements.waiting_runs import NOTHING_AT_WORK, ONLY_WAITS

MOST: Final = 2_000  # facts of a kind
_BEFORE: Final = 20  # newest runs of a DAG that say how long one usually takes
_LEAST: Final = 3  # successes among them

Reader = Callable[[DatabaseConnection, datetime, datetime], Awaitable[list[Fact]]]  # since, now

# Index: ix_dag_run_failed, backwards.
FAILED: Final = """
    SELECT dag_id, run_id, run_type, coalesce(reason, 'failed') AS reason, end_date FROM dag_run
     WHERE state = 'failed' AND end_date > $1 AND end_date <= $2 ORDER BY end_date DESC, id DESC LIMIT $3
"""


async def _failed(conn: DatabaseConnection, since: datetime, now: datetime) -> list[Fact]:
    return [
        Fact(
            AlertKind.RUN_FAILED, row["dag_id"], f"Run {row['run_id']} of {row['dag_id']} failed: {row['reason']}",
            row["end_date"], (row["dag_id"],), row["run_id"], run_type=row["run_type"],
        )
        for row in await conn.fetch(FAILED, since, now, MOST)
    ]  # fmt: skip


async def with_failed_tasks(conn: Queryable, facts: Collection[Fact]) -> dict[Fact, Fact]:
    """Those that are about failed runs, each with a text that names a failed task and its error."""
    runs = {(fact.subject, fact.run_id): fact for fact in facts if fact.kind is AlertKind.RUN_FAILED and fact.run_id}
    found = {}
    for run, (first, number) in (await failed_tasks(conn, runs.keys())).items():
        task = instance_name(first.task_id, first.map_index)
        words = failure_text(first.dag_id, first.run_id, task, first.reason, failed=number)
        found[runs[run]] = replace(runs[run], text=words)
    return found


# Runs that were not created, or that have not started, by DAG. The table of DAGs is read as a whole. Index:
# ix_dag_run_unfinished.
LATE: Final = """
    SELECT dag_id, min(since) AS since, bool_or(is_queued) AS is_queued
      FROM ((SELECT dag_id, next_dagrun_create_after AS since, false AS is_queued FROM dag
              WHERE NOT is_paused AND NOT is_stale AND next_dagrun_create_after < $1)
            UNION ALL
            (SELECT r.dag_id, r.run_after, true FROM dag_run AS r JOIN dag AS d ON d.dag_id = r.dag_id
              WHERE r.state = 'queued' AND r.state IN ('queued', 'running') AND r.start_date IS NULL
                AND r.run_type <> 'backfill' AND r.run_after < $1 AND NOT d.is_paused)) AS each
     GROUP BY dag_id ORDER BY since LIMIT $2
"""


async def _late(conn: DatabaseConnection, since: datetime, now: datetime) -> list[Fact]:
    found = []
    for row in await conn.fetch(LATE, now, MOST):
        seconds = (now - row["since"]).total_seconds()
        what = "has not started" if row["is_queued"] else "was not created"
        text = f"A run of {row['dag_id']} is late by {duration(seconds)}: it {what}"
        found.append(Fact(AlertKind.RUN_LATE, row["dag_id"], text, row["since"], (row["dag_id"],), seconds=seconds))
    return found


# Indexes: ix_dag_run_unfinished; ix_dag_run_dag_id_id, once for each DAG with a running run; the primary key of
# task_instance, for those that take long at $4.
LONG: Final = f"""
    WITH running AS MATERIALIZED (
        SELECT id, dag_id, run_id, run_type, start_date FROM dag_run
         WHERE state = 'running' AND state IN ('queued', 'running') AND isfinite(start_date)
         ORDER BY start_date LIMIT $1
    )
    SELECT r.dag_id, r.run_id, r.run_type, r.start_date, u.usual,
           CASE WHEN extract(epoch FROM $4::timestamptz - r.start_date) > u.usual THEN ({ONLY_WAITS}) END AS only_waits
      FROM running AS r
      JOIN (SELECT d.dag_id, s.usual
              FROM (SELECT DISTINCT dag_id FROM running) AS d
             CROSS JOIN LATERAL (
                   SELECT percentile_cont(0.95) WITHIN GROUP (ORDER BY seconds) AS usual, count(*) AS number
                     FROM (SELECT extract(epoch FROM end_date - start_date)::float8 AS seconds, state,
                                  isfinite(end_date) AND isfinite(start_date) AS is_known
                             FROM dag_run WHERE dag_run.dag_id = d.dag_id ORDER BY id DESC LIMIT $2) AS newest
                    WHERE state = 'success' AND is_known) AS s
             WHERE s.number >= $3) AS u ON u.dag_id = r.dag_id
"""


async def _long(conn: DatabaseConnection, since: datetime, now: datetime) -> list[Fact]:
    found = []
    for row in await conn.fetch(LONG, MOST, _BEFORE, _LEAST, now):
        seconds = (now - row["start_date"]).total_seconds()
        text = f"Run {row['run_id']} of {row['dag_id']} has not ended after {duration(seconds)}"
        text += f", usually {duration(row['usual'])}" + (NOTHING_AT_WORK if row["only_waits"] else "")
        found.append(
            Fact(
                AlertKind.RUN_LONG, f"{row['dag_id']} {row['run_id']}", text, row["start_date"], (row["dag_id"],),
                row["run_id"], seconds, row["usual"], row["run_type"],
            )
        )  # fmt: skip
    return found


# Indexes: ix_deadline_missed and the primary key of dag_run; the primary key of sla_miss, backwards.
MISSED: Final = """
    (SELECT r.dag_id, r.run_id, r.run_type, NULL AS task_id, d.deadline_time AS at, d.deadline_time AS due
       FROM deadline AS d JOIN dag_run AS r ON r.id = d.run_id
      WHERE d.missed AND d.deadline_time > $1 AND d.deadline_time <= $2 ORDER BY d.deadline_time DESC LIMIT $3)
     UNION ALL
    (SELECT dag_id, NULL, NULL, task_id, missed_at, logical_date
       FROM (SELECT * FROM sla_miss ORDER BY id DESC LIMIT $3) AS newest WHERE missed_at > $1 AND missed_at <= $2)
"""


async def _missed(conn: DatabaseConnection, since: datetime, now: datetime) -> list[Fact]:
    found = []
    for row in await conn.fetch(MISSED, since, now, MOST):
        if row["task_id"] is None:
            text = f"Run {row['run_id']} of {row['dag_id']} missed its deadline of {row['due']:%Y-%m-%d %H:%M} UTC"
        else:
            text = f"Task {row['task_id']} of {row['dag_id']} missed its SLA for {row['due']:%Y-%m-%d %H:%M} UTC"
        found.append(
            Fact(
                AlertKind.DEADLINE_MISSED, row["dag_id"], text, row["at"], (row["dag_id"],), row["run_id"],
                run_type=row["run_type"],
            )
        )  # fmt: skip
    return found


# The table of files is read as a whole.
ERRORS: Final = """
    SELECT file, error, array_remove(dag_ids, NULL) AS dag_ids, coalesce(error_since, parsed_at) AS since
      FROM dag_file
     WHERE error IS NOT NULL ORDER BY file LIMIT $1
"""


async def _errors(conn: DatabaseConnection, since: datetime, now: datetime) -> list[Fact]:
    return [
        Fact(
            AlertKind.IMPORT_ERROR, row["file"], f"{PurePath(row['file'])} cannot be imported: {row['error']}",
            row["since"] or now, tuple(row["dag_ids"]),
        )
        for row in await conn.fetch(ERRORS, MOST)
    ]  # fmt: skip


LOST: Final = """
    SELECT name, hostname, lost_at FROM lost_scheduler WHERE lost_at > $1 ORDER BY lost_at DESC LIMIT $2
"""


async def _lost(conn: DatabaseConnection, since: datetime, now: datetime) -> list[Fact]:
    return [
        Fact(
            AlertKind.SCHEDULER_GONE, row["name"],
            f"Scheduler {row['name']} on {row['hostname']} is gone: others have taken over its work", row["lost_at"],
        )
        for row in await conn.fetch(LOST, since, MOST)
    ]  # fmt: skip


async def _silent_parsers(conn: DatabaseConnection, since: datetime, now: datetime) -> list[Fact]:
    return [
        Fact(AlertKind.PARSER_SILENT, row.name, str(row), now - timedelta(seconds=row.silent_for))
        for row in await list_parsers(conn)
        if not row.alive
    ]


# The table has few rows.
QUARANTINED: Final = """
    SELECT dag_id, since, place, error FROM dag_quarantine WHERE tried_at IS NULL ORDER BY dag_id LIMIT $1
"""


async def _quarantined(conn: DatabaseConnection, since: datetime, now: datetime) -> list[Fact]:
    return [
        Fact(
            AlertKind.DAG_QUARANTINED, row["dag_id"],
            f"DAG {row['dag_id']} is in quarantine: {row['place']} failed ({row['error'][:300]})",
            row["since"], (row["dag_id"],),
        )
        for row in await conn.fetch(QUARANTINED, MOST)
    ]  # fmt: skip


async def _commits_lost(conn: DatabaseConnection, since: datetime, now: datetime) -> list[Fact]:
    return [
        Fact(
            AlertKind.COMMITS_LOST, "database", f"The database went back: {span}. Tasks and runs of then may run again",
            span.noticed_at,
        )
        for span in await lost_spans(conn, since, limit=MOST)
    ]  # fmt: skip


READERS: Final[Mapping[AlertKind, Reader]] = {
    AlertKind.RUN_FAILED: _failed,
    AlertKind.RUN_LATE: _late,
    AlertKind.RUN_LONG: _long,
    AlertKind.DEADLINE_MISSED: _missed,
    AlertKind.IMPORT_ERROR: _errors,
    AlertKind.SCHEDULER_GONE: _lost,
    AlertKind.PARSER_SILENT: _silent_parsers,
    AlertKind.DAG_QUARANTINED: _quarantined,
    AlertKind.COMMITS_LOST: _commits_lost,
}

# Events are made good by a success of the DAG that is newer, or if it has gone; a lost scheduler by one that has
# started since; nothing makes good what the database has lost: that is over after a day. Indexes: uq_alert_open;
# ix_dag_run_end_date_id or ix_dag_run_dag_id_id.
OVER: Final = """
    SELECT r.kind, a.subject
      FROM alert AS a JOIN alert_rule AS r ON r.id = a.rule_id
     WHERE a.recovered_at IS NULL AND CASE r.kind
           WHEN 'scheduler_gone' THEN EXISTS (SELECT FROM scheduler AS s
                                               WHERE s.started_at > a.last_at AND s.lease_expires_at > now())
           WHEN 'commits_lost' THEN a.last_at < now() - interval '1 day'
           ELSE r.kind IN ('run_failed', 'deadline_missed')
                AND (NOT EXISTS (SELECT FROM dag AS d WHERE d.dag_id = a.subject)
                     OR EXISTS (SELECT FROM (SELECT state, end_date FROM dag_run WHERE dag_run.dag_id = a.subject
                                              ORDER BY id DESC LIMIT 100) AS newest
                                 WHERE newest.state = 'success' AND newest.end_date >= a.last_at)) END
"""


async def made_good(conn: DatabaseConnection) -> set[tuple[AlertKind, str]]:
    """The subjects of open alerts on events that have been made good."""
    return {(AlertKind(kind), subject) for kind, subject in await conn.fetch(OVER)}


# Index: the primary key.
LABELS: Final = "SELECT dag_id, array_remove(tags, NULL) AS tags, owner FROM dag WHERE dag_id = ANY($1::text[])"


async def labels_of(conn: DatabaseConnection, dag_ids: Collection[str]) -> dict[str, DagLabels]:
    """The tags and the owner of each DAG."""
    rows: list[Any] = await conn.fetch(LABELS, sorted(dag_ids))
    return {row["dag_id"]: DagLabels(tuple(row["tags"]), row["owner"]) for row in rows}


OVERLAP: Final = timedelta(minutes=10)  # for which events are read again: their commits may come late
