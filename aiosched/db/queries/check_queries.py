"""Queries on checks of assets and what they said last, for people. No decisions here."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from aiosched.core.values.asset_checks import CheckStatus, worst
from aiosched.core.values.json_bounds import shown_object
from aiosched.db.access.visibility import ScopedStatement, Seen
from aiosched.db.server.connection import DatabaseConnection


@dataclass(frozen=True, slots=True)
class CheckResultRow:
    """What one try of a check said."""

    status: CheckStatus
    message: str
    metadata: dict[str, Any]
    checked_at: datetime
    run_id: str
    map_index: int
    try_number: int


@dataclass(frozen=True, slots=True)
class CheckRow:
    """A check of an asset: a task. `last` is the worst of its instances in the run that reported last, each by its
    last try; None: it has not reported. `results` are the newest ones, newest first."""

    asset: str
    dag_id: str
    task_id: str
    is_blocking: bool
    last: CheckResultRow | None
    results: Sequence[CheckResultRow] = ()


RESULTS: Final = 10  # of each check that are read

# The checks that the files of DAGs have now. Indexes: uq_asset_name, ix_asset_reference_name_role, the primary key of
# asset_reference.
_CHECKS: Final = """
    SELECT a.id AS asset_id, a.name AS asset, m.dag_id, m.task_id,
           EXISTS (SELECT FROM asset_reference AS o
                    WHERE o.dag_id = m.dag_id AND o.role = 'outlet' AND o.task_id = m.task_id
                      AND o.name IN (a.name, a.uri) AND o.kind <> 'alias') AS is_blocking
      FROM asset AS a
      JOIN asset_reference AS m ON m.name = ANY (ARRAY[a.name, a.uri]) AND m.role = 'inlet' AND m.is_check
       AND CASE m.kind WHEN 'uri' THEN m.name = a.uri ELSE m.name = a.name END
     WHERE a.name = ANY ($1::text[]) [seen]
"""
# One row for each instance in the run that reported last. Indexes: ix_asset_check_asset_id_dag_id_task_id_id,
# uq_asset_check_run_id_task_id_map_index_try_number, the primary key of dag_run.
LAST_RESULTS: Final = ScopedStatement.of(
    f"""
    SELECT c.asset, c.dag_id, c.task_id, c.is_blocking, e.status, e.message, e.metadata, e.checked_at, r.run_id,
           e.map_index, e.try_number
      FROM ({_CHECKS}) AS c
      LEFT JOIN LATERAL (
           SELECT run_id FROM asset_check AS x
            WHERE x.asset_id = c.asset_id AND x.dag_id = c.dag_id AND x.task_id = c.task_id ORDER BY id DESC LIMIT 1
     ) AS newest ON true
      LEFT JOIN LATERAL (
           SELECT * FROM (
                SELECT DISTINCT ON (map_index) * FROM asset_check AS x
                 WHERE x.run_id = newest.run_id AND x.task_id = c.task_id AND x.asset_id = c.asset_id
                 ORDER BY map_index, try_number DESC
           ) AS each
            ORDER BY array_position(ARRAY['fail', 'warn', 'pass'], status), map_index LIMIT 1
     ) AS e ON true
      LEFT JOIN dag_run AS r ON r.id = e.run_id
     ORDER BY c.asset, c.dag_id, c.task_id
""",
    "m.dag_id = ANY (?::text[])",
)
NEWEST_RESULTS: Final = ScopedStatement.of(
    f"""
    SELECT c.asset, c.dag_id, c.task_id, e.status, e.message, e.metadata, e.checked_at, r.run_id, e.map_index,
           e.try_number
      FROM ({_CHECKS}) AS c
     CROSS JOIN LATERAL (
           SELECT * FROM asset_check AS x
            WHERE x.asset_id = c.asset_id AND x.dag_id = c.dag_id AND x.task_id = c.task_id ORDER BY id DESC LIMIT $2
     ) AS e
      JOIN dag_run AS r ON r.id = e.run_id
     ORDER BY e.id DESC
""",
    "m.dag_id = ANY (?::text[])",
)


async def checks_of(conn: DatabaseConnection, asset: str, *, seen: Seen = None) -> list[CheckRow]:
    """The checks of an asset by DAG and task, with their newest results; only those of DAGs that are `seen`."""
    rows = await LAST_RESULTS.fetch(conn, [asset], seen=seen)
    results: dict[tuple[str, str], list[CheckResultRow]] = {}
    for row in await NEWEST_RESULTS.fetch(conn, [asset], RESULTS, seen=seen) if rows else ():
        results.setdefault((row["dag_id"], row["task_id"]), []).append(_result(row))
    return [
        CheckRow(
            row["asset"],
            row["dag_id"],
            row["task_id"],
            row["is_blocking"],
            None if row["status"] is None else _result(row),
            results.get((row["dag_id"], row["task_id"]), ()),
        )
        for row in rows
    ]


async def worst_checks(
    conn: DatabaseConnection, assets: Collection[str], *, seen: Seen = None
) -> dict[str, CheckStatus | None]:
    """The worst of what the checks of each of these assets said last; None if none has reported. Those without checks
    are absent."""
    found: dict[str, list[str | None]] = {}
    for row in await LAST_RESULTS.fetch(conn, sorted(assets), seen=seen) if assets else ():
        found.setdefault(row["asset"], []).append(row["status"])
    return {asset: worst(statuses) for asset, statuses in found.items()}


def _result(row: Any) -> CheckResultRow:
    return CheckResultRow(
        CheckStatus(row["status"]),
        row["message"],
        shown_object(row["metadata"]),
        row["checked_at"],
        row["run_id"],
        row["map_index"],
        row["try_number"],
    )
