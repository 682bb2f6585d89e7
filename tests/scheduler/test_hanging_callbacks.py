"""Callbacks that hang hold up those of other DAGs for a minute at most: core/slots/fairness.py."""

from __future__ import annotations

from aiosched.clock import FakeClock
from tests.scheduler.harness import dag, running
from tests.scheduler.test_outbox import CALLBACKS, end_callback, outbox


async def test_callbacks_of_many_dags_that_hang_hold_up_those_of_others_for_a_minute_at_most(
    dsn: str, clock: FakeClock
) -> None:
    hanging = ("h1", "h2", "h3", "h4")
    async with running(dsn, clock, *(dag(name, **CALLBACKS) for name in (*hanging, "other"))) as it:
        for number in range(3):
            for name in hanging:
                await it.trigger(name, f"r{number}")
                await it.finish("a", dag_id=name)
        assert sorted(each.run.dag_id for each in it.executor.callbacks.values()) == list(hanging)
        await it.trigger("other", "r")
        await it.finish("a", dag_id="other")
        assert len(it.executor.callbacks) == 4

        await it.advance(60)

        assert "other" in {each.run.dag_id for each in it.executor.callbacks.values()}
        assert len(it.executor.callbacks) == 7  # the last place is for a DAG that has none running
        for _ in range(13):
            await end_callback(it)
        assert await outbox(it) == []
        await it.assert_consistent()
