"""Runs by asset events, on a real database: stored with the success, coalesced, consumed once.

Source: the semantics reference, sections 14.3 and 15.1 to 15.5; section 35, rule 17.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import Any

import pytest

from aiosched.clock import FakeClock
from aiosched.core.assets.conditions import AliasRequired, AllRequired, AnyRequired, AssetRequired, ReferenceRequired
from aiosched.core.graph.spec import AssetRef, DagSpec
from aiosched.core.timetables import AssetOrTimeSchedule
from aiosched.core.values.ids import partition_of
from aiosched.core.values.messages import AssetTouch, Outcome
from aiosched.db.assets.assets import NewAssetEvent, record_events
from aiosched.db.server.engine import Database
from aiosched.db.statements import inbox
from aiosched.errors import NotFound
from tests.patience import PATIENCE
from tests.scheduler.harness import NEW_YEAR, Running, dag, register, running, task

A, B, C = AssetRequired("a"), AssetRequired("b"), AssetRequired("c")


def producer(*names: str, dag_id: str = "producer", **options: Any) -> DagSpec:
    """A DAG with one task for each asset: task `a` makes asset `a`."""
    return dag(dag_id, *(task(name, outlets=(AssetRef(name=name),), **options) for name in names))


def consumer(schedule: object, dag_id: str = "consumer", **options: Any) -> DagSpec:
    return dag(dag_id, task("read"), schedule=schedule, **options)


async def make(it: Running, *assets: str, extra: str = "{}", dag_id: str = "producer") -> None:
    """Run the producer's tasks of these assets, one after the other, each with an event."""
    for name in assets:
        it.clock.advance(1)
        await it.trigger(dag_id)
        for attempt in [a for a in it.executor.running.values() if a.run.dag_id == dag_id]:
            touch = (AssetTouch(name=name, uri=name, extra=extra),) if attempt.task_id == name else ()
            it.executor.report(attempt, Outcome.SUCCESS, assets=touch)
        await it.settled()


async def consumed(it: Running, dag_id: str = "consumer") -> list[list[str]]:
    """The assets of the events of each of the DAG's asset runs, in order."""
    rows = await it.fetch(
        """SELECT r.id, array_agg(a.name ORDER BY e.timestamp, e.id) AS names
             FROM dag_run AS r JOIN asset_consumption AS c ON c.run_id = r.id JOIN asset_event AS e ON e.id = c.event_id
             JOIN asset AS a ON a.id = e.asset_id WHERE r.dag_id = $1 GROUP BY r.id ORDER BY r.id""",
        dag_id,
    )
    return [row["names"] for row in rows]


async def queue(it: Running) -> list[tuple[str, str]]:
    rows = await it.fetch(
        "SELECT dag_id, name FROM asset_queue JOIN asset ON asset.id = asset_id ORDER BY dag_id, name"
    )
    return [(row["dag_id"], row["name"]) for row in rows]


@pytest.mark.parametrize(
    ("schedule", "events", "runs"),
    [
        (AnyRequired((AllRequired((A, B)), C)), "ac", [["a", "c"]]),
        (ReferenceRequired(name="a"), "a", [["a"]]),
        (ReferenceRequired(uri="b"), "ab", [["b"]]),
    ],
    ids=["nested, an arm with leftovers", "by name", "by uri"],
)
async def test_a_condition_that_is_met_makes_a_run(
    dsn: str, clock: FakeClock, schedule: Any, events: str, runs: list[list[str]]
) -> None:
    """Other conditions: tests/semantics/test_asset_queue.py."""
    async with running(dsn, clock, producer("a", "b", "c"), consumer(schedule)) as it:
        await make(it, *events)

        assert await consumed(it) == runs


async def test_an_asset_run_has_no_logical_date_and_starts_at_its_newest_event(dsn: str, clock: FakeClock) -> None:
    """Sections 15.4 and 34 (decisions 4 and 5)."""
    async with running(dsn, clock, producer("a", "b"), consumer([A, B])) as it:
        await make(it, "a", "b")

        (run,) = await it.fetch("SELECT * FROM dag_run WHERE dag_id = 'consumer'")
        assert (run["run_type"], run["state"], run["logical_date"], run["data_interval_start"]) == (
            "asset_triggered", "running", None, None,
        )  # fmt: skip
        assert run["run_after"] == NEW_YEAR + timedelta(seconds=2)
        assert run["run_id"].startswith("asset_triggered__2026-01-01T00:00:02+00:00_")
        assert await queue(it) == []


async def test_the_event_is_stored_with_the_success_and_says_where_it_comes_from(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, producer("a")) as it:
        handle = await it.trigger("producer")
        touches = (AssetTouch(name="a", uri="a", extra='{"rows": 1}'), AssetTouch(name="a", uri="a"))
        it.executor.report(await it.attempt("a"), Outcome.SUCCESS, assets=touches)
        await it.settled()

        events = await it.fetch("SELECT * FROM asset_event ORDER BY id")
        assert [e["extra"] for e in events] == ['{"rows": 1}', "{}"]
        assert {(e["source_dag_id"], e["source_run_id"], e["source_task_index"]) for e in events} == {
            ("producer", handle.key, 0)
        }
        success = await it.fetch("SELECT xmin::text FROM task_instance WHERE run_id = $1", handle.key)
        event = await it.fetch("SELECT xmin::text FROM asset_event LIMIT 1")
        assert success == event


@pytest.mark.parametrize("outcome", [Outcome.FAILED, Outcome.SKIPPED])
async def test_a_task_that_does_not_succeed_makes_no_event(dsn: str, clock: FakeClock, outcome: Outcome) -> None:
    async with running(dsn, clock, producer("a"), consumer(A)) as it:
        await it.trigger("producer")
        it.executor.report(await it.attempt("a"), outcome, assets=(AssetTouch(name="a", uri="a"),))
        await it.settled()

        assert await it.fetch("SELECT 1 FROM asset_event") == []


async def test_events_during_a_pause_are_not_collected_and_are_listed_by_the_next_run(
    dsn: str, clock: FakeClock
) -> None:
    async with running(dsn, clock, producer("a"), consumer(A)) as it:
        await it.ask("pause", "consumer")
        await make(it, "a")
        await it.ask("unpause", "consumer")
        assert await it.runs("consumer") == {}

        await make(it, "a")

        assert await consumed(it) == [["a", "a"]]


async def test_what_was_queued_before_a_pause_makes_a_run_after_it(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, producer("a", "b"), consumer([A, B])) as it:
        await make(it, "a")
        await it.ask("pause", "consumer")
        await it.ask("unpause", "consumer")
        await make(it, "b")

        assert await consumed(it) == [["a", "b"]]


async def test_events_that_wait_for_room_get_their_run_when_a_backfill_is_cancelled(dsn: str, clock: FakeClock) -> None:
    spec = consumer(AssetOrTimeSchedule("@daily", A), start_date=NEW_YEAR, catchup=False, max_active_runs=2)
    clock.advance(4 * 24 * 3600)
    async with running(dsn, clock, producer("a"), spec) as it:
        await it.finish_all()
        dates = {"from": NEW_YEAR.isoformat(), "to": (NEW_YEAR + timedelta(days=2)).isoformat()}
        number = (await it.ask("backfill_create", "consumer", **dates, max_active_runs=1))["id"]
        await make(it, "a")
        assert await consumed(it) == []

        await it.ask("backfill_cancel", "consumer", id=number)

        assert await consumed(it) == [["a"]]
        await it.assert_consistent()


async def test_a_pause_holds_back_what_a_limit_has_held_back(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, producer("a"), consumer(A, max_active_runs=1)) as it:
        await it.trigger("consumer", run_id="busy")
        await make(it, "a")
        await it.ask("pause", "consumer")
        await it.finish("read", run_id="busy")
        assert len(await it.runs("consumer")) == 1

        await it.ask("unpause", "consumer")

        assert await consumed(it) == [["a"]]


async def test_an_alias_leads_to_assets_that_the_task_chooses(dsn: str, clock: FakeClock) -> None:
    made_by = dag("producer", task("late", outlets=(AssetRef(name="late", is_alias=True),)))
    async with running(dsn, clock, made_by, consumer(AliasRequired("late"))) as it:
        await it.trigger("producer")
        it.executor.succeed(await it.attempt("late"))
        await it.settled()
        assert await it.runs("consumer") == {}

        await it.trigger("producer")
        touch = AssetTouch(name="x", uri="s3://x", alias="late")
        it.executor.report(await it.attempt("late"), Outcome.SUCCESS, assets=(touch,))
        await it.settled()

        assert await consumed(it) == [["x"]]
        assert [tuple(r) for r in await it.fetch("SELECT name, uri, is_active FROM asset")] == [("x", "s3://x", True)]


async def test_catchup_lists_events_from_before_the_dag_was_scheduled_on_the_asset(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, producer("a")) as it:
        await make(it, "a")
        await it.register(
            consumer(A, "all", catchup=True, start_date=NEW_YEAR), consumer(A, "later"),
        )  # fmt: skip
        await make(it, "a")

        assert await consumed(it, "all") == [["a", "a"]]
        assert await consumed(it, "later") == [["a"]]


async def test_queued_events_of_a_dag_that_is_no_longer_scheduled_on_assets_are_forgotten(
    dsn: str, clock: FakeClock
) -> None:
    async with running(dsn, clock, producer("a", "b"), consumer([A, B])) as it:
        await make(it, "a")
        assert await queue(it) == [("consumer", "a")]

        await it.register(consumer(None))

        assert await queue(it) == []


async def test_an_asset_that_no_dag_mentions_becomes_inactive_and_takes_no_events(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, producer("a"), consumer(B)) as it:
        await it.trigger("producer", run_id="old")
        await it.register(producer("c"))
        await it.advance(120)
        assert dict(await it.fetch("SELECT name, is_active FROM asset")) == {"a": False, "b": True, "c": True}

        it.executor.report(await it.attempt("a"), Outcome.SUCCESS, assets=(AssetTouch(name="a", uri="a"),))
        await it.settled()
        assert await it.fetch("SELECT 1 FROM asset_event") == []
        assert await it.runs("producer") == {"old": "success"}

        await it.register(producer("a"))
        assert dict(await it.fetch("SELECT name, is_active FROM asset"))["a"]


async def emit(it: Running, name: str, **args: Any) -> inbox.RequestResult:
    async with it.db.acquire() as conn:
        number = await inbox.send_request(
            conn, verb="emit_asset", dag_id=None, args={"name": name, **args}, requested_by="me",
            partition=partition_of(name),
        )  # fmt: skip
    answer = await inbox.wait_applied(it.db, number, timeout=PATIENCE)
    assert answer is not None
    await it.settled()
    return answer


async def test_a_person_may_emit_an_event(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, consumer(A)) as it:
        answer = await emit(it, "a", extra={"by": "hand"})

        assert (answer.state, answer.result["name"]) == ("applied", "a")
        assert await consumed(it) == [["a"]]
        (event,) = await it.fetch("SELECT source_dag_id, extra FROM asset_event")
        assert tuple(event) == (None, '{"by":"hand"}')


async def test_an_event_for_an_unknown_asset_is_refused(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, consumer(AssetRequired("orders"))) as it:
        answer = await emit(it, "order")

        assert answer.state == "refused"
        assert "no asset 'order'" in answer.result["error"]
        assert "orders" in answer.result["error"]


async def test_an_application_may_emit_an_event(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, consumer(A)) as it:
        await it.scheduler.emit("a", {"by": "app"})
        await it.settled()

        assert await consumed(it) == [["a"]]
        with pytest.raises(NotFound, match="no asset 'b'"):
            await it.scheduler.emit("b")


async def test_a_consumer_of_another_scheduler_hears_of_it(dsn: str, clock: FakeClock) -> None:
    names = [f"consumer_{i}" for i in range(12)]
    specs = [producer("a"), *(consumer(A, name) for name in names)]
    async with running(dsn, clock, *specs) as one, running(dsn, clock) as other:
        await one.until(lambda: other.session.cache.partitions, "the other one to own something")
        await one.until(
            lambda: len(one.session.cache.partitions) + len(other.session.cache.partitions) == 64, "a split"
        )
        both = (one, other)
        await make_anywhere(both)

        await eventually(lambda: all_have_runs(one, names))
        for name in names:
            assert await consumed(one, name) == [["a"]]
        assert {i for i, it in enumerate(both) for name in names if name in it.session.cache.dags} == {0, 1}


async def all_have_runs(it: Running, names: Sequence[str]) -> bool:
    return all([await it.runs(name) for name in names])


async def eventually(condition: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(PATIENCE):
        while True:
            if await condition():
                return
            await asyncio.sleep(0.01)


async def make_anywhere(schedulers: Sequence[Running]) -> None:
    await schedulers[0].scheduler.trigger("producer")

    async def made() -> bool:
        for it in schedulers:
            if (attempt := it.executor.find("a", dag_id="producer")) is not None:
                it.executor.report(attempt, Outcome.SUCCESS, assets=(AssetTouch(name="a", uri="a"),))
                return True
        return False

    await eventually(made)


async def test_what_was_queued_while_nobody_ran_makes_a_run_at_the_start(
    dsn: str, clock: FakeClock, db: Database
) -> None:
    await register(db, producer("a"), consumer(A))
    async with db.transaction() as conn:
        await record_events(conn, [NewAssetEvent("a", "a", "{}", None, NEW_YEAR + timedelta(seconds=5))])
    clock.advance(10)
    async with running(dsn, clock) as it:
        assert await consumed(it) == [["a"]]
