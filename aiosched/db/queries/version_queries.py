"""The versions of a DAG, for people. Read only."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, NamedTuple

import msgspec

from aiosched.core.graph.spec import DagSpec, ParamSpec, read_document
from aiosched.db.queries.queries import get_dag
from aiosched.db.server.engine import Database
from aiosched.errors import NotFound


@dataclass(frozen=True, slots=True)
class VersionRow:
    """A version of a DAG in a list. `bundle_version` is the commit, or the hash of the content, that its runs keep."""

    number: int
    key: int
    created_at: datetime
    content_hash: str
    file: str | None
    source_hash: str | None
    bundle: str | None
    bundle_version: str | None


@dataclass(frozen=True, slots=True)
class VersionText:
    """A version with the DAG itself: the source of its file, if known, and the serialized DAG.

    `sources` are the content hashes of the file and of all that it imports from the DAGs folder.
    """

    number: int
    created_at: datetime
    content_hash: str
    file: str | None
    source_hash: str | None
    bundle: str | None
    bundle_version: str | None
    source: str | None
    sources: dict[str, str] | None
    spec: DagSpec


VERSIONS: Final = """
    SELECT number, id AS key, created_at, content_hash, file, source_hash, bundle, bundle_version FROM dag_version
     WHERE dag_id = $1 AND ($2::bigint IS NULL OR number < $2) ORDER BY number DESC LIMIT $3
"""
VERSION: Final = """
    SELECT number, created_at, content_hash, file, source_hash, bundle, bundle_version, source, sources, spec
      FROM dag_version
     WHERE dag_id = $1 AND ($2::int IS NULL OR number = $2) ORDER BY number DESC LIMIT 1
"""


RUNS_LOOKED_AT: Final = 1_000
# Index: ix_dag_run_dag_id_id, backwards.
RUNS_OF_VERSION: Final = """
    SELECT r.run_id, r.run_type, r.state, r.logical_date, r.run_after
      FROM (SELECT * FROM dag_run WHERE dag_id = $1 ORDER BY id DESC LIMIT $3) AS r
      JOIN dag_version AS v ON v.id = r.version_id WHERE v.number = $2 ORDER BY r.id DESC
"""


async def runs_of_version(db: Database, dag_id: str, number: int) -> list[Any]:
    """The runs of a version among the newest `RUNS_LOOKED_AT` of the DAG, the newest first."""
    return list(await db.fetch(RUNS_OF_VERSION, dag_id, number, RUNS_LOOKED_AT))


async def list_versions(
    db: Database, dag_id: str, *, before: int | None = None, limit: int = 50
) -> Sequence[VersionRow]:
    """The versions of a DAG, newest first, older than the one with the number `before`. Raises NotFound."""
    await get_dag(db, dag_id)
    return [VersionRow(**dict(row)) for row in await db.fetch(VERSIONS, dag_id, before, limit)]


# Only what a trigger needs: specs can be large. Index: primary keys.
TRIGGERED: Final = """
    SELECT d.is_paused, v.spec ->> 'params' AS params, v.spec ->> 'param_order' AS names
      FROM dag AS d JOIN dag_version AS v ON v.id = d.version_id WHERE d.dag_id = $1
"""
_decode_params: Final = msgspec.json.Decoder(dict[str, ParamSpec]).decode
_decode_names: Final = msgspec.json.Decoder(list[str]).decode


class TriggeredDag(NamedTuple):
    """What decides about a trigger: the params are those of the newest version, in their author's order."""

    is_paused: bool
    params: dict[str, ParamSpec]


async def get_triggered(db: Database, dag_id: str) -> TriggeredDag:
    """What decides about a trigger of a DAG. Raises NotFound, and Refused if its newest version cannot be read."""
    row = await db.fetchrow(TRIGGERED, dag_id)
    if row is not None:
        with contextlib.suppress(msgspec.MsgspecError, KeyError):  # of another version of aiosched: see below
            params = {} if row["params"] is None else _decode_params(row["params"])
            names = list(params) if row["names"] is None else _decode_names(row["names"])
            return TriggeredDag(row["is_paused"], {name: params[name] for name in names})
    found = await get_dag(db, dag_id)
    return TriggeredDag(found.is_paused, (await get_version(db, dag_id)).spec.params)


async def get_version(db: Database, dag_id: str, number: int | None = None) -> VersionText:
    """A version of a DAG, by default the newest. Raises NotFound, and Refused if it cannot be read."""
    row = await db.fetchrow(VERSION, dag_id, number)
    if row is None:
        await get_dag(db, dag_id)
        raise NotFound(f"DAG {dag_id!r} has no version {number}.")
    sources: dict[str, str] | None = None
    with contextlib.suppress(msgspec.MsgspecError):  # of another shape: unknown
        sources = None if row["sources"] is None else msgspec.json.decode(row["sources"], type=dict[str, str])
    spec = read_document(row["spec"], dag_id, row["number"])
    return VersionText(**{**dict(row), "sources": sources, "spec": spec})


# Index: uq_dag_version_dag_id_number, and a primary key.
MODULE: Final = """
    SELECT v.sources ->> $3 AS content_hash, m.source
      FROM dag_version AS v LEFT JOIN module_source AS m ON m.digest = v.sources ->> $3
     WHERE v.dag_id = $1 AND v.number = $2 AND json_typeof(v.sources) = 'object'
"""


class ModuleText(NamedTuple):
    """What a version imports: its content hash and, if it is kept, its text."""

    content_hash: str
    source: str | None


async def get_module(db: Database, dag_id: str, number: int, name: str) -> ModuleText:
    """A module by its path, as in `VersionText.sources`. Raises NotFound."""
    row = await db.fetchrow(MODULE, dag_id, number, name)
    if row is None or row["content_hash"] is None:
        await get_dag(db, dag_id)
        raise NotFound(f"Version {number} of DAG {dag_id!r} imports nothing from {name!r}.")
    return ModuleText(*row)
