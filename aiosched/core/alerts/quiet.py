"""Quiet hours of alert rules: a daily period in a time zone, in which nothing is delivered. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from typing import Final
from zoneinfo import ZoneInfo

_TIME: Final = re.compile(r"^([01]\d|2[0-3]):[0-5]\d$")


@dataclass(frozen=True, slots=True)
class QuietHours:
    """From `begin` until `end` (exclusive) of the local time of `zone`; over midnight if the end is the earlier one."""

    begin: time
    end: time
    zone: ZoneInfo

    def until(self, now: datetime) -> datetime | None:
        """When the quiet hours end that `now` is in, in UTC; None if it is in none."""
        local = now.astimezone(self.zone)
        if not self._contains(local.time()):
            return None
        days = 1 if local.time() >= self.end else 0
        end = datetime.combine(local.date() + timedelta(days=days), self.end, tzinfo=self.zone)
        return max(end.astimezone(UTC), now)

    def _contains(self, at: time) -> bool:
        if self.begin <= self.end:
            return self.begin <= at < self.end
        return at >= self.begin or at < self.end


def quiet_hours(begin: str | None, end: str | None, zone: str) -> QuietHours | None:
    """Those from HH:MM until HH:MM; None without both. Raises ValueError, which says what is wrong."""
    if begin is None and end is None:
        return None
    if begin is None or end is None:
        raise ValueError("quiet hours need both quiet_from and quiet_until, such as 22:00 and 07:00")
    for text in (begin, end):
        if not _TIME.match(text):
            raise ValueError(f"{text!r} is no time of day: write it as HH:MM, such as 22:00")
    if begin == end:
        raise ValueError("quiet hours that begin and end at the same time are never over: pause the rule instead")
    try:
        return QuietHours(time.fromisoformat(begin), time.fromisoformat(end), ZoneInfo(zone))
    except (LookupError, OSError, ValueError):
        raise ValueError(f"{zone!r} is no time zone of the IANA database, such as UTC or Europe/Amsterdam") from None
