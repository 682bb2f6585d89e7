"""When a running scheduler cannot do its work: when it tries again, what the log says, and when it gives up."""

from __future__ import annotations

import logging
import math
from typing import Final

from aiosched.db.server.failures import is_of_database
from aiosched.errors import StaleRows

logger: logging.Logger = logging.getLogger(__name__)

FIRST_PAUSE: Final = 0.5  # seconds before the first retry; doubled for each further one, up to LAST_PAUSE
LAST_PAUSE: Final = 2.0
_SAY_AGAIN: Final = 30.0  # seconds after which an unchanged failure is logged again
PATIENCE: Final = 300.0  # seconds that errors may last which neither the database nor a single DAG explains
_SEEN_LATELY: Final = 10.0  # seconds within which such an error comes again, if it does: a session and a pause


class DatabaseOutage:
    """The failures since the database could be used last."""

    def __init__(self) -> None:
        self._pause = FIRST_PAUSE
        self._said: tuple[str, float] | None = None  # the failure that was logged last, and when

    def failed(self, error: BaseException, *, now: float) -> float:
        """Note a failure at the monotonic second `now`; the seconds until the next try."""
        text, is_clear = str(error), is_explained(error)
        if self._said is None or self._said[0] != text or now - self._said[1] >= _SAY_AGAIN:
            logger.warning("database: %s", text, exc_info=None if is_clear else error)
            self._said = text, now
        pause, self._pause = self._pause, min(2 * self._pause, LAST_PAUSE)
        return pause

    def over(self) -> None:
        """The database can be used, perhaps again."""
        if self._said is not None:
            logger.warning("database: it can be used again")
        self._pause, self._said = FIRST_PAUSE, None


class Patience:
    """How long unexplained errors may end one session after the other until the scheduler gives up."""

    def __init__(self) -> None:
        self._since: float | None = None  # the monotonic second of the first of them
        self._last = -math.inf  # that of the last one
        self._text = ""

    def is_over(self, error: BaseException, *, now: float) -> bool:
        """Whether such errors have lasted for `PATIENCE` seconds, with this one at the monotonic second `now`.

        Never for a failure of the database: waiting is all that can be done about it, however long it lasts.
        """
        if is_explained(error):
            return False
        self._since = now if self._since is None else self._since
        self._last, self._text = now, summary(error)
        return now - self._since >= PATIENCE

    def trouble(self, *, now: float) -> str | None:
        """What keeps this scheduler from its work at the monotonic second `now`; None if nothing does any more."""
        return self._text if now - self._last < _SEEN_LATELY else None

    def reset(self) -> None:
        """Things went well for a while."""
        self._since = None


def summary(error: BaseException) -> str:
    """One line about an error, or about the first one of a group."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__}: {str(error) or 'no answer from the database in time'}"


def is_explained(error: BaseException) -> bool:
    """Whether an error that ended a session is a failure of the database, or rows that others have changed."""
    if isinstance(error, BaseExceptionGroup):
        return all(is_explained(each) for each in error.exceptions)
    return isinstance(error, StaleRows) or is_of_database(error)
