"""Traces for OpenTelemetry: a span for each run, and inside it one for each attempt of a task.

Without an SDK that is configured in this process (by `opentelemetry-instrument aiosched serve`, or by the application
that embeds the scheduler) nothing is imported and there is no cost. Spans are made after the commit, with the
instants of the rows. A run that was asked for within a span is a part of its trace, wherever that span was. One that
this scheduler has taken over gets a new span from then on.
"""

from __future__ import annotations

import sys
from datetime import datetime
from typing import TYPE_CHECKING, Final

from aiosched.core.run.board import Board
from aiosched.core.values.messages import Outcome, Report
from aiosched.core.values.states import RunState
from aiosched.scheduler.memory.cache import StateCache
from aiosched.scheduler.memory.changes import Changes
from aiosched.trace_context import remote_context
from aiosched.version import __version__

if TYPE_CHECKING:
    from opentelemetry.trace import Span, Tracer, TracerProvider

_ENDS: Final = frozenset(Outcome) - {Outcome.STARTED, Outcome.TRIGGERED, Outcome.STUCK}
_SLACK: Final = 100  # spans of runs no longer held here that may accumulate before they are dropped


def open_tracing(provider: TracerProvider | None = None) -> Tracing | None:
    """Tracing with the provider that is configured here (or `provider`); None without one."""
    if provider is None:
        if "opentelemetry.sdk.trace" not in sys.modules:  # configuring a provider imports it
            return None
        from opentelemetry import trace
        from opentelemetry.sdk.trace import TracerProvider as Configured

        provider = trace.get_tracer_provider()
        if not isinstance(provider, Configured):
            return None
    return Tracing(provider.get_tracer("aiosched", __version__))


class Tracing:
    """The open spans of the runs that a scheduler holds."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer
        self._runs: dict[int, Span] = {}

    def trace(self, batch: Changes, cache: StateCache) -> None:
        """Start and end the spans of what a committed batch has started and finished."""
        for board in batch.effects.started:
            self._span_of(board)
        ending = {board.run.key: board for board in batch.effects.finished}
        for report in batch.effects.reports:
            board_of_report = ending.get(report.key.run) or cache.boards.get(report.key.run)
            if board_of_report is not None:
                self._attempt(board_of_report, report)
        for board in batch.effects.finished:
            self._end(board)
        if len(self._runs) > len(cache.boards) + _SLACK:
            self._runs = {key: span for key, span in self._runs.items() if key in cache.boards}

    def _span_of(self, board: Board) -> Span:
        run = board.run
        span = self._runs.get(run.key)
        if span is None:
            attributes = {
                "aiosched.dag_id": run.dag_id,
                "aiosched.run_id": run.run_id,
                "aiosched.run_type": str(run.run_type),
            }
            name = f"run {run.dag_id}"
            span = self._runs[run.key] = self._tracer.start_span(
                name,
                context=None if run.traceparent is None else remote_context(run.traceparent),
                attributes=attributes,
                start_time=_nanoseconds(run.start_date),
            )
        return span

    def _attempt(self, board: Board, report: Report) -> None:
        from opentelemetry.trace import Status, StatusCode, set_span_in_context

        key = report.key
        if report.outcome not in _ENDS or key.try_number < 1 or not 0 <= key.task_index < len(board.graph.tasks):
            return  # a trigger or a callback
        task = board.graph.tasks[key.task_index]
        span = self._tracer.start_span(
            f"task {board.run.dag_id}.{task.task_id}",
            context=set_span_in_context(self._span_of(board)),
            attributes={
                "aiosched.dag_id": board.run.dag_id,
                "aiosched.run_id": board.run.run_id,
                "aiosched.task_id": task.task_id,
                "aiosched.map_index": key.map_index,
                "aiosched.try_number": key.try_number,
                "aiosched.outcome": str(report.outcome),
            },
            start_time=_nanoseconds(report.started_at or report.at),
        )
        if report.outcome in (Outcome.FAILED, Outcome.LOST):
            span.set_status(Status(StatusCode.ERROR, report.reason))
        span.end(_nanoseconds(report.at))

    def _end(self, board: Board) -> None:
        from opentelemetry.trace import Status, StatusCode

        span = self._span_of(board)
        del self._runs[board.run.key]
        span.set_attribute("aiosched.state", str(board.run.state))
        if board.run.state is RunState.FAILED:
            span.set_status(Status(StatusCode.ERROR, board.run.reason))
        span.end(_nanoseconds(board.run.end_date))


def _nanoseconds(at: datetime | None) -> int | None:
    return None if at is None else int(at.timestamp() * 1_000_000) * 1000
