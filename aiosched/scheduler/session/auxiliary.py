"""Loops on which the scheduling of tasks does not depend: one that fails is started again, and nothing else stops."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable
from typing import Final

from aiosched.errors import DagFailure
from aiosched.scheduler.session.isolation import is_unforeseen
from aiosched.scheduler.state.metrics import Metrics
from aiosched.scheduler.state.wakeup import Wakeup

logger = logging.getLogger(__name__)

_FIRST_PAUSE: Final = 1.0  # seconds; doubled with each failure in a row, up to _LAST_PAUSE
_LAST_PAUSE: Final = 60.0


async def keep_running(
    name: str, work: Callable[[], Awaitable[None]], metrics: Metrics, wakeup: Wakeup | None = None
) -> None:
    """Call `work` until it returns; after an unforeseen error once more, after a pause. `wakeup` may stop the pause.

    Failures of the database and errors that concern one DAG are raised: the session deals with them.
    """
    wakeup, pause = wakeup or Wakeup(), _FIRST_PAUSE
    while not wakeup.stopping:
        began = time.monotonic()
        try:
            await work()
            break
        except Exception as error:
            if isinstance(error, DagFailure) or not is_unforeseen(error):
                raise
            metrics.restarted_loops += 1
            pause = _FIRST_PAUSE if time.monotonic() - began > _LAST_PAUSE else min(2 * pause, _LAST_PAUSE)
            logger.exception("%s failed; it is started again in %g s", name, pause)
        until = time.monotonic() + pause
        while not wakeup.stopping and (left := until - time.monotonic()) > 0:
            wakeup.clear()
            await wakeup.rest(left)
