"""A handle on a run that an application requested: its end, its results, and why it failed."""

from __future__ import annotations

import asyncio
import contextlib
from contextlib import AbstractContextManager
from typing import Any, Final, Protocol

from aiosched.config import Settings
from aiosched.core.values.states import RUN_FINISHED, RunState, TaskState
from aiosched.db.queries.run_results import TaskResult, read_tasks
from aiosched.db.server.engine import Database
from aiosched.errors import Refused, RunFailed
from aiosched.scheduler.run_results import RunValues, read_values

_POLL_SECONDS: Final = 5.0


class Runs(Protocol):
    """What a handle needs of its scheduler."""

    settings: Settings

    @property
    def db(self) -> Database: ...

    async def run_state(self, dag_id: str, run_id: str) -> RunState: ...

    def notified_of_end(self, key: int) -> AbstractContextManager[asyncio.Event]: ...


class RunHandle:
    """A run that was requested: `await run.wait()` waits for its end, `await run.result()` for its result.

    dag_id, run_id    which run
    key               its number in the database
    error             once `wait` or `result` has found that it failed: the reasons of its failed tasks; else None
    """

    def __init__(self, scheduler: Runs, dag_id: str, run_id: str, key: int) -> None:
        self._scheduler = scheduler
        self.dag_id: str = dag_id
        self.run_id: str = run_id
        self.key: int = key
        self.error: RunFailed | None = None

    def __repr__(self) -> str:
        return f"<run {self.run_id} of {self.dag_id}>"

    async def state(self) -> RunState:
        """The run's state now, read from the database."""
        return await self._scheduler.run_state(self.dag_id, self.run_id)

    async def tasks(self) -> list[TaskResult]:
        """Its task instances with their states and reasons, in the order of the DAG's tasks."""
        return await read_tasks(self._scheduler.db, self.key)

    async def wait(self, timeout: float | None = None, *, raise_on_failure: bool = False) -> RunState:
        """Wait until the run has ended; returns success or failed. Raises TimeoutError after `timeout` seconds.

        With `raise_on_failure` a failed run raises RunFailed, which names its failed tasks and their errors.

        The end of a run of this scheduler is noticed at once; a run of another one is polled every few seconds. Give a
        timeout where people may pause the DAG: a run of a paused one does not start.
        """
        state = await self._end(timeout)
        self.error = None
        if state is RunState.FAILED:
            failed = [str(task) for task in await self.tasks() if task.state is TaskState.FAILED]
            self.error = RunFailed(self.dag_id, self.run_id, failed)
            if raise_on_failure:
                raise self.error
        return state

    async def _end(self, timeout: float | None) -> RunState:
        with self._scheduler.notified_of_end(self.key) as ended:
            async with asyncio.timeout(timeout):
                while True:
                    if (state := await self.state()) in RUN_FINISHED:
                        return state
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(_POLL_SECONDS):
                            await ended.wait()

    async def result(self, task_id: str | None = None, *, timeout: float | None = None) -> Any:
        """Wait for the end, and return what a task returned; None: the task that no other one follows.

        The result of a mapped task is a list, in the order of its map indexes. Raises RunFailed, TimeoutError after
        `timeout` seconds, NotFound for a task that the DAG does not have, and Refused if several tasks are the last.
        """
        await self.wait(timeout, raise_on_failure=True)
        values = await self._values(task_id)
        if task_id is None:
            if len(values.last) != 1:
                names = ", ".join(map(repr, values.last))
                raise Refused(f"{self.dag_id!r} has several last tasks: name one, as in run.result(…), of {names}.")
            (task_id,) = values.last
        return values.by_task.get(task_id)

    async def results(self) -> dict[str, Any]:
        """What its tasks have returned until now, by task id, also if the run has failed or goes on."""
        return (await self._values()).by_task

    async def _values(self, task_id: str | None = None) -> RunValues:
        return await read_values(self._scheduler.db, self._scheduler.settings.xcom, self.key, task_id)
