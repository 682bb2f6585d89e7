"""Statements that count again what rows say in two places, and delete rows whose run is gone.

No decisions live here. Source: docs/architecture.md, "Rows that people edit".
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple

from aiosched.core.graph.spec import DEFAULT_POOL
from aiosched.core.values.states import HOLDING_SLOT
from aiosched.db.schema import tables
from aiosched.db.schema.tables import DEFERRED_TRIGGER
from aiosched.db.server.connection import DatabaseConnection, Queryable

# The use of each pool, and how many instances hold slots, by version and task: one statement, hence one snapshot in
# which the two agree whatever is committed meanwhile. Indexes: ix_dag_run_unfinished, then the primary keys.
COUNT_HELD: Final = """
    SELECT NULL AS pool, r.version_id, ti.task_index, count(*)::int AS number
      FROM dag_run AS r
     CROSS JOIN LATERAL (
        SELECT task_index FROM task_instance AS i
         WHERE i.run_id = r.id
           AND (i.state = ANY($1::text[])
                OR i.state = 'deferred' AND EXISTS (
                    SELECT FROM deferred_trigger AS d
                     WHERE d.run_id = i.run_id AND d.task_index = i.task_index AND d.map_index = i.map_index
                       AND d.holds_pool))
     ) AS ti
     WHERE r.state IN ('queued', 'running')
     GROUP BY r.version_id, ti.task_index
     UNION ALL
    SELECT name, NULL, NULL, used FROM pool
"""

Place = tuple[int, int]  # version, task index


class PoolUse(NamedTuple):
    """What one snapshot says: the use of each pool, and the number of instances that hold slots."""

    used: dict[str, int]
    holders: dict[Place, int]


async def count_held(conn: DatabaseConnection) -> PoolUse:
    """The use of all pools, and how many instances of each task hold slots, in one snapshot."""
    held = PoolUse({}, {})
    for pool, version, task, number in await conn.fetch(COUNT_HELD, sorted(HOLDING_SLOT)):
        if pool is not None:
            held.used[pool] = number
        else:
            held.holders[version, task] = number
    return held


# A specification leaves out what is the default. Index: primary key of dag_version, once for each version.
POOLS_OF_TASKS: Final = """
    SELECT w.id, t.number::int - 1, t.task ->> 'pool', t.task ->> 'pool_slots'
      FROM (SELECT DISTINCT id FROM unnest($1::bigint[]) AS u (id)) AS w
      JOIN dag_version AS v ON v.id = w.id
     CROSS JOIN LATERAL json_array_elements(
        CASE json_typeof(v.spec -> 'tasks') WHEN 'array' THEN v.spec -> 'tasks' ELSE '[]' END
     ) WITH ORDINALITY AS t (task, number)
     WHERE (w.id, t.number - 1) IN (SELECT * FROM unnest($1::bigint[], $2::int[]))
"""


async def pools_of_tasks(conn: DatabaseConnection, places: Collection[Place]) -> dict[Place, tuple[str, int]]:
    """The pool of each of the tasks, and how many slots of it one instance needs.

    Tasks that their version does not have are absent: nobody can start them.
    """
    rows = await conn.fetch(POOLS_OF_TASKS, *map(list, zip(*places, strict=True)))
    return {
        (version, task): (pool or DEFAULT_POOL, int(slots) if slots and slots.isdecimal() else 1)
        for version, task, pool, slots in rows
    }


# Locks are taken in the order of names, as everywhere.
LOCK_ALL_POOLS: Final = "SELECT name FROM pool ORDER BY name FOR UPDATE"


async def lock_all_pools(conn: DatabaseConnection) -> set[str]:
    """Lock all pools until the end of the transaction, and return their names."""
    return {row["name"] for row in await conn.fetch(LOCK_ALL_POOLS)}


# Index: primary key. The caller has locked the rows.
SET_USED: Final = """
    UPDATE pool AS p SET used = c.used FROM unnest($1::text[], $2::int[]) AS c (name, used) WHERE p.name = c.name
"""
ADD_POOLS: Final = """
    INSERT INTO pool (name, slots, used) SELECT name, 0, used FROM unnest($1::text[], $2::int[]) AS c (name, used)
     ORDER BY name ON CONFLICT DO NOTHING
"""


async def set_used(conn: DatabaseConnection, used: Mapping[str, int]) -> None:
    """Set the use of these pools, which the transaction has locked."""
    await conn.execute(SET_USED, list(used), list(used.values()))


async def add_pools(conn: DatabaseConnection, used: Mapping[str, int]) -> None:
    """Insert pools without slots, in which so many are in use, unless they exist."""
    await conn.execute(ADD_POOLS, list(used), list(used.values()))


ADD_LEASES: Final = """
    INSERT INTO partition_lease (partition) SELECT unnest($1::smallint[]) ON CONFLICT DO NOTHING
"""


async def add_leases(conn: Queryable, partitions: Sequence[int]) -> None:
    """Insert rows of free partitions, unless they exist."""
    await conn.execute(ADD_LEASES, partitions)


# Rows of `deferred_trigger` are deleted when they are read.
OF_RUNS: Final = tuple(table for table in tables.OF_RUNS if table != DEFERRED_TRIGGER.name)
MOST_RUNS: Final = 500  # looked at in one step
MOST_ROWS: Final = 5_000  # deleted in one step

# The next $2 runs that have rows in the table, after the run $1; each is found by one step in the index. Ids of runs
# are not used again, and a run is inserted together with its rows, so what has no run now will never have one.
_DELETE_ORPHANS: Final = """
    WITH RECURSIVE next (run_id, number) AS (
        (SELECT run_id, 1 FROM {table} WHERE run_id > $1 ORDER BY run_id LIMIT 1)
         UNION ALL
        SELECT (SELECT t.run_id FROM {table} AS t WHERE t.run_id > next.run_id ORDER BY t.run_id LIMIT 1), number + 1
          FROM next WHERE next.run_id IS NOT NULL AND number < $2
    ), gone AS MATERIALIZED (
        SELECT run_id FROM next
         WHERE run_id IS NOT NULL AND NOT EXISTS (SELECT FROM dag_run WHERE dag_run.id = next.run_id)
    ), deleted AS (
        DELETE FROM {table} WHERE ctid = ANY(ARRAY(
            SELECT t.ctid FROM gone JOIN {table} AS t ON t.run_id = gone.run_id LIMIT $3
        )) RETURNING run_id
    )
    SELECT (SELECT count(run_id) FROM next) AS runs, (SELECT max(run_id) FROM next) AS last,
           (SELECT count(*) FROM deleted) AS rows, (SELECT count(DISTINCT run_id) FROM deleted) AS gone
"""
DELETE_ORPHANS: Final[Mapping[str, str]] = {table: _DELETE_ORPHANS.format(table=table) for table in OF_RUNS}


class Orphans(NamedTuple):
    """What one step has found: runs with rows, the last of them, rows deleted, and their runs."""

    runs: int
    last: int | None
    rows: int
    gone: int


async def delete_orphans(conn: DatabaseConnection, table: str, *, after: int) -> Orphans:
    """Delete rows of one of the tables `OF_RUNS` that belong to no run: those of the next runs after `after`."""
    return Orphans(*await conn.fetchrow(DELETE_ORPHANS[table], after, MOST_RUNS, MOST_ROWS))
