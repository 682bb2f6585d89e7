"""The runs that a request to clear or mark selects, read from the rows."""

from __future__ import annotations

from collections.abc import Iterable

from aiosched.core.requests.requests import TaskChange
from aiosched.core.requests.selection import dates_meant, reach
from aiosched.core.values.commands import command_line
from aiosched.db.server.connection import DatabaseConnection, Queryable
from aiosched.db.statements.clearing import RunOfRequest, runs_between, runs_by_id
from aiosched.errors import NotFound


async def runs_meant(conn: DatabaseConnection, dag_id: str, request: TaskChange, timezone: str) -> list[RunOfRequest]:
    """The runs that a request selects; `timezone` is the DAG's. Raises NotFound for a run id that does not exist."""
    if request.run_ids is None:
        reach((), request)
        return await runs_between(conn, dag_id, *(dates_meant(request, timezone) or (None, None)))
    named = await runs_named(conn, dag_id, request.run_ids)
    dates = reach(((run.run_id, run.logical_date) for run in named), request)
    if dates is None:
        return named
    return [run for run in await runs_between(conn, dag_id, *dates) if dates.have(run.logical_date)]


async def runs_named(conn: Queryable, dag_id: str, run_ids: Iterable[str]) -> list[RunOfRequest]:
    """The runs with these ids, in this order, each once. Raises NotFound for one that does not exist."""
    wanted = list(dict.fromkeys(run_ids))
    found = {run.run_id: run for run in await runs_by_id(conn, dag_id, wanted)}
    for run_id in wanted:
        if run_id not in found:
            raise no_run(dag_id, run_id)
    return [found[run_id] for run_id in wanted]


def no_run(dag_id: str, run_id: str) -> NotFound:
    """The error about a run that a DAG does not have."""
    return NotFound(f"DAG {dag_id!r} has no run {run_id!r}; see `{command_line('dags runs', dag_id)}`.")
