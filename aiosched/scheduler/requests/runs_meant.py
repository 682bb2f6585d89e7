"""The runs that a request to clear or mark selects, read from the rows, and chunks of them that fit one transaction."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Final

from aiosched.core.graph.graph import Graph
from aiosched.core.requests.requests import TaskChange
from aiosched.db.server.connection import DatabaseConnection
from aiosched.db.statements.clearing import RunOfRequest, runs_between, runs_by_id
from aiosched.db.statements.runs import StoredVersion
from aiosched.errors import NotFound, Refused
from aiosched.scheduler.requests.selection import reach

INSTANCES_PER_TRANSACTION: Final = 5_000

Versions = Mapping[int, tuple[StoredVersion, Graph]]


async def runs_meant(conn: DatabaseConnection, dag_id: str, request: TaskChange) -> list[RunOfRequest]:
    """The runs that a request selects. Raises NotFound for a run id that does not exist."""
    if request.run_ids is None:
        reach((), request)
        first, final = _aware(request.first), _aware(request.final)
        return await runs_between(conn, dag_id, first, final)
    named = await runs_named(conn, dag_id, request.run_ids)
    dates = reach(((run.run_id, run.logical_date) for run in named), request)
    if dates is None:
        return named
    return [run for run in await runs_between(conn, dag_id, *dates) if dates.have(run.logical_date)]


async def runs_named(conn: DatabaseConnection, dag_id: str, run_ids: Iterable[str]) -> list[RunOfRequest]:
    """The runs with these ids, in this order, each once. Raises NotFound for one that does not exist."""
    wanted = list(dict.fromkeys(run_ids))
    found = {run.run_id: run for run in await runs_by_id(conn, dag_id, wanted)}
    for run_id in wanted:
        if run_id not in found:
            raise NotFound(f"DAG {dag_id!r} has no run {run_id!r}; see `aiosched dags runs {dag_id}`.")
    return [found[run_id] for run_id in wanted]


def chunks(versions: Versions, runs: Sequence[RunOfRequest]) -> Iterable[list[RunOfRequest]]:
    """The runs in order, in chunks whose task instances fit one transaction."""
    chunk: list[RunOfRequest] = []
    size = 0
    for run in runs:
        tasks = len(versions[run.version_id][1])
        if chunk and size + tasks > INSTANCES_PER_TRANSACTION:
            yield chunk
            chunk, size = [], 0
        chunk.append(run)
        size += tasks
    if chunk:
        yield chunk


def _aware(instant: datetime | None) -> datetime | None:
    if instant is not None and instant.tzinfo is None:
        text = instant.isoformat()
        raise Refused(f"{text} has no time zone; write it with one, like {text}+00:00.")
    return instant
