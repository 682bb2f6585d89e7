"""Asset events while the connection breaks at any statement: none is lost, none counts twice."""

from __future__ import annotations

import itertools
from datetime import timedelta

import pytest

from aiosched.clock import FakeClock
from aiosched.core.assets.conditions import AssetRequired
from aiosched.core.graph.spec import AssetRef, DagSpec
from aiosched.core.values.messages import AssetTouch, Attempt, Outcome
from tests.faults.injection import When, faults, nth
from tests.scheduler.harness import Running, ScriptedExecutor, dag, running, task


def specs(number: int) -> tuple[DagSpec, DagSpec]:
    """A DAG that makes an asset, and one that reads it."""
    asset = f"a{number}"
    return (
        dag(f"maker{number}", task("make", outlets=(AssetRef(name=asset),))),
        dag(f"reader{number}", task("read"), schedule=AssetRequired(asset)),
    )


def making(executor: ScriptedExecutor, attempt: Attempt) -> None:
    """`make` touches its asset twice, everything succeeds at once."""
    asset = attempt.run.dag_id.replace("maker", "a")
    touches = (AssetTouch(name=asset, uri=asset, extra='{"n":1}'), AssetTouch(name=asset, uri=asset, extra='{"n":2}'))
    executor.report(attempt, Outcome.SUCCESS, assets=touches if attempt.task_id == "make" else ())


def order(it: Running, number: int) -> list[str]:
    """What has run of these two DAGs."""
    dag_ids = {f"maker{number}", f"reader{number}"}
    return [attempt.task_id for attempt in it.executor.submitted if attempt.run.dag_id in dag_ids]


async def counted_once(it: Running, number: int) -> None:
    assert sorted(order(it, number)) == ["make", "read"]
    assert list((await it.runs(f"reader{number}")).values()) == ["success"]
    consumed = await it.fetch(
        """SELECT e.extra FROM asset_consumption AS c JOIN asset_event AS e ON e.id = c.event_id
                                JOIN dag_run AS r ON r.id = c.run_id
            WHERE r.dag_id = $1 ORDER BY e.id""",
        f"reader{number}",
    )
    assert [row[0] for row in consumed] == ['{"n":1}', '{"n":2}']
    assert await it.fetch("SELECT 1 FROM asset_queue") == []
    await it.assert_consistent()


@pytest.mark.slow
@pytest.mark.parametrize("when", ["before", "after"])
async def test_whichever_statement_fails_each_event_counts_once(dsn: str, clock: FakeClock, when: When) -> None:
    executor = ScriptedExecutor(clock, script=making)
    with faults() as injected:
        async with running(dsn, clock, executor=executor, retention=True) as it:
            for number in itertools.count(1):
                await it.register(*specs(number))
                later = clock.now() + timedelta(seconds=60)
                await it.trigger(f"maker{number}", "once", run_after=later)
                injected.fired.clear()
                injected.calls, injected.fail = 0, nth(number, when)
                try:
                    await it.advance(60)
                    await it.until(lambda n=number: "read" in order(it, n), "the reader's run")
                    await it.settled()
                    injected.fail = lambda *_: None
                    await counted_once(it, number)
                except BaseException as error:
                    error.add_note(f"statement {number} failed {when}: {injected.fired}")
                    raise
                if not injected.fired:
                    break
    assert number > 15
