"""What one scheduler holds in memory: DAGs, boards of unfinished runs, waiting tasks, due times.

It is only a cache of the rows of the owned partitions: it may be dropped at any time and
read again (loading.py). All changes happen synchronously on the event loop, so the state is
consistent whenever a coroutine awaits. Does not live here: decisions (core), SQL (db), the
loops that carry out decisions (run_creation, evaluation, enqueueing).
"""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from aiosched.core.assets.conditions import AssetExpression
from aiosched.core.creation.run_creation import active_runs_limit
from aiosched.core.creation.run_keys import KeyRoom
from aiosched.core.graph.graph import Graph
from aiosched.core.graph.instances import RowEffects, held_pool, holds_pool
from aiosched.core.graph.spec import TaskSpec
from aiosched.core.run.board import INTENTIONS, Board, Instance, Run
from aiosched.core.run.repeats import Repeats
from aiosched.core.slots.allocation import Candidate, DagRoom, TaskRoom
from aiosched.core.slots.waiting import WaitingQueue
from aiosched.core.timetables.assets import condition_of
from aiosched.core.timetables.base import NextRun
from aiosched.core.values.instants import just_after, later
from aiosched.core.values.messages import AttemptKey
from aiosched.core.values.states import ACTIVE_FOR_TASK_LIMITS, HOLDING_SLOT, RunState
from aiosched.db.statements.backfills import Backfill
from aiosched.db.statements.journal import InstanceChange, run_change, xcom_row
from aiosched.db.statements.outbox import NewCallback
from aiosched.db.statements.positions import LostSpanRow
from aiosched.db.statements.runs import DagRow, StoredVersion
from aiosched.db.statements.triggers import deferral_row
from aiosched.errors import DagFailure, InvalidTransition, StaleRows
from aiosched.scheduler.concurrency.wakeup import Timers
from aiosched.scheduler.failures.quarantine import Quarantine
from aiosched.scheduler.memory.changes import Changes
from aiosched.scheduler.memory.dag_runs import DagRuns
from aiosched.scheduler.memory.deadline_rows import moved_deadlines
from aiosched.scheduler.memory.previous_run_index import PreviousRunIndex
from aiosched.scheduler.memory.unstored import Unstored, rows_to_store
from aiosched.scheduler.memory.versions import Unreadable, renew_code, run_info, set_team
from aiosched.scheduler.memory.worklists import Worklists

Versions = dict[int, tuple[StoredVersion, Graph]]  # by the version's key


@dataclass(slots=True, eq=False)
class OwnedDag:
    """A DAG whose partition is owned. Runs keep the version that they were created with."""

    row: DagRow
    version: StoredVersion  # the newest one
    graph: Graph
    room: DagRoom
    next_run: NextRun | None = None  # provisional: it is computed again once there is room for it
    on_calendar: datetime | None = None  # the instant of its entry among the due runs
    runs: DagRuns = field(default_factory=DagRuns)  # those that have not ended
    held_back: dict[Instance, Board] = field(default_factory=dict)  # ready, but the DAG is paused
    has_lookback: bool = False  # it has had runs with tasks that depend on the previous run

    @property
    def creates_runs(self) -> bool:
        """Whether the schedule may create runs now, apart from limits."""
        return not (self.row.is_paused or self.row.is_stale or self.row.has_import_errors)

    def run_limits(self) -> dict[int | None, int]:
        """How many runs may run, by backfill (None: no backfill). For completed backfills the DAG's limit applies."""
        limit = active_runs_limit(self.version.spec)
        limits: dict[int | None, int] = dict.fromkeys(self.runs.queued.groups(), limit)
        open_ones = self.runs.backfills.values()
        return limits | {None: limit} | {backfill.id: backfill.max_active_runs for backfill in open_ones}

    def key_room(self) -> KeyRoom | None:
        """How many more runs may start for each key in their conf; None: that is not limited."""
        spec = self.version.spec.run_key
        return None if spec is None else KeyRoom(spec, (run.conf for run in self.runs.under_way()))

    @property
    def asset_condition(self) -> AssetExpression | None:
        """The condition under which asset events create runs; None: it is not scheduled on assets."""
        return condition_of(self.version.spec.timetable)


class StateCache:
    """See the module docstring."""

    def __init__(self) -> None:
        self.partitions: set[int] = set()
        self.dags: dict[str, OwnedDag] = {}
        self.versions: Versions = {}
        self.unreadable: Unreadable = Unreadable()
        self.quarantine: Quarantine = Quarantine()
        self.boards: dict[int, Board] = {}
        self.waiting: WaitingQueue = WaitingQueue()
        self.timers: Timers[tuple[int, Instance | None]] = Timers()  # (run, instance; None: the run's timeout)
        self.previous_run_index: PreviousRunIndex = PreviousRunIndex()
        self.elsewhere: set[int] = set()  # other incarnations that run, or ran, attempts of ours
        self.work: Worklists = Worklists()
        self.unstored: Unstored = Unstored()
        self.lost_spans: Sequence[LostSpanRow] = ()  # of which tries may repeat
        self.stored_rows: Counter[int] = Counter[int]()  # of task instances, by partition, since loads were measured

    def graph_of(self, version: StoredVersion) -> Graph:
        """The compiled graph of a version, cached."""
        found = self.versions.get(version.id)
        if found is None:
            found = self.versions[version.id] = (version, Graph(version.spec))
        return found[1]

    # -- boards -----------------------------------------------------------------------------

    def add_board(self, board: Board) -> None:
        """Hold a running run."""
        dag = self.dags[board.run.dag_id]
        board.is_paused = dag.row.is_paused
        self.boards[board.run.key] = board
        dag.runs.run(board)
        if board.run.version_id != dag.version.id:
            renew_code(board, dag.version)
        set_team(board, dag.row.team)
        if board.graph.lookback is not None:
            dag.has_lookback = True
            self.work.to_find_previous[board.run.dag_id] = None
            self.work.to_evaluate.update(dict.fromkeys(self.previous_run_index.notify_followers(board)))
        for span in self.lost_spans:
            if board.run.run_after <= span.lost_to:
                board.repeats = Repeats(span.noticed_at)
                for instance in board:
                    board.repeats.recall(instance)
                break
        timeout = board.graph.spec.dagrun_timeout
        if timeout is not None and board.run.start_date is not None:
            self.timers.add(just_after(later(board.run.start_date, timeout)), (board.run.key, None))
        for instance in board if board.upstream_counts.alive else ():
            task_room = dag.room.tasks.get(board.graph.task_ids[instance.task])
            if instance.state in HOLDING_SLOT:
                dag.room.occupy(board.run.key, task_room)
            elif task_room is not None and instance.state in ACTIVE_FOR_TASK_LIMITS:
                task_room.occupy(board.run.key)
        self.work.to_evaluate[board] = None

    def apply_effects(self, board: Board) -> None:
        """Apply the effects of a board's decisions, except those to be stored."""
        effects, slots = board.effects, board.effects.slots
        key = board.run.key
        dag = self.dags[board.run.dag_id]
        if slots.released or slots.inactive:
            for _ in slots.released:
                dag.room.vacate(key)
            for instance in slots.inactive:
                if (task_room := dag.room.tasks.get(board.graph.task_ids[instance.task])) is not None:
                    task_room.vacate(key)
            self.waiting.release(dag.room)
            self.work.room_changed = True
            slots.released.clear()
            slots.inactive.clear()
        if slots.withdrawn:
            for instance in slots.withdrawn:
                self.waiting.discard(board.key(instance))
                dag.held_back.pop(instance, None)
            slots.withdrawn.clear()
        if slots.ready:
            for instance in slots.ready:
                self._line_up(dag, board, instance)
            slots.ready.clear()
        if slots.timers:
            for at, instance in slots.timers:
                self.timers.add(at, (key, instance))
            slots.timers.clear()
        if effects.cancelled:
            pending = self.unstored.pending
            pending.effects.cancelled.extend(effects.cancelled)
            effects.cancelled.clear()
        if effects.rows or effects.triggers:
            self.unstored.dirty[board] = None
        if dag.has_lookback and (notified := self.previous_run_index.notify_followers(board)):
            self.work.to_evaluate.update(dict.fromkeys(notified))
        if board.finished and key in self.boards:
            self.previous_run_index.forget(board)
            del self.boards[key], dag.runs.running[key]
            dag.runs.ending[key] = board
            self.unstored.end(board)
        elif dag.runs.queued and board.stands_still:
            self.work.to_start[dag.row.dag_id] = None  # the run that it waits for may be a queued one

    def release_run(self, board: Board) -> None:
        """The end of a run is stored: its place is free for another."""
        self.timers.prune(lambda timer: timer[0] in self.boards)  # a run's timeout can be days away
        dag = self.dags.get(board.run.dag_id)
        if dag is not None and dag.runs.ending.pop(board.run.key, None) is not None:
            if dag.runs.queued or dag.runs.backfills:
                self.work.to_start[dag.row.dag_id] = None
            self.plan(dag)

    def _line_up(self, dag: OwnedDag, board: Board, instance: Instance) -> None:
        if dag.row.is_paused:
            dag.held_back[instance] = board
            return
        self.waiting.add(candidate_of(board, instance, dag.room))
        self.work.room_changed = True

    def find(self, key: AttemptKey) -> tuple[Board, Instance] | None:
        """The board and the instance of an attempt; None when its run is not held."""
        board = self.boards.get(key.run)
        instance = None if board is None else board.find(key.task_index, key.map_index)
        return None if board is None or instance is None else (board, instance)

    def get(self, key: AttemptKey) -> tuple[Board, Instance]:
        """As `find`, for an attempt whose run must be held."""
        if (found := self.find(key)) is None:
            raise InvalidTransition(f"{key} waits for a slot, but its run is not held")
        return found

    def slots_given_back(self, include_deferred: Collection[str] = ()) -> dict[str, int]:
        """The pool slots that the next transaction gives back, by pool.

        `include_deferred` are the pools in which deferred tasks keep their slots.
        """
        freed: dict[str, int] = {}
        for board in self.unstored.dirty:
            try:
                for instance in board.effects.rows.changed:
                    pool = board.graph.tasks[instance.task].pool
                    if held_pool(instance) and not holds_pool(instance, pool, include_deferred):
                        freed[pool] = freed.get(pool, 0) + board.graph.tasks[instance.task].pool_slots
            except Exception as error:
                raise DagFailure(board.run.dag_id, "counting the slots that it gives back") from error
        return freed

    def collect(self, include_deferred: Collection[str] = ()) -> Changes:
        """Everything that waits to be stored, as one batch, which then counts as sent.

        `include_deferred` as for `slots_given_back`. Raises StaleRows if a decision was cut off by an error.
        """
        if self.unstored.is_void:
            raise StaleRows("A decision was cut off by an error: what it has left in memory is not stored")
        batch, self.unstored.pending = self.unstored.pending, Changes()
        for board in self.unstored.dirty:
            try:
                self.collect_board(board, batch, include_deferred)
            except Exception as error:
                self.unstored.storing = batch  # its reports are applied again in the next session
                raise DagFailure(board.run.dag_id, "collecting the changes") from error
        self.unstored.dirty = {board: None for board in self.unstored.dirty if board.effects.rows.later}
        self.unstored.storing = batch
        return batch

    def collect_board(self, board: Board, batch: Changes, include_deferred: Collection[str] = ()) -> None:
        """Add what one board has to store to `batch`."""
        rows, run = board.effects.rows, board.run
        key, tasks, stored, deltas = run.key, board.graph.tasks, batch.tasks, batch.pools.deltas
        for i in rows.created:
            stored.created.append((key, i.task, i.map_index, i.max_tries))
        for i in rows.expanded:
            stored.expanded.append((key, i.task))
        for i in rows.collapsed:
            stored.collapsed.append((key, i.task))
            stored.forget_xcoms.append((key, i.task, 0))
        changed = rows_to_store(rows)
        if changed:
            self.stored_rows[self.dags[run.dag_id].row.partition] += len(changed)
        for i in changed:
            task, old, new = tasks[i.task], i.stored_state, i.state
            held, holds = held_pool(i), holds_pool(i, task.pool, include_deferred)
            i.holds_pool = holds
            if held != holds:
                step = task.pool_slots if holds else -task.pool_slots
                deltas[task.pool] = deltas.get(task.pool, 0) + step
            reason = i.reason
            if new == "scheduled" and reason is None:
                reason = self.waiting.reason(board.key(i))
            stored.instances.append(
                InstanceChange(
                    key, i.task, i.map_index, old.stored, i.stored_try, new.stored, i.try_number, i.max_tries,
                    i.losses, i.queued_by, i.scheduled_at, i.queued_at, i.start_date, i.end_date, i.next_at, reason,
                    i.is_stopped,
                )
            )  # fmt: skip
            i.stored_state, i.stored_try = new, i.try_number
        stored.tries += rows.tries
        stored.sources += rows.sources
        stored.rendered += rows.rendered
        stored.labels += rows.labels
        for i, value in rows.xcoms:
            stored.xcoms.append(xcom_row(key, i.task, i.map_index, value))
        for i in rows.forget_xcoms:
            stored.forget_xcoms.append((key, i.task, i.map_index))
        for i in rows.deferrals:
            if (waited := board.deferrals.get(i)) is None:
                stored.undeferred.append((key, i.task, i.map_index))
            else:
                stored.deferrals.append(deferral_row(key, i, waited))
        for i in board.effects.triggers:
            batch.effects.triggers.append((board, i))
            if (at := board.deferrals.timer_of(i)) is not None:
                self.timers.add(at, (key, i))
        board.effects.triggers.clear()
        for kind, why, task_index, map_index, try_number in rows.callbacks:
            place = (self.dags[run.dag_id].row.partition, kind, run.dag_id, key)
            task_id = None if task_index is None else board.graph.task_ids[task_index]
            batch.messages.callbacks.append(NewCallback(*place, task_id, map_index, try_number, reason=why))
        if rows.run_changed:
            self._collect_run(board, batch)
            batch.runs.changed.append(run_change(run))
            run.stored_state = run.state
        board.effects.rows = RowEffects(later=rows.later)

    def _collect_run(self, board: Board, batch: Changes) -> None:
        """Add what a run's change means for its deadlines (23.5) and for the limit of consecutive failures (9.3)."""
        run, row = board.run, self.dags[board.run.dag_id].row
        limit = self.dags[run.dag_id].version.spec.max_consecutive_failed_dag_runs
        batch.runs.deadlines += moved_deadlines(run, board.graph.spec, row.partition)
        if run.stored_state is not RunState.RUNNING:
            return
        if run.state is RunState.SUCCESS and run.end_date is not None and board.graph.spec.deadlines:
            batch.runs.kept_deadlines.append((run.key, run.end_date))
        if run.state is RunState.FAILED and run.reason not in INTENTIONS and limit > 0:
            batch.runs.failing[run.dag_id] = limit

    # -- DAGs -------------------------------------------------------------------------------

    def add_backfill(self, backfill: Backfill) -> None:
        """Hold a backfill that is not completed; its DAG must be held."""
        self.dags[backfill.dag_id].runs.backfills[backfill.id] = backfill
        self.work.backfilled[backfill.dag_id] = self.work.to_start[backfill.dag_id] = None

    def pause(self, dag_id: str) -> None:
        """The DAG was paused in the database: start nothing more of it."""
        if (dag := self.dags.get(dag_id)) is not None:
            self.put_dag(dataclasses.replace(dag.row, is_paused=True), dag.version)

    def put_dag(self, row: DagRow, version: StoredVersion) -> OwnedDag:
        """Hold a DAG or its new version. Limits apply at once, to existing runs, too."""
        graph = self.graph_of(version)
        dag = self.dags.get(row.dag_id)
        if dag is None:
            room = DagRoom(row.dag_id, version.spec.max_active_tasks)
            dag = self.dags[row.dag_id] = OwnedDag(row, version, graph, room)
        was_paused = dag.row.is_paused
        if dag.version.id != version.id:
            for board in dag.runs.running.values():
                renew_code(board, version)
            if dag.next_run is not None:
                self.work.upcoming.add(dag.next_run.run_after, row.dag_id)
        has_moved = dag.room.team != row.team
        for board in dag.runs.running.values() if has_moved else ():
            set_team(board, row.team)
        dag.row, dag.version, dag.graph, dag.room.team = row, version, graph, row.team
        self._apply_limits(dag, regroup=has_moved)
        if dag.runs.queued:
            self.work.to_start[row.dag_id] = None
        if was_paused and not row.is_paused:
            self._release_held_back(dag)
        elif row.is_paused and not was_paused:
            self._hold_back(dag)
        return dag

    def _apply_limits(self, dag: OwnedDag, *, regroup: bool) -> None:
        spec, room = dag.version.spec, dag.room
        limited = {task.task_id: task for task in spec.tasks if _has_limits(task)}
        regroup |= room.per_run != spec.max_active_tasks_per_run or limited.keys() != room.tasks.keys()
        room.limit, room.per_run = spec.max_active_tasks, spec.max_active_tasks_per_run
        for task_id in room.tasks.keys() - limited.keys():
            del room.tasks[task_id]
        for task_id, task in limited.items():
            task_room = room.tasks.setdefault(task_id, TaskRoom(task_id))
            regroup |= task_room.per_run != task.max_active_tis_per_dagrun
            task_room.per_dag, task_room.per_run = task.max_active_tis_per_dag, task.max_active_tis_per_dagrun
        if regroup:
            self._regroup(dag)
        self.waiting.release(room)
        self.work.room_changed = True

    def _regroup(self, dag: OwnedDag) -> None:
        """Recount the active instances of tasks with limits of their own, and let what waits line up again."""
        for task_room in dag.room.tasks.values():
            task_room.active = 0
            task_room.by_run.clear()
        for board in dag.runs.running.values():
            for instance in board:
                task_room_of = dag.room.tasks.get(board.graph.task_ids[instance.task])
                if task_room_of is not None and instance.state in ACTIVE_FOR_TASK_LIMITS:
                    task_room_of.occupy(board.run.key)
                if self.waiting.discard(board.key(instance)):
                    self._line_up(dag, board, instance)

    def _release_held_back(self, dag: OwnedDag) -> None:
        """The DAG is no longer paused: held-back instances are queued for slots, and timeouts apply again."""
        held, dag.held_back = dag.held_back, {}
        for instance, board in held.items():
            self._line_up(dag, board, instance)
        for board in dag.runs.running.values():
            board.unpause()
            self.work.to_evaluate[board] = None
            if board.graph.spec.dagrun_timeout is not None and board.run.start_date is not None:
                at = just_after(later(board.run.start_date, board.graph.spec.dagrun_timeout))
                self.timers.add(at, (board.run.key, None))
        self.plan(dag)

    def _hold_back(self, dag: OwnedDag) -> None:
        for board in dag.runs.running.values():
            board.pause()
            for instance in board:
                if self.waiting.discard(board.key(instance)):
                    dag.held_back[instance] = board

    def plan(self, dag: OwnedDag) -> None:
        """Put the DAG's next run on the calendar, and have its queued asset events checked."""
        if dag.next_run is not None and dag.creates_runs and dag.on_calendar != dag.next_run.run_after:
            dag.on_calendar = dag.next_run.run_after
            self.work.due_runs.add(dag.next_run.run_after, dag.row.dag_id)
            self.work.upcoming.add(dag.next_run.run_after, dag.row.dag_id)
        if dag.asset_condition is not None:
            self.work.assets.add(dag.row.partition)

    def drop_dag(self, dag_id: str) -> None:
        """Forget a DAG and its runs."""
        if (dag := self.dags.pop(dag_id, None)) is None:
            return
        for board in dag.runs.running.values():
            self.boards.pop(board.run.key, None)
            self.previous_run_index.forget(board)
            self.work.to_evaluate.pop(board, None)
            self.unstored.dirty.pop(board, None)
            for instance in board:
                self.waiting.discard(board.key(instance))

    # -- queries ----------------------------------------------------------------------------

    def unfinished_runs(self) -> int:
        """Runs that are held and not finished, queued ones included."""
        return len(self.boards) + sum(len(dag.runs.queued) + len(dag.runs.starting) for dag in self.dags.values())

    def next_due(self) -> datetime | None:
        """When the earliest next run is due, of the DAGs that may create it."""
        runs = [d.next_run.run_after for d in self.dags.values() if d.next_run is not None and d.creates_runs]
        return min(runs, default=None)


def make_board(run: Run, version: StoredVersion, graph: Graph, instances: Iterable[Instance]) -> Board:
    """A board for a run that is about to run. Set the run's start date first: its attempts get it."""
    return Board(graph, run, instances, info=run_info(run, version))


def candidate_of(board: Board, instance: Instance, room: DagRoom) -> Candidate:
    """The allocation candidate for a ready instance: what it needs, and its precedence."""
    task = board.graph.tasks[instance.task]
    logical = board.run.logical_date
    return Candidate(
        board.key(instance),
        room,
        pool=task.pool,
        pool_slots=task.pool_slots,
        weight=board.weight(instance),
        logical_at=math.inf if logical is None else logical.timestamp(),
        is_async=task.is_async,
        executor=task.executor,
        task=room.tasks.get(task.task_id),
        defers=board.begins_deferred(instance),
    )


def _has_limits(task: TaskSpec) -> bool:
    return task.max_active_tis_per_dag is not None or task.max_active_tis_per_dagrun is not None
