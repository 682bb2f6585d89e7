"""Batch evaluation: reports and due timers become decisions.

One pass applies the reports that arrived, wakes what is due, lets each touched board decide (pure
functions, with a cost proportional to the change) and passes the effects on. Nothing here
awaits: between two passes everything in memory is consistent. An unforeseen error concerns its DAG only.

DAGs share a pass: one with very many reports or decisions gets its share of each pass, and goes on in the next.
"""

from __future__ import annotations

import logging
from collections import Counter, deque
from datetime import datetime
from typing import Final

from aiosched.core.graph.instances import MapLabel, RenderedFields
from aiosched.core.run.board import Board, Instance
from aiosched.core.run.deferral import is_trigger
from aiosched.core.slots.fairness import fair_shares
from aiosched.core.values.messages import Outcome, Report
from aiosched.core.values.states import RunState
from aiosched.errors import DagFailure
from aiosched.scheduler.failures.isolation import failure_of, failure_of_report, raise_failures
from aiosched.scheduler.journal.asset_events import events_of
from aiosched.scheduler.memory.decision_context import DecisionContext
from aiosched.scheduler.slots.revoking import check_queue

logger: logging.Logger = logging.getLogger(__name__)

# So that other coroutines get their turn, and other DAGs' decisions are stored in between:
REPORTS_PER_PASS: Final = 500
DECISIONS_PER_PASS: Final = 500  # about the task instances of one DAG …
DECISIONS_IN_ALL: Final = 5_000  # … and of all of them


async def evaluate(context: DecisionContext) -> float | None:
    """One pass; returns how long to rest: until the next timer, or 0 while reports or runs wait.

    Runs that go on in the next pass wait for the next commit first, if there is something to store: so they do not
    take turns with every step of the commits of others.
    """
    decide(context, context.clock.now())
    if context.attempts.reports or (context.cache.work.to_evaluate and not context.cache.unstored.dirty):
        return 0.0
    instants = [i for i in (context.cache.timers.earliest, context.attempts.stuck_attempts.check_at) if i is not None]
    return max((min(instants) - context.clock.now()).total_seconds(), 0.001) if instants else None


def decide(context: DecisionContext, now: datetime) -> None:
    """Apply reports and due timers, and let each touched board decide; where there is very much, some go on later."""
    cache = context.cache
    failures = [*check_queue(context, now), *_apply_reports(context, now), *_wake_due(context, now)]
    left: dict[str, float] = {}  # decisions, by DAG
    in_all: float = DECISIONS_IN_ALL
    unfinished: list[Board] = []
    while cache.work.to_evaluate:  # a change in one run may affect the runs after it
        to_evaluate, cache.work.to_evaluate = cache.work.to_evaluate, {}
        for board in to_evaluate:
            dag_id = board.run.dag_id
            try:
                own = left.get(dag_id, DECISIONS_PER_PASS)
                rest = most = min(own, in_all)
                if most:
                    rest = board.evaluate(now, most)
                    left[dag_id], in_all = own - (most - rest), in_all - (most - rest)
                    context.apply_effects(board)
                if not rest:
                    unfinished.append(board)
            except Exception as error:
                failures.append(failure_of(error, dag_id, "the evaluation"))
    raise_failures(failures)
    cache.work.to_evaluate.update(dict.fromkeys(unfinished))


def _apply_reports(context: DecisionContext, now: datetime) -> list[DagFailure]:
    """Apply the next reports; those that fail wait until their DAG is taken up again, or are set aside."""
    number = _bring_forward(context)
    reports, failures, kept = context.attempts.reports, [], []
    try:
        for _ in range(number):
            report = reports.popleft()
            try:
                _apply(context, report, now)
            except Exception as error:
                kept.append(report)
                if (board := context.cache.boards.get(report.key.run)) is None:
                    raise
                failures.append(failure_of_report(error, board.run.dag_id, report))
    finally:
        reports.extendleft(reversed(kept))
    return failures


def _bring_forward(context: DecisionContext) -> int:
    """Put the reports of this pass before all others, each DAG's oldest; returns how many they are."""
    boards, reports = context.cache.boards, context.attempts.reports
    if len(reports) <= REPORTS_PER_PASS:
        return len(reports)
    dags = [board.run.dag_id if (board := boards.get(report.key.run)) else "" for report in reports]
    shares = fair_shares(Counter(dags), REPORTS_PER_PASS)
    now, later = deque[Report](), []
    for report, dag_id in zip(reports, dags, strict=True):
        if shares[dag_id]:
            shares[dag_id] -= 1
            now.append(report)
        else:
            later.append(report)
    number = len(now)
    now.extend(later)
    context.attempts.reports = now
    return number


def _apply(context: DecisionContext, report: Report, now: datetime) -> None:
    cache, unstored = context.cache, context.cache.unstored
    board = cache.boards.get(report.key.run)
    if board is None and report.inbox_id is not None and report.key.run in cache.unreadable.runs:
        return  # its row stays, for a scheduler that can read the run
    if report.inbox_id is not None:
        unstored.delete_report(report.inbox_id)
        context.wakeups.enqueueing.wake()
    if board is None or _is_of_an_earlier_call(board, report) or not board.apply(report, now):
        context.metrics.stale_reports += 1
        logger.debug("stale report %s of %s", report.outcome, tuple(report.key))
        if report.outcome is not Outcome.STARTED and not is_trigger(report.key):
            if report.inbox_id is None:  # the decisions may be lost, and it is needed then
                unstored.pending.effects.dropped.append(report)
            cache.work.room_changed = True  # it was stopped, and has freed its executor's slot only now
            context.wakeups.enqueueing.wake()
        return
    if report.rendered is not None:
        _keep_rendered(board, report, report.rendered)
    if report.map_label is not None:
        rows = board.effects.rows
        rows.labels.append(MapLabel(*report.key[:3], report.map_label))
    if report.outcome is Outcome.STARTED:
        context.apply_effects(board)  # nothing to decide; the row may wait for the next commit
        return
    if report.outcome is Outcome.LOST and not is_trigger(report.key):
        context.metrics.lost_attempts += 1
    if report.assets and report.outcome is Outcome.SUCCESS:
        unstored.pending.messages.asset_events.extend(events_of(report, board.run.dag_id, now))
    unstored.pending.effects.reports.append(report)
    cache.work.to_evaluate[board] = None


def _keep_rendered(board: Board, report: Report, fields: str) -> None:
    """The template fields of a try are stored with its next change: its start, or its end if that comes first."""
    instance, key, rows = board.find(report.key.task_index, report.key.map_index), report.key, board.effects.rows
    rows.rendered.append(RenderedFields(*key, fields))
    if instance is not None and report.outcome is Outcome.STARTED and instance not in rows.changed:
        rows.lazy[instance] = None  # its start may be stored already


def _is_of_an_earlier_call(board: Board, report: Report) -> bool:
    """Whether a remote report concerns an earlier call: its sender repeats it if it cannot know that it arrived."""
    if report.ran_by is None:
        return False
    instance = board.find(report.key.task_index, report.key.map_index)
    return instance is None or instance.queued_by != report.ran_by


def _wake_due(context: DecisionContext, now: datetime) -> list[DagFailure]:
    cache, failures = context.cache, []
    for run, instance in cache.timers.due(now):
        board = cache.boards.get(run)
        if board is None:
            continue
        try:
            _wake(context, board, instance, now)
        except Exception as error:
            failures.append(failure_of(error, board.run.dag_id, "a timer"))
        cache.work.to_evaluate[board] = None
    return failures


def _wake(context: DecisionContext, board: Board, instance: Instance | None, now: datetime) -> None:
    """A timer of the instance, or of the run, is due."""
    if instance is not None:
        if board.find(instance.task, instance.map_index) is instance:  # the run was not reloaded meanwhile
            board.wake(instance)
            board.time_out_trigger(instance, now)
    elif not context.cache.dags[board.run.dag_id].row.is_paused and board.run.state is RunState.RUNNING:
        timeout, start = board.graph.spec.dagrun_timeout, board.run.start_date
        if timeout is not None and start is not None and (now - start).total_seconds() > timeout:
            board.time_out(now)
