"""What running tasks may ask of their scheduler, answered from the database."""

from __future__ import annotations

from collections.abc import Sequence

from aiosched.core.messages import XComRef
from aiosched.db import runs as statements
from aiosched.db.engine import Database


class DatabaseServices:
    """Implements `core.messages.TaskServices`. Task ids are resolved by the version that the run is pinned to."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._indexes: dict[int, dict[str, int]] = {}  # by DAG version

    async def get_xcoms(self, run: int, refs: Sequence[XComRef]) -> list[list[tuple[int, str]]]:
        """For each ref the stored (map index, JSON text) pairs in index order; [] for an unknown task too."""
        async with self._db.acquire() as conn:
            version = await statements.version_of_run(conn, run)
            if version is None:
                return [[] for _ in refs]
            if version not in self._indexes:
                spec = (await statements.load_versions(conn, [version]))[version].spec
                self._indexes[version] = {task.task_id: index for index, task in enumerate(spec.tasks)}
            indexes = self._indexes[version]
            known = [(indexes.get(ref.task_id, -1), ref) for ref in refs]
            return await statements.get_xcoms(conn, run, known)

    async def get_previous_xcoms(self, run: int, ref: XComRef) -> list[tuple[int, str]]:
        """As `get_xcoms`, from the newest earlier run of the DAG that has the value."""
        async with self._db.acquire() as conn:
            found = await statements.previous_run_with_xcom(conn, run, ref)
            if found is None:
                return []
            earlier, task_index = found
            return (await statements.get_xcoms(conn, earlier, [(task_index, ref)]))[0]
