"""Asset watchers: what happens elsewhere becomes events of an asset. The semantics reference, section 15.1."""

from __future__ import annotations

import json
from typing import Any

import pytest

from aiosched.clock import FakeClock
from aiosched.core.assets.conditions import AssetRequired, WatcherSpec
from aiosched.core.graph.spec import DagSpec
from aiosched.core.timetables import AssetTriggeredTimetable
from aiosched.core.values.messages import Attempt, Outcome, Report
from aiosched.scheduler.attempts.running_watchers import MOST_EVENTS
from tests.scheduler.harness import Running, running, task

DOOR = WatcherSpec("door", "triggers.Door", '{"name": "front"}')


def watching(dag_id: str = "d", *watchers: WatcherSpec, name: str = "orders") -> DagSpec:
    """A DAG that is scheduled on an asset with these watchers (the door, when none is given)."""
    asset = AssetRequired(name, watchers=watchers or (DOOR,))
    return DagSpec(dag_id=dag_id, timetable=AssetTriggeredTimetable(asset), tasks=(task("a"),))


async def watcher(it: Running) -> Attempt:
    """The one watcher's trigger that waits."""
    await it.settled()
    await it.until(lambda: it.executor.triggers, "a watcher")
    (found,) = it.executor.triggers.values()
    return found


def send_event(it: Running, trigger: Attempt, payload: Any) -> None:
    """The trigger of a watcher has an event, and goes on."""
    event = json.dumps(payload)
    it.executor._report(Report(key=trigger.key, outcome=Outcome.TRIGGERED, at=it.clock.now(), event=event, more=True))


async def events(it: Running, count: int) -> list[Any]:
    """The stored events' extras, once there are so many; and no source."""
    for _ in range(2000):
        rows = await it.fetch("SELECT extra, source_dag_id, source_run_id FROM asset_event ORDER BY id")
        if len(rows) >= count:
            break
    assert [row[1:] for row in rows] == [(None, None)] * count
    return [json.loads(row[0]) for row in rows]


async def test_each_event_of_the_trigger_is_an_event_of_the_asset_and_runs_what_is_scheduled_on_it(
    dsn: str, clock: FakeClock
) -> None:
    async with running(dsn, clock, watching()) as it:
        trigger = await watcher(it)
        assert trigger.trigger is not None
        assert trigger.watches
        assert (trigger.trigger.classpath, trigger.trigger.kwargs) == ("triggers.Door", '{"name": "front"}')

        send_event(it, trigger, 1)
        assert await events(it, 1) == [{"from_asset_watcher": "door", "payload": 1}]
        await it.finish("a")
        send_event(it, trigger, 2)
        assert len(await events(it, 2)) == 2
        await it.finish("a")

        assert list((await it.runs("d")).values()) == ["success", "success"]
        assert trigger.key in it.executor.triggers, "it goes on"
        await it.assert_consistent()


async def test_it_runs_while_an_unpaused_dag_is_scheduled_on_the_asset(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, watching()) as it:
        first = await watcher(it)
        await it.ask("pause", "d")
        await it.advance(11)
        await it.until(lambda: it.executor.forgotten == [first.key], "the watcher to end")
        send_event(it, first, "too late")

        await it.ask("unpause", "d")
        await it.advance(11)

        assert (await watcher(it)).key != first.key
        assert await it.fetch("SELECT 1 FROM asset_event") == []


async def test_of_several_dags_with_the_asset_the_first_unpaused_one_has_its_watchers_run(
    dsn: str, clock: FakeClock
) -> None:
    async with running(dsn, clock, watching("b"), watching("a")) as it:
        assert (await watcher(it)).run.dag_id == "a"
        await it.ask("pause", "a")
        await it.advance(11)
        await it.until(lambda: [t.run.dag_id for t in it.executor.triggers.values()] == ["b"], "the next one")


async def test_a_restart_begins_it_anew(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, watching()) as it:
        await watcher(it)

    async with running(dsn, clock) as again:
        send_event(again, await watcher(again), "hello")
        assert await events(again, 1) == [{"from_asset_watcher": "door", "payload": "hello"}]


@pytest.mark.parametrize("outcome", [Outcome.FAILED, Outcome.LOST])
async def test_one_whose_trigger_ends_begins_again_after_a_while(
    dsn: str, clock: FakeClock, outcome: Outcome, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(dsn, clock, watching()) as it:
        first = await watcher(it)
        it.executor.report(first, outcome, reason="RuntimeError: broken")
        await it.until(lambda: "has ended: RuntimeError: broken" in caplog.text, "a warning")
        await it.advance(29)
        assert not it.executor.triggers

        await it.advance(2)

        assert (await watcher(it)).key != first.key


async def test_a_watcher_that_its_dag_does_not_have_any_more_ends(dsn: str, clock: FakeClock) -> None:
    other = WatcherSpec("window", "triggers.Window")
    async with running(dsn, clock, watching("d", DOOR, other)) as it:
        await it.until(lambda: len(it.executor.triggers) == 2, "two watchers")

        await it.register(watching("d", other))
        await it.advance(11)

        await it.until(lambda: [t.task_id for t in it.executor.triggers.values()] == ["window"], "the other to end")


async def test_two_schedulers_run_it_once(dsn: str, clock: FakeClock) -> None:
    specs = [watching(f"dag_{number}", name=f"asset_{number}") for number in range(12)]
    async with running(dsn, clock, *specs) as first, running(dsn, clock, settle=False) as second:

        def shared() -> bool:
            return len(first.executor.triggers) + len(second.executor.triggers) == 12 and bool(second.executor.triggers)

        def look() -> bool:
            for it in (first, second):
                it.scheduler.wake_loops()
            return shared()

        await first.until(look, "every watcher to run in one place")
        everywhere = [*first.executor.triggers.values(), *second.executor.triggers.values()]
        assert sorted(t.run.dag_id for t in everywhere) == sorted(spec.dag_id for spec in specs)


async def test_a_watcher_with_more_events_than_can_be_stored_is_stopped_for_a_while(
    dsn: str, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    other = WatcherSpec("gate", "triggers.Door", "{}")
    async with running(dsn, clock, watching("d"), watching("e", other, name="gates")) as it:
        await it.until(lambda: len(it.executor.triggers) == 2, "both watchers")
        fast, slow = sorted(it.executor.triggers.values(), key=lambda trigger: trigger.task_id)

        for number in range(3 * MOST_EVENTS):
            send_event(it, fast, number)
        send_event(it, slow, "slow")
        book = it.session.env.attempts.watchers
        assert len(book.events) == MOST_EVENTS + 1
        await it.until(lambda: not book.events, "the events to be stored")
        await it.settled()

        assert it.executor.forgotten == [fast.key]
        assert "the watcher door of asset orders has events faster than they can be stored" in caplog.text
        assert it.scheduler.metrics.watchers_stopped == 1
        assert list(it.executor.triggers) == [slow.key]
        assert len(await events(it, MOST_EVENTS + 1)) == MOST_EVENTS + 1
        await it.advance(31)
        await it.until(lambda: len(it.executor.triggers) == 2, "the fast watcher to begin again")


async def test_long_events_of_a_watcher_are_bounded_in_bytes(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, watching()) as it:
        trigger = await watcher(it)

        for _ in range(40):
            send_event(it, trigger, "x" * 500_000)
        waiting = len(it.session.env.attempts.watchers.events)
        await it.settled()

        assert waiting == 9
        assert len(await events(it, 9)) == 9
        assert it.executor.forgotten == [trigger.key]
