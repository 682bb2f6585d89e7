"""The asset watchers that run in this process; they outlive sessions (attempts.py).

The events of each watcher wait here until they are stored, up to a limit. A watcher that goes beyond it is stopped, and
started again later: what its trigger watches keeps the events until then.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import count
from typing import Final

from aiosched.core.values.messages import AttemptKey, Outcome, Report
from aiosched.db.assets.watchers import WatchedAsset

MOST_EVENTS: Final = 2_000  # of one watcher that wait to be stored
MOST_BYTES: Final = 4 * 2**20  # of their payloads


@dataclass(slots=True)
class Watchers:
    """The watchers that run here, by the keys of their triggers, each with a negative run key of its own."""

    running: dict[AttemptKey, WatchedAsset] = field(default_factory=dict)
    events: deque[tuple[WatchedAsset, Report]] = field(default_factory=deque)  # not stored yet
    ended: deque[tuple[WatchedAsset, Report]] = field(default_factory=deque)  # to be started again later
    too_fast: dict[AttemptKey, WatchedAsset] = field(default_factory=dict)  # to be stopped, and started again later
    resting: dict[WatchedAsset, float] = field(default_factory=dict)  # until this monotonic second
    unreadable: set[str] = field(default_factory=set)  # assets with watchers that cannot be read
    on_change: Callable[[], None] = lambda: None
    _events_of: Counter[WatchedAsset] = field(default_factory=Counter)
    _bytes_of: Counter[WatchedAsset] = field(default_factory=Counter)
    _numbers: Iterable[int] = field(default_factory=lambda: count(1))

    def begin(self, watched: WatchedAsset) -> AttemptKey:
        """Register a watcher that starts; returns its new key."""
        key = AttemptKey(-next(iter(self._numbers)), 0, -1, -1)
        self.running[key] = watched
        return key

    def receive(self, report: Report) -> None:
        """Take a report of a watcher's trigger; reports of a watcher that was stopped are dropped."""
        watched = self.running.get(report.key)
        if watched is None or report.outcome is Outcome.STARTED:
            return
        if report.more and self._is_full(watched):
            self.too_fast[report.key] = self.running.pop(report.key)
        elif report.more:
            self.events.append((watched, report))
            self._count(watched, report, 1)
        else:
            del self.running[report.key]
            self.ended.append((watched, report))
        self.on_change()

    def next_events(self, *, most: int, size: int) -> list[tuple[WatchedAsset, Report]]:
        """The first events: up to `most`, and no more after their payloads have `size` bytes."""
        found: list[tuple[WatchedAsset, Report]] = []
        for watched, report in self.events:
            if len(found) >= most or size <= 0:
                break
            found.append((watched, report))
            size -= len(report.event or "")
        return found

    def stored(self, number: int) -> None:
        """The first `number` events are stored."""
        for _ in range(number):
            self._count(*self.events.popleft(), -1)

    def _is_full(self, watched: WatchedAsset) -> bool:
        return self._events_of[watched] >= MOST_EVENTS or self._bytes_of[watched] >= MOST_BYTES

    def _count(self, watched: WatchedAsset, report: Report, step: int) -> None:
        self._events_of[watched] += step
        self._bytes_of[watched] += step * len(report.event or "")
        if not self._events_of[watched]:
            del self._events_of[watched], self._bytes_of[watched]
