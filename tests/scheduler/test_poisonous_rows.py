"""Rows with values that no aiosched writes: what they belong to is named, and nothing else stops."""

from __future__ import annotations

import pytest

from aiosched.clock import FakeClock
from tests.scheduler.harness import dag, running, task


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


@pytest.mark.parametrize("at", ["infinity", "-infinity"])
async def test_an_instant_at_the_end_of_time_concerns_only_its_dag(dsn: str, clock: FakeClock, at: str) -> None:
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
        assert [row["dag_id"] for row in await it.fetch("SELECT dag_id FROM dag_quarantine")] == ["odd"]
