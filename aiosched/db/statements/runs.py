"""Statements on DAGs and runs outside the hot transaction: creating and loading. No decisions live here."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from operator import attrgetter
from typing import Any, Final, NamedTuple

import asyncpg
import msgspec

from aiosched.core.graph.spec import DagSpec, decode_spec, why_unreadable
from aiosched.core.run.board import Instance, Run
from aiosched.core.timetables.base import NextRun
from aiosched.core.values.ids import as_incomplete
from aiosched.core.values.messages import XComPairs, XComPlace, XComRef
from aiosched.core.values.states import RunState, TaskState
from aiosched.db.schema.tables import DAG, DAG_RUN, TASK_INSTANCE
from aiosched.db.server.arrays import array_texts
from aiosched.db.server.connection import DatabaseConnection, Queryable
from aiosched.errors import DagFailure, NumbersInUse, StaleRows, UnreadableRow


@dataclass(frozen=True, slots=True)
class DagRow:
    """The part of a DAG's row that the scheduler needs."""

    dag_id: str
    partition: int
    file: str | None
    version_id: int
    is_paused: bool
    is_stale: bool
    has_import_errors: bool
    team: str | None = None  # whose pools its tasks may use, besides those of nobody


@dataclass(frozen=True, slots=True)
class StoredVersion:
    """A DAG version: its key, its number and its content."""

    id: int
    number: int
    spec: DagSpec
    file: str | None
    source_hash: str | None = None
    modules: tuple[str, ...] = ()  # that its file imports from the DAGs folder, relative
    bundle: str | None = None
    bundle_version: str | None = None  # whose code its runs keep; None: they run the newest


@dataclass(frozen=True, slots=True)
class UnreadableVersion:
    """A DAG version with a document that this aiosched cannot read. Its text says what to do."""

    id: int
    dag_id: str
    number: int
    file: str | None
    source_hash: str | None
    modules: tuple[str, ...]
    error: str
    bundle: str | None = None
    bundle_version: str | None = None

    def __str__(self) -> str:
        return why_unreadable(self.dag_id, self.number, self.error)


class NewRun(NamedTuple):
    """A run to create, and what only its row has."""

    run: Run
    partition: int  # negative: its task instances follow (`as_incomplete`)
    triggered_by: str
    created_by: int


DAG_COLUMNS: Final = ", ".join(DAG.columns_of(DagRow))

# Index: ix_dag_partition.
LOAD_DAGS: Final = f"SELECT {DAG_COLUMNS} FROM dag WHERE version_id IS NOT NULL AND partition = ANY($1::smallint[])"


async def load_dags(conn: DatabaseConnection, partitions: Iterable[int]) -> list[DagRow]:
    """All DAGs of the partitions, including stale ones (their unfinished runs continue)."""
    return [DagRow(*row) for row in await conn.fetch(LOAD_DAGS, list(partitions))]


LOAD_VERSIONS: Final = """
    SELECT id, dag_id, number, file, source_hash, sources, spec, bundle, bundle_version
      FROM dag_version WHERE id = ANY($1::bigint[])
"""


@lru_cache(4096)  # many versions import the same files: one copy in memory
def modules_of(file: str | None, sources: str | None) -> tuple[str, ...]:
    """The files in `sources`, a JSON object, besides the DAG file itself (for a member of an archive: the archive)."""
    found = {} if sources is None else msgspec.json.decode(sources, type=dict[str, str])
    return tuple(sorted(name for name in found if file != name and not (file or "").startswith(f"{name}/")))


async def load_versions(
    conn: DatabaseConnection, ids: Iterable[int]
) -> tuple[dict[int, StoredVersion], list[UnreadableVersion]]:
    """The DAG versions with these keys, and separately those that cannot be read."""
    found: dict[int, StoredVersion] = {}
    unreadable: list[UnreadableVersion] = []
    for row in await conn.fetch(LOAD_VERSIONS, list(ids)):
        key, dag_id, number, file, source_hash, sources, document, *bundle = row
        code: tuple[str | None, str | None, tuple[str, ...]] = (file, source_hash, ())
        try:
            code = (file, source_hash, modules_of(file, sources))
            found[key] = StoredVersion(key, number, decode_spec(document), *code, *bundle)
        except Exception as error:  # whatever the error is, others are read
            unreadable.append(
                UnreadableVersion(key, dag_id, number, *code, f"{type(error).__name__}: {error}", *bundle)
            )
    return found, unreadable


OF_RUN: Final = DAG_RUN.columns_of(
    Run,
    key="id",
    interval_start="data_interval_start",
    interval_end="data_interval_end",
    is_incomplete="partition",
)
RUN_COLUMNS: Final = tuple(OF_RUN.values())
_RUN_COLUMNS: Final = ", ".join(RUN_COLUMNS)


def in_rows(partitions: Iterable[int]) -> list[int]:
    """What the rows of the runs of `partitions` have as their partition: of complete runs, and of others."""
    return [stored for partition in partitions for stored in (partition, as_incomplete(partition))]


PAGE: Final = 500  # runs that are read at once

# Index: ix_dag_run_unfinished (partial), so its cost does not grow with history.
UNFINISHED_IDS: Final = """
    SELECT id FROM dag_run
     WHERE state IN ('queued', 'running') AND partition = ANY($1::smallint[]) AND dag_id <> ALL($2::text[])
       AND ($3::text[] IS NULL OR dag_id = ANY($3))
     ORDER BY id
"""
# Index: the primary key.
LOAD_UNFINISHED: Final = f"""
    SELECT {_RUN_COLUMNS} FROM dag_run WHERE id = ANY($1::bigint[]) AND state IN ('queued', 'running') ORDER BY id
"""


async def load_unfinished_runs(
    conn: DatabaseConnection, partitions: Iterable[int], *, but: Collection[str] = (), of: Collection[str] | None = None
) -> list[Run]:
    """The queued and running runs of the partitions, oldest first, without those of the DAGs `but`; only those `of`.

    They are read in pages, so the partitions must be ours: then nobody changes runs meanwhile. Raises DagFailures for
    DAGs with rows that cannot be read.
    """
    found, failures = list[Run](), list[DagFailure]()
    rows = await conn.fetch(UNFINISHED_IDS, in_rows(partitions), list(but), None if of is None else list(of))
    ids = [row["id"] for row in rows]
    for first in range(0, len(ids), PAGE):
        for row in await conn.fetch(LOAD_UNFINISHED, ids[first : first + PAGE]):
            try:
                found.append(_run(row))
            except DagFailure as failure:
                failures.append(failure)
    if failures:
        raise ExceptionGroup("rows of runs that cannot be read", failures)
    return found


# Index: ix_dag_run_unfinished.
UNFINISHED_KEYS: Final = """
    SELECT id, dag_id FROM dag_run
     WHERE state IN ('queued', 'running') AND partition = ANY($1::smallint[]) AND dag_id = ANY($2::text[])
"""


async def unfinished_keys(
    conn: DatabaseConnection, partitions: Iterable[int], dag_ids: Collection[str]
) -> dict[int, str]:
    """The DAG ids of the queued and running runs of these DAGs, by the runs' keys; nothing else of them is read."""
    rows = await conn.fetch(UNFINISHED_KEYS, in_rows(partitions), list(dag_ids)) if dag_ids else ()
    return {row["id"]: row["dag_id"] for row in rows}


LOAD_RUNS: Final = f"SELECT {_RUN_COLUMNS} FROM dag_run WHERE id = ANY($1::bigint[]) ORDER BY id"


async def load_runs(conn: DatabaseConnection, keys: Iterable[int]) -> list[Run]:
    """The runs with these keys, oldest first. Raises UnreadableRow for one in an unknown state."""
    wanted = list(keys)
    return [_run(row) for row in await conn.fetch(LOAD_RUNS, wanted)] if wanted else []


async def load_readable_runs(conn: DatabaseConnection, keys: Iterable[int]) -> tuple[list[Run], dict[int, str]]:
    """As `load_runs`; runs that cannot be read are returned separately, with the reason."""
    found: list[Run] = []
    unreadable: dict[int, str] = {}
    for row in await conn.fetch(LOAD_RUNS, list(keys)):
        try:
            found.append(_run(row))
        except UnreadableRow as error:
            unreadable[row["id"]] = str(error)
    return found, unreadable


FIND_RUNS: Final = f"SELECT {_RUN_COLUMNS} FROM dag_run WHERE dag_id = $1 AND run_id = ANY($2::text[]) ORDER BY id"


async def find_runs(conn: DatabaseConnection, dag_id: str, run_ids: Sequence[str]) -> list[Run]:
    """The runs of a DAG with these run ids; unknown ones are absent. Index: uq_dag_run_dag_id_run_id."""
    return [_run(row) for row in await conn.fetch(FIND_RUNS, dag_id, list(run_ids))] if run_ids else []


def _run(row: Any) -> Run:
    values: dict[str, Any] = dict(zip(OF_RUN, row, strict=True))
    values["state"] = values["stored_state"] = RunState.of(
        row["state"], f"Run {row['run_id']!r} of DAG {row['dag_id']!r}"
    )
    values["is_incomplete"] = row["partition"] < 0
    try:
        values["conf"] = msgspec.json.decode(row["conf"])
    except Exception as error:  # edited by hand
        raise DagFailure(row["dag_id"], f"reading run {row['run_id']}") from error
    return Run(**values)


# Index: primary key.
INSTANCE_COLUMNS: Final = ("run_id", *TASK_INSTANCE.columns_of(Instance, task="task_index").values())
LOAD_INSTANCES: Final = f"""
    SELECT {", ".join(INSTANCE_COLUMNS)}
      FROM task_instance WHERE run_id = ANY($1::bigint[]) ORDER BY {", ".join(TASK_INSTANCE.key)}
"""


async def load_instances(conn: DatabaseConnection, runs: Iterable[int]) -> dict[int, list[Instance]]:
    """The task instances of the runs, by run key. Raises UnreadableRow if one of them is in an unknown state."""
    found, unreadable = await load_readable_instances(conn, runs)
    for error in unreadable.values():
        raise error
    return found


async def load_readable_instances(
    conn: DatabaseConnection, runs: Iterable[int]
) -> tuple[dict[int, list[Instance]], dict[int, UnreadableRow]]:
    """As `load_instances`; runs with an instance that cannot be read are returned separately, with the reason."""
    keys = list(runs)
    found: dict[int, list[Instance]] = {key: [] for key in keys}
    unreadable: dict[int, UnreadableRow] = {}
    for row in await conn.fetch(LOAD_INSTANCES, keys):
        run, task, map_index, stored, *rest = row
        try:
            instance = Instance(task, map_index, TaskState.of(stored), *rest)
        except UnreadableRow as error:
            unreadable[run] = error
            continue
        instance.stored_state, instance.stored_try = instance.state, instance.try_number
        found[run].append(instance)
    return {key: instances for key, instances in found.items() if key not in unreadable}, unreadable


# What a run has from the beginning, besides its conf. The rest is as the table says.
_CREATED: Final = [
    field for field in OF_RUN if field not in ("key", "is_incomplete", "conf", "end_date", "reason", "clear_number")
]
_created: Final = attrgetter(*_CREATED)
NEW_RUN: Final = ("partition", "triggered_by", "created_by", "conf", *(OF_RUN[field] for field in _CREATED))
# A run that exists already (same run id or same logical date) is not changed: it is missing from the result.
INSERT_RUNS: Final = f"""
    {DAG_RUN.insert(NEW_RUN, as_texts=True)} ON CONFLICT DO NOTHING RETURNING id, dag_id, run_id
"""


async def insert_runs(conn: DatabaseConnection, runs: Sequence[NewRun]) -> dict[tuple[str, str], int]:
    """Create runs; returns the keys of those that did not exist, by (dag_id, run_id).

    Raises StaleRows if parsing has replaced a version in the meantime: read the DAGs again.
    """
    try:
        rows = await conn.fetch(INSERT_RUNS, *array_texts([_new_row(new) for new in runs], len(NEW_RUN)))
    except asyncpg.ForeignKeyViolationError as error:
        raise StaleRows(f"A DAG version was replaced while runs of it were created ({error.detail})") from error
    keys = {(row["dag_id"], row["run_id"]): row["id"] for row in rows}
    await check_exist(conn, [new.run for new in runs if (new.run.dag_id, new.run.run_id) not in keys])
    return keys


def _new_row(new: NewRun) -> tuple[Any, ...]:
    run, *others = new
    return (*others, msgspec.json.encode(run.conf).decode(), *_created(run))


# Both unique keys of a run mean that it exists. A number that is in use does not, and ends as silently.
COUNT_EXISTING: Final = """
    SELECT count(*) FROM unnest($1::text[], $2::text[], $3::timestamptz[]) AS n (dag_id, run_id, logical_date)
     WHERE EXISTS (SELECT FROM dag_run AS r WHERE r.dag_id = n.dag_id
                      AND (r.run_id = n.run_id OR r.logical_date = n.logical_date))
"""


async def check_exist(conn: DatabaseConnection, runs: Sequence[Any]) -> None:
    """Raise NumbersInUse unless all of these runs, which were not inserted, exist. They have what Run has."""
    if runs:
        named = [[one.dag_id for one in runs], [one.run_id for one in runs], [one.logical_date for one in runs]]
        if await conn.fetchval(COUNT_EXISTING, *named) < len(runs):
            raise NumbersInUse("Runs were not created, because the database issued numbers for them that are in use.")


FIND_RUN: Final = f"""
    SELECT {_RUN_COLUMNS} FROM dag_run
     WHERE dag_id = $1 AND (run_id = $2 OR logical_date = $3) ORDER BY id DESC LIMIT 1
"""


async def find_run(
    conn: Queryable, dag_id: str, *, run_id: str | None = None, logical_date: datetime | None = None
) -> Run | None:
    """The run of a DAG with this run id or this logical date."""
    row = await conn.fetchrow(FIND_RUN, dag_id, run_id, logical_date)
    return None if row is None else _run(row)


async def copy_instances(conn: DatabaseConnection, rows: Iterable[tuple[int, int, int, int]]) -> None:
    """Insert task instances: (run key, task index, map index, max tries), by COPY."""
    await conn.copy_records_to_table(
        "task_instance", records=rows, columns=["run_id", "task_index", "map_index", "max_tries"]
    )


# Guard: they are incomplete.
COMPLETE_RUNS: Final = "UPDATE dag_run SET partition = -1 - partition WHERE id = ANY($1::bigint[]) AND partition < 0"


async def complete_runs(conn: DatabaseConnection, keys: Collection[int]) -> None:
    """All task instances of these runs are stored now. Raises StaleRows if one of the runs was not incomplete."""
    status = await conn.execute(COMPLETE_RUNS, list(keys))
    if status != f"UPDATE {len(keys)}":
        raise StaleRows(f"Of {len(keys)} incomplete runs some are gone or complete ({status})")


SET_NEXT_RUNS: Final = """
    UPDATE dag AS d
       SET next_dagrun = n.logical_date, next_dagrun_data_interval_start = n.interval_start,
           next_dagrun_data_interval_end = n.interval_end, next_dagrun_create_after = n.run_after
      FROM unnest($1::text[], $2::timestamptz[], $3::timestamptz[], $4::timestamptz[], $5::timestamptz[])
        AS n (dag_id, logical_date, interval_start, interval_end, run_after)
     WHERE d.dag_id = n.dag_id
       AND (d.next_dagrun, d.next_dagrun_create_after) IS DISTINCT FROM (n.logical_date, n.run_after)
"""


async def set_next_runs(conn: Queryable, next_runs: Sequence[tuple[str, NextRun | None]]) -> None:
    """Store when each DAG runs next, to display; unchanged rows are not written."""
    rows = [
        (dag_id, n.logical_date, n.interval.start, n.interval.end, n.run_after)
        if n is not None
        else (dag_id, None, None, None, None)
        for dag_id, n in next_runs
    ]
    if rows:
        await conn.execute(SET_NEXT_RUNS, *map(list, zip(*rows, strict=True)))


SET_PAUSED: Final = "UPDATE dag SET is_paused = $2 WHERE dag_id = $1"


async def set_paused(conn: DatabaseConnection, dag_id: str, is_paused: bool) -> None:
    await conn.execute(SET_PAUSED, dag_id, is_paused)


# Guard: the run has not started.
FAIL_QUEUED_RUN: Final = """
    WITH failed AS (
        UPDATE dag_run SET state = 'failed', end_date = $2, reason = $3 WHERE id = $1 AND state = 'queued' RETURNING id
    )
    UPDATE task_instance AS ti
       SET state = 'skipped', start_date = $2, end_date = $2, is_stopped = true,
           reason = CASE $3 WHEN 'expired' THEN 'the run expired' ELSE 'the run was cancelled' END
      FROM failed WHERE ti.run_id = failed.id AND ti.state IS NULL
"""


async def fail_queued_run(conn: DatabaseConnection, run: int, now: datetime, reason: str) -> None:
    """End a run that never started: it fails, its task instances are skipped."""
    await conn.execute(FAIL_QUEUED_RUN, run, now, reason)


VERSIONOF_RUN: Final = "SELECT version_id FROM dag_run WHERE id = $1"


async def version_of_run(conn: DatabaseConnection, run: int) -> int | None:
    """The DAG version that a run is pinned to; None for no such run."""
    version: int | None = await conn.fetchval(VERSIONOF_RUN, run)
    return version


MOST_PULLED: Final = 32 * 2**20  # bytes of XComs in one answer, and one value more

# Values beyond $5 bytes are NULL (a value in the table never is). Index: primary key, once for each reference.
GET_XCOMS: Final = """
    SELECT position, map_index, CASE WHEN before < $5 THEN value END AS value,
           stored ->> 'path' AS path,
           CASE WHEN stored ->> 'size' ~ '^[0-9]{1,15}$' THEN (stored ->> 'size')::bigint ELSE -1 END AS size
      FROM (
        SELECT ref.position, x.map_index, x.value, x.stored,
               sum(octet_length(x.value::text)) OVER (ORDER BY ref.position, x.map_index)
                   - octet_length(x.value::text) AS before
          FROM unnest($2::int[], $3::text[], $4::int[]) WITH ORDINALITY AS ref (task_index, key, map_index, position)
          JOIN xcom AS x ON x.run_id = $1 AND x.task_index = ref.task_index
                        AND (ref.map_index IS NULL OR x.map_index = ref.map_index)
                        AND x.key = coalesce(ref.key, (
                                SELECT a.key FROM xcom AS a
                                 WHERE a.run_id = $1 AND a.task_index = ref.task_index
                                   AND (ref.map_index IS NULL OR a.map_index = ref.map_index)
                                 ORDER BY a.key <> 'return_value', a.key COLLATE "C" LIMIT 1))
    ) AS sized ORDER BY position, map_index
"""


async def get_xcoms(
    conn: DatabaseConnection, run: int, refs: Sequence[tuple[int, XComRef]], most: int | None = None
) -> list[XComPairs | None]:
    """For each (task index, reference) the (map index, JSON text) pairs, in index order.

    Of a value in remote storage, its place instead of the text.

    None for each reference with values beyond the first `most` (`MOST_PULLED`) bytes of all.
    """
    found: list[XComPairs | None] = [[] for _ in refs]
    indexes, keys = [index for index, _ in refs], [ref.key for _, ref in refs]
    map_indexes = [ref.map_index for _, ref in refs]
    rows = await conn.fetch(GET_XCOMS, run, indexes, keys, map_indexes, MOST_PULLED if most is None else most)
    for position, map_index, value, path, size in rows:
        pairs = found[position - 1]
        if value is None:
            found[position - 1] = None
        elif pairs is not None:
            pairs.append((map_index, value if path is None else XComPlace(path, size)))
    return found


# For each reference the named run if it has the value, else the newest run that has it. Of runs without a logical date
# run_after counts. OFFSET keeps the place of a task in a version apart: it is remembered over the runs of a version.
# Index: uq_dag_run_dag_id_run_id; uq_dag_run_dag_id_logical_date and ix_dag_run_undated, backwards; xcom's primary key.
_RUN_WITH_XCOM: Final = """
    SELECT r.id, p.task_index, coalesce(r.logical_date, r.run_after) AS date, r.run_id = $2 AS is_named
      FROM dag_run AS r
      CROSS JOIN LATERAL (
        SELECT t.position - 1 AS task_index
          FROM dag_version AS v CROSS JOIN LATERAL json_array_elements(v.spec -> 'tasks')
               WITH ORDINALITY AS t (task, position)
         WHERE v.id = r.version_id AND t.task ->> 'task_id' = ref.task_id OFFSET 0
      ) AS p
     WHERE r.dag_id = $1 AND EXISTS (
            SELECT FROM xcom AS x WHERE x.run_id = r.id AND x.task_index = p.task_index
                                    AND x.key = coalesce(ref.key, x.key)
                                    AND (ref.map_index IS NULL OR x.map_index = ref.map_index)
       )
"""
RUNS_WITH_XCOMS: Final = f"""
    SELECT ref.position, found.id, found.task_index
      FROM unnest($4::text[], $5::text[], $6::int[]) WITH ORDINALITY AS ref (task_id, key, map_index, position)
      CROSS JOIN LATERAL (
        ({_RUN_WITH_XCOM} AND r.run_id = $2)
        UNION ALL
        ({_RUN_WITH_XCOM} AND r.logical_date <= $3 ORDER BY r.logical_date DESC LIMIT 1)
        UNION ALL
        ({_RUN_WITH_XCOM} AND r.logical_date IS NULL AND r.run_after <= $3 ORDER BY r.run_after DESC, r.id DESC LIMIT 1)
        ORDER BY is_named DESC NULLS LAST, date DESC, id DESC LIMIT 1
      ) AS found
"""


async def runs_with_xcoms(
    conn: DatabaseConnection, dag_id: str, refs: Sequence[XComRef], *, run_id: str | None, until: datetime | None
) -> list[tuple[int, int] | None]:
    """For each reference (run key, task index) of the run of a DAG that has the value; None if none has it.

    That is the run named `run_id`, else the newest whose logical date, or `run_after` without one, is at most `until`
    (None: no other run).
    """
    found: list[tuple[int, int] | None] = [None] * len(refs)
    columns = [[ref[field] for ref in refs] for field in range(3)]
    for position, run, task_index in await conn.fetch(RUNS_WITH_XCOMS, dag_id, run_id, until, *columns):
        found[position - 1] = run, task_index
    return found
