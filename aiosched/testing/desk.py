"""The memory of a `World`: what a session is to the real scheduler, without loops and database."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from aiosched.clock import Clock, FakeClock
from aiosched.core.board import Board, Instance, Run, new_instances
from aiosched.db.triggers import deferral_of
from aiosched.scheduler.batch import Batch
from aiosched.scheduler.desk import Desk
from aiosched.scheduler.due_runs import begin, choose_due, choose_starting, plan_again
from aiosched.scheduler.holdings import Holdings
from aiosched.scheduler.loading import plan_next, resume
from aiosched.scheduler.metrics import Metrics
from aiosched.scheduler.new_runs import Creation, hold, new_run
from aiosched.scheduler.pulse import Pulse
from aiosched.scheduler.session import Attempts
from aiosched.testing.past import look_back
from aiosched.testing.rows import Rows


@dataclass(slots=True)
class MemoryDesk:
    """Implements `scheduler.desk.Desk` on `rows`. One lasts until the world forgets its memory."""

    clock: Clock
    rows: Rows
    attempts: Attempts
    incarnation: int
    metrics: Metrics
    holdings: Holdings = field(default_factory=Holdings)
    creation: Pulse = field(default_factory=Pulse)
    evaluation: Pulse = field(default_factory=Pulse)
    unsent: list[tuple[Board, Instance]] = field(default_factory=list)
    starting_late: dict[Board, None] = field(default_factory=dict)  # have starts that no commit took along yet

    def absorb(self, board: Board) -> None:
        """Take over a board's effects."""
        self.holdings.absorb(board)
        if board.effects.lazy:
            self.starting_late[board] = None

    def load(self) -> None:
        """Read everything from the rows, as a scheduler does at its start (scheduler/loading.py)."""
        holdings, rows = self.holdings, self.rows
        for version in rows.versions.values():
            holdings.graph_of(version)
        for dag_id, row in rows.dags.items():
            dag = holdings.put_dag(row, rows.versions[row.version_id])
            plan_next(self, dag, rows.last_interval(dag_id))
        known = self.attempts.known()
        deferrals = {place: deferral_of(row) for place, row in rows.deferrals.items()}
        for run in rows.unfinished_runs():
            if run.state == "queued":
                holdings.dags[run.dag_id].queued.append(run)
                holdings.to_start[run.dag_id] = None
            else:
                resume(self, run, rows.load_instances(run.key), known, deferrals, rows.recollection(run))
        self._look_back()
        look_back(holdings, rows)

    def create_runs(self) -> list[Run]:
        """One pass of run creation; returns the new runs."""
        now, holdings = self.clock.now(), self.holdings
        due = holdings.due_runs.due(now)
        for run in choose_starting(holdings, due, now):
            begin(holdings, run, self.rows.load_instances(run.key), now, self.rows.recollection(run))
        creations, touched = choose_due(holdings, due, now)
        created = self.create(creations)
        plan_again(holdings, touched.values())
        created += self._create_by_assets()
        look_back(holdings, self.rows)
        self._look_back()
        return [run for run in created if run is not None]

    def _create_by_assets(self) -> list[Run | None]:
        holdings, assets = self.holdings, self.rows.assets
        holdings.asset_news = set()
        created: list[Run | None] = []
        for dag_id in list(assets.waiting):
            creation = assets.ready(holdings.dags[dag_id], len(self.rows.runs) + 1)
            if creation is not None:
                assets.consume(dag_id)
                created += self.create([creation])
        return created

    def create(self, creations: Sequence[Creation]) -> list[Run | None]:
        """Store runs and hold them; None in place of one that exists already."""
        now = self.clock.now()
        keys = []
        for creation in creations:
            instances = new_instances(creation.dag.graph, creation.tasks)
            keys.append(self.rows.insert_run(new_run(self, creation, now), instances))
        created = hold(self, creations, keys, now)
        self._look_back()
        return created

    def _look_back(self) -> None:
        """Let new boards know the run before theirs (scheduler/past.py)."""
        holdings = self.holdings
        dag_ids, holdings.to_look_back = holdings.to_look_back, {}
        held = {board.run.key: board for board in (*holdings.ended, *holdings.boards.values())} if dag_ids else {}
        for dag_id in dag_ids:
            for board in holdings.dags[dag_id].running.values():
                if board.graph.lookback is not None and board.past is None:
                    past, before = self.rows.past(board.run, held, catchup=board.graph.spec.catchup)
                    holdings.followers.add(board, past, before)
                    holdings.to_evaluate[board] = None

    def put_back(self, lost: Batch | None) -> None:
        """Reports whose effects were not committed are applied again by the next memory."""
        reports = [*(lost.reports if lost else ()), *self.holdings.applied]
        self.attempts.reports.extendleft(reversed(reports))


def _is_a_desk(desk: MemoryDesk) -> Desk:  # the type checker's word that it has all that the scheduler asks for
    return desk


class WorldClock(FakeClock):
    """The world's time: it moves only forwards, and only by `World.run_until`."""
