"""The statement of a batch with attempts for engines: claims, rows and the reports behind them at one commit.

So an engine can be given an attempt as soon as its claim is stored, and a step of a chain costs the scheduler one
statement. Its parts are those of the hot transaction (db/statements/journal.py). No decisions live here.
Source: docs/decisions/0036-attempts-on-engines.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from aiosched.core.values.messages import AttemptKey
from aiosched.db.engines.attempts import NEW_ATTEMPT, NewAttempt, columns_of
from aiosched.db.schema.tables import ENGINE_ATTEMPT
from aiosched.db.server.arrays import array_text
from aiosched.db.server.connection import DatabaseConnection
from aiosched.db.statements.journal import (
    AS_EXPECTED,
    CHANGED,
    ENDED,
    FENCE,
    MOVED,
    NEXT,
    NUMBER,
    REFUSALS,
    InstanceChange,
    PoolRow,
    RunChange,
    parameters,
    refused,
)

# A row of the same key is what is left of an earlier call of the same try, whose report was never needed: it gets a
# new id, so that its token is of no use any more. Indexes: the primary keys,
# uq_engine_attempt_run_id_task_index_map_index_try_number.
CLAIM: Final = f"""
    WITH {FENCE}, {CHANGED}, {ENDED}, {MOVED}, applied AS (
        DELETE FROM task_report AS t USING fence WHERE t.id = ANY(${NEXT}::text::bigint[])
    ), given AS (
        INSERT INTO engine_attempt ({", ".join(NEW_ATTEMPT)}, queued_by)
        SELECT a.*, $1 FROM fence, {ENGINE_ATTEMPT.batch(NEW_ATTEMPT, NEXT + 1, name="a", as_texts=True)}
        ON CONFLICT (run_id, task_index, map_index, try_number) DO UPDATE
           SET id = DEFAULT, executor = excluded.executor, attempt = excluded.attempt, queued_by = excluded.queued_by,
               created_at = excluded.created_at, worker = NULL, hostname = NULL, pid = NULL, begun_at = NULL,
               alive_until = NULL, is_announced = false, stop_grace = NULL
        RETURNING id, run_id, task_index, map_index, try_number
    )
    SELECT name, slots, used, include_deferred, team, rate, NULL::bigint AS run_id, NULL::int AS task_index,
           NULL::int AS map_index, NULL::smallint AS try_number, NULL::bigint AS id
      FROM moved
     UNION ALL
    SELECT NULL, NULL, {AS_EXPECTED}, NULL, NULL, NULL, {NUMBER}, NULL, NULL, NULL, NULL
     UNION ALL
    SELECT NULL, NULL, NULL, NULL, NULL, NULL, run_id, task_index, map_index, try_number, id FROM given
"""


class Claimed(NamedTuple):
    """What a batch has changed: pools whose use is another one, ids of rows of attempts, number of the transaction."""

    pools: dict[str, PoolRow]
    ids: dict[AttemptKey, int]
    number: int


async def write_with_attempts(
    conn: DatabaseConnection,
    incarnation: int,
    instances: Sequence[InstanceChange],
    runs: Sequence[RunChange],
    pool_deltas: Mapping[str, int],
    *,
    attempts: Sequence[NewAttempt],
    applied: Sequence[int],
) -> Claimed:
    """As `journal.write`, with new rows of `attempts`; the reports with the ids `applied` are deleted."""
    deltas = {name: delta for name, delta in sorted(pool_deltas.items()) if delta}
    values = parameters(incarnation, instances, runs, deltas)
    *columns, bodies = columns_of(attempts)
    try:
        rows = await conn.fetch(CLAIM, *values, array_text(applied), *map(array_text, columns), bodies)
    except REFUSALS as error:
        raise await refused(conn, error, incarnation, instances, runs, deltas) from error
    pools = {row["name"]: PoolRow(*tuple(row)[1:6]) for row in rows if row["name"] is not None}
    ids = {AttemptKey(*tuple(row)[6:10]): row["id"] for row in rows if row["id"] is not None}
    (number,) = (row["run_id"] for row in rows if row["name"] is None and row["id"] is None)
    return Claimed(pools, ids, number)
