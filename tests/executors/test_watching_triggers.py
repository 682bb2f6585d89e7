"""Triggers of asset watchers: every event is told, and the trigger goes on. Section 15.1."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import msgspec
import pytest

from aiosched.core.values.messages import Attempt, Executor, Outcome
from aiosched.executors.attempt.dag_cache import FileDags
from aiosched.executors.inline.executor import InlineExecutor
from tests.executors.attempt_builders import FakeServices, Reports, StartLocal, trigger_attempt, write_dag
from tests.patience import until

MODULE = """
import asyncio
from aiosched.triggers import BaseTrigger, TriggerEvent

class Counts(BaseTrigger):
    def __init__(self, ends=False):
        self.ends = ends
    async def run(self):
        for number in range(3):
            yield TriggerEvent(number)
        if not self.ends:
            await asyncio.Event().wait()
"""
Start = Callable[[], Awaitable[Executor]]


@pytest.fixture(params=["inline", "local"])
async def start(
    request: pytest.FixtureRequest, start_local: StartLocal, dags_folder: Path, services: FakeServices, reports: Reports
) -> AsyncIterator[Start]:
    """Starts either executor."""
    write_dag(dags_folder, "def t(): pass\ntask(t)\n")
    dags_folder.joinpath("counting_triggers.py").write_text(MODULE)
    inline = InlineExecutor(FileDags(dags_folder), kill_after=0.3)

    async def begin() -> Executor:
        if request.param == "local":
            return await start_local(slots=1)
        await inline.start(reports, services)
        return inline

    yield begin
    await inline.stop(0)


def watcher(kwargs: str = "{}") -> Attempt:
    return msgspec.structs.replace(trigger_attempt("counting_triggers.Counts", kwargs), watches=True)


async def test_all_events_are_told_in_order_until_it_is_forgotten(start: Start, reports: Reports) -> None:
    executor, one = await start(), watcher()

    executor.submit([one])
    await until(lambda: len(reports.all) == 3)
    executor.forget([one.key])
    await asyncio.sleep(0)

    assert [(r.outcome, r.event, r.more) for r in reports.all] == [
        (Outcome.TRIGGERED, str(number), True) for number in range(3)
    ]


async def test_its_end_is_told_too(start: Start, reports: Reports) -> None:
    executor, one = await start(), watcher('{"ends": true}')

    executor.submit([one])
    await until(lambda: len(reports.all) == 4)

    last = reports.all[-1]
    assert (last.outcome, last.more, last.reason) == (
        Outcome.FAILED, False, "the trigger Counts ended without an event",
    )  # fmt: skip
