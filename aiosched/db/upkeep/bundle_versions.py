"""Statements about the versions of bundles: which are needed, and the snapshots of folders.

Source: decision 33.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import Final

from aiosched.db.server.connection import DatabaseConnection

# Index: primary key.
STORE_SNAPSHOT: Final = "INSERT INTO bundle_snapshot (version, archive) VALUES ($1, $2) ON CONFLICT DO NOTHING"
HAS_SNAPSHOT: Final = "SELECT EXISTS (SELECT FROM bundle_snapshot WHERE version = $1)"
READ_SNAPSHOT: Final = "SELECT archive FROM bundle_snapshot WHERE version = $1"


async def has_snapshot(conn: DatabaseConnection, version: str) -> bool:
    """Whether the snapshot is stored."""
    return bool(await conn.fetchval(HAS_SNAPSHOT, version))


async def store_snapshot(conn: DatabaseConnection, version: str, archive: bytes) -> None:
    """Store the files of a folder, unless they are stored already."""
    await conn.execute(STORE_SNAPSHOT, version, archive)


async def read_snapshot(conn: DatabaseConnection, version: str) -> bytes | None:
    """The files of a folder as a zip archive; None if there is no such snapshot."""
    archive: bytes | None = await conn.fetchval(READ_SNAPSHOT, version)
    return archive


# Of the versions of bundles that a machine has: those of the newest version of a DAG that exists, and of runs that have
# not ended, or ended recently. Reads the runs of DAGs whose versions belong to these, from the newest back, rarely.
NEEDED: Final = """
    SELECT DISTINCT v.bundle, v.bundle_version
      FROM dag_version AS v JOIN dag AS d ON d.dag_id = v.dag_id
     WHERE v.bundle_version = ANY($2::text[])
       AND ((d.version_id = v.id AND NOT d.is_stale)
            OR (SELECT true FROM dag_run AS r WHERE r.dag_id = v.dag_id AND r.version_id = v.id
                   AND (r.end_date IS NULL OR r.end_date >= $1) ORDER BY r.id DESC LIMIT 1))
"""


async def needed_versions(
    conn: DatabaseConnection, versions: Collection[str], *, since: datetime
) -> set[tuple[str | None, str]]:
    """Those of `versions` that are the newest code, or that of runs that ended at `since` or later; with bundles."""
    return {(row["bundle"], row["bundle_version"]) for row in await conn.fetch(NEEDED, since, sorted(versions))}


# A version can be stored a moment after its snapshot, so new ones stay.
FORGET_SNAPSHOTS: Final = """
    DELETE FROM bundle_snapshot AS s
     WHERE s.created_at < $1
       AND NOT EXISTS (SELECT FROM dag_version AS v WHERE v.bundle_version = s.version)
"""


async def forget_snapshots(conn: DatabaseConnection, *, before: datetime) -> None:
    """Remove the snapshots from before that instant that no version of a DAG names."""
    await conn.execute(FORGET_SNAPSHOTS, before)
