"""The DAG versions that are held: read once, when a run or a DAG needs them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from aiosched.db import runs as statements
from aiosched.db.engine import Connection

if TYPE_CHECKING:
    from aiosched.scheduler.session import Session


async def ensure_versions(session: Session, conn: Connection, ids: Iterable[int]) -> None:
    """Read the DAG versions that are not held yet."""
    missing = set(ids) - session.holdings.versions.keys()
    if missing:
        for version in (await statements.load_versions(conn, missing)).values():
            session.holdings.graph_of(version)
