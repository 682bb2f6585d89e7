"""The task instances that hold slots of a pool and those that wait for them, for people.

Read only. The pool of a task instance is not in its row but in its DAG version. So the versions of unfinished runs are
read first (each once, however many runs it has and however often somebody asks), then the instances of those of their
tasks that name the pool, by key.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, NamedTuple
from weakref import WeakKeyDictionary

from aiosched.core.graph.graph import Graph
from aiosched.core.graph.spec import DagSpec, decode_spec
from aiosched.core.values.states import HOLDING_SLOT, TaskState
from aiosched.db.access.visibility import ScopedStatement, Seen
from aiosched.db.server.engine import Database


class PoolMember(NamedTuple):
    """A task of a DAG version that names the pool."""

    version_key: int
    task_index: int
    task_id: str
    slots: int
    weight: int  # the effective priority


@dataclass(frozen=True, slots=True)
class PoolUser:
    """A task instance that holds slots of a pool or waits for them; `since` is when that began."""

    run: int
    dag_id: str
    run_id: str
    task_id: str
    task_index: int
    map_index: int
    state: str
    slots: int
    weight: int
    logical_at: datetime
    since: datetime | None

    @property
    def place(self) -> tuple[int, datetime, int, int, int]:
        """Its sort key among those that wait: the order of core/slots/waiting.py, then keys."""
        return -self.weight, self.logical_at, self.map_index, self.run, self.task_index


Place = tuple[int, datetime, int, int, int]

# Index: ix_dag_run_unfinished.
VERSIONS: Final = "SELECT DISTINCT version_id FROM dag_run WHERE state IN ('queued', 'running')"
# Index: the primary key.
SPECS: Final = "SELECT id, spec FROM dag_version WHERE id = ANY ($1::bigint[])"

READ_AT_ONCE: Final = 50  # versions that are read and compiled while nothing else can run
MOST_KEPT: Final = 50_000  # versions

ByPool = Mapping[str, Sequence[PoolMember]]
_known: Final[WeakKeyDictionary[Database, dict[int, ByPool]]] = WeakKeyDictionary()  # a version does not change


async def pool_members(db: Database, pool: str) -> list[PoolMember]:
    """The tasks of unfinished runs' versions that name `pool`. A version is read once, others are served meanwhile.

    One that cannot be read is left out: schedulers do not run it, and report it.
    """
    known = _known.setdefault(db, {})
    async with db.acquire() as conn:
        wanted = [int(row["version_id"]) for row in await conn.fetch(VERSIONS)]
        missing = [version for version in wanted if version not in known]
        for first in range(0, len(missing), READ_AT_ONCE):
            for row in await conn.fetch(SPECS, missing[first : first + READ_AT_ONCE]):
                with contextlib.suppress(Exception):  # whatever is wrong with one version, show the others
                    known[row["id"]] = _tasks_by_pool(row["id"], decode_spec(row["spec"]))
    found = [member for version in wanted for member in known.get(version, {}).get(pool, ())]
    for version in list(itertools.islice(known, max(0, len(known) - MOST_KEPT))):
        del known[version]
    return found


def _tasks_by_pool(version_key: int, spec: DagSpec) -> ByPool:
    weights = Graph(spec).weights
    found: dict[str, list[PoolMember]] = {}
    for index, task in enumerate(spec.tasks):
        member = PoolMember(version_key, index, task.task_id, task.pool_slots, weights[index])
        found.setdefault(task.pool, []).append(member)
    return found


# Indexes: ix_dag_run_unfinished and the primary key of task_instance.
USERS: Final = """
    SELECT r.id AS run, r.dag_id, r.run_id, m.task_id, ti.task_index, ti.map_index, ti.state, m.slots,
           m.weight + r.priority AS weight,
           coalesce(r.logical_date, r.run_after) AS logical_at,
           CASE WHEN ti.state = 'scheduled' THEN ti.scheduled_at ELSE coalesce(ti.queued_at, ti.start_date) END AS since
      FROM dag_run AS r
      JOIN unnest($1::bigint[], $2::int[], $3::text[], $4::int[], $5::bigint[])
           AS m (version_id, task_index, task_id, slots, weight) ON m.version_id = r.version_id
     CROSS JOIN LATERAL (
           SELECT * FROM task_instance
            WHERE task_instance.run_id = r.id AND task_instance.task_index = m.task_index
              AND task_instance.state = ANY ($6::text[])
     ) AS ti
     WHERE r.state IN ('queued', 'running') [seen]
"""
_OF_RUN: Final = "r.dag_id = ANY (?::text[])"
# The longest holders first.
HOLDERS: Final = ScopedStatement.of(
    f"SELECT * FROM ({USERS}) AS u ORDER BY since, run, task_index, map_index LIMIT $7", _OF_RUN
)
# In the order of service; tasks of paused DAGs do not wait.
WAITING: Final = ScopedStatement.of(
    f"""
    SELECT * FROM ({USERS}) AS u
     WHERE NOT EXISTS (SELECT FROM dag WHERE dag.dag_id = u.dag_id AND dag.is_paused)
       AND ($7::bigint IS NULL OR (-weight, logical_at, map_index, run, task_index)
                               > ($7, $8::timestamptz, $9::int, $10::bigint, $11::int))
     ORDER BY -weight, logical_at, map_index, run, task_index LIMIT $12
""",
    _OF_RUN,
)


# No further than `limit`: in a pool with a million waiting instances the number itself helps nobody.
NUMBER_WAITING: Final = ScopedStatement.of(
    f"""
    SELECT count(*)::int FROM (
        SELECT FROM ({USERS}) AS u
         WHERE NOT EXISTS (SELECT FROM dag WHERE dag.dag_id = u.dag_id AND dag.is_paused) LIMIT $7) AS w
""",
    _OF_RUN,
)


async def number_waiting(db: Database, members: Collection[PoolMember], *, most: int, seen: Seen = None) -> int:
    """How many instances wait; `most` for that many or more."""
    rows = await NUMBER_WAITING.fetch(db, *_columns(members), [TaskState.SCHEDULED], most, seen=seen)
    return int(rows[0][0])


async def pool_holders(
    db: Database, members: Collection[PoolMember], *, include_deferred: bool, limit: int, seen: Seen = None
) -> list[PoolUser]:
    """The instances that hold slots, the longest holders first. `include_deferred`: deferred tasks keep their slots."""
    states = [*HOLDING_SLOT, TaskState.DEFERRED] if include_deferred else [*HOLDING_SLOT]
    rows = await HOLDERS.fetch(db, *_columns(members), sorted(states), limit, seen=seen)
    return [PoolUser(**dict(row)) for row in rows]


async def pool_waiting(
    db: Database, members: Collection[PoolMember], *, after: Place | None = None, limit: int, seen: Seen = None
) -> list[PoolUser]:
    """The instances that wait, in order, after the sort key `after`."""
    place = after or (None,) * 5
    rows = await WAITING.fetch(db, *_columns(members), [TaskState.SCHEDULED], *place, limit, seen=seen)
    return [PoolUser(**dict(row)) for row in rows]


def _columns(members: Collection[PoolMember]) -> Sequence[Sequence[int | str]]:
    columns = [list(column) for column in zip(*members, strict=True)] or [[] for _ in PoolMember._fields]
    version, index, task_id, slots, weight = columns
    return version, index, task_id, slots, weight
