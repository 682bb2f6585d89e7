"""Requests of people in a `World`: DAGs, scripts and pools, manual runs, clearing, marking, backfills.

Each has the effect of the request with the same name (scheduler/requests/inbox.py, clearing.py,
backfills.py), and is refused like it. Nothing starts before the world's time advances. A world has no audit log: it
takes the reason of a request, and keeps it nowhere.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Collection, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from aiosched.config.sections import SchedulerSettings
from aiosched.core.creation.backfills import BackfillOutcome
from aiosched.core.creation.run_creation import check_run_type, check_schedule
from aiosched.core.graph.graph import Graph
from aiosched.core.graph.spec import DagSpec
from aiosched.core.requests.instance_changes import (
    Change,
    ChangeOf,
    InstanceChange,
    InstanceSelection,
    clear_chosen,
    marking,
    marking_run,
)
from aiosched.core.requests.job_terms import Fate, fate_of, start_of
from aiosched.core.requests.options import options_of, options_of_jobs
from aiosched.core.requests.requests import (
    BackfillCreate,
    CancelRun,
    Clear,
    EmitAsset,
    MarkRun,
    MarkTask,
    TaskChange,
    Trigger,
)
from aiosched.core.requests.selection import dates_meant, has_markers, reach, select
from aiosched.core.requests.stored import checked, decode
from aiosched.core.run.board import Run
from aiosched.core.slots.rates import parse_rate
from aiosched.core.timetables.assets import PartitionedAssetTimetable, condition_of
from aiosched.core.timetables.base import DataInterval
from aiosched.core.values.ids import partition_of
from aiosched.core.values.states import RunState, RunType
from aiosched.db.assets.assets import NewAssetEvent
from aiosched.db.statements.inbox import NewRequest
from aiosched.db.statements.journal import PoolRow
from aiosched.db.statements.runs import DagRow, StoredVersion
from aiosched.errors import DagError, DagFailure, InternalError, NotFound, Refused, did_you_mean
from aiosched.scheduler.failures.isolation import failure_of
from aiosched.scheduler.memory.cache import OwnedDag
from aiosched.scheduler.partitions.loading import plan_next, set_paused
from aiosched.scheduler.partitions.previous_run import invalidate_past
from aiosched.scheduler.runs.backfills import answer_of, creation_of, dates_of, fates_of, find_backfill
from aiosched.scheduler.runs.due_runs import requested_run
from aiosched.scheduler.runs.new_runs import Creation
from aiosched.scheduler.runs.stored_runs import Moves
from aiosched.testing.attempts.acting import Authored
from aiosched.testing.attempts.endings import Ending, Play
from aiosched.testing.checks import check_starts
from aiosched.testing.decisions import Scripts
from aiosched.testing.markers import reached_by
from aiosched.testing.rows.assets import is_mentioned
from aiosched.testing.view import WorldView
from aiosched.testing.world_memory import MemoryContext

if TYPE_CHECKING:
    from aiosched.authoring.dag.dag import DAG


class People(WorldView):
    """The half of `World` with the requests of people. See the module docstring."""

    _authored: Authored
    _scripts: Scripts
    _numbers: Iterator[int]

    # -- DAGs, scripts, pools, assets -------------------------------------------------------

    def add(self, *dags: DAG | DagSpec, paused: bool | None = None, last: DataInterval | None = None) -> None:
        """Register DAGs, or new versions of them. `last`: as if the run of this interval had been created.

        Raises DagError for a DAG whose schedule is invalid.
        """
        for dag in dags:
            spec = dag if isinstance(dag, DagSpec) else dag.to_spec(now=self.clock.now())
            check_schedule(spec)
            old = self.rows.dags.get(spec.dag_id)
            version = self._version_of(spec, old)
            if not isinstance(dag, DagSpec):
                self._authored.put(version.id, dag)
            self._scripts.learn(version.id)
            is_paused = paused if paused is not None else bool(old.is_paused if old else spec.is_paused_upon_creation)
            row = DagRow(spec.dag_id, partition_of(spec.dag_id), None, version.id, is_paused, False, False)
            self.rows.dags[spec.dag_id] = row
            if condition_of(spec.timetable) is None:
                self.rows.assets.forget(spec.dag_id)
            else:
                self.rows.assets.schedule(spec.dag_id, self.now)
                self.rows.assets.keep(spec.dag_id, partitioned=isinstance(spec.timetable, PartitionedAssetTimetable))
            if last is not None:
                self.rows.schedules.assume(spec.dag_id, last)
            if self.rows.quarantine.find(spec.dag_id) is not None:
                self.release(spec.dag_id)
            else:
                self._hold(row, version)

    def _version_of(self, spec: DagSpec, row: DagRow | None) -> StoredVersion:
        """The version of a spec: a new one if it differs from the newest."""
        versions = self.rows.versions
        if row is not None and versions[row.version_id].spec == spec:
            return versions[row.version_id]
        number = len(versions) + 1
        versions[number] = StoredVersion(number, number, spec, None)
        return versions[number]

    def remove(self, dag_id: str) -> None:
        """Remove the file of a DAG: it gets no more runs, running ones go on. `add` brings it back."""
        dag, rows = self._dag(dag_id), self.rows
        row = rows.dags[dag_id] = dataclasses.replace(dag.row, is_stale=True)
        rows.assets.unschedule(dag_id)
        self._scripts.learn(dag.version.id)
        self._hold(row, dag.version)

    def script(self, dag_id: str, task_id: str, play: Play | Ending | None = None, **words: Any) -> None:
        """Set how the attempts of a task end: by a function of the attempt, an ending, or keyword arguments.

        The keyword arguments are those of endings.Scripted. `"*"` means every task of the DAG, or every DAG. Without
        a script (or if a function returns None), operators that decide by the state of the world do so: branches,
        short circuits, clocks, triggered and awaited runs. All others succeed.
        """
        graph = self._dag(dag_id).graph if dag_id in self.rows.dags else None
        self._scripts.put(dag_id, task_id, play, graph, words)

    def pool(self, name: str, *, slots: int, include_deferred: bool = False, rate: str | None = None) -> None:
        """Create or change a pool; -1 slots are infinite. `include_deferred`: tasks that defer keep their slots.

        `rate`: at most so many starts per period, as `100/min`.
        """
        old = self.rows.pools.get(name) or PoolRow(slots, 0)
        known = None if rate is None else str(parse_rate(rate))
        self.rows.pools[name] = old._replace(slots=slots, include_deferred=include_deferred, rate=known)
        if 0 <= slots < old.used:
            self._fleet.shrunk.add(name)
        for member in self._fleet.members:
            member.context.cache.work.room_changed = True

    def release(self, dag_id: str) -> None:
        """Try a DAG that is in quarantine again now."""
        self.rows.quarantine.release(dag_id, self.now)

    def pause(self, dag_id: str) -> None:
        """Pause a DAG: nothing of it starts; running tasks go on."""
        with self._applying(dag_id):
            self._set_paused(self._dag(dag_id), True)

    def unpause(self, dag_id: str) -> None:
        """Undo `pause`."""
        with self._applying(dag_id):
            self._set_paused(self._dag(dag_id), False)

    @options_of(EmitAsset)
    def emit(self, request: EmitAsset) -> None:
        """Make an event of an asset (or of one of its partitions), without a task.

        Raises NotFound for an asset that no DAG mentions.
        """
        asset = request.name
        uri, known = is_mentioned(asset, self.rows.living_specs())
        if uri is None:
            raise NotFound(f"No DAG of the world mentions an asset {asset!r}.{did_you_mean(asset, known)}")
        event = NewAssetEvent(asset, uri, msgspec.json.encode(request.extra).decode(), None, self.now)
        event = event._replace(partition_key=request.partition_key)
        self.rows.assets.record([event], self.rows.dags.values(), self.rows.versions)
        for member in self._fleet.members:
            member.context.cache.work.assets.add(partition_of(asset))

    # -- runs -------------------------------------------------------------------------------

    @options_of_jobs(Trigger, triggered_by="test")
    def trigger(self, dag_id: str, request: Trigger) -> str:
        """Create a manual run and return its id: `manual_1` and so on unless one is given.

        Raises Refused, NotFound and ParamError as the real scheduler does.
        """
        run_id = request.run_id or f"manual_{next(self._numbers)}"
        dag = self._dag(dag_id)
        with self._applying(dag_id):
            check_run_type(dag.version.spec, RunType.MANUAL)
            creation = requested_run(
                dag,
                self.now,
                conf=dict(request.conf),
                run_id=run_id,
                logical_date=request.logical_date,
                run_after=start_of(request, self.now),
                triggered_by=request.triggered_by,
                partition_key=request.partition_key,
                unpauses=request.unpause,
                unique_key=request.unique,
                priority=request.priority,
                traceparent=request.traceparent,
                expires_at=request.expires,
            )
            if (there := self._unfinished(creation, debounced=request.debounce is not None)) is not None:
                return there
            if request.unpause and not self.rows.has_run(dag_id, run_id, creation.planned.logical_date):
                self._set_paused(dag, False)
            (run,) = self._create(dag_id, [creation])
        if run is None:
            raise Refused(f"DAG {dag_id!r} has a run {run_id!r}, or one of that logical date, already.")
        return run_id

    def _unfinished(self, creation: Creation, *, debounced: bool) -> str | None:
        """The run that is the answer to a request with a unique key (scheduler/requests/triggers.py)."""
        dag, key = creation.dag, creation.unique_key
        newest = max(
            (run for run in self.runs(dag.row.dag_id) if key is not None and run.unique_key == key),
            key=lambda run: run.key,
            default=None,
        )
        if newest is None:
            return None
        waiting = dag.runs.queued.find(newest.key)
        fate = fate_of(newest.state, is_queued=waiting is not None, debounced=debounced)
        if waiting is not None and fate is Fate.MOVE:
            row = self.rows.runs[newest.key]
            row.run_after, row.conf, row.priority, row.expires_at = creation.terms
            dag.runs.queued.move(waiting, creation.terms)
            self._context_of(dag.row.dag_id).cache.work.to_start[dag.row.dag_id] = None
        return None if fate is Fate.CREATE else newest.run_id

    @options_of(CancelRun)
    def cancel(self, dag_id: str, request: CancelRun) -> None:
        """End an unfinished run as failed, as `aiosched runs cancel` does."""
        run_id = request.run_id
        dag, context, key = self._dag(dag_id), self._context_of(dag_id), self._key(dag_id, run_id)
        with self._applying(dag_id):
            self._cancel(dag, context, run_id, key)

    def _cancel(self, dag: OwnedDag, context: MemoryContext, run_id: str, key: int) -> None:
        if any(run.key == key for run in dag.runs.queued):
            self._fail_queued(dag, [key])
            self.rows.skip_rest(key, self.now)
            invalidate_past(context, self.rows.runs[key])  # at the next pass of run creation
            context.cache.plan(dag)
            return
        board = self._board(dag.row.dag_id, run_id)
        board.cancel(self.now)
        context.apply_effects(board)
        context.cache.work.to_evaluate[board] = None

    @options_of(Clear)
    def clear(self, dag_id: str, request: Clear) -> list[dict[str, Any]]:
        """Let task instances run again: of all runs and all tasks unless some are named, as `Scheduler.clear` does.

        Without `run_ids` the runs with a logical date in [first, final] are selected. Returns the
        touched instances as they were before: run_id, task_id, map_index, state, try_number.
        """
        return self._change(self._dag(dag_id), request, partial(clear_chosen, request))

    @options_of(MarkTask)
    def mark_task(self, dag_id: str, request: MarkTask) -> list[dict[str, Any]]:
        """Set a task instance to success, failed or skipped, as `Scheduler.mark_task` does."""
        many = checked(request.of_many())
        return self._change(self._dag(dag_id), many, marking(many))

    @options_of(MarkRun)
    def mark_run(self, dag_id: str, request: MarkRun) -> None:
        """Set a run to success or failed with all that is unfinished in it, or queue it again."""
        dag, key = self._dag(dag_id), self._key(dag_id, request.run_id)
        state = RunState(checked(request).state)
        with self._applying(dag_id):
            self._carry_out(dag, [key], marking_run(state, request.run_id, is_running=key in dag.runs.running))

    # -- backfills --------------------------------------------------------------------------

    @options_of_jobs(BackfillCreate)
    def backfill(self, dag_id: str, request: BackfillCreate) -> dict[str, Any]:
        """Create the runs of past dates, both inclusive; as `Scheduler.backfill` does."""
        dag = self._dag(dag_id)
        with self._applying(dag_id):
            return self._backfill(dag, checked(request))

    def _backfill(self, dag: OwnedDag, request: BackfillCreate) -> dict[str, Any]:
        dag_id, rows = dag.row.dag_id, self.rows
        planned = list(dates_of(dag.version.spec, request, self.now, most=SchedulerSettings().max_backfill_runs))
        there = {run.logical_date: run for run in self.runs(dag_id) if run.logical_date is not None}
        dates = fates_of(dag.version.spec, request, planned, {date: run.state for date, run in there.items()})
        if request.dry_run:
            return answer_of(dag.version.spec, request, dates, None, self.now)
        number = rows.backfills.insert(dag_id, request.max_active_runs)
        backfill = next(row for row in rows.backfills.unfinished() if row.id == number)
        self._context_of(dag_id).cache.add_backfill(backfill)
        self._create(
            dag_id,
            [creation_of(dag, date, number, request.conf) for date in dates if date.fate is BackfillOutcome.CREATE],
        )
        again = [(there[d.run.logical_date].key, d.order or 0) for d in dates if d.fate is BackfillOutcome.RERUN]
        rows.take_runs(number, again, dict(request.conf))
        self._carry_out(dag, [key for key, _ in again], lambda board, at: board.clear(list(board), at))
        return answer_of(dag.version.spec, request, dates, number, self.now)

    def pause_backfill(self, number: int, *, paused: bool = True) -> None:
        """Start no more runs of a backfill; running ones go on. `paused` False: undo it."""
        dag = self._dag_of_backfill(number)
        self.rows.backfills.rows[number].is_paused = paused
        find_backfill(dag, number).is_paused = paused
        self._context_of(dag.row.dag_id).cache.work.to_start[dag.row.dag_id] = None

    def resume_backfill(self, number: int) -> None:
        """Undo `pause_backfill`."""
        self.pause_backfill(number, paused=False)

    def cancel_backfill(self, number: int) -> int:
        """Fail the queued runs of a backfill, let running ones go on; returns how many have failed."""
        dag = self._dag_of_backfill(number)
        find_backfill(dag, number)
        failed = self._fail_queued(dag, [run.key for run in dag.runs.queued if run.backfill_id == number])
        self.rows.backfills.rows[number].is_paused = True
        self.rows.backfills.completed[number] = self.now
        del dag.runs.backfills[number]
        return len(failed)

    # -- helpers ----------------------------------------------------------------------------

    @contextlib.contextmanager
    def _applying(self, dag_id: str) -> Iterator[None]:
        """Apply a request about a DAG.

        An unforeseen error is a bug: everything is read again, since it is not known how far the request got. One that
        concerns a DAG puts it into quarantine.
        """
        owner = self._fleet.owner_of(dag_id)
        try:
            yield
        except (Refused, NotFound, DagError):
            raise
        except (DagFailure, ExceptionGroup) as error:
            owner.put_into_quarantine(error)
            raise Refused(str(self.rows.quarantine.find(dag_id))) from error
        except Exception as error:
            owner.renew(owner.context.cache.unstored.storing)
            raise InternalError(f"The request hit a bug in the scheduler ({error!r}). Please report it.") from error

    def _hold(self, row: DagRow, version: StoredVersion) -> None:
        """The owner hears of a DAG's change. An unforeseen error puts the DAG into quarantine."""
        owner = self._fleet.owner_of(row.dag_id)
        try:
            dag = owner.context.cache.put_dag(row, version)
            plan_next(owner.context, dag, self.rows.schedule_position(version.spec))
        except Exception as error:
            owner.put_into_quarantine(failure_of(error, row.dag_id, "loading"))

    def _set_paused(self, dag: OwnedDag, is_paused: bool) -> None:
        if dag.row.is_paused != is_paused:
            row = self.rows.dags[dag.row.dag_id] = set_paused(dag, is_paused)
            context = self._context_of(dag.row.dag_id)
            context.cache.put_dag(row, dag.version)
            plan_next(context, dag, self.rows.schedule_position(dag.version.spec))

    def _create(self, dag_id: str, creations: Sequence[Creation]) -> list[Run | None]:
        context = self._context_of(dag_id)
        created = context.create(creations)
        if self._fleet.checked:
            check_starts(context)
        self._decisions.created([run for run in created if run is not None], self.now)
        return created

    def _fail_queued(self, dag: OwnedDag, keys: Collection[int]) -> list[int]:
        failed = self.rows.fail_queued(keys, self.now)
        for run in [run for run in dag.runs.queued if run.key in failed]:
            dag.runs.queued.remove(run)
        return failed

    def _runs_meant(self, dag: OwnedDag, request: TaskChange) -> list[Run]:
        dag_id = dag.row.dag_id
        named = [self.run(dag_id, run_id) for run_id in dict.fromkeys(request.run_ids or ())]
        dates = reach([(run.run_id, run.logical_date) for run in named], request)
        if dates is None and request.run_ids is not None:
            return named
        dates = dates or dates_meant(request, dag.version.spec.timezone)
        return [run for run in self.runs(dag_id) if dates is None or dates.have(run.logical_date)]

    def _change(self, dag: OwnedDag, request: TaskChange, change: ChangeOf) -> list[dict[str, Any]]:
        with self._applying(dag.row.dag_id):
            return self._touch(dag, request, change)

    def _touch(self, dag: OwnedDag, request: TaskChange, change: ChangeOf) -> list[dict[str, Any]]:
        runs = self._runs_meant(dag, request)
        versions = {run.version_id for run in runs} | {dag.version.id}
        known = self._context_of(dag.row.dag_id).cache.versions
        selection = select({v: known[v][1] for v in versions}, dag.version.id, request)
        changing = InstanceChange(selection, request, change)
        changing.refuse([dag.runs.running[run.key] for run in runs if run.key in dag.runs.running])
        reached = self._reached(dag.row.dag_id, runs, selection, request)
        if request.dry_run:
            for run in runs:
                changing.moves(run, self.rows.load_instances(run.key))
            return changing.touched.instances
        moves = changing.moves if request.newest_version else None
        self._carry_out(dag, [run.key for run in runs], changing.apply, moves)
        for other in reached:
            following = decode(other.verb, other.args)
            assert isinstance(following, Clear)
            self._change(self._dag(other.dag_id), following, partial(clear_chosen, following))
        return changing.touched.instances

    def _reached(
        self, dag_id: str, runs: Sequence[Run], selection: InstanceSelection, request: TaskChange
    ) -> list[NewRequest]:
        """The requests to other DAGs that follow from a request to clear."""
        if not isinstance(request, Clear) or not request.dependents or not has_markers(selection):
            return []

        def graphs_of(other: str) -> dict[int, Graph]:
            return {key: graph for key, (_, graph) in self._context_of(other).cache.versions.items()}

        return reached_by(self.rows, dag_id, runs, selection, request, graphs_of).requests(request, number=0)

    def _carry_out(self, dag: OwnedDag, keys: Sequence[int], change: Change, moves: Moves | None = None) -> None:
        owner = self._fleet.owner_of(dag.row.dag_id)
        if any(board.run.key in keys for board in owner.context.cache.unstored.pending.effects.finished):
            owner.store()  # the end of a run is not stored yet
            dag = self._dag(dag.row.dag_id)
        batch = owner.context.change(dag, keys, change, moves)
        self._decisions.committed(batch, self.rows, owner.context.cache, self.now)

    def _dag_of_backfill(self, number: int) -> OwnedDag:
        if (row := self.rows.backfills.rows.get(number)) is None:
            raise NotFound(f"The world has no backfill {number}.")
        return self._dag(row.dag_id)
