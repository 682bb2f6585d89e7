"""The DAG versions that are held: read once, when a run or a DAG needs them, and forgotten when nothing does any more.

Nothing stops because a stored version cannot be read: a newer aiosched wrote it, or it is broken. The log tells of it
once. A DAG whose newest version it is gets no runs until there is one that can be read: it is not held, or goes on with
the version that it is held with. Runs of it are left alone in the database, for a scheduler that can read them.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from aiosched.core.instances import Run
from aiosched.db import runs as statements
from aiosched.db.engine import Connection
from aiosched.db.runs import UnreadableVersion
from aiosched.errors import Refused

if TYPE_CHECKING:
    from aiosched.scheduler.holdings import Holdings

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class Unreadable:
    """The versions that could not be read, and what is left alone because of them."""

    versions: dict[int, UnreadableVersion] = field(default_factory=dict)
    dags: dict[str, int] = field(default_factory=dict)  # DAGs, and their newest version
    runs: dict[int, Run] = field(default_factory=dict)  # unfinished ones that are not held

    def refuse(self, versions: Iterable[int]) -> None:
        """Raise Refused when one of the versions is among these."""
        for key in versions:
            if key in self.versions:
                raise Refused(str(self.versions[key]))

    def refuse_dag(self, dag_id: str | None) -> None:
        """Raise Refused for a DAG whose newest version cannot be read."""
        if dag_id in self.dags:
            self.refuse([self.dags[dag_id]])


class HoldsVersions(Protocol):
    """Who holds versions: a session, or somebody who only looks (why.py)."""

    @property
    def holdings(self) -> Holdings: ...


async def ensure_versions(holder: HoldsVersions, conn: Connection, ids: Iterable[int]) -> None:
    """Read the DAG versions that are not held yet, for a request. Raises Refused for one that cannot be read."""
    wanted = set(ids)
    await readable_versions(holder, conn, wanted)
    holder.holdings.unreadable.refuse(sorted(wanted))


async def readable_versions(holder: HoldsVersions, conn: Connection, ids: Iterable[int]) -> set[int]:
    """Read the DAG versions that are not held yet; those of `ids` that are held now."""
    wanted, holdings = set(ids), holder.holdings
    if missing := wanted - holdings.versions.keys():
        found, unreadable = await statements.load_versions(conn, missing)
        for version in found.values():
            try:
                holdings.graph_of(version)
                holdings.unreadable.versions.pop(version.id, None)
            except Exception as error:  # it means nothing to this aiosched
                place = (version.id, version.spec.dag_id, version.number, version.file, version.file_hash)
                unreadable.append(UnreadableVersion(*place, f"{type(error).__name__}: {error}"))
        for broken in unreadable:
            if broken.id not in holdings.unreadable.versions:
                logger.error("%s Until then it is left alone with its runs.", broken, extra={"dag_id": broken.dag_id})
            holdings.unreadable.versions[broken.id] = broken
    return wanted & holdings.versions.keys()


def forget_versions(holdings: Holdings) -> None:
    """Forget what no DAG and no unfinished run needs. Call it with `session.books` held, as whoever reads versions."""
    dags = holdings.dags.values()
    spare = holdings.versions.keys() - {dag.version.id for dag in dags}
    if spare:
        spare -= {run.version_id for dag in dags for run in (*dag.queued, *dag.under_way())}
    for key in spare:
        del holdings.versions[key]
