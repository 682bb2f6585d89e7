"""Creating runs: their rows and their task instances (COPY) in one transaction, then the runs in memory.

A run with very many task instances gets only its own row: those follow in parts (incomplete.py). Does not live here:
which runs are created and when (loops/run_creation.py, asset_runs.py, requests).
Source: the semantics reference, sections 10.1 and 13.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple

from aiosched.config import Settings
from aiosched.core.creation.run_creation import PlannedRun
from aiosched.core.graph.instances import StartTerms
from aiosched.core.graph.new_instances import count_instances, new_instances, new_places
from aiosched.core.run.board import Run
from aiosched.core.values.ids import as_incomplete
from aiosched.core.values.states import RunState
from aiosched.db.server.connection import DatabaseConnection
from aiosched.db.statements.runs import NewRun, copy_instances, insert_runs
from aiosched.scheduler.effects.deadlines import plan_deadlines
from aiosched.scheduler.failures.isolation import concerning
from aiosched.scheduler.memory.cache import OwnedDag, make_board
from aiosched.scheduler.memory.decision_context import DecisionContext
from aiosched.scheduler.runs import incomplete
from aiosched.scheduler.session.session import Session

_PARTS_AT_ONCE: Final = 5  # whose task instances one DAG stores together with its runs in one pass


class Creation(NamedTuple):
    """A run to create now."""

    dag: OwnedDag
    planned: PlannedRun
    tasks: tuple[int, ...]
    triggered_by: str
    conf: dict[str, Any]
    starts: bool  # at once; otherwise it waits in state queued
    backfill: tuple[int, int] | None = None  # the id of its backfill, and its order number in it
    in_parts: bool = False  # its task instances follow, and only then it may start
    unique_key: str | None = None
    priority: int = 0
    traceparent: str | None = None
    expires_at: datetime | None = None

    @property
    def terms(self) -> StartTerms:
        """What it says of its start."""
        return StartTerms(self.planned.run_after, self.conf, self.priority, self.expires_at)


def in_parts(creations: Iterable[Creation]) -> list[Creation]:
    """The same creations: those with very many task instances, and those beyond the share of their DAG, in parts."""
    taken: Counter[str] = Counter()
    found = []
    for creation in creations:
        dag_id, number = creation.dag.row.dag_id, count_instances(creation.dag.graph, creation.tasks)
        if number > incomplete.PART or taken[dag_id] + number > _PARTS_AT_ONCE * incomplete.PART:
            creation = creation._replace(in_parts=True, starts=False)
        else:
            taken[dag_id] += number
        found.append(creation)
    return found


def most_at_once(settings: Settings) -> int:
    """How many runs are created in one transaction."""
    return settings.scheduler.max_dagruns_to_create_per_loop


def chunks(creations: Sequence[Creation], most: int) -> Iterable[list[Creation]]:
    """Batches of at most `most` runs whose task instances fit one transaction."""
    chunk: list[Creation] = []
    size = 0
    for creation in creations:
        number = 0 if creation.in_parts else count_instances(creation.dag.graph, creation.tasks)
        if chunk and (len(chunk) == most or size + number > incomplete.PART):
            yield chunk
            chunk, size = [], 0
        chunk.append(creation)
        size += number
    if chunk:
        yield chunk


async def create(
    session: Session, creations: Sequence[Creation], now: datetime, *, answering: Sequence[int] = ()
) -> list[Run | None]:
    """Create runs in one transaction, then hold them; None in place of a run that exists already.

    `answering`: the ids of the requests for these runs. Those of runs that are created are answered in the same
    transaction. Call it with `locks.ownership` held.
    """
    async with session.env.side_journal.transaction() as transaction:
        keys = await store(session, transaction.conn, creations, now)
        answers = [
            (request, {"run_id": one.planned.run_id, "id": key, "paused": one.dag.row.is_paused})
            for request, one, key in zip(answering, creations, keys, strict=False)
            if key is not None
        ]
        if answers:
            await transaction.answer_all(answers)
    session.changed_runs.add_runs(key for key in keys if key is not None)
    return hold(session.context, creations, keys, now)


async def store(
    session: Session, conn: DatabaseConnection, creations: Sequence[Creation], now: datetime
) -> list[int | None]:
    """Write runs and their task instances, unless these follow; returns the runs' keys, None for one that exists."""
    if not creations:
        return []
    found = await insert_runs(conn, [new_run(session.context, c, now) for c in creations])
    keys = [found.get((c.dag.row.dag_id, c.planned.run_id)) for c in creations]
    rows = (
        (key, *place)
        for c, key in zip(creations, keys, strict=True)
        if key is not None and not c.in_parts
        for place in new_places(c.dag.graph, c.tasks)
    )
    await copy_instances(conn, rows)
    timed = [(c, key) for c, key in zip(creations, keys, strict=True) if c.dag.version.spec.deadlines]
    if timed:
        runs = [
            (key, c.dag.version.spec, c.dag.row.partition, c.planned.logical_date)
            for c, key in timed
            if key is not None
        ]
        await plan_deadlines(session, conn, runs, now)
    return keys


def hold(
    context: DecisionContext, creations: Sequence[Creation], keys: Sequence[int | None], now: datetime
) -> list[Run | None]:
    """Hold the stored runs in memory; call it after the commit. Raises DagFailure."""
    context.metrics.runs_created += sum(key is not None for key in keys)
    held: list[Run | None] = []
    for creation, key in zip(creations, keys, strict=True):
        with concerning(creation.dag.row.dag_id, "the start of a run"):
            held.append(None if key is None else _hold(context, creation, key, now))
    return held


def new_run(context: DecisionContext, creation: Creation, now: datetime) -> NewRun:
    """The run to create."""
    dag, planned = creation.dag, creation.planned
    interval, partition, (backfill, order) = planned.interval, planned.partition, creation.backfill or (None, None)
    run = Run(
        key=0,  # not known yet
        dag_id=dag.row.dag_id,
        run_id=planned.run_id,
        version_id=dag.version.id,
        run_type=planned.run_type,
        state=RunState.RUNNING if creation.starts else RunState.QUEUED,
        run_after=planned.run_after,
        logical_date=planned.logical_date,
        interval_start=None if interval is None else interval.start,
        interval_end=None if interval is None else interval.end,
        queued_at=now,
        start_date=now if creation.starts else None,
        conf=creation.conf,
        backfill_id=backfill,
        backfill_order=order,
        is_incomplete=creation.in_parts,
        partition_key=None if partition is None else partition.key,
        partition_date=None if partition is None else partition.date,
        unique_key=creation.unique_key,
        priority=creation.priority,
        traceparent=creation.traceparent,
        expires_at=creation.expires_at,
    )
    place = as_incomplete(dag.row.partition) if creation.in_parts else dag.row.partition
    return NewRun(run, place, creation.triggered_by, context.incarnation)


def _hold(context: DecisionContext, creation: Creation, key: int, now: datetime) -> Run:
    cache, dag, run = context.cache, creation.dag, new_run(context, creation, now).run
    run.key, run.stored_state = key, run.state
    if (
        dag.graph.lookback is not None
        and run.logical_date is not None
        and cache.previous_run_index.overtaken(dag.runs.running.values(), run.logical_date)
    ):
        cache.work.to_find_previous[run.dag_id] = None
    if not creation.starts:
        run.is_as_created = not run.is_incomplete
        dag.runs.queued.append(run)
        if run.is_incomplete:
            cache.work.incomplete[run] = None
        cache.work.to_start[run.dag_id] = None
        cache.work.upcoming.add(max(run.run_after, now), run.dag_id)
        context.wakeups.creation.wake()
        return run
    board = make_board(run, dag.version, dag.graph, new_instances(dag.graph, creation.tasks))
    board.start(now)
    cache.add_board(board)
    cache.unstored.start(board)
    context.wakeups.evaluation.wake()
    return run
