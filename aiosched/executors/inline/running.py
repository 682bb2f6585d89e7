"""Running one attempt in this process, for executors of other packages. See docs/executors.md."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Final

import msgspec

from aiosched.core.values.messages import Attempt, Outcome, Report, TaskServices
from aiosched.executors.attempt.attempts import TriggerExecution, execution_of
from aiosched.executors.attempt.blocking import answered_on, blocking_on
from aiosched.executors.attempt.dag_cache import ANSWERED_WITHIN, FileDags, asking
from aiosched.executors.attempt.environment import AttemptEnvironment
from aiosched.executors.attempt.logs import TaskLoggerCapture
from aiosched.executors.attempt.runner import DagSource, drive
from aiosched.executors.inline.executor import BlockingServices
from aiosched.executors.worker.background_imports import InBackground

ELSEWHERE: Final = "goes on elsewhere"


async def run_attempt(
    attempt: Attempt, services: TaskServices, dags: DagSource, environment: AttemptEnvironment
) -> Report:
    """Run a try, a trigger or a callback and return its one final report.

    `async def` code runs on this loop, a plain function in a thread. Never raises errors of user code. Cancel it to
    stop the attempt, which is then LOST; a plain function still runs in its thread, since a thread cannot be ended.
    `task.cancel(ELSEWHERE)` stops a trigger without its `on_kill`.
    """
    loop = asyncio.get_running_loop()
    if isinstance(dags, FileDags):
        answered = answered_on(loop, seconds=ANSWERED_WITHIN)
        dags.ask = asking(lambda *call: answered(services.call(*call)))
    TaskLoggerCapture.begin()
    try:
        if attempt.trigger is not None:
            attempt = msgspec.structs.replace(attempt, is_async=True, execution_timeout=None)
            trigger = TriggerExecution(attempt, services, environment, blocking=blocking_on(loop))
            return await _wait(trigger, InBackground(dags))
        if attempt.is_async:
            execution = execution_of(attempt, services, environment, blocking=blocking_on(loop))
            return await execution.run(InBackground(dags))
        execution = execution_of(attempt, BlockingServices(loop, services), environment, blocking=drive)
        return await asyncio.to_thread(lambda: drive(execution.run(dags)))
    except asyncio.CancelledError:
        return Report(key=attempt.key, outcome=Outcome.LOST, at=datetime.now(UTC), reason="was told to stop")
    finally:
        TaskLoggerCapture.end()


async def _wait(trigger: TriggerExecution, dags: DagSource) -> Report:
    waiting = asyncio.ensure_future(trigger.run(dags))
    try:
        return await asyncio.shield(waiting)
    except asyncio.CancelledError as stop:
        trigger.stop_requested, trigger.killed = True, ELSEWHERE not in stop.args
        waiting.cancel()
        return await waiting
