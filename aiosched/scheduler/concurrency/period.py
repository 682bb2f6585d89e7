"""Something that is done periodically."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Period:
    """Remembers when it was last done."""

    last: float | None = None  # monotonic second; None: never

    def is_over(self, now: float, seconds: float) -> bool:
        """Whether it was last done `seconds` ago or never; if so, the next period begins."""
        if self.last is not None and now - self.last < seconds:
            return False
        self.last = now
        return True
