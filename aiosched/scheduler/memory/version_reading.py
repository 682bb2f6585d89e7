"""Loading DAG versions that are not held yet, and forgetting those that are no longer needed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from itertools import islice
from typing import Final

from aiosched.db.server.connection import DatabaseConnection
from aiosched.db.statements.runs import UnreadableVersion, load_versions
from aiosched.errors import Refused
from aiosched.scheduler.memory.cache import StateCache

logger: logging.Logger = logging.getLogger(__name__)

AT_ONCE: Final = 100  # documents that are read and decoded while nothing else can run
_TASKS_AT_ONCE: Final = 500  # of the versions that are compiled meanwhile


async def ensure_versions(cache: StateCache, conn: DatabaseConnection, ids: Iterable[int]) -> None:
    """Load the DAG versions that are not held yet, for a request. Raises Refused if one is unreadable or not there."""
    wanted = set(ids)
    held = await readable_versions(cache, conn, wanted)
    cache.unreadable.refuse(sorted(wanted))
    if absent := wanted - held:
        raise Refused(
            f"There is no DAG version with the id {min(absent)}: the row that names it is broken, or the version was "
            "deleted. Change the DAG's file, so that a new version is stored."
        )


async def readable_versions(cache: StateCache, conn: DatabaseConnection, ids: Iterable[int]) -> set[int]:
    """Load the DAG versions that are not held yet; returns those of `ids` that are held now."""
    wanted = set(ids)
    missing = iter(wanted - cache.versions.keys())
    while some := list(islice(missing, AT_ONCE)):
        await _read(cache, conn, some)
    return wanted & cache.versions.keys()


async def _read(cache: StateCache, conn: DatabaseConnection, ids: Iterable[int]) -> None:
    found, unreadable = await load_versions(conn, ids)
    tasks = 0
    for version in found.values():
        tasks += len(version.spec.tasks)
        if tasks > _TASKS_AT_ONCE:
            await asyncio.sleep(0)
            tasks = 0
        try:
            cache.graph_of(version)
            cache.unreadable.versions.pop(version.id, None)
        except Exception as error:  # this aiosched cannot interpret it
            place, code = (version.id, version.spec.dag_id, version.number), (version.source_hash, version.modules)
            why = f"{type(error).__name__}: {error}"
            unreadable.append(
                UnreadableVersion(*place, version.file, *code, why, version.bundle, version.bundle_version)
            )
    for broken in unreadable:
        if broken.id not in cache.unreadable.versions:
            logger.error("%s Until then it is left alone with its runs.", broken, extra={"dag_id": broken.dag_id})
        cache.unreadable.versions[broken.id] = broken


def forget_versions(cache: StateCache) -> None:
    """Forget the versions that no DAG and no unfinished run needs. Call it with `locks.ownership` held."""
    dags = cache.dags.values()
    spare = cache.versions.keys() - {dag.version.id for dag in dags}
    if spare:
        spare -= {run.version_id for dag in dags for run in (*dag.runs.queued, *dag.runs.under_way())}
    for key in spare:
        del cache.versions[key]
