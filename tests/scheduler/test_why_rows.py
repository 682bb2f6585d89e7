"""`why` asked of real rows: it reads what a scheduler would hold, and agrees with what the scheduler does."""

from __future__ import annotations

import pytest

from aiosched.clock import FakeClock
from aiosched.core.graph.spec import MappingSpec, TaskOutput
from aiosched.core.values.messages import Deferral, Outcome, SkipDecision, XComValue
from aiosched.core.why.explanation import Explanation, Gate
from aiosched.db.people.pools import set_pool
from aiosched.errors import NotFound
from tests.scheduler.harness import NEW_YEAR, dag, running, task


def gate_of(said: Explanation, name: str) -> Gate:
    return next(gate for gate in said.gates if gate.name == name)


def first(said: Explanation) -> Gate:
    return said.in_the_way()[0]


async def test_the_rank_counts_the_whole_queue_of_the_pool_by_weight_date_and_index(dsn: str, clock: FakeClock) -> None:
    heavy = dag("heavy", task("a", pool="etl", priority_weight=9, pool_slots=2))
    light = dag("light", task("a", pool="etl"), task("elsewhere"))
    async with running(dsn, clock, heavy, light) as it:
        await set_pool(it.db, "etl", 2, requested_by="test")
        await it.trigger("heavy", "holds")
        for hour in (2, 1):
            await it.trigger("light", f"l{hour}", logical_date=NEW_YEAR.replace(hour=hour))
        await it.trigger("heavy", "waits")

        ranks = [
            (await it.scheduler.why(dag_id, run_id, "a")).rank
            for dag_id, run_id in (("heavy", "waits"), ("light", "l1"), ("light", "l2"))
        ]
        last = first(await it.scheduler.why("light", "l2", "a"))

        assert ranks == [1, 2, 3]
        assert last.detail == "2 of 2 slots held, needs 1; 2 tasks before it"
        assert [(each.label, each.slots) for each in last.holders] == [("heavy holds a", 2)]
        assert last.commands == ("aiosched pools set etl 6",)


async def test_a_bound_that_was_met_is_said(dsn: str, clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(dsn, clock, dag("d", task("a", pool="etl"))) as it:
        await set_pool(it.db, "etl", 2, requested_by="test")
        for number in range(4):
            await it.trigger("d", f"r{number}")
        assert (await it.scheduler.why("d", "r3", "a")).notes == ()
        monkeypatch.setattr("aiosched.db.queries.why.MOST_RUNS", 3)
        monkeypatch.setattr("aiosched.db.queries.why.MOST_INSTANCES", 1)

        of_dag, of_task = await it.scheduler.why("d"), await it.scheduler.why("d", "r2", "a")

        assert of_dag.notes == ("of the unfinished runs of d the first 3 are counted",)
        assert of_task.notes == (
            *of_dag.notes,
            "more than 3 runs are running: who holds slots or goes first is known of the 3 oldest",
            "more than 1 task instances hold slots: holders are named of the 1 oldest",
        )
        assert of_task.rank == 1


async def test_how_long_it_usually_takes_is_the_median_of_the_latest_successes(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("d", task("a"), max_active_tasks=1)) as it:
        for number, seconds in enumerate((10, 20, 600)):
            await it.trigger("d", f"done{number}")
            it.executor.start_running(await it.attempt("a"))
            await it.advance(seconds)
            await it.finish("a")
        await it.trigger("d", "runs")
        it.executor.start_running(await it.attempt("a"))
        await it.trigger("d", "waits")
        await it.advance(5)

        said = await it.scheduler.why("d", "waits", "a")

        assert first(said).name == "DAG limit"
        assert [(each.run_id, each.usual_seconds) for each in first(said).holders] == [("runs", 20.0)]


async def test_the_rows_alone_know_of_branches_lengths_deferrals_and_the_past(dsn: str, clock: FakeClock) -> None:
    listed = MappingSpec(inputs=(TaskOutput("list"),))
    spec = dag(
        "d",
        task("choose", can_skip_downstream=True), task("left", after="choose"), task("right", after="choose"),
        task("list"), task("each", after="list", mapping=listed),
        task("wait"), task("again", depends_on_past=True),
    )  # fmt: skip
    async with running(dsn, clock, spec) as it:
        await it.trigger("d", "r1", logical_date=NEW_YEAR)
        it.executor.report(await it.attempt("choose"), Outcome.SUCCESS, skip=SkipDecision(followed=("left",)))
        door = Deferral(classpath="triggers.Door", kwargs="{}", next_method="go_on", timeout=60.0)
        it.executor.report(await it.attempt("wait"), Outcome.DEFERRED, deferral=door)
        it.executor.report(await it.attempt("again"), Outcome.FAILED, reason="boom")
        await it.settled()
        await it.trigger("d", "r2", logical_date=NEW_YEAR.replace(hour=1))

        async def ask(run_id: str, name: str) -> Explanation:
            return await it.scheduler.why("d", run_id, name)

        assert (await ask("r1", "right")).summary == "skipped by choose"
        assert gate_of(await ask("r1", "wait"), "trigger").detail.startswith("waits for triggers.Door")
        assert first(await ask("r1", "each")).name == "mapping"
        past = await ask("r2", "again")
        assert first(past).detail == "has not succeeded in the previous run (depends_on_past): r1 (running)"
        assert [(each.run_id, each.task_id, each.state) for each in first(past).holders] == [("r1", "again", "failed")]
        assert past.commands == ("aiosched tasks clear d --run r1 --task-id again --only-failed --downstream",)
        assert (await ask("r1", "again")).summary == "failed: boom"
        assert (await it.scheduler.why("d", "r1")).state == "running"


async def test_of_a_mapped_task_the_instance_that_waits_is_explained(dsn: str, clock: FakeClock) -> None:
    listed = MappingSpec(inputs=(TaskOutput("list"),))
    spec = dag("d", task("list"), task("each", after="list", mapping=listed, max_active_tis_per_dag=1))
    async with running(dsn, clock, spec) as it:
        await it.trigger("d", "r")
        it.executor.report(await it.attempt("list"), Outcome.SUCCESS, xcoms=(XComValue("return_value", "[1, 2, 3]"),))
        await it.settled()

        said = await it.scheduler.why("d", "r", "each")

        assert (said.subject, first(said).name) == ("d · r · each[1]", "task limit max_active_tis_per_dag")
        assert [holder.label for holder in first(said).holders] == ["d r each[0]"]
        with pytest.raises(NotFound, match=r"each\[7\]"):
            await it.scheduler.why("d", "r", "each", 7)


async def test_runs_wait_for_their_turn_their_backfill_and_their_time(dsn: str, clock: FakeClock) -> None:
    spec = dag("d", task("a"), schedule="@hourly", start_date=NEW_YEAR, max_active_runs=1)
    async with running(dsn, clock, spec) as it:
        await it.trigger("d", "r1")
        await it.trigger("d", "r2")
        await it.trigger("d", "r3")

        third = await it.scheduler.why("d", "r3")
        the_dag = await it.scheduler.why("d")

        assert first(third).detail == "max_active_runs=1 of the DAG reached: 1 running, 1 run queued before it"
        assert [holder.run_id for holder in first(third).holders] == ["r1"]
        assert the_dag.summary.startswith("1 run running, 2 runs queued; no further one: ")
        assert (await it.scheduler.why("d", "r3", "a")).in_the_way()[0].name == "max_active_runs"


async def test_a_dag_waits_for_its_next_interval_and_says_when_it_begins(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("d", task("a"), schedule="@hourly", start_date=NEW_YEAR)) as it:
        said = await it.scheduler.why("d")

        assert said.summary == "has never run: its next run is due at 2026-01-01 01:00:00 UTC, in 1 h"
        assert said.earliest_start == NEW_YEAR.replace(hour=1)

        await it.advance(3600)
        await it.finish_all()
        await it.advance(60)

        assert (await it.scheduler.why("d")).summary == (
            "nothing runs; the last run was 2026-01-01T00:00 (success 1 m ago); "
            "its next run is due at 2026-01-01 02:00:00 UTC, in 59 m"
        )


async def test_limits_are_those_of_the_newest_version_and_count_all_runs(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("d", task("a"), task("b"))) as it:
        await it.trigger("d", "old")
        await it.register(dag("d", task("b"), max_active_tasks=2))
        await it.trigger("d", "new")

        said = await it.scheduler.why("d", "new", "b")

        assert gate_of(said, "DAG limit").detail == "2 of 2 active (max_active_tasks)"
        assert sorted(holder.label for holder in first(said).holders) == ["d old a", "d old b"]


async def test_a_previous_run_with_a_row_of_no_task_is_one_that_cannot_be_read(dsn: str, clock: FakeClock) -> None:
    """Neither asking nor scheduling fails with it: what depends on that run waits."""
    async with running(dsn, clock, dag("d", task("again", depends_on_past=True))) as it:
        await it.trigger("d", "r1", logical_date=NEW_YEAR)
        await it.finish("again")
        await it.settled()
        await it.db.execute(
            "INSERT INTO task_instance (run_id, task_index, map_index, state) "
            "SELECT id, 99, -1, 'success' FROM dag_run WHERE run_id = 'r1'"
        )
        await it.trigger("d", "r2", logical_date=NEW_YEAR.replace(hour=1))
        await it.settled()

        said = await it.scheduler.why("d", "r2", "again")

        assert first(said).name == "previous run"
        assert (await it.states("r2"))["again"] is None
