"""Keeps the figures of this scheduler over time: one row a minute, and, by one of the fleet, a roll-up to hours.

Lives here: when it is done. What a minute's figures are: core/figures/minutes.py; statements: db/figures. A minute that
cannot be written because the database is away waits in memory, at most an hour. The owner of partition 0 rolls up and
removes what is old; if two do it, the result is the same.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from aiosched.clock import Clock
from aiosched.config import Settings
from aiosched.core.figures.minutes import MINUTE, Minute, minute_of, start_of_minute
from aiosched.db.figures.writing import remove_old, roll_up, write_minutes
from aiosched.db.server.engine import Database
from aiosched.db.server.failures import is_retryable
from aiosched.executors.worker.processes import resident_memory

logger: logging.Logger = logging.getLogger(__name__)

_MOST_WAITING: Final = 60  # minutes that are kept while the database is away
_ROLL_UP_EVERY: Final = 5  # minutes

Figures = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class FigureSource:
    """Where the figures come from, and who this scheduler is: its incarnation, None while it has none."""

    figures: Callable[[], Figures]
    incarnation: Callable[[], int | None]
    rolls_up: Callable[[], bool]  # whether this scheduler is the one of the fleet that does it


class FigureLog:
    """See the module docstring."""

    def __init__(self, settings: Settings, clock: Clock, source: FigureSource) -> None:
        self._keep_minutes = timedelta(days=settings.figures.keep_minutes_days)
        self._keep_hours = timedelta(days=settings.figures.keep_hours_days)
        self._scheduler = settings.scheduler.name or socket.gethostname()
        self._clock, self._source = clock, source
        self._before: Figures = {}
        self._waiting: deque[Minute] = deque(maxlen=_MOST_WAITING)
        self._since_roll_up: int | None = None  # minutes; None: not rolled up yet
        self._reported = False

    async def keep(self, db: Callable[[], Database]) -> None:
        """Write each minute at its end, until cancelled."""
        self._before = self._source.figures()
        while True:
            now = self._clock.now()
            end = start_of_minute(now) + MINUTE
            await asyncio.sleep((end - now).total_seconds())
            await self.end_minute(db(), end - MINUTE)

    async def end_minute(self, db: Database, at: datetime) -> None:
        """Write the minute that began `at`, and those that could not be written before; roll up if it is our turn."""
        self._take(at)
        try:
            async with db.acquire() as conn:
                if self._waiting:
                    await write_minutes(conn, self._waiting)
                    self._waiting.clear()
                if self._is_turn():
                    await roll_up(conn, at + MINUTE)
                    await remove_old(conn, at + MINUTE, minutes=self._keep_minutes, hours=self._keep_hours)
                    self._since_roll_up = 0
            self._reported = False
        except Exception as error:  # whatever it is: figures never end a scheduler
            self._report(error)

    def _report(self, error: Exception) -> None:
        """Log an error, once until minutes are written again; minutes wait only for a database that is away."""
        if not is_retryable(error):
            self._waiting.clear()
        if not self._reported:
            self._reported = True
            if is_retryable(error):
                logger.info("the figures of this scheduler wait until the database answers: %s", error)
            else:
                logger.error("the figures of this scheduler cannot be stored", exc_info=error)

    def _take(self, at: datetime) -> None:
        incarnation, now = self._source.incarnation(), self._source.figures()
        if incarnation is not None:
            memory, name = resident_memory(os.getpid()), self._scheduler
            minute = minute_of(now, self._before, at=at, incarnation=incarnation, scheduler=name, memory=memory)
            self._waiting.append(minute)
        self._before = now

    def _is_turn(self) -> bool:
        if not self._source.rolls_up():
            self._since_roll_up = None
            return False
        self._since_roll_up = None if self._since_roll_up is None else self._since_roll_up + 1
        return self._since_roll_up is None or self._since_roll_up >= _ROLL_UP_EVERY
