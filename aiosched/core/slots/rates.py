"""How many attempts may start in a pool per period: its rate, its recent starts, and the room that is left.

A *sliding log*: a start is allowed if fewer than the rate's number were recorded in the period that ends now. So no
period of that length, wherever it begins, has more. The log is kept in the pool's row, and is read and written under
its lock, in the transaction that stores the claims. Its instants are microseconds since 1970 by PostgreSQL's clock.

A long log is kept short by merging starts of the same `_PARTS`th of a period, at the latest instant of them: a start
is then remembered longer than necessary, never shorter. Source: docs/decisions/0071-rates-of-pools.md.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NamedTuple

import msgspec

from aiosched.errors import Refused

_PARTS: Final = 256
_SECOND: Final = 1_000_000  # microseconds
_UNITS: Final = {"s": 1, "min": 60, "h": 3600, "day": 86_400}  # in seconds
_WORDS: Final = {"s": "second", "min": "minute", "h": "hour", "day": "day"}
_ALIASES: Final = {word: unit for unit, word in _WORDS.items()} | {"sec": "s", "m": "min", "hour": "h", "d": "day"}
_RATE: Final = re.compile(r"([1-9][0-9]{0,6}) ?/ ?([1-9][0-9]{0,4})? ?([a-z]+)")


class Rate(NamedTuple):
    """At most so many starts in any period of so many seconds."""

    starts: int
    seconds: int

    def __str__(self) -> str:
        number, unit = _in_units(self.seconds)
        return f"{self.starts}/{number if number > 1 else ''}{unit}"

    @property
    def period(self) -> str:
        """For people: `minute`, `30 s`."""
        number, unit = _in_units(self.seconds)
        return _WORDS[unit] if number == 1 else f"{number} {unit}" + ("s" if unit == "day" else "")


def _in_units(seconds: int) -> tuple[int, str]:
    """A number of the largest unit that divides it."""
    unit = next(unit for unit in reversed(_UNITS) if seconds % _UNITS[unit] == 0)
    return seconds // _UNITS[unit], unit


@lru_cache(maxsize=1000)
def parse_rate(text: str) -> Rate:
    """`100/min`, `5/30s`, `1000/day`; raises Refused for anything else."""
    found = _RATE.fullmatch(text.strip().lower())
    unit = found and _ALIASES.get(found[3], found[3])
    if found is None or unit not in _UNITS:
        raise Refused(
            "A rate is a number of starts (1 to 9,999,999) and a period in s, min, h or day, "
            f"such as 100/min, 5/30s or 1000/day, not {text[:50]!r}."
        )
    return Rate(int(found[1]), int(found[2] or 1) * _UNITS[unit])


Log = list[tuple[int, int]]  # (instant, number of starts), oldest first

_decode: Final = msgspec.json.Decoder(Log).decode


class RecentStarts:
    """The starts of a pool with a rate, and how many are `left` at `now`; changed by what a pass starts."""

    __slots__ = ("kept", "left", "log", "moved", "now", "rate", "refused", "taken")

    def __init__(self, rate: Rate, log: Sequence[tuple[int, int]], now: int) -> None:
        self.rate, self.now = rate, now
        begin = now - rate.seconds * _SECOND
        self.moved = any(at > now for at, _ in log)  # the clock was set back: they began before it was
        self.log: Log = sorted((min(at, now), number) for at, number in log if at > begin)
        self.left = rate.starts - sum(number for _, number in self.log)  # below 0 after the rate was lowered
        self.kept = 0  # of those that are left: for schedulers that go first
        self.taken = 0
        self.refused = False  # something could not start for want of it

    @classmethod
    def of(cls, rate: str, log: str, read_at: float) -> RecentStarts:
        """As stored; `read_at` in seconds. If the log cannot be read, all starts were now: never more than allowed."""
        now = round(read_at * _SECOND)
        try:
            return cls(parse_rate(rate), [(at, number) for at, number in _decode(log) if number > 0], now)
        except msgspec.MsgspecError:
            full = cls.used_up(rate, now)
            full.moved = True  # it is stored, and readable from now on
            return full

    @classmethod
    def used_up(cls, rate: str, now: int = 0) -> RecentStarts:
        """All of them have just begun: nothing can start."""
        known = parse_rate(rate)
        return cls(known, [(now, known.starts)], now)

    @property
    def in_period(self) -> int:
        """How many started in the period that ends now."""
        return sum(number for _, number in self.log) + self.taken

    @property
    def has_changed(self) -> bool:
        """Whether the log is to be stored."""
        return self.moved or self.taken > 0

    def refusal(self, pool: str) -> str | None:
        """Why nothing more can start in the pool of that name now; None if something can."""
        if self.left > 0:
            return None
        self.refused = True
        kept = f", {self.kept} reserved for tasks that go first" if self.kept else ""
        return f"pool {pool!r}: no start left, its rate is {self.rate}{kept}"

    def take(self) -> None:
        """One start."""
        self.left -= 1
        self.taken += 1

    def keep(self, number: int) -> None:
        """Leave so many of those that are left to schedulers that go first."""
        number = min(number, self.left)
        self.left -= number
        self.kept += number

    @property
    def wait(self) -> float | None:
        """The seconds from `now` until something that was refused may start; None if nothing waits for an instant."""
        return (self.next_at() - self.now) / _SECOND if self.refused and not self.kept else None

    @property
    def summary(self) -> str:
        """How much of the rate is used up: `100 of 100 starts in the last minute`."""
        return f"{self.in_period} of {self.rate.starts} starts in the last {self.rate.period}"

    def next_at(self, ahead: int = 0) -> int:
        """The first instant at which another start is allowed, if `ahead` others start before it as soon as they may.

        Microseconds since 1970; at least `now`.
        """
        period, started = self.rate.seconds * _SECOND, self.in_period
        place, rounds = started + ahead - self.rate.starts, 1  # of the start whose place it takes, a period later
        if place >= started:  # which is one of those ahead, and took the place of another one
            again = (place - started) // self.rate.starts + 1
            place, rounds = place - again * self.rate.starts, rounds + again
        if place < 0:
            return self.now + period * (rounds - 1)
        for at, number in self._with_taken():
            place -= number
            if place < 0:
                return at + period * rounds
        raise AssertionError("the place is one in the log")

    def stored(self) -> str:
        """The log to be stored, with what was taken at `now`."""
        return msgspec.json.encode(_merged(self._with_taken(), self.rate)).decode()

    def _with_taken(self) -> Log:
        return [*self.log, (self.now, self.taken)] if self.taken else self.log


def _merged(log: Log, rate: Rate) -> Log:
    if len(log) <= _PARTS:
        return log
    size = max(rate.seconds * _SECOND // _PARTS, 1)
    parts: dict[int, tuple[int, int]] = {}
    for at, number in log:
        parts[at // size] = at, parts.get(at // size, (0, 0))[1] + number
    return list(parts.values())
