"""The context of decisions: all that a scheduler without a database needs.

The pure parts of the loops (loops/evaluation.py, parts of runs and partitions) take a `DecisionContext`. Each
session has one, and so has each scheduler of `aiosched.testing`, whose rows are in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from aiosched.clock import Clock
from aiosched.core.figures.metrics import Metrics
from aiosched.core.run.board import Board, Instance, Run
from aiosched.core.values.states import RUN_FINISHED, RunState
from aiosched.db.statements.inbox import NewRequest, RequestResult
from aiosched.scheduler.attempts.attempts import Attempts
from aiosched.scheduler.concurrency.wakeup import Wakeups
from aiosched.scheduler.memory.cache import OwnedDag, StateCache


@dataclass(slots=True)
class DecisionContext:
    """See the module docstring. `add_start` is called with a board whose starts are to be stored lazily."""

    clock: Clock
    attempts: Attempts
    incarnation: int
    metrics: Metrics
    add_start: Callable[[Board], None]
    on_run_end: Callable[[Run], None]  # a run has ended
    cache: StateCache = field(default_factory=StateCache)
    wakeups: Wakeups = field(default_factory=Wakeups)
    unsent: list[tuple[Board, Instance]] = field(default_factory=list)  # queued by us, never handed out
    held: list[tuple[Board, Instance]] = field(default_factory=list)  # queued by us; an earlier attempt is ending

    def apply_effects(self, board: Board) -> None:
        """Apply the effects of a board's decisions, and wake the loops that have work from them."""
        cache, wakeups = self.cache, self.wakeups
        if board.effects.cancelled:
            here, reports = self.attempts.in_flight, self.attempts.reports
            self.attempts.ending.cancelled(board, here, cache.elsewhere, reports, self.clock.monotonic())
        cache.apply_effects(board)
        if cache.unstored.dirty or cache.work.room_changed:
            wakeups.enqueueing.wake()
        if board.effects.rows.lazy:
            self.add_start(board)
        if cache.work.to_start:
            wakeups.creation.wake()
        if cache.work.to_evaluate:
            wakeups.evaluation.wake()

    def settle(self, dag: OwnedDag, boards: Iterable[Board]) -> None:
        """Update memory after the commit of changed boards that are not held."""
        waiting, work = {run.key for run in dag.runs.queued}, self.cache.work
        for board in boards:
            run = board.run
            run.is_incomplete = run.is_as_created = False
            work.to_evaluate.update(dict.fromkeys(self.cache.previous_run_index.notify_followers(board)))
            if run.state is RunState.QUEUED and run.key not in waiting:
                dag.runs.queued.append(run)
            elif run.state in RUN_FINISHED and run.key in waiting:
                dag.runs.queued.remove(run)
                self.on_run_end(run)
        work.to_start[dag.row.dag_id] = None
        self.cache.plan(dag)
        self.wakeups.creation.wake()

    def answer(self, number: int, result: RequestResult, requests: Iterable[NewRequest] = ()) -> None:
        """Answer a request in the transaction that stores its effects; until then it is not applied again.

        `requests` to other DAGs follow from it, and are stored with the answer.
        """
        unstored = self.cache.unstored
        messages = unstored.pending.messages
        messages.answers.append((number, result))
        messages.requests.extend(requests)
        self.wakeups.enqueueing.wake()
