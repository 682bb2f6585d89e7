"""Asset events while the connection breaks at any statement: none is lost, none counts twice."""

from __future__ import annotations

from datetime import timedelta
from functools import partial

import pytest

from aiosched.clock import FakeClock
from aiosched.core.assets.conditions import AssetRequired
from aiosched.core.graph.spec import AssetRef
from aiosched.core.values.messages import AssetTouch, Attempt, Outcome
from tests.databases import TEMPLATE, Server
from tests.faults.injection import When, faults, nth
from tests.scheduler.harness import NEW_YEAR, Running, ScriptedExecutor, dag, running, task

SPECS = (
    dag("maker", task("make", outlets=(AssetRef(name="a"),))),
    dag("reader", task("read"), schedule=AssetRequired("a")),
)


def making(executor: ScriptedExecutor, attempt: Attempt) -> None:
    """`make` touches its asset twice, everything succeeds at once."""
    touches = (AssetTouch(name="a", uri="a", extra='{"n":1}'), AssetTouch(name="a", uri="a", extra='{"n":2}'))
    executor.report(attempt, Outcome.SUCCESS, assets=touches if attempt.task_id == "make" else ())


def has_read(it: Running) -> bool:
    return "read" in it.executor.order()


async def counted_once(it: Running) -> None:
    assert sorted(it.executor.order()) == ["make", "read"]
    assert list((await it.runs("reader")).values()) == ["success"]
    consumed = await it.fetch(
        "SELECT e.extra FROM asset_consumption AS c JOIN asset_event AS e ON e.id = c.event_id ORDER BY e.id"
    )
    assert [row[0] for row in consumed] == ['{"n":1}', '{"n":2}']
    assert await it.fetch("SELECT 1 FROM asset_queue") == []
    await it.assert_consistent()


@pytest.mark.timeout(300)
@pytest.mark.parametrize("when", ["before", "after"])
async def test_whichever_statement_fails_each_event_counts_once(server: Server, when: When) -> None:
    number = 0
    while True:
        number += 1
        dsn, clock = await server.create(TEMPLATE), FakeClock(NEW_YEAR)
        with faults() as injected:
            try:
                async with running(dsn, clock, *SPECS, executor=ScriptedExecutor(clock, script=making)) as it:
                    clock.advance(1)
                    await it.scheduler.trigger("maker", run_id="once", run_after=NEW_YEAR + timedelta(seconds=60))
                    await it.settled()
                    injected.calls, injected.fail = 0, nth(number, when)
                    await it.advance(60)
                    await it.until(partial(has_read, it), "the reader's run")
                    await it.settled()
                    injected.fail = lambda *_: None
                    await counted_once(it)
            except BaseException as error:
                error.add_note(f"statement {number} failed {when}: {injected.fired}")
                raise
        await server.drop(dsn)
        if not injected.fired:
            break
    assert number > 15
