"""The DAG versions that are held: read once, when a run or a DAG needs them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from aiosched.db import runs as statements
from aiosched.db.engine import Connection
from aiosched.scheduler.holdings import Holdings


class HoldsVersions(Protocol):
    """Who holds versions: a session, or somebody who only looks (why.py)."""

    @property
    def holdings(self) -> Holdings: ...


async def ensure_versions(holder: HoldsVersions, conn: Connection, ids: Iterable[int]) -> None:
    """Read the DAG versions that are not held yet."""
    missing = set(ids) - holder.holdings.versions.keys()
    if missing:
        for version in (await statements.load_versions(conn, missing)).values():
            holder.holdings.graph_of(version)
