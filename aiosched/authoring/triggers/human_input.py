"""The trigger of a task that asks people: the scheduler resumes the task with their answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import datetime

from aiosched.authoring.triggers.base import TriggerEvent
from aiosched.authoring.triggers.temporal import DateTimeTrigger


class HumanInputTrigger(DateTimeTrigger):
    """Waits until it is stopped, because somebody has answered; at `expires_at` (aware) it fires with no answer, None.

    Without `expires_at` it waits for ever.
    """

    def __init__(self, expires_at: datetime | None = None) -> None:
        self.expires_at = expires_at
        if expires_at is not None:
            super().__init__(expires_at)

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Wait."""
        if self.expires_at is None:
            await asyncio.Event().wait()
        async for _ in super().run():
            yield TriggerEvent(None)
