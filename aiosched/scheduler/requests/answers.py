"""The answers of people to what tasks ask.

    answer_input -> {run_id, task_id, map_index, options, params}

The answer becomes the event of the task's deferral, in the transaction that answers the request.
"""

from __future__ import annotations

import msgspec

from aiosched.core.graph.human_input import check_answer
from aiosched.core.requests.requests import AnswerInput
from aiosched.db.people import human_inputs
from aiosched.db.people.human_inputs import TaskPlace
from aiosched.db.statements.clearing import runs_by_id
from aiosched.db.statements.inbox import RequestResult
from aiosched.errors import Refused
from aiosched.scheduler.memory.cache import OwnedDag
from aiosched.scheduler.memory.version_reading import ensure_versions
from aiosched.scheduler.requests.notes import place_of
from aiosched.scheduler.requests.runs_meant import no_run
from aiosched.scheduler.session.session import Session


async def answer_input(session: Session, dag: OwnedDag, request: AnswerInput, number: int) -> None:
    """Let a task that asked go on with the answer. Raises NotFound, and Refused if it does not (or no longer) wait."""
    dag_id, run_id, what = dag.row.dag_id, request.run_id, request.task_id
    async with session.env.db.acquire() as conn:
        found = await runs_by_id(conn, dag_id, [run_id])
        if not found:
            raise no_run(dag_id, run_id)
        await ensure_versions(session.cache, conn, {found[0].version_id})
        graph = session.cache.versions[found[0].version_id][1]
        place = TaskPlace(*await place_of(conn, graph, found[0], what, request.map_index))
        question = await human_inputs.find(conn, place)
    if question is None:
        raise Refused(f"{what} in run {run_id} asks nothing; `aiosched inputs list` shows which tasks do.")
    answer = check_answer(question, request.options, request.params, by=request.by)
    board = dag.runs.running.get(place.run)  # from here on nothing waits: it is still true when it is decided
    instance = None if board is None else board.find(place.task_index, place.map_index)
    if board is None or instance is None or not board.deferrals.asks(instance):
        raise Refused(
            f"{what} in run {run_id} does not wait for an answer (any longer); `aiosched inputs list` shows which do."
        )
    now = session.env.clock.now()
    event = {"options": answer.options, "params": answer.params, "by": request.by, "at": now.isoformat()}
    board.answer(instance, msgspec.json.encode(event).decode(), now)
    where = {"run_id": run_id, "task_id": graph.task_ids[place.task_index], "map_index": place.map_index}
    result = {**where, **msgspec.to_builtins(answer)}
    session.context.answer(number, RequestResult("applied", result))
    session.context.apply_effects(board)
    session.cache.work.to_evaluate[board] = None
