"""Runs that are asked for in a transaction of the application: they exist if and only if it commits.

    async with pool.acquire() as conn, conn.transaction():
        order = await conn.fetchval("INSERT INTO orders … RETURNING id")
        await enqueue(conn, "ship", conf={"order": order})

No scheduler is needed in the process. The connection is one of asyncpg, psycopg or SQLAlchemy (a connection or a
session, asynchronous or not) to the database of the fleet.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from aiosched.core.requests.options import options_of
from aiosched.core.requests.requests import Trigger
from aiosched.core.requests.stored import checked, encode
from aiosched.db.statements.enqueued import enqueue_triggers
from aiosched.errors import Refused


@options_of(Trigger, triggered_by="api")
async def enqueue(connection: Any, dag_id: str, request: Trigger) -> int:
    """Ask for a run of a DAG by one statement in the transaction of `connection`; returns the number of the request.

    After the commit, `await scheduler.run_of(number)` is the run, and `aiosched requests show NUMBER` its fate: params
    are checked by the scheduler. Raises NotFound, and Refused for a DAG that is defined no more or has secret params.
    """
    (number,) = await _enqueue(connection, dag_id, [request], reason=request.reason)
    return number


async def enqueue_many(
    connection: Any, dag_id: str, runs: Iterable[Mapping[str, Any]], *, unpause: bool = False, reason: str | None = None
) -> list[int]:
    """As `enqueue`, for many runs by one statement, each with options of `Scheduler.trigger`: `[{"conf": {…}}, …]`."""
    return await _enqueue(connection, dag_id, triggers_of(runs, unpause=unpause), reason=reason)


def triggers_of(runs: Iterable[Mapping[str, Any]], *, unpause: bool, reason: str | None = None) -> list[Trigger]:
    """The requests of a batch. Raises Refused for an option that a trigger does not have."""
    found = []
    for number, run in enumerate(runs, 1):
        try:
            found.append(Trigger(**{"triggered_by": "api", "unpause": unpause, "reason": reason, **run}))
        except TypeError as error:
            raise Refused(f"Run {number} of the batch: {error}; it has the options of `trigger`.") from None
    return found


async def _enqueue(connection: Any, dag_id: str, requests: Sequence[Trigger], *, reason: str | None) -> list[int]:
    all_args = [encode(checked(request))[1] for request in requests]
    return await enqueue_triggers(connection, dag_id, all_args, [request.key for request in requests], reason=reason)
