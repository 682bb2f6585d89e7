"""Cron ticks of a time zone in real time: handles clock changes.

A tick is a wall time. An ordinary tick happens once. With an hour field other than `*`, a tick that the clocks skip
happens when they would have shown it (02:30 becomes 03:30), and a tick that they show twice happens the second time.
With `*` hours it happens whenever the clocks show it: never or twice. Two ticks at one instant are one tick.

Source: the semantics reference, sections 12.1 and 36.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from typing import Final, NamedTuple

from aiosched.core.timetables.cron import Cron, parse_cron
from aiosched.core.timetables.zones import zone

_INSTANT: Final = timedelta(microseconds=1)
_NOTHING: Final = timedelta(0)
_NEAR: Final = timedelta(hours=25)  # farther than any clock change moves clocks (Pacific/Apia skipped a day)


class WallTick(NamedTuple):
    """The instants (UTC, ascending) at which one wall time happens."""

    instants: tuple[datetime, ...]
    skipped: bool = False  # the clocks jump over it
    repeated: bool = False  # the clocks show it twice


class WallClock:
    """The ticks of one cron expression in one time zone. Takes aware instants, returns UTC."""

    __slots__ = ("cron", "zone")

    def __init__(self, expression: str, timezone: str) -> None:
        self.cron: Cron = parse_cron(expression)
        self.zone: tzinfo = zone(timezone)

    def next_tick(self, after: datetime) -> datetime:
        """The first tick strictly after the instant `after`."""
        wall, slack = self._read(after)
        wall -= slack
        best: datetime | None = None
        while True:
            wall = self.cron.after(wall)
            tick = self.meaning(wall)
            for instant in tick.instants:
                if instant > after and (best is None or instant < best):
                    best = instant
            # Later wall times happen later, except that skipped ones move past the next ones.
            if best is not None and not tick.skipped and tick.instants[0] > after:
                return best

    def prev_tick(self, before: datetime) -> datetime:
        """The last tick strictly before the instant `before`."""
        wall, slack = self._read(before)
        wall += slack
        best: datetime | None = None
        reach: datetime | None = None  # skipped wall times down to here may have moved past `best`
        while True:
            wall = self.cron.before(wall)
            if reach is not None and best is not None and wall <= reach:
                return best
            tick = self.meaning(wall)
            for instant in tick.instants:
                if instant < before and (best is None or instant > best):
                    best = instant
            if reach is None and best is not None and not tick.skipped and tick.instants[-1] < before:
                reach = wall - self._gap_just_before(best)
                if reach == wall:
                    return best

    def floor(self, t: datetime) -> datetime:
        """`t` if it is a tick, else the last tick before it."""
        return self.prev_tick(t + _INSTANT)

    def ceil(self, t: datetime) -> datetime:
        """`t` if it is a tick, else the first tick after it."""
        return self.next_tick(t - _INSTANT)

    def meaning(self, wall: datetime) -> WallTick:
        """When the naive wall time `wall` happens, by this expression's rule."""
        first = wall.replace(tzinfo=self.zone, fold=0)
        early = first.utcoffset() or _NOTHING
        late = first.replace(fold=1).utcoffset() or _NOTHING
        utc = wall.replace(tzinfo=UTC)
        if early == late:
            return WallTick((utc - early,))
        every_hour = self.cron.every_hour
        if early < late:  # skipped: the clocks went forward over it
            return WallTick(() if every_hour else (utc - early,), skipped=True)
        return WallTick((utc - early, utc - late) if every_hour else (utc - late,), repeated=True)

    def _read(self, t: datetime) -> tuple[datetime, timedelta]:
        """The wall time at `t`, and by how much a nearby clock change makes times repeat or move (rare)."""
        before, here, ahead = self._offset(t - _NEAR), self._offset(t), self._offset(t + _NEAR)
        wall = t.astimezone(UTC).replace(tzinfo=None) + here
        if before == here == ahead:
            return wall, _NOTHING
        change = max(abs(here - before), abs(ahead - here))
        if self._offset(t - change) == here == self._offset(t + change):
            return wall, _NOTHING
        return wall, change

    def _gap_just_before(self, t: datetime) -> timedelta:
        """By how much the clocks went forward, when skipped wall times are moved past `t`; else nothing."""
        if self.cron.every_hour:
            return _NOTHING
        here = self._offset(t)
        gap = here - self._offset(t - _NEAR)
        return gap if gap > _NOTHING and self._offset(t - gap) != here else _NOTHING

    def _offset(self, t: datetime) -> timedelta:
        return t.astimezone(self.zone).utcoffset() or _NOTHING


@lru_cache(maxsize=8192)
def wall_clock(expression: str, timezone: str) -> WallClock:
    """The (shared, immutable) ticks of `expression` in `timezone`; raises TimetableError."""
    return WallClock(expression, timezone)
