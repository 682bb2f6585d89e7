"""Short fire-and-forget tasks that run beside the loops; their failures are logged."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any

logger: logging.Logger = logging.getLogger(__name__)


@dataclass(slots=True)
class Background:
    """The background tasks that are running."""

    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """Run `work` as a task called `name`."""
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.warning("%s: %s", task.get_name(), error)
