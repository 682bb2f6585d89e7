"""How a scheduler loop rests, wakes and stops, and heaps of due times.

A loop clears its wake-up *before* it reads, so that a change during the read causes another
pass. Timers are checked by the loop that sleeps until the earliest of them.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Final, Generic, TypeVar

T = TypeVar("T")

FEW: Final = 1000


@dataclass(slots=True)
class Wakeup:
    """Wakes a resting loop early, and stops it."""

    stopping: bool = False
    awake: asyncio.Event = field(default_factory=asyncio.Event)  # set by `wake`, and at the end of a rest
    is_set: bool = False  # `wake` was called since the last pass began

    def wake(self) -> None:
        if not self.is_set:
            self.is_set = True
            self.awake.set()

    def stop(self) -> None:
        self.stopping = True
        self.wake()

    def clear(self) -> None:
        """A pass begins: a `wake` from now on causes another one."""
        self.is_set = False
        self.awake.clear()

    async def rest(self, seconds: float | None) -> None:
        """Return when woken, or after `seconds` (None: only when woken)."""
        alarm = None if seconds is None else asyncio.get_running_loop().call_later(seconds, self.awake.set)
        try:
            await self.awake.wait()
        finally:
            if alarm is not None:
                alarm.cancel()


@dataclass(slots=True)
class Wakeups:
    """One wake-up for each loop."""

    creation: Wakeup = field(default_factory=Wakeup)
    evaluation: Wakeup = field(default_factory=Wakeup)
    enqueueing: Wakeup = field(default_factory=Wakeup)
    notifications: Wakeup = field(default_factory=Wakeup)
    callbacks: Wakeup = field(default_factory=Wakeup)  # callbacks and deadlines
    retention: Wakeup = field(default_factory=Wakeup)
    remote_attempts: Wakeup = field(default_factory=Wakeup)  # attempts that run here for others
    engines: Wakeup = field(default_factory=Wakeup)  # attempts on engines
    stored_xcoms: Wakeup = field(default_factory=Wakeup)  # XComs in remote storage that are gone
    watchers: Wakeup = field(default_factory=Wakeup)  # asset watchers
    broadcast: Wakeup = field(default_factory=Wakeup)  # changes for browsers
    audit: Wakeup = field(default_factory=Wakeup)  # entries for syslog
    alerts: Wakeup = field(default_factory=Wakeup)  # alert rules
    schedules: Wakeup = field(default_factory=Wakeup)  # schedules that are data

    @property
    def all(self) -> tuple[Wakeup, ...]:
        """All wake-ups."""
        return tuple(getattr(self, one.name) for one in fields(self))

    def wake_all(self) -> None:
        """Have each loop make a pass."""
        for wakeup in self.all:
            wakeup.wake()

    def stop_all(self) -> None:
        """Have each loop end after its current pass."""
        for wakeup in self.all:
            wakeup.stop()


async def run_loop(step: Callable[[], Awaitable[float | None]], wakeup: Wakeup) -> None:
    """Call `step` until `wakeup` stops. It returns how long to rest: 0 for "again at once", None for "until woken"."""
    while not wakeup.stopping:
        wakeup.clear()  # before the read, so that a later `wake` is not lost
        seconds = await step()
        if seconds is None or seconds > 0:
            await wakeup.rest(seconds)
        else:
            await asyncio.sleep(0)  # other coroutines get their turn


class Timers(Generic[T]):
    """Things to do at an instant, earliest first. The caller ignores what is no longer wanted when it is due.

    The same thing at the same instant is one entry, however often it is added.
    """

    def __init__(self) -> None:
        self._heap: list[tuple[datetime, int, T]] = []
        self._most = FEW  # when the heap has grown to that many entries, those that are no longer wanted are removed
        self._there: set[tuple[datetime, T]] = set()
        self._order = itertools.count()

    def __len__(self) -> int:
        return len(self._heap)

    def add(self, at: datetime, what: T) -> None:
        if (at, what) not in self._there:
            self._there.add((at, what))
            heapq.heappush(self._heap, (at, next(self._order), what))

    def due(self, now: datetime, most: int | None = None) -> list[T]:
        """Remove and return what is due, in order; at most so many."""
        found: list[T] = []
        while self._heap and self._heap[0][0] <= now and len(found) != most:
            at, _, what = heapq.heappop(self._heap)
            self._there.discard((at, what))
            found.append(what)
        return found

    def prune(self, is_wanted: Callable[[T], bool]) -> None:
        """Remove what is no longer wanted, if there may be much of it; the cost is constant on average."""
        if len(self._heap) < self._most:
            return
        self._heap = [entry for entry in self._heap if is_wanted(entry[2])]
        heapq.heapify(self._heap)
        self._there = {(at, what) for at, _, what in self._heap}
        self._most = max(FEW, 2 * len(self._heap))

    @property
    def earliest(self) -> datetime | None:
        return self._heap[0][0] if self._heap else None

    def clear(self) -> None:
        self._heap.clear()
        self._there.clear()
