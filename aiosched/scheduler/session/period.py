"""Something that is done again after some seconds."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Period:
    """Remembers when it was done last."""

    last: float | None = None  # monotonic second; None: never

    def is_over(self, now: float, seconds: float) -> bool:
        """Whether it is `seconds` since the last time, or was never done; the next period begins then."""
        if self.last is not None and now - self.last < seconds:
            return False
        self.last = now
        return True
