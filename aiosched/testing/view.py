"""Reading a `World`: its runs, rows and decisions, and which tasks wait for what."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

from aiosched.core.run.board import Board, Run
from aiosched.db.assets.assets import NewAssetEvent
from aiosched.errors import NotFound, Refused, did_you_mean
from aiosched.scheduler.memory.cache import OwnedDag
from aiosched.testing.decisions import Decision, DecisionLog
from aiosched.testing.member import Fleet
from aiosched.testing.rows.assets import WorldCheck
from aiosched.testing.rows.rows import Rows
from aiosched.testing.world_memory import MemoryContext, WorldClock


class Callback(NamedTuple):
    """A requested callback: of a task's try, or of a run, where `task_id` is that of the instance in its context."""

    kind: str  # task_success, task_skipped, task_retry, task_failure, dag_success, dag_failure, deadline
    dag_id: str
    run_id: str
    task_id: str | None
    map_index: int | None
    try_number: int | None
    reason: str | None


class WorldView:
    """The reading half of `World`. A DAG, run or task that does not exist raises NotFound."""

    clock: WorldClock
    rows: Rows
    _decisions: DecisionLog
    _fleet: Fleet

    @property
    def log(self) -> list[Decision]:
        """The stored decisions, in order: see `decisions.Decision`."""
        return self._decisions.entries

    @property
    def now(self) -> datetime:
        """The virtual instant, UTC."""
        return self.clock.now()

    def runs(self, dag_id: str) -> list[Run]:
        """The stored runs of a DAG in the order of their creation. Do not change them."""
        self._dag(dag_id)
        return [self.rows.runs[key] for key in self.rows.of_dag.get(dag_id, ())]

    def run(self, dag_id: str, run_id: str) -> Run:
        """A stored run; raises NotFound."""
        return self.rows.runs[self._key(dag_id, run_id)]

    def states(self, dag_id: str, run_id: str) -> dict[str | tuple[str, int], str | None]:
        """The stored state of each task instance by task id, of mapped ones by (task id, map index)."""
        run = self.run(dag_id, run_id)
        ids = self._context_of(dag_id).cache.graph_of(self.rows.versions[run.version_id]).task_ids
        rows = self.rows.instances[run.key].values()
        return {(ids[r.task_index] if r.map_index < 0 else (ids[r.task_index], r.map_index)): r.state for r in rows}

    def task(self, dag_id: str, run_id: str, task_id: str, map_index: int = -1) -> Any:
        """The stored row of a task instance: state, try_number, start_date, end_date, reason, …"""
        run = self.run(dag_id, run_id)
        index = self._context_of(dag_id).cache.graph_of(self.rows.versions[run.version_id]).index
        return self._row(run.key, index_of(index, task_id), map_index)

    def xcom(
        self, dag_id: str, run_id: str, task_id: str, key: str = "return_value", *, map_index: int = -1
    ) -> str | None:
        """The JSON text of a pushed value; None if there is none."""
        row = self.task(dag_id, run_id, task_id, map_index)
        return self.rows.xcoms.get((row.run_id, row.task_index, row.map_index, key))

    @property
    def callbacks(self) -> list[Callback]:
        """The requested callbacks, in order. They do not run in a world."""
        runs = self.rows.runs
        return [
            Callback(c.kind, c.dag_id, runs[c.run_id].run_id, c.task_id, c.map_index, c.try_number, c.reason)
            for c in self.rows.callbacks
        ]

    def deadlines(self, dag_id: str, run_id: str) -> dict[int, tuple[datetime, str]]:
        """The deadlines of a run by index: (instant, `pending` or `missed`). Those that were met are removed."""
        key, found = self._key(dag_id, run_id), self.rows.deadlines
        both = (("pending", found.pending), ("missed", found.missed))
        return {r.deadline_index: (r.deadline_time, w) for w, rows in both for r in rows.values() if r.run_id == key}

    def events_of(self, dag_id: str, run_id: str) -> list[NewAssetEvent]:
        """The asset events that an asset-triggered run has consumed, in order."""
        return list(self.rows.assets.consumed.get(self._key(dag_id, run_id), ()))

    def checks_of(self, asset: str) -> list[WorldCheck]:
        """What the checks of an asset have said, in order."""
        return [said for said in self.rows.assets.checks if said.asset == asset]

    def backfills(self, dag_id: str) -> dict[int, str]:
        """The DAG's backfills by number: `running`, `paused` or `completed`."""
        rows, completed = self.rows.backfills.rows, self.rows.backfills.completed
        return {
            number: "completed" if number in completed else "paused" if row.is_paused else "running"
            for number, row in rows.items()
            if row.dag_id == dag_id
        }

    def waiting(self) -> dict[tuple[str, str, str], str]:
        """Why each task instance waits for a slot, as of the last pass, by (DAG id, run id, task id)."""
        found = {}
        for cache in [member.context.cache for member in self._fleet.members]:
            for candidate in cache.waiting:
                board, instance = cache.get(candidate.key)
                name = (board.run.dag_id, board.run.run_id, board.graph.task_ids[instance.task])
                found[name] = cache.waiting.reason(candidate.key) or "it is next"
        return found

    def scheduler_of(self, dag_id: str) -> int:
        """The number of the scheduler that owns the DAG, 1 for the first."""
        self._dag(dag_id)
        return self._context_of(dag_id).incarnation

    def _context_of(self, dag_id: str) -> MemoryContext:
        return self._fleet.owner_of(dag_id).context

    def _dag(self, dag_id: str) -> OwnedDag:
        dags = self._context_of(dag_id).cache.dags
        if (left_alone := self.rows.quarantine.find(dag_id)) is not None:
            raise Refused(str(left_alone))
        if dag_id not in dags:
            raise NotFound(f"The world has no DAG {dag_id!r}.{did_you_mean(dag_id, self.rows.dags)}")
        return dags[dag_id]

    def _key(self, dag_id: str, run_id: str) -> int:
        if dag_id not in self.rows.dags:
            self._dag(dag_id)
        key = self.rows.keys.get((dag_id, run_id))
        if key is None:
            known = [run for dag, run in self.rows.keys if dag == dag_id]
            raise NotFound(f"DAG {dag_id!r} has no run {run_id!r}.{did_you_mean(run_id, known)}")
        return key

    def _board(self, dag_id: str, run_id: str) -> Board:
        key = self._key(dag_id, run_id)
        board = self._context_of(dag_id).cache.boards.get(key)
        if board is None:
            raise Refused(f"Run {run_id!r} of {dag_id!r} is {self.rows.runs[key].state}: it is not running.")
        return board

    def _row(self, run: int, task: int, map_index: int) -> Any:
        return self.rows.instances[run][task, map_index]


def index_of(index: Mapping[str, int], task_id: str) -> int:
    """The index of a task; raises NotFound with similar ids."""
    if task_id not in index:
        raise NotFound(f"There is no task {task_id!r}.{did_you_mean(task_id, index)}")
    return index[task_id]
