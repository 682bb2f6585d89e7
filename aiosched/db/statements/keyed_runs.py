"""Statements on runs that were asked for with a unique key. What they mean: core/creation/job_terms.py."""

from __future__ import annotations

from typing import Final, NamedTuple

import msgspec

from aiosched.core.graph.instances import StartTerms
from aiosched.core.values.states import RunState
from aiosched.db.server.connection import DatabaseConnection, Queryable
from aiosched.errors import StaleRows


class KeyedRun(NamedTuple):
    """A run as the answer to another request for it."""

    key: int
    run_id: str
    state: RunState


# Index: ix_dag_run_unique_key, backwards, so its cost does not grow with history.
NEWEST_RUN: Final = """
    SELECT id, run_id, state FROM dag_run WHERE dag_id = $1 AND unique_key = $2 ORDER BY id DESC LIMIT 1
"""


async def newest_run(conn: Queryable, dag_id: str, key: str) -> KeyedRun | None:
    """The newest run of a DAG that was asked for with this key."""
    row = await conn.fetchrow(NEWEST_RUN, dag_id, key)
    return None if row is None else KeyedRun(row["id"], row["run_id"], RunState.of(row["state"], f"Run {row['id']}"))


# Guard: the run has not started.
MOVE_START: Final = """
    UPDATE dag_run SET run_after = $2, conf = $3::json, priority = $4, expires_at = $5
     WHERE id = $1 AND state = 'queued'
"""


async def move_start(conn: DatabaseConnection, run: int, terms: StartTerms) -> None:
    """Let a queued run start on other terms. Raises StaleRows if it is not queued."""
    start, conf, *others = terms
    status = await conn.execute(MOVE_START, run, start, msgspec.json.encode(conf).decode(), *others)
    if status != "UPDATE 1":
        raise StaleRows(f"Run {run} was to start later, and does not wait any more ({status})")
