"""Statements that store the results of parsing: DAGs, their versions and their files. No decisions live here.

To store DAGs, call these inside one transaction: insert the missing rows, lock and read, decide, write. Rows of `dag`
are locked in the order of their ids, versions after them, so that two schedulers never wait for each other.

Source: the semantics reference, sections 1.1, 30.4 and 31.2.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import msgspec

from aiosched.core.values.ids import partition_of
from aiosched.db.access.team_folders import team_of
from aiosched.db.schema.tables import DAG, DAG_FILE, DAG_VERSION
from aiosched.db.server.connection import DatabaseConnection, Queryable


@dataclass(frozen=True, slots=True)
class NewDag:
    """A DAG that may not have a row yet; `is_paused` applies only if it has none."""

    dag_id: str
    file: str | None
    is_paused: bool


@dataclass(frozen=True, slots=True)
class StoredDag:
    """A DAG as stored, including its newest version (None before the first)."""

    dag_id: str
    file: str | None
    is_stale: bool
    has_import_errors: bool
    definition: tuple[object, ...]  # see DagDefinition.definition
    version_id: int | None
    number: int | None
    content_hash: str | None
    source_hash: str | None = None
    bundle: str | None = None
    bundle_version: str | None = None
    team: str | None = None


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A `dag_file` row."""

    file: str
    content_hash: str | None
    dag_ids: tuple[str, ...]
    has_error: bool
    sources: Mapping[str, str] | None = None  # what it imported, see NewVersion; None: not known
    bundle_version: str | None = None
    parsed_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class NewVersion:
    """A version to insert. `number` is the newest plus one, or that of the version it replaces.

    `sources` are the content hashes of the file and of everything that it imports from the DAGs folder.
    """

    dag_id: str
    number: int
    content_hash: str
    spec: str  # canonical JSON
    file: str | None
    file_hash: str | None
    source: str | None
    source_hash: str | None = None
    sources: Mapping[str, str] | None = None
    bundle: str | None = None
    bundle_version: str | None = None


_DEFINITION: Final = (
    "file", "max_active_runs", "max_active_tasks", "schedule", "schedule_timezone", "description", "owner"
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class DagDefinition:
    """The columns of `dag` that parsing writes."""

    dag_id: str
    file: str | None
    version_id: int
    max_active_runs: int
    max_active_tasks: int
    schedule: str | None
    schedule_timezone: str | None
    description: str | None
    owner: str | None
    tags: tuple[str, ...]

    @property
    def definition(self) -> tuple[object, ...]:
        """The fields that distinguish a changed row from an unchanged one, apart from version and flags."""
        return (*(getattr(self, name) for name in _DEFINITION), self.tags)


@dataclass(frozen=True, slots=True)
class FileRow:
    """The result of parsing a file, as stored."""

    file: str
    content_hash: str
    dag_ids: tuple[str, ...]
    parse_seconds: float
    error: str | None
    error_line: int | None
    traceback: str | None
    code_frame: str | None
    warnings: tuple[str, ...]
    sources: Mapping[str, str] | None = None
    bundle_version: str | None = None


# Rows for DAGs that are seen for the first time. A second scheduler that does the same waits here for the commit of the
# first, then finds the rows. Index: primary key.
ADD_DAGS: Final = f"""
    {DAG.insert(("dag_id", "partition", "file", "is_paused"))} ORDER BY dag_id ON CONFLICT (dag_id) DO NOTHING
"""


async def add_dags(conn: DatabaseConnection, dags: Iterable[NewDag]) -> None:
    """Insert the missing rows; existing rows do not change, nor does their `is_paused`. Ids must be distinct."""
    batch = sorted(dags, key=lambda d: d.dag_id)
    if not batch:
        return
    ids = [d.dag_id for d in batch]
    await conn.execute(
        ADD_DAGS, ids, [partition_of(i) for i in ids], [d.file for d in batch], [d.is_paused for d in batch]
    )


# Index: primary key, and that of runs by DAG.
PAUSED_WITHOUT_RUNS: Final = """
    SELECT dag_id FROM dag
     WHERE dag_id = ANY($1::text[]) AND is_paused AND NOT EXISTS (SELECT FROM dag_run r WHERE r.dag_id = dag.dag_id)
"""


# For `doctor`. Reads the newest version of each DAG that is paused and has never run.
HELD_BACK: Final = """
    SELECT d.dag_id FROM dag d JOIN dag_version v ON v.id = d.version_id
     WHERE d.is_paused AND NOT d.is_stale AND NOT EXISTS (SELECT FROM dag_run r WHERE r.dag_id = d.dag_id)
       AND v.spec ->> 'catchup_is_guess' = 'true'
     ORDER BY d.dag_id
"""


async def guessed_without_runs(conn: DatabaseConnection) -> list[str]:
    """The paused DAGs that have never run, and whose catchup is a guess."""
    return [row["dag_id"] for row in await conn.fetch(HELD_BACK)]


async def paused_without_runs(conn: DatabaseConnection, dag_ids: Collection[str]) -> frozenset[str]:
    """Those of these DAGs that are paused and have never run."""
    if not dag_ids:
        return frozenset()
    return frozenset(row["dag_id"] for row in await conn.fetch(PAUSED_WITHOUT_RUNS, sorted(dag_ids)))


# Locked in the order of ids: until the commit no other transaction writes a version of these DAGs. Two statements,
# because a lock that had to wait does not read joined rows again. The number is that of the newest version, also if the
# row of the DAG does not lead to it. Index: both primary keys, uq_dag_version_dag_id_number.
LOCK_DAGS: Final = "SELECT FROM dag WHERE dag_id = ANY($1::text[]) ORDER BY dag_id FOR NO KEY UPDATE"
READ_DAGS: Final = """
    SELECT d.dag_id, d.file, d.is_stale, d.has_import_errors, d.max_active_runs, d.max_active_tasks, d.schedule,
           d.schedule_timezone, d.description, d.owner, d.tags, v.id AS version_id, n.number, v.content_hash,
           v.source_hash, v.bundle, v.bundle_version, d.team
      FROM dag AS d
      LEFT JOIN LATERAL (SELECT max(number) AS number FROM dag_version WHERE dag_id = d.dag_id) AS n ON true
      LEFT JOIN dag_version AS v ON v.id = d.version_id AND v.dag_id = d.dag_id AND v.number = n.number
     WHERE d.dag_id = ANY($1::text[])
"""


async def lock_dags(conn: DatabaseConnection, dag_ids: Collection[str]) -> dict[str, StoredDag]:
    """The DAGs among `dag_ids` that have a row, by id, locked against other parsers."""
    if not dag_ids:
        return {}
    ids = sorted(dag_ids)
    await conn.execute(LOCK_DAGS, ids)
    rows = await conn.fetch(READ_DAGS, ids)
    return {
        row["dag_id"]: StoredDag(
            definition=(*(row[name] for name in _DEFINITION), tuple(row["tags"])),
            **{name: row[name] for name in StoredDag.__annotations__ if name != "definition"},
        )
        for row in rows
    }


# No lock: only one scheduler writes the row of a file. Index: primary key.
_FILES: Final = """
    SELECT file, content_hash, dag_ids, error IS NOT NULL AS has_error, sources::text, bundle_version, parsed_at
      FROM dag_file
"""
READ_FILES: Final = f"{_FILES} WHERE file = ANY($1::text[])"


async def read_files(conn: DatabaseConnection, files: Collection[str]) -> dict[str, StoredFile]:
    """The rows of those `files` that have one, by name."""
    if not files:
        return {}
    return {row["file"]: _stored_file(row) for row in await conn.fetch(READ_FILES, sorted(files))}


# Sequential scan: one row per file, read when a scheduler starts or partitions move.
FILES_OF: Final = f"{_FILES} WHERE partition = ANY($1::smallint[])"


async def files_of(conn: DatabaseConnection, partitions: Collection[int]) -> dict[str, StoredFile]:
    """All files of `partitions`, by name."""
    return {row["file"]: _stored_file(row) for row in await conn.fetch(FILES_OF, sorted(partitions))}


# Sequential scan: one row per file, once a minute if there are several schedulers.
DIGESTS_OF: Final = "SELECT file, content_hash FROM dag_file WHERE partition = ANY($1::smallint[])"


async def digests_of(conn: DatabaseConnection, partitions: Collection[int]) -> dict[str, str | None]:
    """The digests of all files of `partitions` as they were read last, by name; None: it could not be read."""
    return {row["file"]: row["content_hash"] for row in await conn.fetch(DIGESTS_OF, sorted(partitions))}


# 64 rows.
LIVING_OWNERS: Final = """
    SELECT l.partition, s.name FROM partition_lease AS l JOIN scheduler AS s USING (incarnation)
     WHERE s.lease_expires_at > now()
"""


async def living_owners(conn: DatabaseConnection) -> dict[int, str]:
    """The names of the living schedulers that own partitions, by partition."""
    return {row["partition"]: row["name"] for row in await conn.fetch(LIVING_OWNERS)}


# Index: primary key.
FILES_READ_SINCE: Final = """
    SELECT f.file FROM unnest($1::text[], $2::text[]) AS here (file, content_hash) JOIN dag_file AS f USING (file)
     WHERE f.content_hash = here.content_hash OR f.parsed_at >= $3
"""


async def files_read_since(conn: DatabaseConnection, digests: Mapping[str, str], *, since: datetime) -> frozenset[str]:
    """The files, by name, that were read with these digests, or since that instant with any content."""
    found = await conn.fetch(FILES_READ_SINCE, list(digests), list(digests.values()), since)
    return frozenset(row["file"] for row in found)


def _stored_file(row: Any) -> StoredFile:
    sources = _read_sources(row["sources"])
    dag_ids = tuple(row["dag_ids"])
    found = row["file"], row["content_hash"], dag_ids, row["has_error"], sources
    return StoredFile(*found, row["bundle_version"], row["parsed_at"])


@dataclass(frozen=True, slots=True)
class FileProblem:
    """Why `file` cannot be imported, on one line, and in which of its lines that is, if known."""

    file: str
    line: int | None
    error: str

    def __str__(self) -> str:
        return f"{self.file if self.line is None else f'{self.file}:{self.line}'}: {self.error}"


# Index: primary key.
IMPORT_ERROR: Final = "SELECT error, error_line FROM dag_file WHERE file = $1 AND error IS NOT NULL"


async def import_error(conn: Queryable, file: str) -> FileProblem | None:
    """Why `file` cannot be imported; None if it can be, or if that is unknown."""
    row = await conn.fetchrow(IMPORT_ERROR, file)
    return None if row is None else FileProblem(file, row["error_line"], " ".join(row["error"].split()))


# Of files that give no DAGs: those that they gave last, which have been stale since. Sequential scan, for such files
# only, when they cannot be imported.
LAST_DAGS_OF: Final = """
    SELECT d.file, d.dag_id
      FROM (SELECT file, max(last_parsed_at) AS at FROM dag WHERE file = ANY($1::text[]) GROUP BY file) AS last
      JOIN dag AS d ON d.file = last.file AND d.last_parsed_at = last.at
     ORDER BY d.dag_id
"""


async def last_dags_of(conn: DatabaseConnection, files: Collection[str]) -> dict[str, tuple[str, ...]]:
    """The DAGs that each of `files` gave when it gave any for the last time; files that never gave one are left out."""
    found: dict[str, tuple[str, ...]] = {}
    if files:
        for row in await conn.fetch(LAST_DAGS_OF, sorted(files)):
            found[row["file"]] = (*found.get(row["file"], ()), row["dag_id"])
    return found


# Versions that no run uses and no try has run, locked so that none can start to: their foreign keys need a lock on the
# version that conflicts with this one. Index: the runs' (dag_id, id), from the newest run back to the first that uses
# the version; as NOT EXISTS it would be an anti-join, which scans all runs.
LOCK_VERSIONS: Final = "SELECT id FROM dag_version WHERE id = ANY($1::bigint[]) ORDER BY id FOR UPDATE"
UNUSED_VERSIONS: Final = """
    SELECT v.id
      FROM dag_version AS v
     WHERE v.id = ANY($1::bigint[])
       AND (SELECT true FROM dag_run AS r WHERE r.dag_id = v.dag_id AND r.version_id = v.id
             ORDER BY r.id DESC LIMIT 1) IS NULL
       AND NOT EXISTS (SELECT FROM try_source AS t WHERE t.version_id = v.id)
       AND NOT EXISTS (SELECT FROM try_source AS t WHERE t.version_id IS NULL AND t.source_hash = v.source_hash)
"""


async def unused_versions(conn: DatabaseConnection, versions: Collection[int]) -> frozenset[int]:
    """Those of `versions` (ids) that no run or try uses, or can use before the transaction ends."""
    if not versions:
        return frozenset()
    ids = sorted(versions)
    await conn.fetch(LOCK_VERSIONS, ids)  # waits for runs that are being created
    return frozenset(row["id"] for row in await conn.fetch(UNUSED_VERSIONS, ids))


# A replaced version is deleted, and its number is reused under a new id: a scheduler with the old document in memory
# cannot create a run with it, because the foreign key fails.
DELETE_VERSIONS: Final = "DELETE FROM dag_version WHERE id = ANY($1::bigint[])"
_OF_VERSION: Final = DAG_VERSION.columns_of(NewVersion)
INSERT_VERSIONS: Final = f"{DAG_VERSION.insert(tuple(_OF_VERSION))} RETURNING dag_id, id"


async def write_versions(
    conn: DatabaseConnection, versions: Sequence[NewVersion], replaced: Collection[int]
) -> dict[str, int]:
    """Delete the versions `replaced` (ids, unused), insert `versions`; the new ids by DAG id."""
    if replaced:
        await conn.execute(DELETE_VERSIONS, sorted(replaced))
    if not versions:
        return {}
    columns = {name: [getattr(version, name) for version in versions] for name in _OF_VERSION}
    columns["sources"] = [_json_object(version.sources) for version in versions]
    rows = await conn.fetch(INSERT_VERSIONS, *columns.values())
    return {row["dag_id"]: row["id"] for row in rows}


_TASK_IDS: Final = """
    SELECT coalesce(string_agg(task ->> 'task_id', chr(10) ORDER BY place), '')
      FROM json_array_elements(CASE json_typeof(v.spec -> 'tasks') WHEN 'array' THEN v.spec -> 'tasks' ELSE '[]' END)
           WITH ORDINALITY AS each (task, place)
"""
# Definition columns only; the rows are locked already. Tags are passed as JSON, because arrays of arrays must be
# rectangular. The team follows from where the file lies, and never from what it says. Task ids are only read from a
# version that is new.
DEFINE_DAGS: Final = f"""
    UPDATE dag AS d
       SET file = n.file, version_id = n.version_id, max_active_runs = n.max_active_runs,
           max_active_tasks = n.max_active_tasks, schedule = n.schedule,
           schedule_timezone = n.schedule_timezone, description = n.description,
           owner = n.owner, tags = ARRAY(SELECT json_array_elements_text(n.tags::json)),
           access_control = v.spec -> 'access_control', display_name = v.spec ->> 'display_name',
           task_ids = CASE WHEN d.version_id = n.version_id AND
               d.task_ids IS NOT NULL THEN d.task_ids ELSE ({_TASK_IDS}) END, team = {team_of("n.file", "v.bundle")},
           has_import_errors = false, is_stale = false, last_parsed_at = $1
      FROM unnest($2::text[], $3::text[], $4::bigint[], $5::int[], $6::int[], $7::text[], $8::text[], $9::text[],
                  $10::text[], $11::text[])
           AS n ({", ".join(DagDefinition.__annotations__)})
      JOIN dag_version AS v ON v.id = n.version_id
     WHERE d.dag_id = n.dag_id
"""


async def define_dags(conn: DatabaseConnection, dags: Sequence[DagDefinition], *, now: datetime) -> None:
    """Write the definition columns of `dags`, which are no longer stale or broken."""
    if not dags:
        return
    columns = {name: [getattr(dag, name) for dag in dags] for name in DagDefinition.__annotations__}
    columns["tags"] = [_json_array(dag.tags) for dag in dags]
    await conn.execute(DEFINE_DAGS, now, *columns.values())


# Guard: the file that lost the DAG is still the one that the row names.
WITHDRAW_DAGS: Final = """
    UPDATE dag AS d
       SET is_stale = true, has_import_errors = n.broken
      FROM unnest($1::text[], $2::text[], $3::bool[]) AS n (dag_id, file, broken)
     WHERE d.dag_id = n.dag_id AND d.file = n.file AND (NOT d.is_stale OR d.has_import_errors <> n.broken)
    RETURNING d.dag_id
"""


async def withdraw_dags(conn: DatabaseConnection, dags: Collection[tuple[str, str, bool]]) -> list[str]:
    """Make DAGs stale, given as (DAG id, its file, whether the file has an error); returns those that changed."""
    if not dags:
        return []
    batch = sorted(dags)
    rows = await conn.fetch(WITHDRAW_DAGS, [d[0] for d in batch], [d[1] for d in batch], [d[2] for d in batch])
    return [row["dag_id"] for row in rows]


# Index: none. Once for each start of an application.
REGISTERED_DAGS: Final = "SELECT dag_id FROM dag WHERE registered_by = $1 AND file IS NULL AND NOT is_stale"
# Two statements, since a DAG can be of another application until now.
CLAIM_DAGS: Final = """
    UPDATE dag SET registered_by = $1 WHERE dag_id = ANY($2::text[]) AND registered_by IS DISTINCT FROM $1
"""
WITHDRAW_REGISTERED: Final = """
    UPDATE dag SET is_stale = true
     WHERE registered_by = $1 AND file IS NULL AND NOT is_stale AND NOT dag_id = ANY($2::text[])
    RETURNING dag_id
"""
# Not all but the others: another process may be adding one.
WITHDRAW_ONE: Final = """
    UPDATE dag SET is_stale = true WHERE registered_by = $1 AND dag_id = $2 AND file IS NULL AND NOT is_stale
    RETURNING dag_id
"""


async def registered_dags(conn: DatabaseConnection, application: str) -> set[str]:
    """The DAGs that an application registered when it started last, and that no file has taken over."""
    return {row["dag_id"] for row in await conn.fetch(REGISTERED_DAGS, application)}


async def claim_registered(conn: DatabaseConnection, application: str, dag_ids: Collection[str]) -> None:
    """Note down what an application registers."""
    await conn.execute(CLAIM_DAGS, application, sorted(dag_ids))


async def withdraw_registered(conn: DatabaseConnection, application: str, kept: Collection[str]) -> list[str]:
    """Make the DAGs of an application stale but for those that are `kept`; returns those that were not."""
    return [row["dag_id"] for row in await conn.fetch(WITHDRAW_REGISTERED, application, sorted(kept))]


async def withdraw_one(conn: DatabaseConnection, application: str, dag_id: str) -> list[str]:
    """As `withdraw_registered`, of one DAG."""
    return [row["dag_id"] for row in await conn.fetch(WITHDRAW_ONE, application, dag_id)]


_OF_FILE: Final = tuple(DAG_FILE.columns_of(FileRow))
STORE_FILES: Final = f"""
    INSERT INTO dag_file ({", ".join(_OF_FILE)}, partition, parsed_at, error_since)
    SELECT file, content_hash, ARRAY(SELECT json_array_elements_text(dag_ids::json)), parse_seconds, error, error_line,
           traceback, code_frame, ARRAY(SELECT json_array_elements_text(warnings::json)), sources::json, bundle_version,
           partition, $1, CASE WHEN error IS NOT NULL THEN $1::timestamptz END
      FROM unnest($2::text[], $3::text[], $4::text[], $5::float8[], $6::text[], $7::int[], $8::text[], $9::text[],
                  $10::text[], $11::text[], $12::text[], $13::smallint[]) AS n ({", ".join(_OF_FILE)}, partition)
     ORDER BY file
    ON CONFLICT (file) DO UPDATE
       SET {DAG_FILE.assignments(_OF_FILE, "excluded")}, parsed_at = excluded.parsed_at,
           error_since = CASE WHEN excluded.error IS NULL THEN NULL WHEN dag_file.error IS NULL THEN excluded.parsed_at
                              ELSE coalesce(dag_file.error_since, dag_file.parsed_at, excluded.parsed_at) END
"""


async def store_files(conn: DatabaseConnection, files: Sequence[FileRow], *, now: datetime) -> None:
    """Insert or replace the rows of `files`, whose names must differ."""
    columns: dict[str, list[Any]] = {name: [getattr(file, name) for file in files] for name in _OF_FILE}
    columns |= {name: [_json_array(getattr(file, name)) for file in files] for name in ("dag_ids", "warnings")}
    columns["sources"] = [_json_object(file.sources) for file in files]
    await conn.execute(STORE_FILES, now, *columns.values(), [partition_of(file.file) for file in files])


DELETE_FILES: Final = "DELETE FROM dag_file WHERE file = ANY($1::text[])"


async def delete_files(conn: DatabaseConnection, files: Collection[str]) -> None:
    await conn.execute(DELETE_FILES, sorted(files))


# Files that were parsed again with the same result. One round trip; returns which of their DAGs have valid rows, so
# that the caller notices deleted rows.
TOUCH_FILES: Final = """
    WITH seen AS (SELECT * FROM unnest($1::text[], $2::timestamptz[], $3::float8[]) AS n (file, at, seconds)),
    files AS (
        UPDATE dag_file AS f SET parsed_at = seen.at, parse_seconds = seen.seconds
          FROM seen WHERE f.file = seen.file
        RETURNING f.file, f.dag_ids, f.error IS NOT NULL AS has_error, seen.at
    ),
    dags AS (
        UPDATE dag AS d SET last_parsed_at = files.at
          FROM files WHERE NOT files.has_error AND d.dag_id = ANY(files.dag_ids) AND d.file = files.file
           AND NOT d.is_stale
        RETURNING d.dag_id, d.file
    )
    SELECT files.file FROM files
     WHERE files.has_error
        OR cardinality(files.dag_ids) = (SELECT count(*) FROM dags WHERE dags.file = files.file)
"""


async def touch_files(conn: DatabaseConnection, files: Sequence[tuple[str, datetime, float]]) -> frozenset[str]:
    """Record that `files` (name, instant, seconds) were parsed without changes; returns those whose rows all exist."""
    batch = sorted(files)
    rows = await conn.fetch(TOUCH_FILES, [f[0] for f in batch], [f[1] for f in batch], [f[2] for f in batch])
    return frozenset(row["file"] for row in rows)


KNOWN_POOLS: Final = "SELECT name FROM pool WHERE name = ANY($1::text[])"


async def known_pools(conn: DatabaseConnection, names: Collection[str]) -> frozenset[str]:
    """Those of `names` that are pools."""
    if not names:
        return frozenset()
    return frozenset(row["name"] for row in await conn.fetch(KNOWN_POOLS, sorted(names)))


def _json_array(values: Iterable[str]) -> str:
    return msgspec.json.encode(list(values)).decode()


def _json_object(values: Mapping[str, str] | None) -> str | None:
    return None if values is None else msgspec.json.encode(values, order="deterministic").decode()


def _read_sources(document: str | None) -> dict[str, str] | None:
    """The sources of a file; None (unknown) also for a document that this aiosched cannot read."""
    with contextlib.suppress(msgspec.MsgspecError):
        return None if document is None else _decode_sources(document)
    return None


_decode_sources: Final = msgspec.json.Decoder(dict[str, str]).decode
