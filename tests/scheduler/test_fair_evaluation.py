"""DAGs share the passes of evaluation: very many reports or decisions of one hold up no other."""

from __future__ import annotations

from collections import Counter

import pytest

from aiosched.clock import FakeClock
from aiosched.core.values.states import TaskState
from aiosched.scheduler.loops import evaluation
from aiosched.scheduler.loops.evaluation import decide
from tests.scheduler.harness import Running, chain, dag, running, task

UNLIMITED = {"max_active_tasks": 10_000, "max_active_runs": 100}


def states(it: Running, dag_id: str) -> Counter[TaskState]:
    """The states of a DAG's task instances in memory."""
    return Counter(i.state for board in it.session.cache.dags[dag_id].runs.running.values() for i in board)


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few reports and decisions are many."""
    monkeypatch.setattr(evaluation, "REPORTS_PER_PASS", 6)
    monkeypatch.setattr(evaluation, "DECISIONS_PER_PASS", 5)


async def test_the_report_of_a_small_dag_does_not_wait_behind_very_many_of_another(dsn: str, clock: FakeClock) -> None:
    large = dag("large", *(task(f"t{number}") for number in range(30)), **UNLIMITED)
    async with running(dsn, clock, large, dag("small", task("a"), task("b", after="a"))) as it:
        for dag_id in ("large", "small"):
            await it.trigger(dag_id, "r")
        for attempt in sorted(it.executor.running.values(), key=lambda attempt: attempt.run.dag_id):
            it.executor.succeed(attempt)

        decide(it.session.context, clock.now())

        assert states(it, "small") == {TaskState.SUCCESS: 1, TaskState.SCHEDULED: 1}
        assert states(it, "large")[TaskState.SUCCESS] == 5
        await it.finish_all()
        assert (await it.runs("large"), await it.runs("small")) == ({"r": "success"}, {"r": "success"})
        await it.assert_consistent()


async def test_the_reports_of_a_run_are_applied_in_their_order(dsn: str, clock: FakeClock) -> None:
    large = dag("large", *(task(f"t{number}") for number in range(30)), **UNLIMITED)
    async with running(dsn, clock, large, dag("small")) as it:
        for dag_id in ("large", "small"):
            await it.trigger(dag_id, "r")
        for attempt in list(it.executor.running.values()):
            it.executor.start_running(attempt)
            it.executor.succeed(attempt)
        stale = it.scheduler.metrics.stale_reports
        await it.finish_all()

        assert it.scheduler.metrics.stale_reports == stale
        assert all(row["start_date"] is not None for row in await it.instances("r", "large"))


async def test_the_runs_of_one_dag_share_its_part_of_a_pass(dsn: str, clock: FakeClock) -> None:
    tasks = (task("root"), *(task(f"t{number}", after="root") for number in range(4)))
    async with running(dsn, clock, dag("large", *tasks, **UNLIMITED), chain("small", 2)) as it:
        for number in range(4):
            await it.trigger("large", f"r{number}")
        await it.trigger("small", "r")
        for attempt in list(it.executor.running.values()):
            it.executor.succeed(attempt)

        decide(it.session.context, clock.now())

        assert states(it, "large")[TaskState.SCHEDULED] == 5
        assert states(it, "small")[TaskState.SCHEDULED] == 1
        await it.finish_all()
        assert set((await it.runs("large")).values()) == {"success"}
        await it.assert_consistent()


async def test_what_one_task_releases_is_decided_a_share_at_a_time(dsn: str, clock: FakeClock) -> None:
    large = dag("large", task("root"), *(task(f"t{n}", after="root") for n in range(12)), **UNLIMITED)
    async with running(dsn, clock, large) as it:
        await it.trigger("large", "r")
        it.executor.succeed(await it.attempt("root"))

        decide(it.session.context, clock.now())

        assert states(it, "large")[TaskState.SCHEDULED] == 5
        before = it.scheduler.metrics.journal_commit.count
        await it.settled()
        assert it.scheduler.metrics.journal_commit.count == before + 2  # the third share waits for that of two
        assert states(it, "large")[TaskState.QUEUED] == 12
        await it.finish_all()
        assert await it.runs("large") == {"r": "success"}
        await it.assert_consistent()


async def test_very_many_dags_are_decided_in_several_passes(
    dsn: str, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a take-over: other work of the loop gets its turn in between."""
    monkeypatch.setattr(evaluation, "DECISIONS_IN_ALL", 7)
    dags = [chain(f"d{number}", 2) for number in range(20)]
    async with running(dsn, clock, *dags) as it:
        for number in range(20):
            await it.trigger(f"d{number}", "r")
        monkeypatch.setattr(evaluation, "REPORTS_PER_PASS", 100)
        for attempt in list(it.executor.running.values()):
            it.executor.succeed(attempt)

        passes = list[int]()
        while it.session.cache.work.to_evaluate or it.session.env.attempts.reports:
            before = sum(states(it, f"d{number}")[TaskState.SCHEDULED] for number in range(20))
            decide(it.session.context, clock.now())
            passes.append(sum(states(it, f"d{number}")[TaskState.SCHEDULED] for number in range(20)) - before)

        assert sum(passes) == 20
        assert max(passes) <= 7
        await it.finish_all()
        assert [await it.runs(f"d{number}") for number in range(20)] == [{"r": "success"}] * 20
        await it.assert_consistent()
