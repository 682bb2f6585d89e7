"""STARTED reports for attempts that take longer than a moment, and their rendered template fields.

An attempt that ends within `delay` seconds sends only its final report (which carries `started_at`): with thousands of
short attempts per second, half of the reports would be outdated before they are read. Template fields go with the start
of an attempt if that is reported, else with its end.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final, Protocol

import msgspec

from aiosched.core.values.messages import AttemptKey, Outcome, Report

DELAY: Final = 0.02  # seconds


class AttemptProcess(Protocol):
    """The process of an attempt; `pid` is None until it is known."""

    @property
    def pid(self) -> int | None: ...


class StartNotices:
    """One timer for all attempts of an executor; call everything on its event loop."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, report: Callable[[Report], None], *, hostname: str, delay: float = DELAY
    ) -> None:
        self._loop, self._report, self._hostname, self._delay = loop, report, hostname, delay
        self._due: deque[tuple[float, AttemptKey]] = deque()
        self._open: dict[AttemptKey, tuple[datetime, AttemptProcess, float]] = {}
        self._reported: set[AttemptKey] = set()  # of attempts that have not ended
        self._rendered: dict[AttemptKey, str] = {}  # template fields that no report has yet
        self._timer: asyncio.TimerHandle | None = None

    def began(self, key: AttemptKey, process: AttemptProcess) -> None:
        """Record that an attempt begins now, in `process`."""
        due = self._loop.time() + self._delay
        self._open[key] = (datetime.now(UTC), process, due)
        self._due.append((due, key))
        if self._timer is None:
            self._timer = self._loop.call_later(self._delay, self._report_started)

    def rendered(self, key: AttemptKey, fields: str) -> None:
        """Record the template fields of an attempt that has begun, as a JSON object."""
        self._rendered[key] = fields
        begun = self._open.get(key)
        if begun is not None and key in self._reported:
            self._report_start(key, begun[0], begun[1])  # again, with them

    def with_fields(self, report: Report) -> Report:
        """The final report of an attempt, with its template fields if no other report has them."""
        fields = self._rendered.pop(report.key, None) if self._rendered else None
        return report if fields is None else msgspec.structs.replace(report, rendered=fields)

    def ended(self, key: AttemptKey) -> datetime | None:
        """Record that an attempt has ended and drop its notice; returns its start time, if it had begun."""
        self._reported.discard(key)
        begun = self._open.pop(key, None)
        return begun[0] if begun else None

    def withdrawn(self, key: AttemptKey) -> None:
        """Record that an attempt has not begun after all; it will begin in another process."""
        self._open.pop(key, None)
        self._rendered.pop(key, None)

    def close(self) -> None:
        """Stop reporting."""
        self._open.clear()
        self._reported.clear()
        self._rendered.clear()
        self._due.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _report_started(self) -> None:
        self._timer = None
        now = self._loop.time()
        while self._due and self._due[0][0] <= now:
            due, key = self._due.popleft()
            begun = self._open.get(key)
            if begun is not None and begun[2] == due and key not in self._reported:
                at, process, _ = begun
                self._reported.add(key)
                self._report_start(key, at, process)
        while self._due and self._due[0][1] not in self._open:
            self._due.popleft()
        if self._due:
            self._timer = self._loop.call_at(self._due[0][0], self._report_started)

    def _report_start(self, key: AttemptKey, at: datetime, process: AttemptProcess) -> None:
        started = Report(
            key=key,
            outcome=Outcome.STARTED,
            at=at,
            started_at=at,
            hostname=self._hostname,
            pid=process.pid,
            rendered=self._rendered.pop(key, None),
        )
        self._report(started)
