"""Ten thousand sensors and triggers that wait in one process: what they hold, and that all of them can be stopped."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import psutil
import pytest

from aiosched.authoring.triggers.encoding import dump
from aiosched.core.values.messages import Outcome
from tests.executors.attempt_builders import Reports, StartLocal, attempt, trigger_attempt, write_dag
from tests.patience import until

MANY = 10_000
GIGABYTE = 1_000_000_000
SENSOR = """
    from aiosched import BaseSensorOperator

    class Waits(BaseSensorOperator):
        pokes = 0

        async def poke(self, context):
            await asyncio.sleep(0)
            Waits.pokes += 1
            if Waits.pokes == 10_000:
                open(__file__ + ".all", "w").close()
            return False

    Waits(task_id="t", poke_interval=3600)
"""


@pytest.mark.slow
async def test_ten_thousand_sensors_wait_in_one_process(
    start_local: StartLocal, dags_folder: Path, reports: Reports
) -> None:
    write_dag(dags_folder, SENSOR)
    executor = await start_local(async_workers=1, async_slots=MANY, kill_after=30, idle_time=0.1)
    attempts = [attempt("t", is_async=True, number=number) for number in range(MANY)]

    executor.submit(attempts)
    await until(lambda: (dags_folder / "d.py.all").exists() and len(reports.all) == MANY)

    assert {report.outcome for report in reports.all} == {Outcome.STARTED}
    assert executor.open_async_slots == 0
    (pid,) = {report.pid for report in reports.all}
    assert psutil.Process(pid).memory_info().rss < GIGABYTE

    for one in attempts:
        await executor.cancel(one.key, 30)
    final = await reports.count(MANY)

    assert {(report.outcome, report.reason) for report in final} == {(Outcome.FAILED, "was stopped on request")}
    assert executor.open_async_slots == MANY


@pytest.mark.slow
async def test_ten_thousand_triggers_wait_beside_the_tasks(
    start_local: StartLocal, dags_folder: Path, reports: Reports
) -> None:
    write_dag(dags_folder, "def t(): pass\ntask(t)\n")
    executor = await start_local()
    never, past = (dump({"moment": datetime(year, 1, 1, tzinfo=UTC)}) for year in (9999, 2000))
    classpath = "aiosched.authoring.triggers.DateTimeTrigger"
    waiting = [trigger_attempt(classpath, never, number=number) for number in range(MANY)]
    last, task = trigger_attempt(classpath, past, number=MANY), attempt("t", number=MANY)

    executor.submit([*waiting, last, task])
    fired = await reports.of(last)

    assert fired.outcome is Outcome.TRIGGERED
    assert (await reports.of(task)).outcome is Outcome.SUCCESS
    assert psutil.Process(fired.pid).memory_info().rss < GIGABYTE

    for one in waiting:
        await executor.cancel(one.key, 30)
    assert len(reports.final) == MANY + 2
