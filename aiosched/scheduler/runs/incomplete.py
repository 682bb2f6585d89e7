"""Incomplete runs: those whose task instances are not all stored yet. They are completed in parts, and only then start.

The rows of a large run would hold up the creation of all other runs if they were stored in one transaction. So its own
row comes first, queued and in no scheduler's partition (`as_incomplete`). Its task instances follow, one part in each
pass of run creation: first those of runs that could start. The transaction of the last part completes the run.
Whoever loads an incomplete run goes on with what its rows lack. A request that changes its tasks completes it first.
Does not live here: which runs are created incomplete (new_runs.py).

Source: docs/decisions/0032-large-runs-are-stored-in-parts.md.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Final

from aiosched.core.creation.run_creation import as_planned, tasks_of_run
from aiosched.core.graph.graph import Graph
from aiosched.core.graph.instances import Instance, Run
from aiosched.core.graph.new_instances import new_places
from aiosched.db.server.connection import DatabaseConnection
from aiosched.db.statements.runs import complete_runs, copy_instances, load_instances
from aiosched.scheduler.failures.isolation import for_each_dag
from aiosched.scheduler.memory.cache import StateCache
from aiosched.scheduler.session.session import Session

PART: Final = 1_000  # task instances that one transaction stores

Place = tuple[int, int, int]  # of a row to insert: task, map index, max tries


async def store_next_part(session: Session) -> bool:
    """Store one part of the runs of one DAG; returns whether there was something to store.

    Runs that may start as soon as they are complete go first, and take turns. Call it with `locks.ownership` held.
    """
    cache = session.cache
    runs = _next_runs(cache)
    if not runs:
        return False

    async def store(runs: Sequence[Run]) -> dict[Run, list[Place]]:
        return await _store_part(session, runs)

    left = await for_each_dag("storing task instances", runs, lambda run: run.dag_id, store, held=cache.dags)
    for run, places in left.items():
        urgent = run in cache.work.to_complete
        cache.work.to_complete.pop(run, None)
        if places:
            cache.work.incomplete[run] = places
            if urgent:  # now it is the last
                cache.work.to_complete[run] = None
        else:
            del cache.work.incomplete[run]
            run.is_incomplete = False
            cache.work.to_start[run.dag_id] = None
    return True


def _next_runs(cache: StateCache) -> list[Run]:
    """The runs that the next part is for: the first that waits, and those of its DAG behind it that also fit."""
    work = cache.work
    found: list[Run] = []
    room = PART
    for run in dict.fromkeys((*work.to_complete, *work.incomplete)):
        if not _waits(cache, run):
            work.to_complete.pop(run, None)
            work.incomplete.pop(run, None)
        elif room <= 0 or (found and found[0].dag_id != run.dag_id):
            break
        else:
            found.append(run)
            known = work.incomplete[run]
            room -= len(cache.versions[run.version_id][1]) if known is None else len(known)
    return found


def _waits(cache: StateCache, run: Run) -> bool:
    """Whether the run is still queued and incomplete: not cancelled, deleted, or completed by a request."""
    dag = cache.dags.get(run.dag_id)
    return dag is not None and run.is_incomplete and dag.runs.queued.find(run.key) is run


async def _store_part(session: Session, runs: Sequence[Run]) -> dict[Run, list[Place]]:
    """Store the next of the missing task instances of these runs; returns what each of those lacks now."""
    left: dict[Run, list[Place]] = {}
    rows: list[tuple[int, int, int, int]] = []
    async with session.env.side_journal.transaction() as transaction:
        for run in runs:
            if len(rows) == PART:
                break
            known = session.cache.work.incomplete[run]
            missing = await _missing_places(session.cache, transaction.conn, run) if known is None else known
            room = PART - len(rows)
            rows += ((run.key, *place) for place in missing[:room])
            left[run] = missing[room:]
        await copy_instances(transaction.conn, rows)
        if completed := [run.key for run, places in left.items() if not places]:
            await complete_runs(transaction.conn, completed)
    return left


async def complete(cache: StateCache, conn: DatabaseConnection, runs: Iterable[Run]) -> None:
    """Store all that the incomplete ones of `runs` lack, in the open transaction; their versions must be held.

    After the commit they are to be marked as complete in memory.
    """
    incomplete = [run for run in runs if run.is_incomplete]
    for run in incomplete:
        places = await _missing_places(cache, conn, run)
        await copy_instances(conn, ((run.key, *place) for place in places))
    if incomplete:
        await complete_runs(conn, [run.key for run in incomplete])


async def _missing_places(cache: StateCache, conn: DatabaseConnection, run: Run) -> list[Place]:
    stored = (await load_instances(conn, [run.key]))[run.key]
    run.is_as_created = not stored
    return _places(cache.versions[run.version_id][1], run, stored)


def missing_instances(graph: Graph, run: Run, stored: Collection[Instance]) -> list[Instance]:
    """The task instances that an incomplete run lacks; none for other runs."""
    places = _places(graph, run, stored) if run.is_incomplete else ()
    return [Instance(task, map_index, max_tries=tries) for task, map_index, tries in places]


def instances_as_created(graph: Graph, run: Run) -> Iterator[Instance]:
    """The task instances of a run that `is_as_created`, made one at a time."""
    for task, map_index, tries in new_places(graph, tasks_of_run(graph.spec, as_planned(run))):
        yield Instance(task, map_index, max_tries=tries)


def _places(graph: Graph, run: Run, stored: Collection[Instance]) -> list[Place]:
    """Where a run has task instances beside those that are stored."""
    expected = new_places(graph, tasks_of_run(graph.spec, as_planned(run)))
    there = {(instance.task, instance.map_index) for instance in stored}
    return [place for place in expected if place[:2] not in there] if there else expected
