"""Finding the previous run of boards whose tasks depend on it.

Those tasks wait until the board has its past, so this may happen after the board is held. If the
previous run is held too, its board is used; otherwise its rows are read.
Source: the semantics reference, section 6.1.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from aiosched.core.graph.previous_run import EarlierRuns, IncompleteRun, PreviousRun, StoredRun, previous_types
from aiosched.core.run.board import Board, Run
from aiosched.core.values.states import RunType
from aiosched.db.server.connection import DatabaseConnection
from aiosched.db.statements import rehydration
from aiosched.db.statements.rehydration import RunBefore
from aiosched.scheduler.failures.isolation import for_each_dag
from aiosched.scheduler.memory.cache import StateCache
from aiosched.scheduler.memory.decision_context import DecisionContext
from aiosched.scheduler.memory.version_reading import readable_versions
from aiosched.scheduler.session.session import Session


async def find_previous_runs(session: Session) -> None:
    """Give each board that needs its past and lacks it that past. Call it with `locks.ownership` held."""
    cache = session.cache
    dag_ids, cache.work.to_find_previous = cache.work.to_find_previous, {}
    dags = [dag for dag_id in dag_ids if (dag := cache.dags.get(dag_id)) is not None]
    waiting = [
        board
        for dag in dags
        for board in dag.runs.running.values()
        if board.graph.lookback is not None and board.past is None
    ]
    if not waiting:
        return
    held = {board.run.key: board for board in (*session.cache.unstored.runs_that_end(), *cache.boards.values())}

    async def find(boards: Sequence[Board]) -> None:
        async with session.env.db.acquire() as conn:
            for board, past, before in await read_past(cache, conn, boards, held):
                if before in cache.boards:  # it may have started meanwhile
                    past = dataclasses.replace(past, previous=cache.boards[before])
                cache.previous_run_index.add(board, past, before)

    await for_each_dag("finding the previous run", waiting, lambda board: board.run.dag_id, find, held=cache.dags)
    for board in waiting:
        if board.run.key in cache.boards:
            cache.work.to_evaluate[board] = None
        else:
            cache.previous_run_index.forget(board)
    session.wakeups.evaluation.wake()


def invalidate_past(context: DecisionContext, run: Run) -> None:
    """The rows of a run that is not held have changed: boards that depend on it must read them again."""
    if context.cache.previous_run_index.invalidate(run.key):
        context.cache.work.to_find_previous[run.dag_id] = None
        context.wakeups.creation.wake()


async def read_past(
    cache: StateCache,
    conn: DatabaseConnection,
    boards: Sequence[Board],
    held: Mapping[int, Board] = MappingProxyType({}),
) -> list[tuple[Board, EarlierRuns, int | None]]:
    """The past of each board and the key of its previous run. Runs in `held` are not read."""
    found = await _runs_before(conn, boards)
    stored = await _stored(cache, conn, [before for before in found.values() if before.key not in held])
    pasts: list[tuple[Board, EarlierRuns, int | None]] = []
    for board in boards:
        before = found.get(board.run.key)
        opens = board.run.backfill_id is not None and board.run.backfill_order == 1
        if before is None:
            pasts.append((board, EarlierRuns(opens=opens), None))
            continue
        previous: PreviousRun | None = held.get(before.key) or stored.get(before.key)
        if previous is None:
            continue  # it cannot be read: tasks that depend on it wait
        earlier = await _existed_before(cache, conn, board, previous)
        pasts.append((board, EarlierRuns(previous, before.logical_date, earlier, opens), before.key))
    return pasts


async def _runs_before(conn: DatabaseConnection, boards: Sequence[Board]) -> dict[int, RunBefore]:
    wanted = [
        (board.run.key, board.run.dag_id, board.run.logical_date, RunType.MANUAL not in previous_types(catchup))
        for board in boards
        for catchup in (board.graph.spec.catchup,)
        if board.run.logical_date is not None
    ]
    return await rehydration.runs_before(conn, wanted) if wanted else {}


async def _stored(cache: StateCache, conn: DatabaseConnection, runs: Sequence[RunBefore]) -> dict[int, PreviousRun]:
    if not runs:
        return {}
    incomplete: dict[int, PreviousRun] = {run.key: IncompleteRun() for run in runs if run.is_incomplete}
    readable = await readable_versions(cache, conn, {run.version_id for run in runs})
    runs = [run for run in runs if run.version_id in readable and not run.is_incomplete]
    states = await rehydration.load_states(conn, [run.key for run in runs])
    found = dict[int, PreviousRun]()
    for run in runs:
        task_ids = cache.versions[run.version_id][1].task_ids
        if run.key in states and all(0 <= task < len(task_ids) for task, _ in states[run.key]):  # else not to be read
            found[run.key] = StoredRun((task_ids[task], state) for task, state in states[run.key])
    return incomplete | found


async def _existed_before(
    cache: StateCache, conn: DatabaseConnection, board: Board, previous: PreviousRun
) -> frozenset[str]:
    """The tasks that the previous run does not have but an earlier one has. Rarely needed."""
    lookback, date = board.graph.lookback, board.run.logical_date
    assert lookback is not None
    task_ids = [board.graph.task_ids[task] for task in lookback.tasks]
    missing = [task_id for task_id in task_ids if previous.all_succeeded(task_id) is None]
    if not missing or date is None:
        return frozenset()
    versions = await readable_versions(cache, conn, await rehydration.versions_before(conn, board.run.dag_id, date))
    places = {
        (version, index[task_id]): task_id
        for version in versions
        for index in (cache.versions[version][1].index,)
        for task_id in missing
        if task_id in index
    }
    if not places:
        return frozenset()
    found = await rehydration.seen_before(conn, board.run.dag_id, date, list(places))
    return frozenset(places[place] for place in found)
