"""Which task has read which variable or connection: one entry for each try of a task and name.

Tasks do not wait for it: reads are collected for a moment, and written down together. A process that is killed loses
those of its last second.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from typing import Final, NamedTuple

import msgspec

from aiosched.core.audit.kinds import AuditKind
from aiosched.db.server.engine import Database

logger: logging.Logger = logging.getLogger(__name__)

_SECONDS: Final = 1.0  # for which reads are collected
_MOST_KNOWN: Final = 20_000  # reads that are known to have an entry
_MOST_WAITING: Final = 5_000

# Index: the primary key of dag_run.
ADD_READS: Final = f"""
    INSERT INTO audit_log (kind, who, object, dag_id, detail)
    SELECT '{AuditKind.SECRET_READ}', coalesce(r.dag_id || ' ' || r.run_id, 'a task'), n.name, r.dag_id, n.detail
      FROM unnest($1::bigint[], $2::text[], $3::json[]) AS n (run, name, detail) LEFT JOIN dag_run AS r ON r.id = n.run
"""


class Read(NamedTuple):
    """One read: by which run (its key) and which of its task instances, as the task says, and of what."""

    run: int
    by: tuple[str, int, int] | None  # task, map index, try; None: while the DAG's file was imported
    what: str  # "variable region"


class SecretReads:
    """The reads that have no entry yet. Belongs to one event loop, and ends with its database."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._known: OrderedDict[Read, None] = OrderedDict()
        self._waiting: list[Read] = []
        self._timer: asyncio.TimerHandle | None = None
        self._writing: asyncio.Task[None] | None = None
        self._is_closed = False
        db.before_close(self._close)

    def note(self, read: Read) -> None:
        """Have an entry written, if this one has none."""
        if self._is_closed or read in self._known or len(self._waiting) >= _MOST_WAITING:
            return
        self._known[read] = None
        while len(self._known) > _MOST_KNOWN:
            self._known.popitem(last=False)
        self._waiting.append(read)
        self._flush_in(_SECONDS)

    def _flush_in(self, seconds: float) -> None:
        if self._timer is None and not self._is_closed:
            self._timer = asyncio.get_running_loop().call_later(seconds, self._begin)

    def _begin(self) -> None:
        self._timer = None
        self._writing = asyncio.get_running_loop().create_task(self._try_to_flush(), name="reads of secrets")

    async def _try_to_flush(self) -> None:
        try:
            await self.flush()
        except Exception as error:
            logger.warning("the audit log has no entries yet of reads of secrets: %s", error)
            self._flush_in(30 * _SECONDS)

    async def flush(self) -> None:
        """Write down what waits."""
        batch, self._waiting = self._waiting, []
        if not batch:
            return
        try:
            details = [msgspec.json.encode(_detail(read)).decode() for read in batch]
            await self._db.execute(ADD_READS, [read.run for read in batch], [read.what for read in batch], details)
        except BaseException:
            self._waiting = batch + self._waiting
            raise

    async def _close(self) -> None:
        """Write down what waits, if that is possible, and collect nothing more."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        if self._writing is not None:
            await asyncio.wait((self._writing,))  # it may have been cancelled
        await self._try_to_flush()


def _detail(read: Read) -> dict[str, object]:
    if read.by is None:
        return {}
    task, map_index, try_number = read.by
    return {"task": task, **({"map_index": map_index} if map_index >= 0 else {}), "try": try_number}
