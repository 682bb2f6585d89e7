"""Rows with values that no aiosched writes: what they belong to is named, and nothing else stops."""

from __future__ import annotations

import pytest

from aiosched.clock import FakeClock
from tests.scheduler.harness import dag, running, task


@pytest.mark.slow(but_first=True)
@pytest.mark.parametrize(("used", "slots"), [(0, 16), (2**31 - 1, -1), (2**31 - 1, 2**31 - 1), (5, 0)])
async def test_a_pool_whose_figures_are_wrong_stops_only_what_waits_for_it(
    dsn: str, clock: FakeClock, used: int, slots: int
) -> None:
    async with running(dsn, clock, dag("uses", task("a", pool="wrong")), dag("other")) as it:
        await it.execute("INSERT INTO pool (name, slots) VALUES ('wrong', 2)")
        await it.trigger("uses", "r")
        await it.execute("UPDATE pool SET used = $1, slots = $2 WHERE name = 'wrong'", used, slots)
        await it.trigger("uses", "s")
        await it.finish("a", run_id="r", dag_id="uses")
        await it.trigger("other", "r")
        await it.finish("a", dag_id="other")

        assert await it.runs("uses") == {"r": "success", "s": "running"}
        assert await it.runs("other") == {"r": "success"}
        assert it.scheduler.metrics.quarantines == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("at", "state"),
    [
        ("infinity", "up_for_retry"),
        ("20000-01-01", "up_for_retry"),
        ("-infinity", "queued"),
        ("4000-01-01 BC", "queued"),
    ],
)
async def test_an_instant_at_the_end_of_time_concerns_only_its_dag(
    dsn: str, clock: FakeClock, at: str, state: str
) -> None:
    """One that has passed long ago is due. One after the end of the calendar is waited for."""
    spec = dag("odd", task("a", retries=1, retry_delay=60.0))
    async with running(dsn, clock, spec, dag("other")) as it:
        await it.trigger("odd", "r")
        it.executor.fail(await it.attempt("a", dag_id="odd"))
        await it.settled()
        await it.execute("UPDATE task_instance SET next_at = $1::text::timestamptz WHERE next_at IS NOT NULL", at)
        await it.execute(
            """INSERT INTO deadline (run_id, deadline_index, partition, deadline_time)
               SELECT id, 0, partition, $1::text::timestamptz FROM dag_run""",
            at,
        )
        await it.leave_and_come_back()
        await it.advance(61.0)
        await it.trigger("other", "r")
        await it.finish("a", dag_id="other")

        assert await it.runs("other") == {"r": "success"}
        assert (await it.states("r", dag_id="odd"))["a"] == state
        assert await it.fetch("SELECT dag_id FROM dag_quarantine") == []


async def test_a_task_instance_that_has_had_as_many_tries_as_there_can_be_concerns_only_its_dag(
    dsn: str, clock: FakeClock
) -> None:
    spec = dag("odd", task("a", retries=1, retry_delay=60.0))
    async with running(dsn, clock, spec, dag("other")) as it:
        await it.trigger("odd", "r")
        it.executor.fail(await it.attempt("a", dag_id="odd"))
        await it.settled()
        await it.execute("UPDATE task_instance SET try_number = 32767, max_tries = 32767")
        await it.leave_and_come_back()
        await it.advance(61.0)
        await it.trigger("other", "r")
        await it.finish("a", dag_id="other")

        assert await it.runs("other") == {"r": "success"}
        assert [row["dag_id"] for row in await it.fetch("SELECT dag_id FROM dag_quarantine")] == ["odd"]
        assert await it.states("r", "odd") == {"a": "up_for_retry"}


async def test_a_run_with_an_instant_that_python_cannot_hold_goes_on(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("odd"), dag("other")) as it:
        for dag_id in ("odd", "other"):
            await it.trigger(dag_id, "r")
        await it.execute("UPDATE dag_run SET queued_at = '294276-12-31' WHERE dag_id = 'odd'")
        await it.execute("UPDATE dag SET created_at = '4000-01-01 BC', next_dagrun = 'infinity' WHERE dag_id = 'odd'")
        await it.leave_and_come_back()
        await it.finish_all()

        assert [await it.runs(dag_id) for dag_id in ("odd", "other")] == [{"r": "success"}] * 2
        assert it.scheduler.metrics.quarantines == 0
