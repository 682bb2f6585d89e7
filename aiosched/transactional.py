"""Runs that are asked for in a transaction of the application: they exist if and only if it commits.

    async with pool.acquire() as conn, conn.transaction():
        order = await conn.fetchval("INSERT INTO orders … RETURNING id")
        await enqueue(conn, "ship", conf={"order": order})

No scheduler is needed in the process. The connection is one of asyncpg, psycopg or SQLAlchemy (a connection or a
session, asynchronous or not) to the database of the fleet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from aiosched.core.requests.jobs import called, dag_id_of, job_behind, with_types
from aiosched.core.requests.options import options_of_jobs
from aiosched.core.requests.requests import Trigger
from aiosched.core.requests.stored import args_of
from aiosched.db.statements.enqueued import enqueue_triggers
from aiosched.errors import Refused
from aiosched.trace_context import current_traceparent


@options_of_jobs(Trigger, triggered_by="api")
async def enqueue(connection: Any, dag_id: str, request: Trigger) -> int:
    """Ask for a run by one statement in the transaction of `connection`; returns the number of the request.

    A function that is a job stands for its DAG: `enqueue(conn, load, amounts=[1, 2])`.
    After the commit, `await scheduler.run_of(number)` is the run, and `aiosched requests show NUMBER` its fate: params
    are checked by the scheduler. Raises NotFound, and Refused for a DAG that is defined no more or has secret params.
    """
    (number,) = await _enqueue(connection, dag_id, [traced(request)], reason=request.reason)
    return number


async def enqueue_many(
    connection: Any,
    dag_id: str | Callable[..., Any],
    runs: Iterable[Mapping[str, Any]],
    *,
    unpause: bool = False,
    reason: str | None = None,
) -> list[int]:
    """As `enqueue`, for many runs by one statement, each with options of `Scheduler.trigger`: `[{"conf": {…}}, …]`."""
    dag_id, requests = triggers_of(dag_id, runs, unpause=unpause)
    return await _enqueue(connection, dag_id, requests, reason=reason)


def triggers_of(
    dag: str | Callable[..., Any], runs: Iterable[Mapping[str, Any]], *, unpause: bool, reason: str | None = None
) -> tuple[str, list[Trigger]]:
    """The id of the DAG or job, and the requests of a batch. Raises Refused, also for an option of no trigger."""
    job = job_behind(dag) if callable(dag) else None
    found = []
    for number, run in enumerate(runs, 1):
        options = {"triggered_by": "api", "unpause": unpause, "reason": reason, **run}
        try:
            if job is not None:
                options["conf"] = called(job, options.get("conf") or {}, {})
            if options.get("conf"):
                options["conf"] = with_types("conf", options["conf"])
            found.append(traced(Trigger(**options)))
        except TypeError as error:
            raise Refused(f"Run {number} of the batch: {error}; it has the options of `trigger`.") from None
        except Refused as error:
            error.args = (f"Run {number} of the batch: {error}",)
            raise
    return (dag_id_of(dag) if job is None else job.dag_id), found


def traced(request: Trigger) -> Trigger:
    """The request as a part of the caller's trace, unless it names one, or is to be the same when it is repeated."""
    if request.traceparent is not None or request.key is not None or (traceparent := current_traceparent()) is None:
        return request
    return msgspec.structs.replace(request, traceparent=traceparent)


async def _enqueue(connection: Any, dag_id: str, requests: Sequence[Trigger], *, reason: str | None) -> list[int]:
    dag_id = dag_id_of(dag_id)
    all_args = [args_of(request) for request in requests]
    return await enqueue_triggers(connection, dag_id, all_args, [request.key for request in requests], reason=reason)
