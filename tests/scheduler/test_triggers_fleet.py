"""Triggers and callbacks of partitions that change hands: the semantics reference, sections 25.3 and 34 (14)."""

from __future__ import annotations

from aiosched.clock import FakeClock
from aiosched.core.values.ids import PARTITIONS, partition_of
from aiosched.core.values.messages import Outcome
from tests.scheduler.harness import Running, dag, dag_in, running


async def balanced(first: Running, second: Running) -> None:
    def share(it: Running) -> int:
        session = it.scheduler.session
        return 0 if session is None else len(session.cache.partitions)

    await first.until(lambda: share(first) == share(second) == PARTITIONS // 2, "equal shares")
    await first.settled()
    await second.settled()


async def test_a_partition_with_deferred_tasks_moves_and_the_new_owner_waits_for_them(
    dsn: str, clock: FakeClock
) -> None:
    specs = [dag(dag_in(partition)) for partition in range(0, PARTITIONS, 4)]
    async with running(dsn, clock, *specs) as first:
        for spec in specs:
            await first.trigger(spec.dag_id, "r")
            first.executor.defer(await first.attempt("a", dag_id=spec.dag_id))
        await first.settled()

        async with running(dsn, clock, settle=False) as second:
            await balanced(first, second)

            mine = {t.run.dag_id for t in second.executor.triggers.values()}
            assert mine == {s.dag_id for s in specs if partition_of(s.dag_id) in second.session.cache.partitions}
            assert mine
            assert not first.executor.cancelled, "a trigger that is killed would end what it waits for"
            for it in (first, second):
                for trigger in list(it.executor.triggers.values()):
                    it.executor.fire(trigger)
                await it.finish_all()
            assert {state for s in specs for state in (await first.runs(s.dag_id)).values()} == {"success"}
            assert len(first.executor.submitted) + len(second.executor.submitted) == 2 * len(specs)
            assert len(first.executor.forgotten) == len(mine), "they run in one place, and none was killed"
            await first.assert_consistent()
            await second.assert_consistent()


async def test_a_trigger_that_somebody_else_has_replaced_meanwhile_is_not_taken_for_the_new_one(
    dsn: str, clock: FakeClock
) -> None:
    specs = [dag(dag_in(partition)) for partition in range(0, PARTITIONS, 4)]
    async with running(dsn, clock, *specs) as first:
        for spec in specs:
            await first.trigger(spec.dag_id, "r")
            first.executor.defer(await first.attempt("a", dag_id=spec.dag_id))
        await first.settled()
        old = dict(first.executor.triggers)

        async with running(dsn, clock, settle=False) as second:
            await balanced(first, second)
            moved = list(second.executor.triggers.values())
            for trigger in moved:
                second.executor.fire(trigger)
            await second.settled()
            for attempt in list(second.executor.running.values()):
                second.executor.defer(attempt, timeout=3600.0)  # in the same try, so under the same key
            await second.settled()

        await first.until(lambda: len(first.session.cache.partitions) == PARTITIONS, "the partitions to come back")
        await first.settled()
        assert moved
        for trigger in moved:
            again = first.executor.triggers[trigger.key]
            assert again is not old[trigger.key], "what is waited for now was handed out"
        for trigger in list(first.executor.triggers.values()):
            first.executor.fire(trigger)
        await first.finish_all()
        assert {state for s in specs for state in (await first.runs(s.dag_id)).values()} == {"success"}
        await first.assert_consistent()


async def test_a_callback_is_delivered_by_one_owner_although_partitions_move(dsn: str, clock: FakeClock) -> None:
    specs = [dag(dag_in(partition), has_success_callback=True) for partition in range(0, PARTITIONS, 4)]
    async with running(dsn, clock, *specs) as first:
        for spec in specs:
            await first.trigger(spec.dag_id, "r")
            await first.finish("a", dag_id=spec.dag_id)
        assert len(first.executor.callbacks) == 4

        async with running(dsn, clock, settle=False) as second:
            ran: list[int] = []
            while len(ran) < len(specs):
                await first.until(lambda: first.executor.callbacks or second.executor.callbacks, "a callback")
                for it in (first, second):
                    for callback in list(it.executor.callbacks.values()):
                        it.executor.report(callback, Outcome.SUCCESS)
                        ran.append(callback.key.try_number)
                    if it.scheduler.session is not None:
                        await it.settled()
            await balanced(first, second)

            assert len(set(ran)) == len(ran) == len(specs)
            assert await first.fetch("SELECT * FROM callback_outbox") == []
