"""The memory of a scheduler of a `World`: the counterpart of a session, without loops and database."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from aiosched.clock import Clock, FakeClock
from aiosched.core.creation.deadlines import least_runs
from aiosched.core.creation.moving import added_instances, moving
from aiosched.core.graph.new_instances import new_places
from aiosched.core.requests.instance_changes import Change
from aiosched.core.run.board import Board, Run
from aiosched.db.statements.deadlines import DeadlineRow
from aiosched.db.statements.runs import StoredVersion
from aiosched.db.statements.triggers import deferral_of
from aiosched.errors import DagFailure
from aiosched.scheduler.attempts.attempts import Attempts
from aiosched.scheduler.effects.deadlines import missed_callback
from aiosched.scheduler.failures.isolation import concerning, failure_of, raise_failures
from aiosched.scheduler.memory.cache import OwnedDag, make_board
from aiosched.scheduler.memory.changes import Changes
from aiosched.scheduler.memory.deadline_rows import deadlines_of
from aiosched.scheduler.memory.decision_context import DecisionContext
from aiosched.scheduler.partitions.loading import plan_next, resume
from aiosched.scheduler.partitions.previous_run import invalidate_past
from aiosched.scheduler.runs.awaited import questions
from aiosched.scheduler.runs.backfills import over_now
from aiosched.scheduler.runs.due_runs import begin, choose_due, choose_expired, choose_starting, due_now, plan_again
from aiosched.scheduler.runs.new_runs import Creation, hold, new_run
from aiosched.scheduler.runs.partitioned_runs import partitioned
from aiosched.scheduler.runs.stored_runs import Moves
from aiosched.testing.rows.rows import Rows


@dataclass(slots=True)
class MemoryContext(DecisionContext):
    """A decision context with rows in memory. It lasts until the scheduler drops its memory."""

    rows: Rows = field(kw_only=True)
    starting_late: dict[Board, None] = field(kw_only=True)  # boards with starts that no commit has included yet
    checked_starts: dict[Board, None] = field(default_factory=dict)  # started boards that checks.py has checked
    partitions: frozenset[int] = frozenset()  # those that this scheduler owns

    @classmethod
    def on(cls, rows: Rows, clock: Clock, attempts: Attempts, incarnation: int) -> MemoryContext:
        """An empty memory. There are no waiters for the end of a run here."""
        late: dict[Board, None] = {}
        return cls(
            clock, attempts, incarnation, attempts.metrics, lambda board: late.setdefault(board), lambda _: None,
            rows=rows, starting_late=late,
        )  # fmt: skip

    def load(self) -> None:
        """Read everything from the rows, as a scheduler does at its start (scheduler/partitions/loading.py)."""
        cache, rows = self.cache, self.rows
        self.attempts.reclaim(self.partitions)
        rows.quarantine.take_up(self.clock.now())
        failures: list[DagFailure] = []
        versions: dict[str, list[StoredVersion]] = {}
        for version in rows.versions.values():
            versions.setdefault(version.spec.dag_id, []).append(version)
        for row in [row for row in rows.dags.values() if row.partition in self.partitions]:
            if rows.quarantine.find(row.dag_id) is not None:
                continue
            try:
                for version in versions.get(row.dag_id, ()):
                    cache.graph_of(version)
                dag = cache.put_dag(row, rows.versions[row.version_id])
                plan_next(self, dag, rows.schedule_position(dag.version.spec))
            except Exception as error:
                failures.append(failure_of(error, row.dag_id, "loading"))
        raise_failures(failures)
        for backfill in [one for one in rows.backfills.unfinished() if one.dag_id in cache.dags]:
            cache.add_backfill(backfill)
        known = self.attempts.known()
        deferrals = {place: deferral_of(row) for place, row in rows.deferrals.items()}
        for run in [run for run in rows.unfinished_runs() if run.dag_id in cache.dags]:
            if run.state == "queued":
                cache.dags[run.dag_id].runs.queued.append(run)
                cache.work.to_start[run.dag_id] = None
                continue
            try:
                resume(self, run, rows.load_instances(run.key), known, deferrals, rows.rehydration(run))
            except Exception as error:
                failures.append(failure_of(error, run.dag_id, "loading a run"))
        raise_failures(failures)
        self._find_previous_runs()
        unheld = [run for run in rows.unfinished_runs() if run.dag_id not in cache.dags]
        left = {run.key: rows.dags[run.dag_id].partition for run in unheld}
        self.attempts.hand_over({key: place for key, place in left.items() if place in self.partitions})

    def create_runs(self) -> list[Run]:
        """One pass of run creation; returns the new runs."""
        now, cache = self.clock.now(), self.cache
        due = cache.work.due_runs.due(now)
        for run in choose_expired(cache, due, now):
            self.rows.fail_queued([run.key], now, "expired")
            self.rows.skip_rest(run.key, now)
            dag = cache.dags[run.dag_id]
            dag.runs.queued.remove(run)
            invalidate_past(self, run)
            cache.plan(dag)
        before: dict[int, int | None] = {}
        while asked := questions(cache, due, before):
            before |= {q.run.key: self.rows.run_before(q.run, catchup=q.without_manual) for q in asked}
        for run in choose_starting(cache, due, now, before):
            with concerning(run.dag_id, "the start of a run"):
                begin(cache, run, self.rows.load_instances(run.key), now, self.rows.rehydration(run))
        dags = due_now(cache, due, now)
        positions = {dag.row.dag_id: self.rows.schedule_position(dag.version.spec) for dag in dags}
        created = self.create(choose_due(dags, positions, now))
        for dag in dags:
            with concerning(dag.row.dag_id, "the creation of runs"):
                plan_again(cache, [dag])
        created += self._create_by_assets()
        self._find_previous_runs()
        self._complete_backfills()
        return [run for run in created if run is not None]

    def _create_by_assets(self) -> list[Run | None]:
        cache, assets = self.cache, self.rows.assets
        cache.work.assets = set()
        created: list[Run | None] = []
        for dag_id in [dag_id for dag_id in assets.waiting if dag_id in cache.dags]:
            with concerning(dag_id, "the asset condition"):
                creation = assets.ready(cache.dags[dag_id], len(self.rows.runs) + 1)
            if creation is not None:
                created += (made := self.create([creation]))
                with concerning(dag_id, "the creation of runs by assets"):
                    assets.consume(creation.dag, None if made[0] is None else made[0].key, creation.planned.run_after)
        for owner in [found for dag in cache.dags.values() if (found := partitioned(dag)) is not None]:
            with concerning(owner.dag_id, "runs of partitions"):
                ready = assets.ready_partitions(owner, len(self.rows.runs) + 1)
            for key, creation in ready:
                created += (made := self.create([creation]))
                if made[0] is not None:
                    assets.consume_partition(owner.dag_id, key, made[0].key)
        return created

    def create(self, creations: Sequence[Creation]) -> list[Run | None]:
        """Store runs and hold them; None in place of a run that exists already."""
        now = self.clock.now()
        keys = []
        for creation in creations:
            with concerning(creation.dag.row.dag_id, "the creation of runs"):
                places = new_places(creation.dag.graph, creation.tasks)
                keys.append(key := self.rows.insert_run(new_run(self, creation, now), places))
                if key is not None and creation.dag.version.spec.deadlines:
                    self._plan_deadlines(key, creation, now)
        created: list[Run | None] = []
        for creation, key in zip(creations, keys, strict=True):
            with concerning(creation.dag.row.dag_id, "the creation of runs"):
                created += hold(self, [creation], [key], now)
        self._find_previous_runs()
        return created

    def _plan_deadlines(self, key: int, creation: Creation, now: datetime) -> None:
        spec, partition = creation.dag.version.spec, creation.dag.row.partition
        averages = {
            (spec.dag_id, index): self.rows.average_runtime(
                spec.dag_id, max_runs=deadline.max_runs, min_runs=least_runs(deadline)
            )
            for index, deadline in enumerate(spec.deadlines)
        }
        date = creation.planned.logical_date
        self.rows.deadlines.store(deadlines_of(key, spec, partition, date, now, averages))

    def miss_deadlines(self) -> list[DeadlineRow]:
        """Mark what is missed now, and request its callbacks."""
        missed = self.rows.deadlines.miss(self.clock.now())
        for row in missed:
            dag_id = self.rows.runs[row.run_id].dag_id
            self.rows.callbacks.append(missed_callback(row.partition, dag_id, row.run_id, row.deadline_index))
        return missed

    def _complete_backfills(self) -> None:
        for backfill in over_now(self.cache, self.cache.unstored.pending.effects.finished):
            self.rows.backfills.completed[backfill.id] = self.clock.now()
            del self.cache.dags[backfill.dag_id].runs.backfills[backfill.id]

    # -- requests about runs, held or not ---------------------------------------------------

    def change(self, dag: OwnedDag, keys: Sequence[int], change: Change, moves: Moves | None = None) -> Changes:
        """Change runs of a DAG: running ones in memory, all others in the rows (scheduler/requests/clearing.py)."""
        now, batch, boards = self.clock.now(), Changes(), []
        for key in keys:
            if (held := dag.runs.running.get(key)) is not None:
                change(held, now)
                self.apply_effects(held)
                self.cache.work.to_evaluate[held] = None
                continue
            run = next((run for run in dag.runs.queued if run.key == key), None) or self._read(key)
            is_older = run.version_id != dag.version.id
            if moves is not None and is_older and moves(run, self.rows.load_instances(key)):
                move = moving(self.cache.versions[run.version_id][1], dag.graph)
                self.rows.move_run(key, dag.version.id, move, added_instances(dag.graph, run, move))
                run.version_id = dag.version.id
            version, graph = self.cache.versions[run.version_id]
            boards.append(board := make_board(run, version, graph, self.rows.load_instances(key)))
            change(board, now)
            self.cache.collect_board(board, batch)
        self.rows.commit(batch)
        self.settle(dag, boards)
        return batch

    def _read(self, key: int) -> Run:
        run = self.rows.runs[key]
        return dataclasses.replace(run, stored_state=run.state)

    def _find_previous_runs(self) -> None:
        """Give new boards their past (scheduler/partitions/previous_run.py)."""
        cache = self.cache
        dag_ids, cache.work.to_find_previous = cache.work.to_find_previous, {}
        if not dag_ids:
            return
        held = {board.run.key: board for board in (*cache.unstored.pending.effects.finished, *cache.boards.values())}
        for dag_id in dag_ids:
            with concerning(dag_id, "finding the previous run"):
                for board in cache.dags[dag_id].runs.running.values():
                    if board.graph.lookback is not None and board.past is None:
                        past, before = self.rows.past(board.run, held, catchup=board.graph.spec.catchup)
                        cache.previous_run_index.add(board, past, before)
                        cache.work.to_evaluate[board] = None

    def put_back(self, lost: Changes | None) -> None:
        """Put back the reports whose effects were not committed: the next memory applies them again."""
        reports = [*(lost.effects.received if lost else ()), *self.cache.unstored.pending.effects.received]
        self.attempts.reports.extendleft(reversed(reports))


class WorldClock(FakeClock):
    """The world's time: it moves only forwards, and only by `World.run_until`."""
