"""What the log says of callbacks that failed or were lost: whose they are."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from aiosched.clock import FakeClock
from aiosched.core.values.messages import Outcome
from tests.scheduler.harness import Running, dag, running, task
from tests.scheduler.test_outbox import CALLBACKS, end_callback

LOGGER = "aiosched.scheduler.loops.callbacks"


GIVEN_UP = (
    "callback 1 ({}) was lost 3 times and is not delivered again: {}; "
    "its row stays in callback_outbox until its run is removed"
)


def lines(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str, dict[str, Any]]]:
    """The lines about callbacks: level, text, and the fields that say whose it is."""
    names = ("dag_id", "run_id", "task_id", "map_index", "try")
    return [
        (
            record.levelname,
            record.getMessage(),
            {name: found for name in names if (found := vars(record).get(name)) is not None},
        )
        for record in caplog.records
        if record.name == LOGGER
    ]


async def fail_task_without_worker(it: Running) -> None:
    """Have the scheduler request the task's failure callback."""
    await it.trigger("d", "r")
    for _ in range(3):
        it.executor.report(await it.attempt("a"), Outcome.LOST, reason="killed by SIGKILL")
        await it.settled()


async def test_a_callback_of_a_run_that_is_given_up_names_its_run(
    dsn: str, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(dsn, clock, dag("d", **CALLBACKS)) as it:
        await it.trigger("d", "r")
        it.executor.fail(await it.attempt("a"))
        await it.settled()

        for number in range(3):
            await end_callback(it, Outcome.LOST, reason=f"killed {number}")

    said = GIVEN_UP.format("dag_failure", "killed 2")
    assert lines(caplog) == [("ERROR", said, {"dag_id": "d", "run_id": "r"})]


async def test_a_callback_of_a_task_that_raises_names_its_try(
    dsn: str, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(dsn, clock, dag("d", task("a", has_failure_callback=True))) as it:
        await fail_task_without_worker(it)

        await end_callback(it, Outcome.FAILED, reason="callback tell raised KeyError: 'x'")

    assert lines(caplog) == [
        (
            "WARNING",
            "callback 1 (task_failure) failed: callback tell raised KeyError: 'x'",
            {"dag_id": "d", "run_id": "r", "task_id": "a", "try": 3},
        )
    ]


@pytest.mark.slow
async def test_a_callback_that_takes_its_scheduler_down_names_its_run(
    dsn: str, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(dsn, clock, dag("d", **CALLBACKS)) as it:
        await it.trigger("d", "r")
        await it.finish("a")
        await it.execute("UPDATE callback_outbox SET attempts = 3")
        it.executor.callbacks.clear()  # nothing is said of it, as after a crash

    with caplog.at_level(logging.ERROR, LOGGER):
        async with running(dsn, clock):
            pass

    said = GIVEN_UP.format("dag_success", "its scheduler ended while it ran")
    assert lines(caplog) == [("ERROR", said, {"dag_id": "d", "run_id": "r"})]
