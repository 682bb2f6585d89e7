"""The rows that a database would hold, in memory and changed under the same guards.

The counterpart of the statements in db/statements/journal.py and db/statements/runs.py: a batch is applied as a
whole or not at all; a row that is not as expected voids it (StaleRows). Nothing here
shares an object with the scheduler's memory, so that `World.restart` really reads the rows back.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any, Final, get_type_hints

import msgspec

from aiosched.core.creation.moving import VersionMove
from aiosched.core.creation.next_run import SchedulePosition
from aiosched.core.graph.previous_run import EarlierRuns, StoredRun, previous_types
from aiosched.core.graph.spec import DEFAULT_POOL, DagSpec
from aiosched.core.run.board import SKIPPED_DOWNSTREAM, Board, FinishedTry, Instance, Run
from aiosched.core.values.messages import RETURN_VALUE, AttemptKey
from aiosched.core.values.states import HOLDING_SLOT, RUN_FINISHED, RunState, RunType, TaskState
from aiosched.core.values.typed_json import json_length
from aiosched.db.statements.journal import InstanceChange, PoolRow, RunChange
from aiosched.db.statements.outbox import NewCallback
from aiosched.db.statements.runs import DagRow, NewRun, StoredVersion
from aiosched.db.statements.triggers import DeferralRow
from aiosched.errors import StaleRows
from aiosched.scheduler.memory.changes import Changes, Committed, SideEffects
from aiosched.scheduler.partitions.run_rehydration import Rehydration
from aiosched.testing.attempts.endings import FOR_EVER, WORLDS_TRIGGER
from aiosched.testing.rows.assets import AssetQueues
from aiosched.testing.rows.backfills import Backfills
from aiosched.testing.rows.deadlines import Deadlines
from aiosched.testing.rows.quarantine import QuarantineRows
from aiosched.testing.rows.schedules import Schedules

Place = tuple[int, int]  # task index and map index, within a run

_NO_ROWS: Final[Mapping[Place, InstanceChange]] = MappingProxyType({})
_OF_INSTANCE: Final = tuple(
    name for name in Instance.__struct_fields__ if name in InstanceChange._fields and name != "state"
)
_STORED: Final = frozenset(
    {
        "instances", "expanded", "collapsed", "created", "tries", "xcoms", "forget_xcoms", "deferrals", "undeferred",
        "changed", "deadlines", "kept_deadlines", "failing", "deltas", "demands", "starts",
        "callbacks", "asset_events", "answers",
    }
)  # fmt: skip
_FOREIGN: Final = tuple(
    (group, name)
    for group, kind in get_type_hints(Changes).items()
    if kind is not SideEffects
    for name in kind.__struct_fields__
    if name not in _STORED
)


@dataclass(slots=True)
class Rows:
    """See the module docstring. `keep_finished` False: task instances of finished runs are deleted."""

    keep_finished: bool = True
    dags: dict[str, DagRow] = field(default_factory=dict)
    versions: dict[int, StoredVersion] = field(default_factory=dict)
    runs: dict[int, Run] = field(default_factory=dict)
    instances: dict[int, dict[Place, InstanceChange]] = field(default_factory=dict)  # the newest of each, by run
    pools: dict[str, PoolRow | None] = field(default_factory=lambda: {DEFAULT_POOL: PoolRow(128, 0)})
    tries: dict[AttemptKey, FinishedTry] = field(default_factory=dict)
    failures: Counter[tuple[int, int, int]] = field(default_factory=Counter)  # failed tries of (run, task, map index)
    xcoms: dict[tuple[int, int, int, str], str] = field(default_factory=dict)
    deferrals: dict[tuple[int, int, int], DeferralRow] = field(default_factory=dict)
    callbacks: list[NewCallback] = field(default_factory=list)
    assets: AssetQueues = field(default_factory=AssetQueues)
    backfills: Backfills = field(default_factory=Backfills)
    deadlines: Deadlines = field(default_factory=Deadlines)
    quarantine: QuarantineRows = field(default_factory=QuarantineRows)
    keys: dict[tuple[str, str], int] = field(default_factory=dict)  # of runs, by DAG id and run id
    of_dag: dict[str, list[int]] = field(default_factory=dict)  # the same by DAG id, in order
    schedules: Schedules = field(default_factory=Schedules)
    _unfinished: dict[int, None] = field(default_factory=dict)
    _number: int = 0

    # -- runs -------------------------------------------------------------------------------

    def insert_run(self, new: NewRun, places: Iterable[tuple[int, int, int]]) -> int | None:
        """Insert a run with task instances at these `new_places`; None if its run id or logical date exists."""
        run = new.run
        if self.has_run(run.dag_id, run.run_id, run.logical_date):
            return None
        self._number += 1
        key = self.keys[run.dag_id, run.run_id] = self._number
        self.of_dag.setdefault(run.dag_id, []).append(key)
        self.schedules.add(new, key)
        conf = msgspec.json.decode(msgspec.json.encode(run.conf))
        self.runs[key] = dataclasses.replace(run, key=key, conf=conf, is_incomplete=False)
        self.instances[key] = {(task, index): _new_row(key, task, index, tries) for task, index, tries in places}
        self._unfinished[key] = None
        return key

    def has_run(self, dag_id: str, run_id: str, logical_date: datetime | None) -> bool:
        """Whether a run with this id or this logical date exists."""
        return (dag_id, run_id) in self.keys or self.schedules.has_run_at(dag_id, logical_date)

    def schedule_position(self, spec: DagSpec) -> SchedulePosition:
        """The position of the DAG's schedule, as db/statements/schedules.py reads it."""
        return self.schedules.position(spec, self.runs)

    def take_runs(self, backfill: int, runs: Iterable[tuple[int, int]], conf: dict[str, Any]) -> None:
        """Make existing runs (key, order number) part of a backfill."""
        for key, order in runs:
            run = self.runs[key]
            run.run_type, run.backfill_id, run.backfill_order = RunType.BACKFILL, backfill, order
            run.conf = conf or run.conf

    def fail_queued(self, keys: Iterable[int], now: datetime, reason: str = "cancelled") -> list[int]:
        """Fail those of the runs that are queued, for this reason; their task instances do not change (29.1)."""
        failed = [key for key in keys if self.runs[key].state is RunState.QUEUED]
        for key in failed:
            run = self.runs[key]
            run.state, run.end_date, run.reason = RunState.FAILED, now, reason
            self._unfinished.pop(key)
        return failed

    def skip_rest(self, run: int, now: datetime) -> None:
        """Skip the instances of a cancelled run that have no state, as `fail_queued_run` of db/statements/runs.py."""
        rows = self.instances[run]
        why = "the run expired" if self.runs[run].reason == "expired" else "the run was cancelled"
        for place, row in rows.items():
            if row.state is None:
                skipped = row._replace(state=TaskState.SKIPPED.stored, start_date=now, end_date=now, reason=why)
                rows[place] = skipped._replace(is_stopped=True)

    def move_run(self, key: int, version: int, move: VersionMove, added: Iterable[Instance]) -> None:
        """Pin a run to another version: rows, tries and XComs follow their tasks, or are deleted with them."""
        gone, to = set(move.gone), move.moved
        self.instances[key] = {
            (to.get(task, task), index): row._replace(task_index=to.get(task, task))
            for (task, index), row in self.instances[key].items()
            if task not in gone
        } | {(new.task, new.map_index): _new_row(key, new.task, new.map_index, new.max_tries) for new in added}
        self.xcoms = {place: value for old, value in self.xcoms.items() if (place := _moved(old, key, move))}
        self.tries = {AttemptKey(*place): t for old, t in self.tries.items() if (place := _moved(old, key, move))}
        self.failures = Counter({place: n for old, n in self.failures.items() if (place := _moved(old, key, move))})
        self.runs[key].version_id = version

    def average_runtime(self, dag_id: str, *, max_runs: int, min_runs: int) -> timedelta | None:
        """The mean duration of the DAG's latest finished runs, as in db/statements/deadlines.py; None: too few."""
        runs = [self.runs[key] for key in self.of_dag.get(dag_id, ())]
        ended = [
            (run.logical_date, run.end_date - run.start_date)
            for run in runs
            if run.state in RUN_FINISHED and run.logical_date and run.start_date and run.end_date
        ]
        latest = [taken for _, taken in sorted(ended, reverse=True)[:max_runs]]
        return sum(latest, timedelta()) / len(latest) if len(latest) >= max(min_runs, 1) else None

    def unfinished_runs(self) -> list[Run]:
        """Copies of the queued and running runs, oldest first."""
        return [
            dataclasses.replace(run, stored_state=run.state) for run in map(self.runs.__getitem__, self._unfinished)
        ]

    def load_instances(self, run: int) -> list[Instance]:
        """New copies of the task instances of a run."""
        return [_instance(row) for _, row in sorted(self.instances[run].items())]

    def rehydration(self, run: Run) -> Rehydration:
        """What is stored about a run besides its rows, as scheduler/partitions/run_rehydration.py reads it."""
        mine = {place: value for place, value in self.xcoms.items() if place[0] == run.key}
        return Rehydration(
            {place[1:3]: json_length(value) for place, value in mine.items() if place[3] == RETURN_VALUE},
            {place[1:3]: msgspec.json.decode(value) for place, value in mine.items() if place[3] == SKIPPED_DOWNSTREAM},
            {},
        )

    def living_specs(self) -> list[DagSpec]:
        """The newest versions of the DAGs whose file still exists."""
        return [self.versions[row.version_id].spec for row in self.dags.values() if not row.is_stale]

    def past(self, run: Run, held: Mapping[int, Board], *, catchup: bool) -> tuple[EarlierRuns, int | None]:
        """The past of a run, and the key of its previous run (scheduler/partitions/previous_run.py)."""
        opens = run.backfill_id is not None and run.backfill_order == 1
        key = self.run_before(run, catchup=catchup)
        if key is None:
            return EarlierRuns(opens=opens), None
        earlier = frozenset(task_id for other in self._earlier(run) for task_id, _ in self._states(other))
        return EarlierRuns(
            held.get(key) or StoredRun(self._states(key)), self.runs[key].logical_date, earlier, opens
        ), key

    def run_before(self, run: Run, *, catchup: bool) -> int | None:
        """The key of the previous run, None if there is none, as db/statements/rehydration.py finds it."""
        types = previous_types(catchup)
        return next((key for key in self._earlier(run) if RunType(self.runs[key].run_type) in types), None)

    def _earlier(self, run: Run) -> list[int]:
        """The runs of its DAG with an earlier logical date, the latest first."""
        date = run.logical_date
        rows = (self.runs[key] for key in self.of_dag[run.dag_id])
        dated = [(r.logical_date, r.key) for r in rows if r.logical_date and date is not None and r.logical_date < date]
        return [key for _, key in sorted(dated, reverse=True)]

    def _states(self, key: int) -> list[tuple[str, TaskState]]:
        """The (task id, state) of a run's instances; if they are deleted, derived from the run's result."""
        run = self.runs[key]
        tasks = self.versions[run.version_id].spec.tasks
        if key not in self.instances:
            state = TaskState.SUCCESS if run.state is RunState.SUCCESS else TaskState.FAILED
            return [(task.task_id, state) for task in tasks]
        return [(tasks[task].task_id, TaskState.of(row.state)) for (task, _), row in self.instances[key].items()]

    # -- a batch ----------------------------------------------------------------------------

    def commit(self, batch: Changes, *, incarnation: int = 0) -> Committed:
        """Apply all of a scheduler's `batch`, or raise StaleRows and apply nothing."""
        self._check(batch)
        self._grow(batch)
        for change in batch.tasks.instances:
            self.instances[change.run_id][change.task_index, change.map_index] = change
        for run in batch.runs.changed:
            row = self.runs[run.id]
            row.state = RunState(run.state)
            for name, stored in zip(RunChange._fields[3:], run[3:], strict=True):
                setattr(row, name, stored)
            if row.state in RUN_FINISHED:
                self._unfinished.pop(run.id, None)
                if not (self.keep_finished or self._has_lookback(row)):
                    self._forget(run.id)
            else:
                self._unfinished[run.id] = None
        for name, delta in batch.pools.deltas.items():
            pool = self.pools[name]
            if pool is not None:
                self.pools[name] = pool._replace(used=pool.used + delta)
        for name, demand in batch.pools.demands.items():
            self._demand(name, incarnation, demand)
        for name, starts in batch.pools.starts.items():
            if (known := self.pools.get(name)) is not None:
                self.pools[name] = known._replace(starts=starts)
        for done in batch.tasks.tries:
            if done.key not in self.tries:
                if self.keep_finished:
                    self.tries[done.key] = done
                self.failures[done.key[:3]] += done.state == "failed"
        if batch.tasks.forget_xcoms:
            gone = set(batch.tasks.forget_xcoms)
            for xcom in [xcom for xcom in self.xcoms if xcom[:3] in gone]:
                del self.xcoms[xcom]
        for value in batch.tasks.xcoms:
            self.xcoms[value[:4]] = value.value
        for place in batch.tasks.undeferred:
            self.deferrals.pop(place, None)
        for deferral in batch.tasks.deferrals:
            self.deferrals[deferral[:3]] = deferral
        self.callbacks += batch.messages.callbacks
        if batch.runs.deadlines:
            self.deadlines.store(batch.runs.deadlines)
        if batch.runs.kept_deadlines:
            self.deadlines.prune(batch.runs.kept_deadlines)
        if batch.messages.asset_events:
            self.assets.record(batch.messages.asset_events, self.dags.values(), self.versions)
        paused = [dag_id for dag_id, limit in batch.runs.failing.items() if self._pause_failing(dag_id, limit)]
        return Committed(batch, paused=paused)

    def _demand(self, name: str, incarnation: int, demand: str | None) -> None:
        if (pool := self.pools.get(name)) is not None:
            new = msgspec.json.decode(pool.demands) | {str(incarnation): demand and msgspec.json.decode(demand)}
            demands = {key: value for key, value in new.items() if value is not None}
            self.pools[name] = pool._replace(demands=msgspec.json.encode(demands).decode())

    def withdraw_demands(self, incarnation: int) -> None:
        """Remove the scheduler's demands from all pools (db/statements/pool_demands.py)."""
        for name, pool in list(self.pools.items()):
            if pool is not None and pool.demands != "{}":
                self._demand(name, incarnation, None)

    def _grow(self, batch: Changes) -> None:
        """Add rows of mapped tasks; the first one reuses the row with map index -1."""
        for run, task in batch.tasks.expanded:
            unmapped = self.instances[run].pop((task, -1))
            self.instances[run][task, 0] = unmapped._replace(map_index=0)
        for run, task in batch.tasks.collapsed:
            first = self.instances[run].pop((task, 0))
            self.instances[run][task, -1] = first._replace(map_index=-1)
        for run, task, map_index, max_tries in batch.tasks.created:
            self.instances[run][task, map_index] = _new_row(run, task, map_index, max_tries)

    def _pause_failing(self, dag_id: str, limit: int) -> bool:
        """As in db/statements/deadlines.py: pause a DAG if its newest `limit` runs have all failed."""
        runs = sorted((self.runs[key].run_after, key) for key in self.of_dag.get(dag_id, ()))[-limit:]
        failed = sum(self.runs[key].state is RunState.FAILED for _, key in runs)
        if failed < limit or self.dags[dag_id].is_paused:
            return False
        self.dags[dag_id] = dataclasses.replace(self.dags[dag_id], is_paused=True)
        return True

    def _check(self, batch: Changes) -> None:
        for group, name in _FOREIGN:
            if rows := getattr(getattr(batch, group), name):
                raise NotImplementedError(f"World does not store {name} yet: {rows!r}")
        expanded, created = set(batch.tasks.expanded), {new[:3] for new in batch.tasks.created}
        collapsed = set(batch.tasks.collapsed)
        for key, task in collapsed:
            if (task, 0) not in self.instances[key]:
                raise StaleRows(f"Task {task} of run {key} has no first instance")
        for key, task in expanded:
            if (task, -1) not in self.instances[key]:
                raise StaleRows(f"Task {task} of run {key} is expanded already")
        for change in batch.tasks.instances:
            if created and change[:3] in created:
                continue
            index = -1 if change.map_index == 0 and change[:2] in expanded else change.map_index
            index = 0 if change.map_index == -1 and change[:2] in collapsed else index
            row = self.instances.get(change.run_id, _NO_ROWS).get((change.task_index, index))
            if row is None or row.state != change.old_state or row.try_number != change.old_try_number:
                raise StaleRows(f"A task instance is not as expected: {change} meets {row}")
        for run in batch.runs.changed:
            if self.runs[run.id].state != run.old_state:
                raise StaleRows(f"A run is not as expected: {run} meets {self.runs[run.id]}")
        for name, delta in batch.pools.deltas.items():
            pool = self.pools.get(name)
            if delta and (pool is None or (0 <= pool.slots < pool.used + delta and delta > 0)):
                raise StaleRows(f"The pool {name!r} has no room for {delta} slots: {pool}")

    def _has_lookback(self, run: Run) -> bool:
        tasks = self.versions[run.version_id].spec.tasks
        return any(task.depends_on_past or task.wait_for_downstream for task in tasks)

    def _forget(self, run: int) -> None:
        for task, index in self.instances.pop(run):
            self.failures.pop((run, task, index), None)

    # -- changes by tests -------------------------------------------------------------------

    def put(self, run: int, place: Place, state: TaskState, pool: str, slots: int, **fields: Any) -> InstanceChange:
        """Put a task instance into any state, and adapt the use of its pool and its deferral."""
        old, waited = self.instances[run][place], self.deferrals.pop((run, *place), None)
        if state is TaskState.DEFERRED:
            self.deferrals[run, *place] = _BY_HAND._replace(run_id=run, task_index=place[0], map_index=place[1])
        held = TaskState.of(old.state) in HOLDING_SLOT or (waited is not None and waited.holds_pool)
        holds = state in HOLDING_SLOT
        if held != holds and (known := self.pools.get(pool)) is not None:
            self.pools[pool] = known._replace(used=known.used + (slots if holds else -slots))
        row = self.instances[run][place] = old._replace(state=state.stored, **fields)
        return row


_BY_HAND: Final = DeferralRow(
    0, 0, -1, WORLDS_TRIGGER, FOR_EVER, "execute_complete", "{}", None, False, None, None, False
)
_NOTHING_YET: Final = (None,) * 7  # from `queued_by` to `reason`


def _new_row(run: int, task: int, map_index: int, max_tries: int) -> InstanceChange:
    return InstanceChange(run, task, map_index, None, 0, None, 0, max_tries, 0, *_NOTHING_YET)


def _moved(place: tuple[Any, ...], run: int, move: VersionMove) -> Any:
    """The key of a row after the move of `run`; None if its task is gone."""
    if place[0] != run:
        return place
    return None if place[1] in move.gone else (run, move.moved.get(place[1], place[1]), *place[2:])


def _instance(row: InstanceChange) -> Instance:
    state = TaskState.of(row.state)
    values = {name: getattr(row, name) for name in _OF_INSTANCE}
    values |= {"task": row.task_index, "state": state, "stored_state": state, "stored_try": row.try_number}
    return Instance(**values)
