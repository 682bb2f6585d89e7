"""`airflow.triggers.testing`: triggers that end at once, for tests."""

from __future__ import annotations

from collections.abc import AsyncIterator

from aiosched.authoring.triggers.base import BaseTrigger, TriggerEvent


class SuccessTrigger(BaseTrigger):
    """Its event comes at once."""

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """See BaseTrigger."""
        yield TriggerEvent(True)


class FailureTrigger(BaseTrigger):
    """Fails at once, with a ValueError."""

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """See BaseTrigger."""
        raise ValueError("Deliberate trigger failure")
        yield  # which makes this a generator
