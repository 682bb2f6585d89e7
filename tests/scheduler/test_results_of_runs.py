"""What an application gets of a run that it asked for: results, errors, and a line in its log."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from aiosched import DAG, dag, task
from aiosched.config import Settings
from aiosched.core.values.states import RunState, TaskState
from aiosched.errors import NotFound, Refused, RemoteStorageError, RunFailed
from aiosched.scheduler import Scheduler
from aiosched.scheduler.session.events import SchedulerEvent
from tests.patience import PATIENCE


@dag(schedule=None, params={"fails": False})
def orders() -> None:
    @task
    async def load(params: Any = None) -> dict[str, Any]:
        if params["fails"]:
            raise ValueError("the shop is closed")
        return {"day": date(2026, 1, 1), "prices": (Decimal("1.5"), Decimal(2))}

    @task
    def double(number: int) -> int | None:
        return None if number == 2 else 2 * number

    @task
    def total(found: Any, doubled: Any) -> Decimal:
        return sum(found["prices"], Decimal(0))

    total(load(), double.expand(number=[1, 2, 3]))


@dag(schedule=None)
def two_ends() -> None:
    @task(retries=1)
    def one() -> int:
        return 1

    @task(multiple_outputs=True)
    def other() -> dict[str, int]:
        return {"a": 2}

    one()
    other()


EVENTS = list[SchedulerEvent]()


@pytest.fixture
async def scheduler(dsn: str) -> AsyncIterator[Scheduler]:
    EVENTS.clear()
    async with Scheduler(dsn=dsn, dags=[orders(), two_ends()], settings=Settings(), listener=EVENTS.append) as it:
        yield it


async def test_a_result_is_the_value_of_the_last_task_and_the_others_have_names(scheduler: Scheduler) -> None:
    run = await scheduler.trigger("orders")

    assert await run.result(timeout=PATIENCE) == Decimal("3.5")

    assert await run.result("load") == {"day": date(2026, 1, 1), "prices": (Decimal("1.5"), Decimal(2))}
    assert (await run.results())["double"] == [2, 6]  # what returns None pushes nothing
    assert [(each.task_id, each.map_index, each.state) for each in await run.tasks()] == [
        ("load", -1, TaskState.SUCCESS),
        *(("double", index, TaskState.SUCCESS) for index in range(3)),
        ("total", -1, TaskState.SUCCESS),
    ]
    assert run.error is None


async def test_values_of_other_keys_and_map_indexes_are_asked_of_the_scheduler(scheduler: Scheduler) -> None:
    run, of_two = await scheduler.trigger("orders", run_id="r"), await scheduler.trigger("two_ends", run_id="r")
    await run.wait(PATIENCE)
    await of_two.wait(PATIENCE)

    assert await scheduler.xcom("two_ends", "r", "other", key="a") == 2
    assert await scheduler.xcom("orders", "r", "double") == [2, 6]
    assert [await scheduler.xcom("orders", "r", "double", map_index=index) for index in range(4)] == [2, None, 6, None]
    assert await scheduler.xcom("orders", "r", "total", key="nothing") is None
    with pytest.raises(NotFound, match=r"no task 'totl'\. Did you mean total\?"):
        await scheduler.xcom("orders", "r", "totl")
    with pytest.raises(NotFound, match="has no run 'x'"):
        await scheduler.xcom("orders", "x", "total")
    with pytest.raises(Refused, match=r"has several last tasks: name one, .* of 'one', 'other'"):
        await of_two.result()


async def test_a_failed_run_says_which_task_failed_and_why(scheduler: Scheduler) -> None:
    run = await scheduler.trigger("orders", conf={"fails": True}, run_id="r")

    with pytest.raises(RunFailed, match=r"run r of orders has failed\. load: ValueError: the shop is closed") as raised:
        await run.result(timeout=PATIENCE)

    assert (raised.value, raised.value.reasons) == (run.error, ("load: ValueError: the shop is closed",))
    again = await scheduler.trigger("orders", conf={"fails": True}, run_id="again")
    assert await again.wait(PATIENCE) is RunState.FAILED  # no error is raised that was not asked for
    assert again.error is not None
    assert (await again.results())["double"] == [2, 6]
    ended = [event for event in EVENTS if event.kind == "run_finished"]
    assert [event.error for event in ended] == ["load: ValueError: the shop is closed"] * 2


async def test_a_failure_is_in_the_log_of_the_application_with_its_traceback(
    scheduler: Scheduler, caplog: pytest.LogCaptureFixture
) -> None:
    run = await scheduler.trigger("orders", conf={"fails": True}, run_id="r")
    await run.wait(PATIENCE)

    (record,) = [each for each in caplog.records if each.name.startswith("aiosched.failures")]
    assert (record.name, record.levelno) == ("aiosched.failures.orders.load", logging.ERROR)
    assert "load of orders, run r, failed in try 1 of 1: ValueError: the shop is closed\n" in record.message
    assert 'raise ValueError("the shop is closed")' in record.message
    assert (vars(record)["dag_id"], vars(record)["run_id"], vars(record)["task_id"]) == ("orders", "r", "load")


async def test_a_failure_of_a_thread_a_timeout_and_a_trigger_are_in_the_log_too(
    dsn: str, caplog: pytest.LogCaptureFixture
) -> None:
    with DAG("d", schedule=None) as flow:

        @task(execution_timeout=0.05)
        async def slow() -> None:
            await asyncio.Event().wait()

        @task
        def in_a_thread() -> None:
            raise RuntimeError("thread")

        @task.sensor(poke_interval=0.01, timeout=0.02)
        def never() -> bool:
            return False

        slow()
        in_a_thread()
        never()

    async with Scheduler(dsn=dsn, dags=[flow], settings=Settings()) as scheduler:
        await (await scheduler.trigger("d")).wait(PATIENCE)

    told = {each.name: each.message for each in caplog.records if each.name.startswith("aiosched.failures")}
    assert told.keys() == {f"aiosched.failures.d.{task_id}" for task_id in ("slow", "in_a_thread", "never")}


async def test_a_value_in_remote_storage_is_read_where_it_is_set_up(dsn: str, tmp_path: Path) -> None:
    settings = Settings()
    settings.xcom.remote, settings.xcom.remote_from = f"file://{tmp_path}/xcoms", 1
    async with Scheduler(dsn=dsn, dags=[orders()], settings=settings) as scheduler:
        run = await scheduler.trigger("orders")
        assert await run.result(timeout=PATIENCE) == Decimal("3.5")
        scheduler.settings.xcom.remote = None
        with pytest.raises(RemoteStorageError, match=r"xcom\.remote is not set here"):
            await run.result()


async def test_a_run_that_is_deleted_has_no_results(scheduler: Scheduler) -> None:
    run = await scheduler.trigger("orders")
    await run.wait(PATIENCE)
    await scheduler.db.execute("DELETE FROM dag_run WHERE id = $1", run.key)

    assert await run.tasks() == []
    with pytest.raises(NotFound, match="The run is gone"):
        await run.results()


async def test_an_application_that_waits_is_told_of_a_timeout(scheduler: Scheduler) -> None:
    run = await scheduler.trigger("orders", run_after=datetime(2100, 1, 1, tzinfo=UTC))

    with pytest.raises(TimeoutError):
        await run.result(timeout=0.01)
