"""Plays a board to its end as the scheduler would, and watches that no rule is broken on the way.

`play(graph, outcomes)` is the whole scheduler in miniature: it evaluates, stores what
changed, hands out every ready attempt, and lets attempts end as their script says; time
passes only when nothing runs. It may crash at any checkpoint: then the board is thrown
away and rebuilt from what was stored. Every call to the board is watched (see `_watch`).
"""

from __future__ import annotations

import copy
import dataclasses
import json
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count
from operator import attrgetter
from typing import Any

import msgspec

from aiosched.core.graph.branching import skipped_by
from aiosched.core.graph.graph import Graph
from aiosched.core.graph.new_instances import new_instances
from aiosched.core.graph.trigger_rules import StateCounts
from aiosched.core.run.board import MAX_LOSSES, SKIPPED_DOWNSTREAM, Board, Effects, Instance, Run
from aiosched.core.run.upstream_counts import UpstreamCounts
from aiosched.core.values.messages import AttemptKey, Outcome, Report, RunInfo, SkipDecision
from aiosched.core.values.states import FINISHED, HOLDING_SLOT, SCHEDULABLE, TRANSITIONS, RunState, TaskState
from tests.core.board_oracle import verdict
from tests.core.run_transitions import RUN_TRANSITIONS, RunTimes, run_times_after
from tests.core.trigger_rule_oracle import RUN, WAIT

NOW = datetime(2026, 1, 1, tzinfo=UTC)
LEGAL = {(old, new) for (old, _), new in TRANSITIONS.items()}
LEGAL_FOR_RUNS = {(old, new) for (old, _), new in RUN_TRANSITIONS.items()}

_row = attrgetter(*(name for name in Instance.__struct_fields__ if name not in ("stored_state", "stored_try")))
_run_row = attrgetter(*(f.name for f in dataclasses.fields(Run)))


def _times(run: Run) -> RunTimes:
    return RunTimes(run.queued_at, run.start_date, run.end_date)


def counts_of(board: Board, task: int) -> tuple[StateCounts, int]:
    """The finished-upstream counts of a task as the board keeps them, and how many upstreams there are."""
    return board._upstream_counts.counts(task), board._upstream_counts.total(task)


# How one call of a task ends. A SkipDecision is a success that decides about others.
Ending = Outcome | SkipDecision | str  # "fail now" is a failure that forbids a retry
FAIL_NOW = "fail now"


def new_run(state: RunState = RunState.RUNNING) -> Run:
    return Run(
        key=1,
        dag_id="sales",
        run_id="manual__1",
        version_id=1,
        run_type="manual",
        state=state,
        run_after=NOW,
        start_date=NOW if state is RunState.RUNNING else None,
        stored_state=state,
    )


def board_of(graph: Graph, run: Run, instances: Collection[Instance]) -> Board:
    info = RunInfo(key=run.key, dag_id=run.dag_id, run_id=run.run_id, run_type=run.run_type, run_after=run.run_after)
    return Board(graph, run, instances, info=info)


def report_of(key: AttemptKey, ending: Ending, at: datetime, **fields: Any) -> Report:
    """The report of an attempt that ends so."""
    if isinstance(ending, SkipDecision):
        return Report(key=key, outcome=Outcome.SUCCESS, at=at, skip=ending, **fields)
    if ending == FAIL_NOW:
        return Report(key=key, outcome=Outcome.FAILED, at=at, fail_now=True, reason="boom", **fields)
    outcome = Outcome(ending)
    reason = "boom" if outcome is Outcome.FAILED else None
    if outcome is Outcome.RESCHEDULED:
        fields["reschedule_at"] = at + timedelta(seconds=60)
    return Report(key=key, outcome=outcome, at=at, reason=reason, **fields)


@dataclass
class Script:
    """What happens in a run, whatever the board decides. Tasks are given by their id.

    endings   how the calls of a task end, in turn; success afterwards
    losses    how many attempts are lost before each of these calls
    order     in which order running attempts end: task indexes, first to last
    starts    tasks whose start is reported
    removed   tasks that do not exist any more when the run begins
    interrupt `cancel` or `time_out`, after so many endings
    """

    endings: Mapping[str, Sequence[Ending]] = field(default_factory=dict)
    losses: Mapping[str, Sequence[int]] = field(default_factory=dict)
    order: Sequence[int] = ()
    starts: Collection[str] = ()
    removed: Collection[str] = ()
    interrupt: tuple[int, str] | None = None


@dataclass
class Rows:
    """The database: what was committed."""

    instances: dict[int, Instance] = field(default_factory=dict)
    run: Run | None = None
    xcoms: dict[tuple[int, str], str] = field(default_factory=dict)
    tries: list[tuple[AttemptKey, str]] = field(default_factory=list)
    endings: dict[int, int] = field(default_factory=dict)  # how many calls of a task have ended, losses apart
    losses: dict[int, int] = field(default_factory=dict)  # since then
    interrupted: bool = False

    def store(self, board: Board) -> None:
        """One commit: guarded updates, as the journal does them."""
        effects = board.effects
        for i in {**effects.rows.changed, **effects.rows.lazy}:
            row = self.instances[i.task]
            assert (row.state, row.try_number) == (i.stored_state, i.stored_try), "the guard of the update"
            i.stored_state, i.stored_try = i.state, i.try_number
            self.instances[i.task] = copy.copy(i)
        for i in effects.rows.forget_xcoms:
            self.xcoms = {key: value for key, value in self.xcoms.items() if key[0] != i.task}
        self.xcoms |= {(i.task, value.key): value.value for i, value in effects.rows.xcoms}
        self.tries += [(t.key, t.state) for t in effects.rows.tries]
        if effects.rows.run_changed:
            assert self.run is not None
            assert self.run.state is board.run.stored_state, "the guard of the update"
            board.run.stored_state = board.run.state
            self.run = dataclasses.replace(board.run)
        for i in board:
            assert _row(i) == _row(self.instances[i.task]), "memory equals rows"
        board.effects = Effects()


class Player:
    """See the module docstring. `crashes` are the numbers of checkpoints, `lethal` ones kill what runs."""

    def __init__(self, graph: Graph, script: Script, *, crashes: Collection[int] = (), lethal: bool = False) -> None:
        self.graph, self.script = graph, script
        self.crashes, self.lethal, self.checkpoints = crashes, lethal, count()
        self.rank = {task: position for position, task in enumerate(script.order or range(len(graph)))}
        self.now = NOW
        self.most: float = math.inf  # decisions that are taken together
        self.rows = Rows(run=new_run())
        for instance in new_instances(graph, range(len(graph))):
            if graph.task_ids[instance.task] in script.removed:
                instance.state = instance.stored_state = TaskState.REMOVED
            self.rows.instances[instance.task] = instance
        self.in_flight: list[AttemptKey] = []
        self.unstored: list[Report] = []  # applied, not yet committed
        self.interrupting = False
        self.waiting: list[Instance] = []
        self.timers: list[tuple[datetime, Instance]] = []
        self.submitted: list[AttemptKey] = []
        self.reports: list[Report] = []
        self._read()

    # -- the story --------------------------------------------------------------------------

    def play(self) -> Player:
        """To the end of the run."""
        self.board.start(self.now)
        for _ in range(1_000):
            self._turn()
            if self.rows.run is not None and self.rows.run.state is not RunState.RUNNING:
                self._check_end()
                return self
        raise AssertionError("the run does not end")

    def _turn(self) -> None:
        self._watch(self.board.evaluate)
        if self._crashed():
            return
        self._store()
        if self.board.finished or self._crashed():
            return
        granted, self.waiting = self.waiting, []
        for instance in granted:
            self.board.grant(instance, self.now, 1)
        if self._crashed():
            return
        self._store()
        if self._crashed():
            return
        for instance in granted:
            self._submit(self.board.key(instance), instance)
        self._store()
        self._something_happens()
        self._crashed()

    def _something_happens(self) -> None:
        interrupt = self.script.interrupt
        if interrupt and not self.rows.interrupted and sum(self.rows.endings.values()) >= interrupt[0]:
            self.interrupting = True
            self._watch(getattr(self.board, interrupt[1]))
        elif self.in_flight:
            key = min(self.in_flight, key=lambda key: (self.rank[key.task_index], key))
            self.in_flight.remove(key)
            report = report_of(key, self._ending(key.task_index), self.now)
            self.unstored.append(report)
            assert self._apply(report), f"{report} is not stale"
        else:
            timers = [(at, i) for at, i in self.timers if i.state in SCHEDULABLE]
            assert timers, f"the run stands still: {self.states}"
            self.now = min(at for at, _ in timers).replace(microsecond=0) + timedelta(seconds=1)
            self.timers = [(at, i) for at, i in timers if at > self.now]
            for at, instance in timers:
                if at <= self.now:
                    self.board.wake(instance)

    def _ending(self, task: int) -> Ending:
        task_id, ended = self.graph.task_ids[task], self.rows.endings.get(task, 0)
        losses, endings = self.script.losses.get(task_id, ()), self.script.endings.get(task_id, ())
        if ended < len(losses) and self.rows.losses.get(task, 0) < losses[ended]:
            return Outcome.LOST
        return endings[ended] if ended < len(endings) else Outcome.SUCCESS

    def _submit(self, key: AttemptKey, instance: Instance) -> None:
        assert self.rows.instances[key.task_index].state is TaskState.QUEUED, "commit, then act"
        self.in_flight.append(key)
        self.submitted.append(key)
        self._report_start(key)
        assert (instance.state is TaskState.RUNNING) is (self.graph.task_ids[instance.task] in self.script.starts)

    def _report_start(self, key: AttemptKey) -> None:
        if self.graph.task_ids[key.task_index] in self.script.starts:
            assert self.board.apply(Report(key=key, outcome=Outcome.STARTED, at=self.now), self.now)

    def _apply(self, report: Report) -> bool:
        self.reports.append(report)
        return bool(self._watch(lambda now: self.board.apply(report, now)))

    # -- storing and reading ----------------------------------------------------------------

    def _store(self) -> None:
        effects = self.board.effects
        gone = {id(i) for i in effects.slots.withdrawn}
        self.waiting = [i for i in self.waiting if id(i) not in gone] + effects.slots.ready
        assert all(i.state is TaskState.SCHEDULED for i in self.waiting)
        self.timers += effects.slots.timers
        self.in_flight = [key for key in self.in_flight if key not in effects.cancelled]
        self.rows.store(self.board)
        for report in self.unstored:
            task = report.key.task_index
            if report.outcome is Outcome.LOST:
                self.rows.losses[task] = self.rows.losses.get(task, 0) + 1
            else:
                self.rows.losses[task] = 0
                self.rows.endings[task] = self.rows.endings.get(task, 0) + 1
        self.unstored = []
        self.rows.interrupted |= self.interrupting
        self.interrupting = False

    def _read(self) -> None:
        assert self.rows.run is not None
        rows = [copy.copy(row) for row in self.rows.instances.values()]
        self.board = board_of(self.graph, dataclasses.replace(self.rows.run), rows)
        for (task, key), value in self.rows.xcoms.items():
            if key == SKIPPED_DOWNSTREAM and (branch := self.board.find(task)) is not None:
                self.board.recall(branch, json.loads(value))
        self.waiting, self.timers = [], []

    def _crashed(self) -> bool:
        """Whether the scheduler dies here. Reports that were not committed are applied again, if it left an heir."""
        if next(self.checkpoints) not in self.crashes or self.board.run.stored_state is not RunState.RUNNING:
            return False
        self._read()
        again, self.unstored, self.interrupting = self.unstored, [], False
        if self.lethal:
            self.in_flight, again = [], []
        known = {*self.in_flight, *(report.key for report in again)}
        abandoned = []
        for instance in self.board:
            if instance.state not in HOLDING_SLOT or self.board.key(instance) in known:
                continue
            if self.lethal:
                self._watch(lambda now, i=instance: self.board.lose(i, now, "its scheduler ended"))  # type: ignore[misc]
                self.rows.losses[instance.task] = self.rows.losses.get(instance.task, 0) + 1
            else:
                abandoned.append(instance)
        self.board.resume()
        for key in self.in_flight:
            self._report_start(key)  # it may not have been committed
        for report in again:
            self.unstored.append(report)
            assert self._apply(report), "what was not committed is news"
        for instance in abandoned:
            self._submit(self.board.key(instance), instance)
        return True

    # -- watching ---------------------------------------------------------------------------

    def _watch(self, call: Callable[[datetime], object]) -> object:
        """Call the board; everything that changed must have been allowed."""
        board = self.board
        before = {i: (i.state, i.try_number) for i in board}
        state, times = board.run.state, _times(board.run)
        result = self._evaluate_in_parts() if call == board.evaluate else call(self.now)
        if board.run.state is not state:
            assert (state, board.run.state) in LEGAL_FOR_RUNS
            assert _times(board.run) == run_times_after(state, board.run.state, times, self.now)
        afresh = UpstreamCounts(self.graph, board)
        for task in range(len(self.graph)):
            assert counts_of(board, task) == (afresh.counts(task), afresh.total(task)), "counts do not drift"
        assert board.unfinished == afresh.unfinished
        for instance, (old, tries) in before.items():
            self._check_change(instance, old, tries)
        if call == board.evaluate:
            self._check_nothing_left()
            seen = _everything(board)
            board.evaluate(self.now)
            assert _everything(board) == seen, "evaluating twice is evaluating once (invariant 11)"
        return result

    def _evaluate_in_parts(self) -> float:
        """Every second time in one go: how many decisions are taken together changes nothing."""
        self.most = math.inf if self.most == 2 else 2
        while not (left := self.board.evaluate(self.now, self.most)):
            continue
        return left

    def _check_change(self, instance: Instance, old: TaskState, tries: int) -> None:
        new = instance.state
        began = (new is TaskState.SCHEDULED and old in SCHEDULABLE) or (old, new) == (TaskState.NONE, TaskState.SUCCESS)
        step = 1 if began and old is not TaskState.UP_FOR_RESCHEDULE else 0
        assert instance.try_number == tries + step, "one try per scheduling (invariant 7)"
        if old is new:
            return
        assert (old, new) in LEGAL, f"{old} to {new} is no transition"
        if began:
            assert verdict(self.board, instance) == RUN, "its rule is satisfied (invariant 9)"
        elif old in SCHEDULABLE and new in FINISHED and not self._interrupted_by(instance):
            assert verdict(self.board, instance) not in (RUN, WAIT), "settled only when the rule cannot hold"

    def _interrupted_by(self, instance: Instance) -> bool:
        return (instance.reason or "").startswith("skipped by") or (instance.reason or "").endswith(
            ("(fail_fast)", "the run was cancelled", "the run timed out")
        )

    def _check_nothing_left(self) -> None:
        excluded: set[int] = set()
        for report in self.reports:
            task, decision = report.key.task_index, report.skip
            branch = self.board.find(task)
            if decision is not None and branch is not None and branch.state is TaskState.SUCCESS:
                excluded |= skipped_by(self.graph, task, decision).intersection(self.graph.downstream[task])
        for instance in self.board:
            waits_for_time = instance.next_at is not None and instance.next_at >= self.now
            if instance.state in SCHEDULABLE and not waits_for_time:
                assert verdict(self.board, instance) == WAIT, "everything that can be decided is decided"
            assert instance.state not in SCHEDULABLE or instance.task not in excluded, "a branch decided (7.4)"

    def _check_end(self) -> None:
        board, states = self.board, self.states
        assert board.finished
        assert not self.in_flight or board.run.reason == "all_tasks_deadlocked"
        if board.run.reason != "all_tasks_deadlocked":
            assert all(i.state in FINISHED for i in board), "a finished run is finished (invariant 8)"
            assert board.unfinished == 0
        for report in self.reports:
            assert not board.apply(report, self.now), "late reports are stale"
        assert self.states == states
        for instance in board:
            task = self.graph.tasks[instance.task]
            failures = [state for key, state in self.rows.tries if key.task_index == instance.task]
            assert failures.count("failed") <= task.retries + 1, "retries are spent by failures"
            assert instance.losses <= MAX_LOSSES
        succeeded = [r.key.task_index for r in self.reports if r.outcome is Outcome.SUCCESS]
        if not self.crashes:
            branches = sum(isinstance(e, SkipDecision) for ends in self.script.endings.values() for e in ends)
            assert len(succeeded) <= len(set(succeeded)) + branches, "no success is run again"

    # -- reading ----------------------------------------------------------------------------

    @property
    def states(self) -> dict[str, str]:
        return {self.graph.task_ids[i.task]: i.state.value for i in self.board}

    @property
    def result(self) -> tuple[str, str | None]:
        return self.board.run.state.value, self.board.run.reason

    def of(self, task_id: str) -> Instance:
        found = self.board.find(self.graph.index[task_id])
        assert found is not None
        return found


def play(graph: Graph, outcomes: Mapping[str, Sequence[Ending]] | None = None, **script: Any) -> Player:
    """Play a run of `graph` in which the calls of the tasks end so (success where nothing is said)."""
    return Player(graph, Script(endings=outcomes or {}, **script)).play()


def _everything(board: Board) -> tuple[Any, ...]:
    effects = board.effects
    collected = [*msgspec.structs.astuple(effects.rows), *msgspec.structs.astuple(effects.slots)]
    kept = [copy.copy(each) for each in (*collected, effects.cancelled, effects.triggers)]
    return [_row(i) for i in board], kept, _run_row(board.run)
