"""A trigger that blocks the event loop is named; one that does not stop is cancelled again. Section 25.3 and 25.6."""

from __future__ import annotations

import asyncio
import logging
import threading
from pathlib import Path
from types import FrameType
from typing import Any

import msgspec
import pytest

from aiosched import BaseTrigger, TriggerEvent
from aiosched.core.values.messages import Outcome, Report
from aiosched.executors.attempt import attempts
from aiosched.executors.attempt.attempts import TriggerExecution
from aiosched.executors.attempt.blocking import blocking_on
from aiosched.executors.attempt.environment import AttemptEnvironment
from aiosched.executors.attempt.trigger_tasks import TriggerTasks
from aiosched.executors.inline.executor import RegisteredDags
from aiosched.remote.log_files import log_path
from tests.executors.attempt_builders import FakeServices, trigger_attempt
from tests.patience import until

HERE = f"{__name__}."
told = threading.Event()
notes: list[str] = []


class Blocks(BaseTrigger):
    """Holds the loop up until somebody has noticed."""

    async def run(self) -> Any:
        self.wait_for_the_door()
        self.wait_for_the_door()
        yield TriggerEvent("open")

    def wait_for_the_door(self) -> None:
        assert told.wait(20)


class Stubborn(BaseTrigger):
    """Takes no notice of the first word."""

    async def run(self) -> Any:
        for word in ("first", "second"):
            try:
                notes.append("waits")
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                notes.append(word)
                if word == "second":
                    raise
        yield TriggerEvent()


class Untidy(BaseTrigger):
    """Takes for ever to go."""

    async def run(self) -> Any:
        notes.append("waits")
        await asyncio.Event().wait()
        yield TriggerEvent()

    async def on_kill(self) -> None:
        notes.append("on_kill")
        await asyncio.Event().wait()

    async def cleanup(self) -> None:
        notes.append("cleanup")
        await asyncio.Event().wait()


class Listening(logging.Handler):
    """Sets `told` at the first warning."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())
        told.set()


@pytest.fixture
def logged_warnings() -> Any:
    told.clear()
    notes.clear()
    heard, logger = Listening(), logging.getLogger("aiosched.executors.attempt.trigger_tasks")
    logger.addHandler(heard)
    yield heard.texts
    logger.removeHandler(heard)


class Ended:
    """Collects what triggers report."""

    def __init__(self) -> None:
        self.reports: list[Report] = []

    def __call__(self, key: int, report: Report) -> None:
        self.reports.append(report)


def execution(name: str, folder: Path | None = None) -> TriggerExecution:
    where = AttemptEnvironment(logs_folder=folder)
    blocking = blocking_on(asyncio.get_running_loop())
    one = msgspec.structs.replace(trigger_attempt(HERE + name), is_async=True)
    return TriggerExecution(one, FakeServices(), where, blocking=blocking)


async def test_a_trigger_that_blocks_the_loop_is_named_with_its_task_and_the_line(
    tmp_path: Path, logged_warnings: list[str]
) -> None:
    ended = Ended()
    tasks: TriggerTasks[int] = TriggerTasks(RegisteredDags({}), ended, patience=0.02)
    one = execution("Blocks", tmp_path)

    tasks.start(1, one)
    await until(lambda: len(ended.reports) == 1)
    await tasks.left()

    assert [report.outcome for report in ended.reports] == [Outcome.TRIGGERED]
    expected = f"the trigger {HERE}Blocks of d.t (run manual__0) blocks the event loop"
    assert logged_warnings[0].startswith(expected)
    assert "test_loop_blocking.py:" in logged_warnings[0]
    assert "in wait_for_the_door: assert told.wait(20)" in logged_warnings[0]
    assert len(logged_warnings) == 1, "each line once"
    log = log_path(tmp_path, one.attempt).read_text()
    assert expected in log
    assert "Await, or use asyncio.to_thread." in log


async def test_what_blocks_the_loop_and_is_no_trigger_is_not_taken_for_one(
    monkeypatch: pytest.MonkeyPatch, logged_warnings: list[str]
) -> None:
    tasks: TriggerTasks[int] = TriggerTasks(RegisteredDags({}), Ended(), patience=0.01)
    tasks.start(1, execution("Untidy"))
    await until(lambda: notes == ["waits"])
    looked = threading.Event()

    def look(task: asyncio.Task[Any], frame: FrameType) -> None:
        tasks._blocked(task, frame)
        looked.set()

    tasks._watch._on_block = look

    assert looked.wait(20)  # the test itself blocks its loop

    assert logged_warnings == []
    monkeypatch.setattr(attempts, "KILL_GRACE", 0.01)
    tasks.stop_all()
    await tasks.left()


async def test_a_trigger_that_catches_its_cancellation_is_cancelled_again(logged_warnings: list[str]) -> None:
    tasks: TriggerTasks[int] = TriggerTasks(RegisteredDags({}), Ended(), cancel_again_after=0.01)
    tasks.start(1, execution("Stubborn"))
    await until(lambda: notes == ["waits"])

    tasks.stop(1, kill=True)
    await until(lambda: "second" in notes)

    assert notes == ["waits", "first", "waits", "second"]
    assert "was told to stop and still runs" in logged_warnings[0]
    await tasks.left()


async def test_on_kill_comes_first_and_each_has_its_time(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, logged_warnings: list[str]
) -> None:
    monkeypatch.setattr(attempts, "KILL_GRACE", 0.01)
    tasks: TriggerTasks[int] = TriggerTasks(RegisteredDags({}), Ended())
    one = execution("Untidy", tmp_path)
    tasks.start(1, one)
    await until(lambda: notes == ["waits"])

    tasks.stop(1, kill=True)
    await tasks.left()

    assert notes == ["waits", "on_kill", "cleanup"]
    log = log_path(tmp_path, one.attempt).read_text()
    assert "on_kill took longer than 0.01 s and was cancelled" in log
    assert "cleanup took longer" in log
    assert not tasks._executions


async def test_one_that_only_moves_elsewhere_is_cleaned_up_and_not_killed(
    monkeypatch: pytest.MonkeyPatch, logged_warnings: list[str]
) -> None:
    monkeypatch.setattr(attempts, "KILL_GRACE", 0.01)
    tasks: TriggerTasks[int] = TriggerTasks(RegisteredDags({}), Ended())
    tasks.start(1, execution("Untidy"))
    await until(lambda: notes == ["waits"])

    tasks.stop(1, kill=False)
    await tasks.left()

    assert notes == ["waits", "cleanup"]
