"""Statements on whether the whole fleet is idle.

No decisions here. Each returns one thing that is left to do, for people. Run all of them in one snapshot: work can move
from what one of them reads to what another one reads.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import Final

from aiosched.core.values.states import HOLDING_SLOT
from aiosched.db.server.connection import DatabaseConnection
from aiosched.db.statements.runs import DAG_COLUMNS, DagRow

_NOT_IN_QUARANTINE: Final = """
    NOT EXISTS (SELECT FROM dag_quarantine AS q WHERE q.dag_id = {dag_id} AND q.tried_at IS NULL)
"""

# Indexes: those of what waits (partial), which are small. The reports about a DAG in quarantine wait as long as it is.
WAITING: Final = f"""
    SELECT format('request %s (%s) waits for its answer', id, verb) FROM request
     WHERE state = 'waiting' AND partition IS NOT NULL
    UNION ALL SELECT format('a report about a task of run %s waits', t.run_id)
                FROM task_report AS t LEFT JOIN dag_run AS r ON r.id = t.run_id
               WHERE {_NOT_IN_QUARANTINE.format(dag_id="r.dag_id")}
    UNION ALL SELECT format('a callback (%s) of %s is to be delivered', kind, dag_id) FROM callback_outbox
     WHERE given_up_at IS NULL
    LIMIT 1
"""

# A run of a paused DAG does not count, except for what is queued or running in it; none of a DAG in quarantine does.
# Index: ix_dag_run_unfinished (partial), primary keys.
UNFINISHED: Final = f"""
    SELECT format('run %s of %s is %s', r.run_id, r.dag_id, r.state)
      FROM dag_run AS r LEFT JOIN dag AS d ON d.dag_id = r.dag_id
     WHERE r.state IN ('queued', 'running') AND {_NOT_IN_QUARANTINE.format(dag_id="r.dag_id")}
       AND (d.is_paused IS NOT TRUE
            OR EXISTS (SELECT FROM task_instance AS ti WHERE ti.run_id = r.id AND ti.state = ANY($1::text[])))
     LIMIT 1
"""


async def unfinished_work(conn: DatabaseConnection) -> str | None:
    """A request, report, callback or run that is not finished; None without one. DAGs in quarantine are left out."""
    waiting: str | None = await conn.fetchval(WAITING)
    if waiting is not None:
        return waiting
    unfinished: str | None = await conn.fetchval(UNFINISHED, sorted(HOLDING_SLOT))
    return unfinished


# The next run that the owner has stored decides, unless there is none or the version is so new that the owner may not
# have read it. Index: ix_dag_partition.
PERHAPS_DUE: Final = f"""
    SELECT {DAG_COLUMNS} FROM dag
     WHERE version_id IS NOT NULL AND partition = ANY($1::smallint[])
       AND NOT is_paused AND NOT is_stale AND NOT has_import_errors
       AND schedule IS NOT NULL AND {_NOT_IN_QUARANTINE.format(dag_id="dag.dag_id")}
       AND (next_dagrun_create_after IS NULL OR next_dagrun_create_after <= $2
            OR EXISTS (SELECT FROM dag_version AS v
                        WHERE v.id = dag.version_id AND v.created_at > now() - make_interval(secs => $3)))
"""


async def perhaps_due(
    conn: DatabaseConnection, partitions: Collection[int], now: datetime, *, noticed_within: float
) -> list[DagRow]:
    """The DAGs of these partitions whose schedule can have a run for `now`, so it must be computed.

    Owners notice a new version within `noticed_within` seconds.
    """
    return [DagRow(*row) for row in await conn.fetch(PERHAPS_DUE, sorted(partitions), now, noticed_within)]
