"""Notes: what people write about runs and task instances.

    set_note -> {run_id, task_id, map_index, note}

A note replaces the previous one; an empty note removes it. Clearing a run keeps its notes. Of two people who have read
the same one, and say so, one is refused.
"""

from __future__ import annotations

from typing import Final

from aiosched.core.graph.graph import Graph
from aiosched.core.requests.requests import SetNote
from aiosched.core.values.ids import instance_name, read_instance_name
from aiosched.db.names.existing import changed_by
from aiosched.db.people import notes
from aiosched.db.server.connection import DatabaseConnection
from aiosched.db.statements.clearing import RunOfRequest, runs_by_id
from aiosched.db.statements.runs import load_runs
from aiosched.errors import ChangedMeanwhile, NotFound, Refused, did_you_mean
from aiosched.scheduler.memory.cache import OwnedDag
from aiosched.scheduler.memory.version_reading import ensure_versions
from aiosched.scheduler.requests.runs_meant import no_run
from aiosched.scheduler.runs.incomplete import complete
from aiosched.scheduler.session.session import Session

LONGEST_NOTE: Final = 1000  # characters


async def set_note(session: Session, dag: OwnedDag, request: SetNote, number: int) -> None:
    """Put a note on a run, or on one of its task instances."""
    run_id, note = request.run_id, read_note(request.note)
    task_id = None if request.task_id is None else read_instance_name(request.task_id)[0]
    async with session.env.side_journal.transaction() as transaction:
        conn = transaction.conn
        found = await runs_by_id(conn, dag.row.dag_id, [run_id])
        if not found:
            raise no_run(dag.row.dag_id, run_id)
        map_index = None
        if task_id is None:
            await _check_read(conn, dag, request, await notes.run_note(conn, found[0].key))
            await notes.set_run_note(conn, found[0].key, note)
        else:
            await ensure_versions(session.cache, conn, {found[0].version_id})
            graph = session.cache.versions[found[0].version_id][1]
            if found[0].is_incomplete:
                await complete(session.cache, conn, await load_runs(conn, [found[0].key]))
            place = await place_of(conn, graph, found[0], str(request.task_id), request.map_index)
            await _check_read(conn, dag, request, await notes.task_note(conn, place))
            await notes.set_task_note(conn, place, note)
            map_index = place[2]
        answer = {"run_id": run_id, "task_id": task_id, "map_index": map_index, "note": note}
        await transaction.answer(number, answer)
    if task_id is not None and (waiting := dag.runs.queued.find(found[0].key)) is not None:
        waiting.is_incomplete = False
        session.cache.work.to_start[dag.row.dag_id] = None


async def _check_read(conn: DatabaseConnection, dag: OwnedDag, request: SetNote, now: str | None) -> None:
    if request.was is None or now in (read_note(request.was), read_note(request.note)):
        return
    by = await changed_by(conn, "note", request.run_id, dag.row.dag_id)
    raise ChangedMeanwhile(
        f"The note {by}, since you read it. Nothing was stored: read it again, and store what should be there."
    )


def read_note(text: str | None) -> str | None:
    """The note that was given; None for an empty one. Raises Refused for one that is too long."""
    note = (text or "").strip()
    if len(note) > LONGEST_NOTE:
        raise Refused(
            f"The note has {len(note)} characters, and {LONGEST_NOTE} are the most: keep it short, "
            "and link to the rest."
        )
    if "\0" in note:
        raise Refused("The note has a NUL character, which cannot be stored: remove it.")
    return note or None


async def place_of(
    conn: DatabaseConnection, graph: Graph, run: RunOfRequest, task_id: str, map_index: int | None
) -> tuple[int, int, int]:
    """Which instance is meant (also by `load[3]`): run key, task index, map index. Raises NotFound and Refused."""
    task_id, map_index = read_instance_name(task_id, map_index)
    if task_id not in graph.index:
        raise NotFound(f"Run {run.run_id!r} has no task {task_id!r}.{did_you_mean(task_id, graph.task_ids)}")
    task = graph.index[task_id]
    indexes = await notes.map_indexes(conn, run.key, task)
    if map_index is None and len(indexes) > 1:
        raise Refused(f"Task {task_id!r} is mapped: choose one of its {len(indexes)} instances with --map-index.")
    wanted = indexes if map_index is None else [index for index in indexes if index == map_index]
    if not wanted:
        which = task_id if map_index is None else instance_name(task_id, map_index)
        raise NotFound(f"Run {run.run_id!r} has no instance of {which}.")
    return run.key, task, wanted[0]
