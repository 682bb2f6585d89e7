"""Logs that a clock has jumped, or differs from the database's, and has each loop compute anew how long it rests.

Loops rest by a clock that does not jump until something is due by the one that does. Decisions: core/fleet/clocks.py.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from datetime import datetime
from typing import Final

from aiosched.clock import Clock
from aiosched.core.fleet.clocks import ClockJump, ClockWatch, difference_in_words, from_database
from aiosched.db.server.engine import Database
from aiosched.db.server.failures import is_retryable
from aiosched.scheduler.session.session import Session

logger: logging.Logger = logging.getLogger(__name__)

ASK_EVERY: Final = 60.0  # seconds between two questions to the database
_SHOWN_FOR: Final = 3600.0  # seconds for which others are shown a jump
_MOST_NAMES: Final = 3
FIX: Final = "see that its clock is synchronised (NTP); docs/operations.md, Machines that differ"


class ClockCheck:
    """See the module docstring. `session`: that of the scheduler now."""

    def __init__(self, clock: Clock, session: Callable[[], Session | None]) -> None:
        self._clock, self._session = clock, session
        self._watch = ClockWatch()
        self._jump: tuple[float, str] | None = None  # monotonic second, and words
        self._difference: str | None = None  # from the database

    def remarks(self) -> list[str]:
        """What is to be said of this machine's clock, after the name of its scheduler."""
        found = [] if self._difference is None else [self._difference]
        if self._jump is not None and self._clock.monotonic() - self._jump[0] < _SHOWN_FOR:
            found.append(self._jump[1])
        return found

    async def keep(self, db: Callable[[], Database]) -> None:
        """Ask the database now and then, until cancelled."""
        while True:
            await self.ask(db())
            await asyncio.sleep(ASK_EVERY)

    def look(self) -> None:
        """Say that the clock jumped since the last look, and wake the loops of the session; about once a second."""
        now, monotonic = self._clock.now(), self._clock.monotonic()
        jump = self._watch.look(now, monotonic)
        if jump is None:
            return
        session = self._session()
        said = f"{jump}; {jump.meaning('' if session is None else _due_by(jump, session))}"
        logger.warning("%s. Scheduled times follow this clock: %s", said, FIX)
        self._jump = monotonic, f"noticed: {said}"
        if session is not None:
            session.wakeups.wake_all()

    async def ask(self, db: Database) -> None:
        """Compare with the clock of the database; a difference is said when it begins and when it ends."""
        try:
            async with db.acquire() as conn:
                before = self._clock.now()
                there: datetime = await conn.fetchval("SELECT clock_timestamp()")
                after = self._clock.now()
        except Exception as error:  # others say that the database is away
            if not is_retryable(error):
                logger.exception("the clock of the database cannot be read")
            return
        difference = difference_in_words(from_database(before, there, after), there)
        if difference is not None and self._difference is None:
            logger.warning("this scheduler %s: %s", difference, FIX)
        elif difference is None and self._difference is not None:
            logger.info("the clock of this scheduler agrees with that of the database again")
        self._difference = difference


def _due_by(jump: ClockJump, session: Session) -> str:
    """The DAGs whose next runs became due by a jump."""
    between = (jump.expected, jump.found)
    dags = session.cache.dags.values()
    found = sorted(
        dag.row.dag_id
        for dag in dags
        if dag.next_run is not None and between[0] < dag.next_run.run_after <= between[1] and not dag.row.is_paused
    )
    more = f" and {len(found) - _MOST_NAMES:,} more" if len(found) > _MOST_NAMES else ""
    return f"{', '.join(found[:_MOST_NAMES])}{more}"
