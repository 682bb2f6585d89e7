"""A run that an application asked for."""

from __future__ import annotations

import asyncio
import contextlib
from contextlib import AbstractContextManager
from typing import Final, Protocol

from aiosched.core.values.states import RUN_FINISHED, RunState

_LOOK_AGAIN_SECONDS: Final = 5.0


class Runs(Protocol):
    """What a handle needs of its scheduler."""

    async def run_state(self, dag_id: str, run_id: str) -> RunState: ...

    def notified_of_end(self, key: int) -> AbstractContextManager[asyncio.Event]: ...


class RunHandle:
    """A run that was asked for: `await run.wait()` for its end."""

    def __init__(self, scheduler: Runs, dag_id: str, run_id: str, key: int) -> None:
        self._scheduler = scheduler
        self.dag_id, self.run_id, self.key = dag_id, run_id, key

    def __repr__(self) -> str:
        return f"<run {self.run_id} of {self.dag_id}>"

    async def state(self) -> RunState:
        """The run's state now, read from the database."""
        return await self._scheduler.run_state(self.dag_id, self.run_id)

    async def wait(self, timeout: float | None = None) -> RunState:
        """Wait until the run is over; returns success or failed. Raises TimeoutError after `timeout` seconds.

        A run of another scheduler's is looked at every few seconds, one of ours is told at once.
        """
        with self._scheduler.notified_of_end(self.key) as ended:
            async with asyncio.timeout(timeout):
                while True:
                    if (state := await self.state()) in RUN_FINISHED:
                        return state
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(_LOOK_AGAIN_SECONDS):
                            await ended.wait()
