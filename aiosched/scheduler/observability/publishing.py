"""Publishes a scheduler's figures while it runs: to StatsD, and into the tables of figures over time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

from aiosched.clock import Clock
from aiosched.config import Settings
from aiosched.core.figures.metrics import Metrics
from aiosched.db.server.engine import Database
from aiosched.scheduler.concurrency.supervision import keep_running
from aiosched.scheduler.observability import statsd
from aiosched.scheduler.observability.figure_log import FigureLog, FigureSource


async def publish(
    settings: Settings, clock: Clock, source: FigureSource, db: Callable[[], Database], metrics: Metrics
) -> None:
    """Do both, as far as settings ask for them, until cancelled. Neither ends the scheduler: it is started again."""
    async with asyncio.TaskGroup() as group:
        if settings.metrics.statsd_host is not None:
            send = partial(statsd.emit, settings.metrics, source.figures, db)
            group.create_task(keep_running("statsd", send, metrics, in_session=False), name="statsd")
        if settings.figures.keep_minutes_days:
            keep = partial(FigureLog(settings, clock, source).keep, db)
            group.create_task(keep_running("figures", keep, metrics, in_session=False), name="figures")
