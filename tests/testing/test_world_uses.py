"""How a world is used: single passes, accidents, determinism, and what it says of wrong uses."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from aiosched import DAG, EmptyOperator, Param
from aiosched.core.values.states import RunState, TaskState
from aiosched.db.statements.journal import PoolRow
from aiosched.errors import AioschedError, NotFound, ParamError, Refused, StaleRows
from aiosched.testing import InvariantBroken, World, fails, reschedules, succeeds
from tests.testing.world_builders import NEW_YEAR, at, dag, minutes, task


def world(**options: object) -> World:
    return World(**{"now": NEW_YEAR, "takes": minutes(1)} | options)  # type: ignore[arg-type]


# ---- single passes ----


async def test_the_passes_can_be_stepped() -> None:
    async with world() as it:
        it.add(dag("d", task("a"), task("b"), task("c", after="a b"), schedule="@daily", start_date=at(day=1)))
        it.clock.at = at(day=2)

        ((_, run),) = await it.create_runs()
        created = it.states("d", run)
        await it.evaluate("d", run)
        first = await it.enqueue(1)
        second = await it.enqueue()
        await it.events("d", run, {"a": "success", "b": "failed"})
        await it.enqueue()

        assert created == {"a": None, "b": None, "c": None}
        assert (first, second) == ([("d", run, "a")], [("d", run, "b")])
        assert it.states("d", run) == {"a": "success", "b": "failed", "c": "upstream_failed"}
        assert it.run("d", run).state is RunState.FAILED


async def test_rows_can_be_put_into_any_state() -> None:
    async with world() as it:
        it.add(dag("d", task("a", retries=1), task("b"), task("c", after="a b", trigger_rule="all_done")))
        run = it.trigger("d")

        it.set_task("d", run, "a", state="running", try_number=1)
        it.set_task("d", run, "b", state="up_for_retry", next_at=at(1))
        await it.events("d", run, {"a": fails("by hand")})
        await it.run_until_idle()

        assert it.states("d", run) == {"a": "success", "b": "success", "c": "success"}
        assert (it.task("d", run, "a").try_number, it.task("d", run, "b").try_number) == (2, 2)


# ---- accidents ----


@pytest.mark.parametrize("stored", [True, False])
async def test_a_commit_of_which_nobody_heard_is_settled_by_the_rows(stored: bool) -> None:
    async with world() as it:
        it.add(dag("d", task("a", retries=1), task("b", after="a")))
        run = it.trigger("d")

        it.lose_next_commit(stored=stored)
        await it.run_for(minutes(0.5))
        it.lose_next_commit(stored=stored)
        await it.run_until_idle()

        assert it.states("d", run) == {"a": "success", "b": "success"}
        assert it.task("d", run, "a").try_number == 1


async def test_attempts_die_with_their_process_and_run_again() -> None:
    async with world() as it:
        it.add(dag("d"))
        run = it.trigger("d")
        await it.run_for(minutes(0.5))

        await it.crash()
        await it.run_until_idle()

        row = it.task("d", run, "a")
        assert (row.state, row.try_number, row.max_tries) == ("success", 2, 1)


async def test_a_row_that_somebody_else_changed_voids_the_batch() -> None:
    async with world() as it:
        it.add(dag("d"))
        run = it.trigger("d")
        await it.run_for(minutes(0.5))
        key = it.run("d", run).key

        it.rows.put(key, (0, -1), TaskState.FAILED, "default_pool", 1)

        with pytest.raises(StaleRows):
            await it.run_until_idle()


async def test_a_pool_that_counts_wrongly_is_noticed() -> None:
    async with world() as it:
        it.add(dag("d", task("a"), task("b", after="a")))
        it.trigger("d")
        await it.run_for(minutes(0.5))

        it.rows.pools["default_pool"] = PoolRow(128, 5)

        with pytest.raises(InvariantBroken, match="counts 5, its tasks hold 1"):
            await it.run_until_idle()


# ---- determinism ----


def tangled() -> list[object]:
    return [
        dag(
            f"d{n}",
            task("a", pool="etl"), task("b", pool="etl", retries=1), task("c", after="a b", trigger_rule="all_done"),
            schedule=timedelta(hours=n + 1), start_date=NEW_YEAR,
        )
        for n in range(5)
    ]  # fmt: skip


async def log_of(seed: int) -> list[object]:
    async with world(seed=seed) as it:
        it.pool("etl", slots=3)
        it.add(*tangled())  # type: ignore[arg-type]
        it.script("*", "b", fails=1)
        await it.run_until(at(day=3))
        return list(it.log)


async def test_an_equal_seed_gives_equal_decisions_and_another_one_another_order() -> None:
    one, same, other = await log_of(1), await log_of(1), await log_of(2)

    assert one == same
    assert one != other
    assert len(one) == len(other)


# ---- using it wrongly ----


async def test_wrong_uses_say_what_is_wrong() -> None:
    async with world() as it:
        with DAG("real", schedule=None) as real:
            EmptyOperator(task_id="only")
        it.add(real)
        run = it.trigger("real")

        with pytest.raises(NotFound, match=r"no DAG 'reel'\. Did you mean real"):
            it.trigger("reel")
        with pytest.raises(NotFound, match=r"no task 'onlly'\. Did you mean only"):
            it.script("real", "onlly", fails=1)
        with pytest.raises(NotFound, match="no run 'x'"):
            it.states("real", "x")
        with pytest.raises(NotFound, match="No attempt of 'only' runs"):
            await it.events("real", run, {"only": "success"})
        with pytest.raises(Refused, match="has a run 'manual_1'"):
            it.trigger("real", run_id="manual_1")
        with pytest.raises(TypeError, match="not both"):
            it.script("real", "only", lambda attempt: None, fails=1)
        with pytest.raises(ValueError, match="no time zone"):
            await it.run_until(datetime(2026, 1, 1))  # noqa: DTZ001
        with pytest.raises(ValueError, match="negative"):
            succeeds(takes=minutes(-1))


async def test_params_are_checked_as_in_the_scheduler() -> None:
    async with world() as it:
        with DAG("real", schedule=None, params={"day": Param(1, type="integer")}) as real:
            EmptyOperator(task_id="only")
        it.add(real)

        with pytest.raises(ParamError):
            it.trigger("real", conf={"day": "monday"})


async def test_a_world_that_never_rests_says_so() -> None:
    async with world() as it:
        it.add(dag("d"))
        it.script("d", "a", lambda attempt: reschedules(timedelta(), takes=timedelta()))
        it.trigger("d")

        with pytest.raises(AioschedError, match="does not come to rest"):
            await it.run_until_idle()
