"""The DAGs as far as they decide who may see them.

One DAG is read each time it is asked for, so that a change holds at once. All of them, for lists, are read again when
they are older than a moment; which of them somebody sees is worked out once for each reading.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from aiosched.core.access.grants import GuardedDag
from aiosched.core.access.rights import PersonRights
from aiosched.core.access.roles import Role
from aiosched.db.access import guarded_dags
from aiosched.db.server.engine import Database

KEPT_SECONDS: Final = 2.0
_MOST_SETS: Final = 1_000  # of people with different rights


class KnownDags:
    """One for each web application."""

    def __init__(self, db: Database, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._db, self._monotonic = db, monotonic
        self._read_at = -KEPT_SECONDS
        self._dags: list[GuardedDag] = []
        self._seen: dict[PersonRights, frozenset[str]] = {}
        self.version: int = 0  # counts the readings

    async def find(self, dag_id: str) -> GuardedDag | None:
        """One DAG, as it is stored now."""
        return await guarded_dags.read_guarded_dag(self._db, dag_id)

    async def seen_by(self, rights: PersonRights) -> frozenset[str] | None:
        """The ids of the DAGs that somebody may see; None: all that there are and will be."""
        if rights.everywhere >= Role.VIEWER:
            return None
        await self._read()
        if rights not in self._seen:
            if len(self._seen) >= _MOST_SETS:
                self._seen.clear()
            seen = (dag.dag_id for dag in self._dags if rights.on_dag(dag) >= Role.VIEWER)
            self._seen[rights] = frozenset(seen)
        return self._seen[rights]

    def forget(self) -> None:
        """Read the DAGs again when they are next asked for."""
        self._read_at = -KEPT_SECONDS

    async def _read(self) -> None:
        now = self._monotonic()
        if now - self._read_at < KEPT_SECONDS:
            return
        self._dags = await guarded_dags.read_guarded_dags(self._db)
        self._read_at, self.version = now, self.version + 1
        self._seen.clear()
