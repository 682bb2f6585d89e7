"""Callbacks in this process's executor, and their reports that are not stored yet (loops/callbacks.py).

Also the renderings of template fields there, each of which answers a request (requests/rendering.py).
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from aiosched.core.slots.fairness import SLOW
from aiosched.core.values.messages import Attempt, CallbackCall, Outcome, Report
from aiosched.db.statements.outbox import WaitingCallback


class RunningCallback(NamedTuple):
    """A request that is being delivered by `attempt`; `began` is a monotonic second."""

    request: WaitingCallback
    attempt: Attempt
    began: float

    @property
    def call(self) -> CallbackCall:
        """What the worker was asked to call."""
        assert self.attempt.callback is not None
        return self.attempt.callback


@dataclass(slots=True)
class RunningCallbacks:
    """See the module docstring."""

    by_id: dict[int, RunningCallback] = field(default_factory=dict)  # until their reports are stored
    reports: deque[Report] = field(default_factory=deque)
    on_report: Callable[[], None] = lambda: None

    def __len__(self) -> int:
        return len(self.by_id)

    def __contains__(self, callback: int) -> bool:
        return callback in self.by_id

    def begin(self, requests: Mapping[int, WaitingCallback], attempts: Mapping[int, Attempt], now: float) -> None:
        """These attempts run from now on."""
        self.by_id |= {number: RunningCallback(requests[number], attempt, now) for number, attempt in attempts.items()}

    def end(self, callback: int) -> RunningCallback | None:
        """The report of this one is stored. Returns None if it is not known."""
        return self.by_id.pop(callback, None)

    def running(self) -> Counter[str]:
        """How many run, by DAG."""
        ended = self._ended()
        return Counter(running.request.dag_id for number, running in self.by_id.items() if number not in ended)

    def slow(self, now: float) -> int:
        """How many of them have run for so long that they take no place."""
        ended = self._ended()
        return sum(now >= running.began + SLOW for number, running in self.by_id.items() if number not in ended)

    def slow_in(self, now: float) -> float | None:
        """In how many seconds the next of them takes no place any more; None if all are slow."""
        rests = (running.began + SLOW - now for running in self.by_id.values())
        return min((rest for rest in rests if rest > 0), default=None)

    def receive(self, report: Report) -> None:
        """Keep the report of a callback's end; that of its start is not needed."""
        if report.outcome is not Outcome.STARTED:
            self.reports.append(report)
            self.on_report()

    def _ended(self) -> set[int]:
        return {report.key.try_number for report in self.reports}


@dataclass(slots=True)
class RunningRenderings:
    """Renderings by the number of their request. An attempt of one has the task index `RENDERING`."""

    by_request: dict[int, asyncio.Future[Report]] = field(default_factory=dict)

    def __contains__(self, request: int) -> bool:
        return request in self.by_request

    def begin(self, request: int) -> asyncio.Future[Report]:
        """This one begins; its report is to come."""
        self.by_request[request] = asyncio.get_running_loop().create_future()
        return self.by_request[request]

    def end(self, request: int) -> None:
        """This one is answered, or given up: its report is not needed any more."""
        self.by_request.pop(request, None)

    def receive(self, report: Report) -> None:
        """Pass on the report of an end."""
        waiting = self.by_request.get(report.key.try_number)
        if waiting is not None and not waiting.done() and report.outcome is not Outcome.STARTED:
            waiting.set_result(report)
