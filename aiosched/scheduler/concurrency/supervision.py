"""Loops on which the scheduling of tasks does not depend: one that fails is started again, and nothing else stops."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable
from typing import Final

from aiosched.core.figures.metrics import Metrics
from aiosched.errors import DagFailure
from aiosched.scheduler.concurrency.wakeup import Wakeup
from aiosched.scheduler.failures.isolation import is_unforeseen

logger: logging.Logger = logging.getLogger(__name__)

FIRST_PAUSE: Final = 1.0  # seconds; doubled with each failure in a row, up to _LAST_PAUSE
_LAST_PAUSE: Final = 60.0


async def keep_running(
    name: str,
    work: Callable[[], Awaitable[None]],
    metrics: Metrics,
    wakeup: Wakeup | None = None,
    *,
    in_session: bool = True,
    is_final: Callable[[Exception], bool] = lambda _: False,
) -> None:
    """Call `work` until it returns; after an unforeseen error once more, after a pause. `wakeup` may stop the pause.

    `in_session`: failures of the database and errors that concern one DAG are raised, as the session deals with them;
    otherwise nobody does, and they count like any other. What `is_final` is raised, too.
    """
    wakeup, pause = wakeup or Wakeup(), FIRST_PAUSE
    while not wakeup.stopping:
        began = time.monotonic()
        try:
            await work()
            break
        except Exception as error:
            if (in_session and (isinstance(error, DagFailure) or not is_unforeseen(error))) or is_final(error):
                raise
            metrics.restarted_loops += 1
            if time.monotonic() - began > _LAST_PAUSE:
                pause = FIRST_PAUSE
            logger.exception("%s failed; it is started again in %g s", name, pause)
        until, pause = time.monotonic() + pause, min(2 * pause, _LAST_PAUSE)
        while not wakeup.stopping and (left := until - time.monotonic()) > 0:
            wakeup.clear()
            await wakeup.rest(left)
