"""Loading partitions into memory: at the start, after a take-over, in each new session, and when DAGs change.

What happens to an attempt that is queued or running in the rows depends on where it is:

- It still runs here, or has ended here and is not stored yet: it goes on.
- It runs in a living scheduler, which gave the partition away meanwhile (handover.py): it goes on.
- It was given to an engine, where it outlives the scheduler that sent it: it goes on, and is adopted (decision 36).
- It was claimed here but never handed out: it is handed out now.
- All others died with their scheduler and are lost, which costs no retry.

Source: docs/architecture.md, "Ownership and fencing".
"""

from __future__ import annotations

import dataclasses
import itertools
import logging
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence, Set
from types import MappingProxyType
from typing import Final

from aiosched.core.creation.next_run import SchedulePosition, next_scheduled_run
from aiosched.core.run.board import Board, Instance, Run
from aiosched.core.run.deferral import Deferred
from aiosched.core.values.messages import AttemptKey, Outcome, Report
from aiosched.core.values.states import HOLDING_SLOT, RunState, TaskState
from aiosched.db.engines.attempts import SentAttempt, attempts_of
from aiosched.db.server.connection import DatabaseConnection
from aiosched.db.statements import outbox
from aiosched.db.statements.backfills import load_backfills
from aiosched.db.statements.positions import recent_spans
from aiosched.db.statements.reports import living, reported_ends
from aiosched.db.statements.runs import DagRow, load_dags, load_unfinished_runs, set_next_runs, unfinished_keys
from aiosched.db.statements.schedules import schedule_positions
from aiosched.db.statements.set_aside import Ends, ends_set_aside
from aiosched.db.statements.triggers import load_deferrals
from aiosched.errors import DagError, StaleRows
from aiosched.scheduler.concurrency.slices import Slices
from aiosched.scheduler.effects.attempt_control import stop_if_unwanted
from aiosched.scheduler.effects.deadlines import load_deadlines
from aiosched.scheduler.effects.slas import watch_slas
from aiosched.scheduler.failures.isolation import concerning, failure_of_report, for_each_dag
from aiosched.scheduler.memory.cache import OwnedDag, StateCache, make_board
from aiosched.scheduler.memory.decision_context import DecisionContext
from aiosched.scheduler.memory.version_reading import readable_versions
from aiosched.scheduler.partitions.handover import receive_remote_reports, requeue_unsent
from aiosched.scheduler.partitions.previous_run import find_previous_runs
from aiosched.scheduler.partitions.quarantine import read_quarantine
from aiosched.scheduler.partitions.run_rehydration import NOTHING, Rehydration
from aiosched.scheduler.partitions.set_aside_reports import settle_set_aside
from aiosched.scheduler.partitions.unreadable_runs import leave_alone, leave_keys_alone, load_contents
from aiosched.scheduler.session.session import Session

logger: logging.Logger = logging.getLogger(__name__)

DAGS_PER_LOAD: Final = 250  # that are held at once, each with its next run
_ROWS_PER_LOAD: Final = 2_000  # of DAGs that are compared with what is held
PARTITIONS_PER_LOAD: Final = 8  # as long as it is not known how many DAGs they have
_RUNS_PER_LOAD: Final = 200
TASKS_PER_LOAD: Final = 5_000  # of these runs together, unless a single run has more
_ROWS_PER_CHECK: Final = 250  # that a board gets before others may have a turn
_WITH_ATTEMPT: Final = HOLDING_SLOT | {TaskState.DEFERRED}  # or with a trigger that waits
_NO_ENDS: Final[Ends] = MappingProxyType({})
_NO_DEFERRALS: Final[Mapping[tuple[int, int, int], tuple[Deferred, bool]]] = MappingProxyType({})


async def load_partitions(session: Session, partitions: Iterable[int]) -> None:
    """Load everything of `partitions`, which this scheduler now owns. Call it with `locks.ownership` held."""
    wanted = set(partitions) - session.cache.partitions
    if not wanted:
        return
    await _load_dags(session, wanted)
    session.cache.lost_spans = await recent_spans(session.env.db)
    session.env.attempts.reclaim(wanted)
    async with session.env.db.acquire() as conn:
        elsewhere = await living(conn) - {session.env.incarnation}
        adopted = await _adopt_attempts(session, conn, wanted)
        # only after reading who lives: a scheduler that is gone by then can send nothing more
        senders = await receive_remote_reports(session, conn, wanted)
        me, reported = session.env.incarnation, set[AttemptKey]()
        if me in senders:  # from engines: some of its attempts have ended, and others were perhaps never handed out
            reported = await reported_ends(conn, wanted, incarnation=me)
        elsewhere |= senders - {me}
        ends = await ends_set_aside(conn, sorted(wanted))
        in_quarantine = session.cache.quarantine.dags
        dag_ids = [dag_id for dag_id, dag in session.cache.dags.items() if dag.row.partition in wanted]

        async def read_unfinished(of: Sequence[str]) -> list[Run]:
            those = None if len(of) == len(dag_ids) else of
            return await load_unfinished_runs(conn, wanted, but=in_quarantine, of=those)

        unfinished = await for_each_dag("reading the runs", dag_ids, str, read_unfinished, held=session.cache.dags)
        leave_keys_alone(session, await unfinished_keys(conn, wanted, in_quarantine))
        await _hold_backfills(session, conn, wanted, session.cache.dags)
        unfinished = await _readable_runs(session, conn, unfinished)
        running = [run for run in unfinished if run.state is RunState.RUNNING]
        for run in unfinished:
            if run.state is RunState.QUEUED:
                session.cache.dags[run.dag_id].runs.queued.append(run)
                if run.is_incomplete:
                    session.cache.work.incomplete[run] = None
                session.cache.work.to_start[run.dag_id] = None

        async def resume_runs(runs: Sequence[Run]) -> None:
            await _resume_runs(session, conn, runs, elsewhere, ends, reported)

        for chunk in _chunks(session, running):
            await for_each_dag("loading the runs", chunk, lambda run: run.dag_id, resume_runs, held=session.cache.dags)
        await requeue_unsent(session, conn, wanted)
        await _load_outbox(session, conn, wanted)
        await load_deadlines(session, conn, wanted)
    await find_previous_runs(session)
    session.cache.partitions |= wanted
    _stop_unwanted_adopted(session, adopted)
    if unfinished:
        logger.info("loaded %d unfinished runs of %d partitions", len(unfinished), len(wanted))


def _chunks(session: Session, runs: Iterable[Run]) -> Iterator[list[Run]]:
    """The runs in their order, as many at a time as are read at once with their task instances."""
    chunk, tasks = list[Run](), 0
    for run in runs:
        size = len(session.cache.versions[run.version_id][1].task_ids)
        if chunk and (len(chunk) >= _RUNS_PER_LOAD or tasks + size > TASKS_PER_LOAD):
            yield chunk
            chunk, tasks = [], 0
        chunk.append(run)
        tasks += size
    if chunk:
        yield chunk


async def _resume_runs(
    session: Session,
    conn: DatabaseConnection,
    running: Sequence[Run],
    elsewhere: Collection[int],
    ends: Ends,
    reported: Set[AttemptKey],
) -> None:
    deferrals = await load_deferrals(conn, [run.key for run in running], session.env.journal.keyring)
    contents = await load_contents(session, conn, running)
    known, slices = session.env.attempts.known() | reported, Slices()
    for run, instances, rehydration in contents:
        with concerning(run.dag_id, "loading a run"):
            board = make_board(run, *session.cache.versions[run.version_id], ())
            rows = iter(instances)
            while some := list(itertools.islice(rows, _ROWS_PER_CHECK)):
                board.add_rows(some)
                await slices.pause()
            resume_board(session.context, board, known, deferrals, rehydration, elsewhere, ends)
        await slices.pause()


async def reload_dags(session: Session, partitions: Iterable[int]) -> None:
    """Apply changes of DAGs: new versions, new flags, new or deleted DAGs. Call it with `locks.ownership` held.

    Raises StaleRows when a DAG becomes readable whose unfinished runs were left alone: the next session loads them.
    """
    cache = session.cache
    owned = set(partitions) & cache.partitions
    if owned:
        left_alone = {*cache.unreadable.runs.values()} - cache.dags.keys()
        not_held = {*cache.quarantine.dags, *cache.unreadable.dags} - cache.dags.keys()
        await _load_dags(session, owned)
        if back := left_alone & cache.dags.keys():
            raise StaleRows(f"The runs of {', '.join(sorted(back))} can be held again")
        if back := not_held & cache.dags.keys():  # all of their runs are over, perhaps those of a backfill, too
            async with session.env.db.acquire() as conn:
                await _hold_backfills(session, conn, {cache.dags[dag_id].row.partition for dag_id in back}, back)
        session.wakeups.wake_all()


async def _load_dags(session: Session, partitions: set[int]) -> None:
    """Hold what the rows of the DAGs of `partitions` say, a few at a time: others are served in between."""
    cache, there = session.cache, set[str]()
    async with session.env.db.acquire() as conn:
        left_alone = await read_quarantine(session, conn, partitions)
        for some in _partition_pages(cache, partitions):
            stored = [row for row in await load_dags(conn, some) if row.dag_id not in left_alone]
            rows = await _readable_dags(session, conn, stored)
            there.update(row.dag_id for row in rows)
            changed = [row for row in rows if row.dag_id not in cache.dags or cache.dags[row.dag_id].row != row]
            for first in range(0, len(changed), DAGS_PER_LOAD):
                await _hold_dags(session, conn, changed[first : first + DAGS_PER_LOAD])
    for dag_id in [i for i, dag in cache.dags.items() if dag.row.partition in partitions and i not in there]:
        cache.drop_dag(dag_id)


def _partition_pages(cache: StateCache, partitions: Iterable[int]) -> Iterator[list[int]]:
    """The partitions, as many at a time as have about `_ROWS_PER_LOAD` DAGs, to judge by those that are held."""
    at_once = PARTITIONS_PER_LOAD
    if cache.partitions:
        at_once = max(1, _ROWS_PER_LOAD * len(cache.partitions) // max(len(cache.dags), 1))
    wanted = sorted(partitions)
    return (wanted[first : first + at_once] for first in range(0, len(wanted), at_once))


async def _hold_dags(session: Session, conn: DatabaseConnection, rows: Sequence[DagRow]) -> None:
    """Hold these DAGs, whose versions are held, and plan their next runs."""
    cache = session.cache

    async def hold(dags: Sequence[DagRow]) -> None:
        specs = [cache.versions[row.version_id][0].spec for row in dags]
        positions = await schedule_positions(conn, specs, session.env.clock.now())
        for row in dags:
            dag = cache.put_dag(row, cache.versions[row.version_id][0])
            plan_next(session.context, dag, positions[row.dag_id])
        if dags:
            await set_next_runs(conn, [(row.dag_id, cache.dags[row.dag_id].next_run) for row in dags])

    await for_each_dag("loading", rows, lambda row: row.dag_id, hold, held=cache.dags)
    watch_slas(session, [cache.dags[row.dag_id] for row in rows])


async def _hold_backfills(
    session: Session, conn: DatabaseConnection, partitions: Iterable[int], of: Container[str]
) -> None:
    """Hold the uncompleted backfills of these DAGs in these partitions."""
    for backfill in await load_backfills(conn, partitions):
        if backfill.dag_id in of:
            session.cache.add_backfill(backfill)


async def _readable_dags(session: Session, conn: DatabaseConnection, rows: Iterable[DagRow]) -> list[DagRow]:
    """The rows of the DAGs to hold: those whose newest version can be read, and those that are already held.

    The latter keep the version that they are held with, and get no new runs.
    """
    rows, cache, found = list(rows), session.cache, []
    readable = await _readable_versions(session, conn, {row.version_id for row in rows})
    for row in rows:
        if row.version_id in readable:
            cache.unreadable.dags.pop(row.dag_id, None)
            found.append(row)
            continue
        cache.unreadable.dags[row.dag_id] = row.version_id
        if (dag := cache.dags.get(row.dag_id)) is not None:
            found.append(dataclasses.replace(row, version_id=dag.version.id, has_import_errors=True))
    return found


async def _readable_runs(session: Session, conn: DatabaseConnection, unfinished: Iterable[Run]) -> list[Run]:
    """The runs to hold: those whose DAG and version can be read.

    All others are left alone.
    """
    runs, dags = list(unfinished), session.cache.dags
    readable = await _readable_versions(session, conn, {run.version_id for run in runs})
    found = [run for run in runs if run.dag_id in dags and run.version_id in readable]
    held = {run.key for run in found}
    leave_alone(session, [run for run in runs if run.key not in held])
    return found


async def _readable_versions(session: Session, conn: DatabaseConnection, ids: Collection[int]) -> set[int]:
    """Load these DAG versions; returns those that are held. The others are counted, each once."""
    unreadable = session.cache.unreadable.versions
    known = set(unreadable)
    readable = await readable_versions(session.cache, conn, ids)
    session.env.metrics.unreadable_rows += len(unreadable.keys() - known)
    return readable


def plan_next(context: DecisionContext, dag: OwnedDag, position: SchedulePosition) -> None:
    """Compute the DAG's next run from the position of its schedule, and put it on the calendar (13.1)."""
    try:
        dag.next_run = next_scheduled_run(dag.version.spec, position, context.clock.now())
    except DagError as error:
        logger.error("cannot be scheduled: %s", error, extra={"dag_id": dag.row.dag_id})
        dag.next_run = None
    context.cache.plan(dag)
    context.cache.work.assets.add(dag.row.partition)


def resume(
    context: DecisionContext,
    run: Run,
    instances: Iterable[Instance],
    known: Collection[AttemptKey],
    deferrals: Mapping[tuple[int, int, int], tuple[Deferred, bool]] = _NO_DEFERRALS,
    rehydration: Rehydration = NOTHING,
    elsewhere: Collection[int] = frozenset(),
    ends: Ends = _NO_ENDS,
) -> None:
    """Hold a running run that was read from its rows.

    `known` are the attempts that this process still runs or will report. `deferrals` hold the triggers that its
    instances wait for or resume from, by (run, task index, map index). Attempts of the incarnations `elsewhere` go
    on there. `ends` are those whose result is lost, and why.
    """
    board = make_board(run, *context.cache.versions[run.version_id], instances)
    resume_board(context, board, known, deferrals, rehydration, elsewhere, ends)


def resume_board(
    context: DecisionContext,
    board: Board,
    known: Collection[AttemptKey],
    deferrals: Mapping[tuple[int, int, int], tuple[Deferred, bool]],
    rehydration: Rehydration,
    elsewhere: Collection[int],
    ends: Ends,
) -> None:
    """As `resume`, with the board of the run."""
    run = board.run
    for instance in board if deferrals else ():
        if (found := deferrals.get((run.key, instance.task, instance.map_index))) is not None:
            waited, instance.holds_pool = found
            board.deferrals.recall(instance, waited)
    rehydration.apply_to(board)
    context.cache.add_board(board)
    now = context.clock.now()
    abandoned = []
    for instance in board:
        if instance.state not in _WITH_ATTEMPT:
            continue
        key = board.key(instance)
        if key not in known and settle_set_aside(context, board, ends, instance):
            continue
        if instance.state not in HOLDING_SLOT:
            continue
        if key in known:
            if (began := context.attempts.begun.get(key)) is not None:  # the row may not have it yet
                try:
                    board.apply(began, now)
                except Exception as error:
                    raise failure_of_report(error, run.dag_id, began) from error
            continue
        if instance.queued_by is not None and instance.queued_by in elsewhere:
            context.cache.elsewhere.add(instance.queued_by)
        elif instance.queued_by == context.incarnation and instance.state is TaskState.QUEUED:
            abandoned.append(instance)  # claimed in a commit that was never confirmed: it was not handed out
        else:
            board.lose(instance, now, "its scheduler ended while it ran")
            context.metrics.lost_attempts += 1
    board.resume()
    context.unsent.extend((board, instance) for instance in abandoned)


def set_paused(dag: OwnedDag, is_paused: bool) -> DagRow:
    """The DAG's row with another pause switch."""
    return dataclasses.replace(dag.row, is_paused=is_paused)


async def _load_outbox(session: Session, conn: DatabaseConnection, partitions: Collection[int]) -> None:
    """Load the undelivered requests of `partitions`, except those that run here."""
    waiting, unknown = await outbox.waiting_callbacks(conn, partitions)
    for callback, kind in unknown.items():
        session.env.metrics.count_unreadable()
        logger.error(
            "callback %d is of the kind %r, which this aiosched does not know; its row is kept for a newer one",
            callback, kind,
        )  # fmt: skip
    here = session.env.attempts.callbacks
    session.outbox.waiting.add({number: callback for number, callback in waiting.items() if number not in here})
    session.wakeups.callbacks.wake()


async def _adopt_attempts(session: Session, conn: DatabaseConnection, partitions: Iterable[int]) -> list[AttemptKey]:
    """Adopt the attempts of these partitions on engines: they go on. Call it before their reports are read.

    Those whose worker has died are lost by loops/engine_attempts.py.
    """
    attempts, engines = session.env.attempts, session.env.engines
    rows = [row for row in await attempts_of(conn, partitions) if row.key not in attempts.in_flight]
    now = session.env.clock.monotonic()
    for row in rows:
        attempts.adopt(row.key, now, None if row.begun_at is None else _start_of(row))
    engines.take_over(rows)
    if rows:
        engines.adopted_at = now
        session.wakeups.engines.wake()
        logger.info("adopted %d attempts on engines", len(rows))
    return [row.key for row in rows]


def _stop_unwanted_adopted(session: Session, adopted: Iterable[AttemptKey]) -> None:
    """Stop those that nobody waits for any more; call it when their partitions are loaded."""
    for key in adopted:
        if key in session.env.attempts.in_flight:  # not those of runs that are left alone
            stop_if_unwanted(session, key)


def _start_of(row: SentAttempt) -> Report:
    assert row.begun_at is not None
    return Report(
        key=row.key,
        outcome=Outcome.STARTED,
        at=row.begun_at,
        started_at=row.begun_at,
        hostname=row.hostname,
        pid=row.pid,
    )
