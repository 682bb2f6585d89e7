"""A distance between runs: exact time, or calendar months, or both."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec
from dateutil.relativedelta import relativedelta

from aiosched.errors import TimetableError

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_SHORTEST_MONTH: Final = timedelta(days=28)
_UNITS: Final = (("week", 604_800), ("day", 86_400), ("hour", 3_600), ("minute", 60))
_ABSOLUTE: Final = ("year", "month", "day", "weekday", "hour", "minute", "second", "microsecond")


class Delta(msgspec.Struct, frozen=True, omit_defaults=True):
    """`months` calendar months (years are twelve of them), then `seconds` of absolute time.

    A timedelta is seconds alone. Months are counted on the UTC calendar and clip to the
    length of the month: 31 January + 1 month is 28 February.
    """

    months: int = 0
    seconds: float = 0.0

    @classmethod
    def of(cls, value: Delta | timedelta | relativedelta) -> Delta:
        """The same distance as `value`; raises TimetableError for anything else."""
        if isinstance(value, Delta):
            return value
        if isinstance(value, timedelta):
            return cls(seconds=value.total_seconds())
        if not isinstance(value, relativedelta):
            raise TimetableError(
                f"{value!r} is not a distance between runs; use a timedelta such as timedelta(hours=6), or a "
                "relativedelta."
            )
        fixed = [name for name in _ABSOLUTE if getattr(value, name) is not None]
        if fixed or value.leapdays:
            raise TimetableError(
                f"{value!r} fixes the {fixed[0] if fixed else 'leap day'}, which is not a distance between runs; "
                "write a cron expression, e.g. '0 0 L * *' for the last day of each month."
            )
        exact = value.normalized()
        rest = timedelta(
            days=exact.days,
            hours=exact.hours,
            minutes=exact.minutes,
            seconds=exact.seconds,
            microseconds=exact.microseconds,
        )
        return cls(months=12 * exact.years + exact.months, seconds=rest.total_seconds())

    @property
    def is_zero(self) -> bool:
        return not self.months and not self.seconds

    def validate(self) -> None:
        """Raise TimetableError unless the distance is positive in every month."""
        if self.months < 0 or self.months * _SHORTEST_MONTH + self._exact <= timedelta(0):
            raise TimetableError(
                f"A distance of {self} between runs does not move forward; use a positive one, e.g. timedelta(days=1)."
            )

    def after(self, t: datetime) -> datetime:
        """`t` plus this distance."""
        return (t + relativedelta(months=self.months) if self.months else t) + self._exact

    def before(self, t: datetime) -> datetime:
        """`t` minus this distance."""
        return (t - relativedelta(months=self.months) if self.months else t) - self._exact

    def floor(self, t: datetime, *, anchor: datetime) -> datetime:
        """The latest point not after `t` of the grid through `anchor`, which extends both ways.

        With months the grid is walked step by step from `anchor`, so that it drifts:
        31 January, 28 February, 28 March.
        """
        if not self.months:
            return anchor + (t - anchor) // self._exact * self._exact
        point = anchor
        while point > t:
            point = self.before(point)
        while (later := self.after(point)) <= t:
            point = later
        return point

    @property
    def _exact(self) -> timedelta:
        return timedelta(seconds=self.seconds)

    def __str__(self) -> str:
        """In words: `1 day`, `6 hours`, `1 year 1 day`, `90 seconds`."""
        years, months = divmod(abs(self.months), 12)
        counted = [(years, "year"), (months, "month")]
        rest = abs(self.seconds)
        for unit, size in _UNITS:
            if unit == "week" and (self.months or rest % size):
                continue
            count, rest = divmod(rest, size)
            counted.append((int(count), unit))
        words = [f"{count} {unit}{'' if count == 1 else 's'}" for count, unit in counted if count]
        if rest:
            words.append(f"{rest:g} second{'' if rest == 1 else 's'}")
        sign = "-" if self.months < 0 or self.seconds < 0 else ""
        return sign + (" ".join(words) or "0 seconds")
