"""Finds out which queued runs of a DAG are awaited by running ones, from memory and, rarely, from rows.

A running run is held with its previous run, so rows are read only if that one is queued: to find its previous run in
turn. DAGs without tasks that depend on a previous run are skipped. Does not live here: what follows from it
(core/creation/awaited.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import Final, NamedTuple

from aiosched.core.creation.awaited import AwaitedRuns, WaitingRun, find_awaited, who_waits_for
from aiosched.core.graph.previous_run import previous_types
from aiosched.core.run.board import Run
from aiosched.core.values.states import RunType
from aiosched.db.server.connection import DatabaseConnection
from aiosched.db.statements.rehydration import runs_before
from aiosched.scheduler.failures.isolation import concerning
from aiosched.scheduler.memory.cache import OwnedDag, StateCache
from aiosched.scheduler.session.session import Session

NOT_ASKED: Final[Mapping[int, int | None]] = MappingProxyType({})
_AT_ONCE: Final = 200  # runs whose previous run is read in one statement


class PreviousRunQuestion(NamedTuple):
    """Which run precedes this queued one? `without_manual`: manual runs do not count."""

    run: Run
    logical_date: datetime
    without_manual: bool


def awaited_in(cache: StateCache, dag: OwnedDag, known: Mapping[int, int | None]) -> AwaitedRuns:
    """The queued runs of a DAG that running ones wait for; `known` has the answers to all `questions`."""
    running = _standings(cache, dag)
    return find_awaited(running, _before(cache, dag, running, known)[0])


def questions(cache: StateCache, due: Iterable[str], known: Mapping[int, int | None]) -> list[PreviousRunQuestion]:
    """The questions to answer before `choose_starting` is called with these DAGs. Their answers may raise new ones."""
    asked: list[PreviousRunQuestion] = []
    for dag_id in dict.fromkeys(due) | cache.work.to_start:
        dag = cache.dags.get(dag_id)
        if dag is not None and dag.has_lookback and dag.runs.queued:
            with concerning(dag_id, "the search for awaited runs"):
                asked += _before(cache, dag, _standings(cache, dag), known)[1]
    return asked


async def ask_before(session: Session, due: Sequence[str]) -> Mapping[int, int | None]:
    """The previous run of each queued run that running ones wait for, by key. Reads nothing if there is none."""
    if not questions(session.cache, due, NOT_ASKED):
        return NOT_ASKED
    async with session.env.db.acquire() as conn:
        return await answers(session.cache, conn, due)


async def answers(cache: StateCache, conn: DatabaseConnection, due: Sequence[str]) -> Mapping[int, int | None]:
    """The answers to all `questions`."""
    known: dict[int, int | None] = {}
    while asked := questions(cache, due, known):
        found = await runs_before(conn, [(q.run.key, q.run.dag_id, *q[1:]) for q in asked])
        known |= {q.run.key: found[q.run.key].key if q.run.key in found else None for q in asked}
    return known


def awaited_by(cache: StateCache, dag: OwnedDag, run: int, known: Mapping[int, int | None]) -> str | None:
    """The id of a running run that waits for `run`, directly or through others; None if there is none."""
    running = _standings(cache, dag)
    found = who_waits_for(run, running, _before(cache, dag, running, known)[0])
    return None if found is None else dag.runs.running[found].run.run_id


def _standings(cache: StateCache, dag: OwnedDag) -> dict[int, WaitingRun]:
    """The running runs of a DAG, by key. One that is to be evaluated may go on."""
    found = {run.key: WaitingRun(run.backfill_id) for run in dag.runs.under_way()}
    for key, board in dag.runs.running.items():
        if board.graph.lookback is not None:
            waits_for = cache.previous_run_index.before(board) if board.is_held_back else None
            still = board.stands_still and board not in cache.work.to_evaluate
            found[key] = WaitingRun(board.run.backfill_id, waits_for, still)
    return found


def _before(
    cache: StateCache, dag: OwnedDag, running: Mapping[int, WaitingRun], known: Mapping[int, int | None]
) -> tuple[dict[int, int | None], list[PreviousRunQuestion]]:
    """The previous run of each awaited queued run, as far as it is known, and the questions to ask."""
    before: dict[int, int | None] = {}
    asked: list[PreviousRunQuestion] = []
    for standing in running.values():
        at = standing.waits_for
        while at is not None and at not in before and (run := dag.runs.queued.find(at)) is not None:
            question = _question(cache, run)
            if question is not None and at not in known:
                asked.append(question)
                break
            before[at] = None if question is None else known[at]
            at = before[at]
    if asked:  # ask for runs that were probably cleared together in one statement
        latest = max(question.logical_date for question in asked)
        others = [
            question
            for run in dag.runs.queued
            if run.key not in known and (question := _question(cache, run)) and question.logical_date < latest
        ]
        others.sort(key=lambda question: question.logical_date, reverse=True)
        asked = list({question.run.key: question for question in (*asked, *others[:_AT_ONCE])}.values())
    return before, asked


def _question(cache: StateCache, run: Run) -> PreviousRunQuestion | None:
    """None for a run that does not depend on a previous run."""
    graph = cache.versions[run.version_id][1]
    opens = run.backfill_id is not None and run.backfill_order == 1
    if graph.lookback is None or run.logical_date is None or opens:
        return None
    return PreviousRunQuestion(run, run.logical_date, RunType.MANUAL not in previous_types(graph.spec.catchup))
