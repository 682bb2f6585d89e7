"""Rendering template fields on request, as a task's next attempt would see them.

    render -> {run_id, task_id, map_index, fields}

Only code of the DAG can do it, so the executor does, as with a callback, without a slot. The request is answered when
that has ended; until then it waits in the inbox, and if this scheduler ends, its successor begins again.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Final

import msgspec

from aiosched.core.requests.requests import Render
from aiosched.core.values.messages import RENDERING, Attempt, AttemptKey, CallbackCall, Outcome, Report
from aiosched.db.statements.clearing import runs_by_id
from aiosched.db.statements.inbox import RequestResult, announce_applied
from aiosched.db.statements.runs import load_readable_runs
from aiosched.errors import Refused, StaleRows
from aiosched.scheduler.memory.cache import OwnedDag
from aiosched.scheduler.memory.version_reading import ensure_versions
from aiosched.scheduler.memory.versions import run_info
from aiosched.scheduler.requests.notes import place_of
from aiosched.scheduler.requests.runs_meant import no_run
from aiosched.scheduler.session.session import Session

logger: logging.Logger = logging.getLogger(__name__)

_START_SECONDS: Final = 15.0  # for starting a process, in addition to the import of the DAG file
_GRACE: Final = 1.0


async def render(session: Session, dag: OwnedDag, request: Render, number: int) -> None:
    """Begin to render the fields of a task instance. Raises NotFound and Refused."""
    dag_id = dag.row.dag_id
    async with session.env.db.acquire() as conn:
        found = await runs_by_id(conn, dag_id, [request.run_id])
        if not found:
            raise no_run(dag_id, request.run_id)
        await ensure_versions(session.cache, conn, {found[0].version_id})
        version, graph = session.cache.versions[found[0].version_id]
        place = await place_of(conn, graph, found[0], request.task_id, request.map_index)
        runs, unreadable = await load_readable_runs(conn, {found[0].key})
    if not runs:
        raise Refused(f"Run {request.run_id!r} cannot be read: {unreadable.get(found[0].key, 'it was just removed')}")
    board = dag.runs.running.get(place[0])
    instance = None if board is None else board.find(*place[1:])
    try_number = 1 if instance is None else max(instance.try_number, 1)
    task = graph.tasks[place[1]]
    call = CallbackCall(
        id=number, kind="render", task_id=task.task_id, map_index=place[2], try_number=try_number
    )  # fmt: skip
    attempt = Attempt(
        key=AttemptKey(place[0], RENDERING, -1, number),
        run=run_info(runs[0], version, dag.version, team=dag.row.team),
        task_id=task.task_id,
        is_async=True,  # it waits for no slot
        max_tries=task.retries,
        callback=call,
    )
    attempts = session.env.attempts
    attempts.renderings.begin(number)
    session.background.spawn(_answer(session, attempt, number), f"rendering for request {number}")


async def _answer(session: Session, attempt: Attempt, number: int) -> None:
    """Have the executor render, and answer the request."""
    env = session.env
    seconds = env.settings.core.dagbag_import_timeout + _START_SECONDS
    renderings = env.attempts.renderings
    try:
        env.executor.submit([attempt])
        try:
            async with asyncio.timeout(seconds):
                result = _result(await renderings.by_request[number], attempt)
        except TimeoutError:
            await env.executor.cancel(attempt.key, _GRACE)
            result = _refused(f"Rendering took more than {seconds:g} s and was stopped.")
        try:
            async with env.side_journal.transaction() as transaction:
                await transaction.store_answer(number, result)
        except StaleRows:
            logger.info("request %d was withdrawn while its fields were rendered", number)
            return
    finally:
        renderings.end(number)
    await announce_applied(env.db, [number])


def _result(report: Report, attempt: Attempt) -> RequestResult:
    if report.outcome is not Outcome.SUCCESS or report.rendered is None or attempt.callback is None:
        return _refused(f"The fields cannot be rendered: {report.reason or 'the worker gave no reason'}")
    fields = msgspec.json.decode(report.rendered, type=dict[str, Any])
    where = {"run_id": attempt.run.run_id, "task_id": attempt.task_id, "map_index": attempt.callback.map_index}
    return RequestResult("applied", {**where, "fields": fields})


def _refused(error: str) -> RequestResult:
    return RequestResult("refused", {"error": error, "exit_code": Refused.exit_code})
