"""Which asset watchers to run. Source: the semantics reference, section 15.1."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

import msgspec

from aiosched.core.assets.conditions import WatcherSpec
from aiosched.db.server.connection import Queryable
from aiosched.db.statements.runs import modules_of


class WatchedAsset(NamedTuple):
    """A watcher of an asset, and the version of the DAG whose file has its trigger."""

    asset: str
    uri: str
    watcher: WatcherSpec
    dag_id: str
    version: int
    file: str | None
    source_hash: str | None
    modules: tuple[str, ...]
    bundle: str | None = None
    bundle_version: str | None = None
    team: str | None = None


# Of several DAGs with the same asset the first unpaused one runs its watchers, so only one owner does. Stale DAGs have
# no references. A small table, read as a whole now and then.
LOAD_WATCHERS: Final = """
    WITH chosen AS (
        SELECT DISTINCT ON (r.name) r.name, r.uri, r.watchers, d.dag_id, d.partition, d.version_id, d.team
          FROM asset_reference AS r JOIN dag AS d USING (dag_id)
         WHERE r.watchers IS NOT NULL AND r.role = 'schedule' AND NOT d.is_paused
         ORDER BY r.name, d.dag_id
    )
    SELECT c.name, c.uri, c.watchers, c.dag_id, v.number, v.file, v.source_hash, v.sources, v.bundle, v.bundle_version,
           c.team
      FROM chosen AS c JOIN dag_version AS v ON v.id = c.version_id
     WHERE c.partition = ANY($1::smallint[])
"""

_decode: Final = msgspec.json.Decoder(tuple[WatcherSpec, ...]).decode


async def load_watchers(conn: Queryable, partitions: Iterable[int]) -> tuple[list[WatchedAsset], dict[str, str]]:
    """The watchers that the owner of `partitions` runs, and why those of some assets cannot be read."""
    found: list[WatchedAsset] = []
    unreadable: dict[str, str] = {}
    for asset, uri, watchers, dag_id, number, file, source_hash, sources, *bundle in await conn.fetch(
        LOAD_WATCHERS, list(partitions)
    ):
        try:
            code = (dag_id, number, file, source_hash, modules_of(file, sources))
            found += [WatchedAsset(asset, uri, watcher, *code, *bundle) for watcher in _decode(watchers)]
        except msgspec.MsgspecError as error:
            unreadable[asset] = str(error)
    return found, unreadable
