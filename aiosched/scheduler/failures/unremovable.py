"""What retention could not remove: it is left out, and tried again after growing pauses."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from aiosched.db.upkeep.retention import NotRemoved

_FIRST_PAUSE: Final = 3_600.0  # seconds until it is tried again; doubled with each failure in a row
_LONGEST_PAUSE: Final = 7 * 86_400.0


@dataclass(slots=True)
class _LeftOut:
    text: str
    failures: int
    retry_at: float  # monotonic second


class Unremovable:
    """The runs and kinds of rows that are left out. Outlives sessions; a scheduler that starts tries everything."""

    def __init__(self) -> None:
        self._kept: dict[int | str, _LeftOut] = {}  # by the key of the run, or the kind of rows
        self.logs_looked_at: float | None = None  # when old logs in remote storage were last looked for; monotonic
        self.modules_looked_at: float | None = None  # the same for texts of modules in the database

    def left_out(self, now: float) -> list[int | str]:
        """What is not tried at the monotonic second `now`."""
        return [key for key, kept in self._kept.items() if kept.retry_at > now]

    def settle(self, failed: Iterable[NotRemoved], now: float) -> list[NotRemoved]:
        """After a pass at `now`: keep what has failed, forget what was tried and did not; returns what is new."""
        new, tried = [], {key for key, kept in self._kept.items() if kept.retry_at <= now}
        for each in failed:
            if (kept := self._kept.get(each.key)) is None:
                kept = self._kept[each.key] = _LeftOut(str(each), 0, now)
                new.append(each)
            tried.discard(each.key)
            kept.text = str(each)
            kept.retry_at = now + min(_FIRST_PAUSE * 2.0 ** min(kept.failures, 20), _LONGEST_PAUSE)
            kept.failures += 1
        for key in tried:
            del self._kept[key]
        return new

    def texts(self) -> list[str]:
        """What is left out, in words, with the errors."""
        return [kept.text for kept in self._kept.values()]
