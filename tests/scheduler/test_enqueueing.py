"""Who gets a slot, and what is stored of those who wait: the semantics reference, sections 17.2 to 17.5, 18.1, 18.3."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from aiosched.clock import FakeClock
from aiosched.core.graph.spec import DagSpec, TaskSpec
from aiosched.db.statements import inbox, journal
from aiosched.scheduler.partitions import recounting
from tests.scheduler.harness import NEW_YEAR, Running, ScriptedExecutor, chain, dag, running, succeeding, task

HOUR = timedelta(hours=1)


async def set_pool(it: Running, name: str, slots: int) -> None:
    await it.execute(
        "INSERT INTO pool (name, slots) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET slots = $2", name, slots
    )
    await inbox.notify(it.db, "pools", ())

    def heard() -> bool:  # until then, a scheduler that is alone goes by the row that it has read
        held = it.session.env.journal._pools
        return name not in held or ((row := held[name]) is not None and row.slots == slots)

    await it.until(heard, "the notification")
    await it.settled()


def parallel(count: int, **options: Any) -> tuple[TaskSpec, ...]:
    return tuple(task(f"t{i}", **options) for i in range(count))


def wide(count: int, *, options: dict[str, Any] | None = None, **dag_options: Any) -> DagSpec:
    return dag("d", *parallel(count, **(options or {})), **dag_options)


async def waiting_reasons(it: Running, run_id: str = "r") -> set[str | None]:
    return {row["reason"] for row in await it.instances(run_id) if row["state"] == "scheduled"}


# -- pools ------------------------------------------------------------------------------------


async def test_a_pool_lets_as_many_tasks_run_as_it_has_slots_and_the_others_say_why_they_wait(
    dsn: str, clock: FakeClock
) -> None:
    async with running(dsn, clock, wide(5, options={"pool": "etl"})) as it:
        await set_pool(it, "etl", 2)
        await it.trigger("d", "r")

        assert len(it.executor.running) == 2
        assert sorted((await it.states("r")).values()) == ["queued", "queued", "scheduled", "scheduled", "scheduled"]
        assert await waiting_reasons(it) == {"pool 'etl': needs 1 slot, 0 of 2 open"}
        await it.assert_consistent()

        await it.finish(it.executor.order()[0])
        assert len(it.executor.running) == 2
        await it.assert_consistent()
        await it.finish_all()
        assert await it.runs("d") == {"r": "success"}
        assert await it.fetch("SELECT used FROM pool WHERE name = 'etl'") == [(0,)]


async def test_tasks_of_a_pool_that_does_not_exist_wait_until_it_does(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("d", task("a", pool="ghost"))) as it:
        await it.trigger("d", "r")
        assert await waiting_reasons(it) == {"pool 'ghost' does not exist: create it with `aiosched pools set ghost 1`"}

        await set_pool(it, "ghost", 1)
        await it.finish("a")

        assert await it.runs("d") == {"r": "success"}


async def test_the_slot_of_a_task_that_ends_goes_to_the_next_in_the_same_commit(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, wide(2, options={"pool": "etl"})) as it:
        await set_pool(it, "etl", 1)
        await it.trigger("d", "r")
        commits = it.scheduler.metrics.journal_commit.count

        await it.finish(it.executor.order()[0])

        assert len(it.executor.running) == 1
        assert it.scheduler.metrics.journal_commit.count == commits + 1


# -- order ------------------------------------------------------------------------------------


async def test_priority_goes_before_the_age_of_the_run_and_age_before_arrival(dsn: str, clock: FakeClock) -> None:
    low, high = dag("low", task("l", pool="etl")), dag("high", task("h", pool="etl", priority_weight=5))
    async with running(dsn, clock, low, high) as it:
        await set_pool(it, "etl", 0)
        await it.trigger("low", "new", logical_date=NEW_YEAR + HOUR)
        await it.trigger("low", "undated")
        await it.trigger("low", "old", logical_date=NEW_YEAR)
        await it.trigger("high", "high", logical_date=NEW_YEAR + 2 * HOUR)

        await set_pool(it, "etl", 1)
        for _ in range(4):
            await it.finish(next(iter(it.executor.running.values())).task_id)

        assert [a.run.run_id for a in it.executor.submitted] == ["high", "old", "new", "undated"]


# -- limits of DAGs and tasks -----------------------------------------------------------------


async def test_max_active_tis_per_dag_counts_a_task_over_all_runs(dsn: str, clock: FakeClock) -> None:
    spec = dag("d", task("a", max_active_tis_per_dag=2), task("b"))
    async with running(dsn, clock, spec) as it:
        for number in range(3):
            await it.trigger("d", f"r{number}", logical_date=NEW_YEAR + number * HOUR)

        assert sorted(it.executor.order()) == ["a", "a", "b", "b", "b"]
        assert await waiting_reasons(it, "r2") == {"task 'a': 2 of 2 instances active (max_active_tis_per_dag)"}
        await it.finish("a", run_id="r0")
        assert it.executor.find("a", "r2") is not None
        await it.assert_consistent()


async def test_limits_hold_over_a_restart(dsn: str, clock: FakeClock) -> None:
    spec = dag("d", task("a", max_active_tis_per_dag=1), max_active_tasks=2)
    async with running(dsn, clock, spec) as it:
        await it.trigger("d", "r0", logical_date=NEW_YEAR)
        await it.trigger("d", "r1", logical_date=NEW_YEAR + HOUR)

    async with running(dsn, clock) as it:
        assert len(it.executor.running) == 1
        await it.assert_consistent()
        await it.finish_all()
        assert await it.runs("d") == {"r0": "success", "r1": "success"}


@pytest.mark.parametrize("limit", [{"max_active_tis_per_dag": 1}, {"max_active_tis_per_dagrun": 1}])
async def test_a_task_limit_that_comes_and_goes_with_versions_keeps_its_count(
    dsn: str, clock: FakeClock, limit: dict[str, int]
) -> None:
    async with running(dsn, clock, dag("d", task("a"))) as it:
        await it.trigger("d", "r0", logical_date=NEW_YEAR)
        await it.register(dag("d", task("a", **limit)))
        await it.assert_consistent()
        await it.trigger("d", "r1", logical_date=NEW_YEAR + HOUR)
        assert len(it.executor.running) == (1 if "max_active_tis_per_dag" in limit else 2)
        await it.assert_consistent()

        await it.register(dag("d", task("a")))

        assert len(it.executor.running) == 2
        await it.finish_all()
        await it.assert_consistent()


# -- parallelism and executors ----------------------------------------------------------------


async def test_plain_tasks_wait_for_executor_slots_that_async_ones_do_not_need(dsn: str, clock: FakeClock) -> None:
    executor = ScriptedExecutor(clock, slots=1, async_slots=100)
    spec = dag("d", *parallel(2), *(task(f"async{i}", is_async=True) for i in range(3)))
    async with running(dsn, clock, spec, executor=executor) as it:
        await it.trigger("d", "r")

        assert sorted(it.executor.order())[:3] == ["async0", "async1", "async2"]
        assert len(it.executor.running) == 4
        assert await waiting_reasons(it) == {"executor 'scripted': 0 slots open for plain functions, needs 1"}
        await it.finish_all()
        assert await it.runs("d") == {"r": "success"}


# -- invariants at every step -----------------------------------------------------------------


async def test_no_limit_is_exceeded_and_pool_use_is_right_after_every_step(dsn: str, clock: FakeClock) -> None:
    tasks = [
        task(
            f"t{i}",
            after=f"t{i - 4}" if i >= 4 else (),
            pool=("etl", "default_pool")[i % 2],
            pool_slots=1 + i % 3,
            priority_weight=i % 5,
            retries=1,
            retry_delay=1.0,
            max_active_tis_per_dag=2 if i % 4 == 0 else None,
        )
        for i in range(12)
    ]
    async with running(dsn, clock, dag("d", *tasks, max_active_tasks=6), parallelism=7) as it:
        await set_pool(it, "etl", 5)
        for number in range(4):
            await it.trigger("d", f"r{number}", logical_date=NEW_YEAR + number * HOUR)
        step = 0
        while any(state in ("queued", "running") for state in (await it.runs("d")).values()):
            assert len(it.executor.running) <= 6
            await it.assert_consistent()
            ((used,),) = await it.fetch("SELECT used FROM pool WHERE name = 'etl'")
            assert used <= 5
            for attempt in list(it.executor.running.values())[: 1 + step % 3]:
                step += 1
                if step % 7 == 0 and attempt.key.try_number == 1:
                    it.executor.fail(attempt)
                else:
                    it.executor.succeed(attempt)
            await it.settled()
            await it.advance(2)

        assert set((await it.runs("d")).values()) == {"success"}


# -- news that get lost -----------------------------------------------------------------------


async def test_a_task_of_another_pool_says_that_parallelism_is_used_up(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("d"), dag("e", task("b", pool="etl")), parallelism=1) as it:
        await set_pool(it, "etl", 5)
        await it.trigger("d", "r")
        await it.trigger("e", "s")

        assert await waiting_reasons(it, "s") == {"parallelism: this scheduler runs 1 attempts, its maximum"}


async def test_a_pool_that_was_changed_without_a_word_is_noticed_after_a_while(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, wide(3, options={"pool": "etl"}), dag("other")) as it:
        await set_pool(it, "etl", 1)
        await it.trigger("d", "r")
        await it.execute("UPDATE pool SET slots = 2 WHERE name = 'etl'")

        await it.advance(11)  # safety_poll

        assert len(it.executor.running) == 2


async def test_a_pool_that_shrank_without_a_word_is_not_exceeded(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, wide(3, options={"pool": "etl"}), dag("other", task("b", pool="etl"))) as it:
        await set_pool(it, "etl", 4)
        await it.trigger("d", "r")
        await it.execute("UPDATE pool SET slots = 3 WHERE name = 'etl'")

        await it.trigger("other", "s")

        assert len(it.executor.running) == 3
        assert await it.fetch("SELECT used FROM pool WHERE name = 'etl'") == [(3,)]
        await it.assert_consistent()


async def test_a_pool_that_somebody_else_filled_is_not_exceeded(
    dsn: str, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    # the row stands for a peer's tasks, which are not there to be counted again
    monkeypatch.setattr(recounting, "differences", lambda _: {})
    async with running(dsn, clock, dag("d", task("a", pool="etl"))) as it:
        await set_pool(it, "etl", 2)
        await it.trigger("d", "r")
        await it.execute("UPDATE pool SET used = 2 WHERE name = 'etl'")  # as a peer does that we have not seen yet

        await it.trigger("d", "s")

        assert len(it.executor.running) == 1
        assert await waiting_reasons(it, "s") == {"pool 'etl': needs 1 slot, 0 of 2 open"}


# -- chains side by side -------------------------------------------------------------------------


async def test_chains_that_have_lost_step_share_commits_again(
    dsn: str, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half of them end a task while the commit of the others is under way: from then on they could take turns."""
    specs, write = [chain(f"d{number}", 20) for number in range(8)], journal.write
    async with running(dsn, clock, *specs) as it:
        for spec in specs:
            await it.trigger(spec.dag_id)
        late = list(it.executor.running.values())
        now = [late.pop() for _ in range(4)]

        async def write_meanwhile(*args: Any) -> Any:
            while late:
                it.executor.succeed(late.pop())
            return await write(*args)

        monkeypatch.setattr(journal, "write", write_meanwhile)
        it.executor.script = succeeding
        before = it.session.env.metrics.journal_batch.count
        for attempt in now:
            it.executor.succeed(attempt)
        await it.settled()

        assert len(it.executor.submitted) == 8 * 20
        assert it.session.env.metrics.journal_batch.count - before < 20 + 5
