"""A database that a scheduler cannot join the fleet in: when it tries again, and what the log says of it."""

from __future__ import annotations

import logging
from typing import Final

logger = logging.getLogger(__name__)

FIRST_PAUSE: Final = 0.5  # seconds before the first retry; doubled for each further one, up to _LAST_PAUSE
_LAST_PAUSE: Final = 2.0
_SAY_AGAIN: Final = 30.0  # seconds after which an unchanged failure is logged again


class DatabaseOutage:
    """The failures since the database could be used last."""

    def __init__(self) -> None:
        self._pause = FIRST_PAUSE
        self._said: tuple[str, float] | None = None  # the failure that was logged last, and when

    def failed(self, error: BaseException, *, now: float) -> float:
        """Note a failure at the monotonic second `now`; the seconds until the next try."""
        text = str(error)
        if self._said is None or self._said[0] != text or now - self._said[1] >= _SAY_AGAIN:
            logger.warning("database: %s", text)
            self._said = text, now
        pause, self._pause = self._pause, min(2 * self._pause, _LAST_PAUSE)
        return pause

    def over(self) -> None:
        """The database can be used, perhaps again."""
        if self._said is not None:
            logger.warning("database: it can be used again")
        self._pause, self._said = FIRST_PAUSE, None
