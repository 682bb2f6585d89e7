"""A handle on a run that an application requested."""

from __future__ import annotations

import asyncio
import contextlib
from contextlib import AbstractContextManager
from typing import Final, Protocol

from aiosched.core.values.states import RUN_FINISHED, RunState

_POLL_SECONDS: Final = 5.0


class Runs(Protocol):
    """What a handle needs of its scheduler."""

    async def run_state(self, dag_id: str, run_id: str) -> RunState: ...

    def notified_of_end(self, key: int) -> AbstractContextManager[asyncio.Event]: ...


class RunHandle:
    """A run that was requested: `await run.wait()` waits for its end."""

    def __init__(self, scheduler: Runs, dag_id: str, run_id: str, key: int) -> None:
        self._scheduler = scheduler
        self.dag_id, self.run_id, self.key = dag_id, run_id, key

    def __repr__(self) -> str:
        return f"<run {self.run_id} of {self.dag_id}>"

    async def state(self) -> RunState:
        """The run's state now, read from the database."""
        return await self._scheduler.run_state(self.dag_id, self.run_id)

    async def wait(self, timeout: float | None = None) -> RunState:
        """Wait until the run has ended; returns success or failed. Raises TimeoutError after `timeout` seconds.

        The end of a run of this scheduler is noticed at once; a run of another one is polled every few seconds. Give a
        timeout where people may pause the DAG: a run of a paused one does not start.
        """
        with self._scheduler.notified_of_end(self.key) as ended:
            async with asyncio.timeout(timeout):
                while True:
                    if (state := await self.state()) in RUN_FINISHED:
                        return state
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(_POLL_SECONDS):
                            await ended.wait()
