"""The asset watchers that run in this process; they outlive sessions (attempts.py)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import count

from aiosched.core.values.messages import AttemptKey, Outcome, Report
from aiosched.db.statements.watchers import WatchedAsset


@dataclass(slots=True)
class Watchers:
    """The watchers that run here, by the keys of their triggers, each with a negative run key of its own."""

    running: dict[AttemptKey, WatchedAsset] = field(default_factory=dict)
    events: deque[tuple[WatchedAsset, Report]] = field(default_factory=deque)  # not stored yet
    ended: deque[tuple[WatchedAsset, Report]] = field(default_factory=deque)  # to be started again later
    resting: dict[WatchedAsset, float] = field(default_factory=dict)  # until this monotonic second
    unreadable: set[str] = field(default_factory=set)  # assets with watchers that cannot be read
    on_change: Callable[[], None] = lambda: None
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
        if report.more:
            self.events.append((watched, report))
        else:
            del self.running[report.key]
            self.ended.append((watched, report))
        self.on_change()
