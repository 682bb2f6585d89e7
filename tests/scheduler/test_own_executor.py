"""The example of docs/executors.md runs as it stands there."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, ClassVar

import pytest

from aiosched.authoring.triggers import BaseTrigger, TriggerEvent
from aiosched.config import Settings
from aiosched.core.values.states import RunState
from aiosched.executors import AttemptEnvironment, Executor, FileDags, Outcome, Report, run_attempt
from aiosched.scheduler.service import Scheduler
from tests.executors.attempt_builders import attempt, trigger_attempt, write_dag
from tests.patience import PATIENCE

pytestmark = pytest.mark.usefixtures("kept_supervisors")

PAGE = Path(__file__).parents[2] / "docs" / "executors.md"

DAG_FILE = """
import asyncio
from aiosched import DateTimeSensor, dag, task

@dag(schedule=None, is_paused_upon_creation=False)
def own():
    @task
    def plain(ti=None):
        ti.log.info("in a thread")
        return 1

    @task
    async def coroutine(number):
        await asyncio.sleep(0)
        return number + 1

    waits = DateTimeSensor(task_id="waits", target_time="2020-01-01T00:00:00+00:00", deferrable=True)
    coroutine(plain()) >> waits

own()
"""


@pytest.fixture
def small() -> type[Any]:
    """The class of the page's example."""
    (example,) = re.findall(r"```python\n(import asyncio\n.*?)```", PAGE.read_text(), re.DOTALL)
    names: dict[str, Any] = {}
    exec(example, names)
    found: type[Any] = names["SmallExecutor"]
    return found


async def until(condition: Callable[[], object]) -> None:
    """Return when `condition` holds; other tasks of the loop go on meanwhile."""
    async with asyncio.timeout(PATIENCE):
        while not condition():
            await asyncio.to_thread(lambda: None)


def settings_in(folder: Path) -> Settings:
    settings = Settings()
    settings.core.home, settings.core.dags_folder = folder / "home", folder
    return settings


async def test_it_runs_plain_functions_coroutines_and_triggers(dsn: str, tmp_path: Path, small: type[Any]) -> None:
    (tmp_path / "own.py").write_text(DAG_FILE)
    settings = settings_in(tmp_path)
    executor: Executor = small(settings, size=2)
    async with Scheduler(dsn=dsn, dags_folder=tmp_path, executor=executor, settings=settings) as scheduler:
        await scheduler.wait_idle()
        run = await scheduler.trigger("own", run_id="r")
        assert await run.wait(timeout=PATIENCE) is RunState.SUCCESS
        async with scheduler.db.acquire() as conn:
            assert sorted(row[0] for row in await conn.fetch("SELECT value FROM xcom")) == ["1", "2"]
            assert await conn.fetchval("SELECT executor FROM scheduler") == "small"

    (file,) = settings.logs_folder.rglob("*plain/attempt=1.log")
    assert "in a thread" in file.read_text()


async def test_what_is_cancelled_or_left_at_the_end_is_lost(tmp_path: Path, small: type[Any]) -> None:
    file = write_dag(tmp_path, "async def forever(): await asyncio.sleep(1000)\ntask(forever)")
    reports: asyncio.Queue[Report] = asyncio.Queue()
    executor = small(settings_in(tmp_path))
    await executor.start(reports.put_nowait, None)
    first, other = (attempt("forever", number=n, file=file, is_async=True) for n in (1, 2))
    executor.submit([first, other])
    assert executor.open_slots == executor.open_async_slots == 2
    assert {(await reports.get()).outcome for _ in range(2)} == {Outcome.STARTED}

    await executor.cancel(first.key, 1.0)
    ended = await reports.get()
    await executor.stop(0.0)

    assert (ended.key, ended.outcome) == (first.key, Outcome.LOST)
    assert ((left := await reports.get()).key, left.outcome) == (other.key, Outcome.LOST)
    assert executor.open_slots == 4


@pytest.mark.parametrize("forgotten", [False, True])
async def test_a_trigger_is_killed_when_its_task_was_ended_and_not_when_it_goes_on_elsewhere(
    tmp_path: Path, small: type[Any], forgotten: bool
) -> None:
    reports: asyncio.Queue[Report] = asyncio.Queue()
    executor = small(settings_in(tmp_path))
    await executor.start(reports.put_nowait, None)
    trigger = trigger_attempt(f"{__name__}.Patient")
    Patient.said.clear()
    executor.submit([trigger])
    await until(lambda: Patient.said)
    assert executor.open_slots == 4

    if forgotten:
        executor.forget([trigger.key])
    else:
        await executor.cancel(trigger.key, 1.0)
        while (await reports.get()).outcome is Outcome.STARTED:
            pass
    await executor.stop(0.0)
    await until(lambda: "cleanup" in Patient.said)

    assert Patient.said == (["waits", "cleanup"] if forgotten else ["waits", "on_kill", "cleanup"])


async def test_a_plain_function_that_is_told_to_stop_goes_on_in_its_thread(tmp_path: Path) -> None:
    path = tmp_path / "go"
    wait = f"while not os.path.exists({str(path)!r}): time.sleep(0.001)"
    file = write_dag(tmp_path, f"def waits():\n    {wait}\ntask(waits)")
    dags = FileDags(tmp_path)
    work = asyncio.ensure_future(run_attempt(attempt("waits", file=file), _NO_SERVICES, dags, AttemptEnvironment()))
    await until(lambda: dags.cached(attempt("waits", file=file).run) is not None)

    work.cancel()
    report = await work
    path.touch()

    assert (report.outcome, report.reason) == (Outcome.LOST, "was told to stop")


_NO_SERVICES: Any = None


class Patient(BaseTrigger):
    """Waits for ever and remembers what was called."""

    said: ClassVar[list[str]] = []

    async def run(self) -> AsyncIterator[TriggerEvent]:
        self.said.append("waits")
        await asyncio.Event().wait()
        yield TriggerEvent(None)

    async def on_kill(self) -> None:
        self.said.append("on_kill")

    async def cleanup(self) -> None:
        self.said.append("cleanup")
