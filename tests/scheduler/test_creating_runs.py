"""Which runs come to be and when they start: the semantics reference, sections 9.5, 13.1 to 13.4, 14.1 and 14.2."""

from __future__ import annotations

import contextlib
from datetime import UTC, datetime, timedelta

import pytest

from aiosched.clock import FakeClock
from aiosched.core.graph.spec import ParamSpec
from aiosched.core.values.states import RunState
from aiosched.errors import NotFound, Refused
from tests.scheduler.harness import NEW_YEAR, chain, dag, register, running, succeeding, task

HOUR = timedelta(hours=1)


def hours(*numbers: int) -> list[datetime]:
    return [NEW_YEAR + number * HOUR for number in numbers]


async def test_catchup_creates_contiguous_intervals_up_to_max_active_runs_and_goes_on_as_runs_end(
    dsn: str, clock: FakeClock
) -> None:
    spec = dag("d", schedule=HOUR, start_date=NEW_YEAR, catchup=True, max_active_runs=2)
    clock.advance(5 * 3600)
    async with running(dsn, clock, spec) as it:
        assert await it.dates("d") == hours(0, 1)

        await it.finish("a")
        assert await it.dates("d") == hours(0, 1, 2)
        await it.finish_all()

        assert await it.dates("d") == hours(0, 1, 2, 3, 4)
        rows = await it.fetch("SELECT data_interval_start, data_interval_end FROM dag_run ORDER BY logical_date")
        assert [(start, end) for start, end in rows] == [(at, at + HOUR) for at in hours(0, 1, 2, 3, 4)]
        assert set((await it.runs("d")).values()) == {"success"}
        await it.assert_consistent()


async def test_a_herd_of_due_runs_is_created_in_transactions_of_so_many_at_most(dsn: str, clock: FakeClock) -> None:
    herd = [dag(f"d{number}", schedule=HOUR, start_date=NEW_YEAR, catchup=True) for number in range(8)]
    clock.advance(2 * 3600)
    async with running(dsn, clock, *herd, max_dagruns_to_create_per_loop=3) as it:
        sizes = [size for (size,) in await it.fetch("SELECT count(*) FROM dag_run GROUP BY xmin::text")]

        assert sum(sizes) == 16
        assert max(sizes) <= 3


async def test_runs_appear_as_time_goes_by(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("d", schedule=HOUR, start_date=NEW_YEAR, catchup=False)) as it:
        assert await it.dates("d") == []
        await it.advance(3599)
        assert await it.dates("d") == []

        await it.advance(1)

        assert await it.dates("d") == hours(0)
        (row,) = await it.fetch("SELECT run_id, run_type, triggered_by, run_after, version_id IS NOT NULL FROM dag_run")
        assert tuple(row) == (f"scheduled__{NEW_YEAR.isoformat()}", "scheduled", "timetable", NEW_YEAR + HOUR, True)


async def test_the_next_run_is_shown_in_the_dag_row(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("d", schedule=HOUR, start_date=NEW_YEAR, catchup=False)) as it:
        await it.advance(3600)

        (row,) = await it.fetch("SELECT next_dagrun, next_dagrun_create_after FROM dag")
        assert tuple(row) == (NEW_YEAR + HOUR, NEW_YEAR + 2 * HOUR)


async def test_once_means_once_over_restarts(dsn: str, clock: FakeClock) -> None:
    spec = dag("d", schedule="@once", start_date=NEW_YEAR, catchup=False)
    for _ in range(3):
        async with running(dsn, clock, spec) as it:
            await it.finish_all()
        clock.advance(86400)

    async with running(dsn, clock, spec) as it:
        assert len(await it.runs("d")) == 1


async def test_continuous_has_one_active_run_and_the_next_begins_where_it_ended(dsn: str, clock: FakeClock) -> None:
    spec = dag("d", schedule="@continuous", start_date=NEW_YEAR, catchup=False, max_active_runs=1)
    clock.advance(60)
    async with running(dsn, clock, spec) as it:
        assert len(await it.runs("d")) == 1
        await it.advance(60)
        assert len(await it.runs("d")) == 1

        await it.finish("a")

        assert list((await it.runs("d")).values()) == ["success", "running"]
        rows = await it.fetch("SELECT data_interval_start, data_interval_end FROM dag_run ORDER BY id")
        assert rows[0][1] == rows[1][0]


async def test_a_dag_that_comes_while_the_scheduler_lives_is_scheduled(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock) as it:
        clock.advance(3600)
        await register(it.db, dag("d", schedule=HOUR, start_date=NEW_YEAR, catchup=True), now=clock.now())

        await it.attempt("a")

        assert await it.dates("d") == hours(0)


async def test_a_new_version_leaves_live_runs_as_they_are_and_is_used_by_new_runs(dsn: str, clock: FakeClock) -> None:
    """Sections 31.3 and 34 (decision 18)."""
    async with running(dsn, clock, chain("d", 2)) as it:
        await it.trigger("d", "old")
        await it.register(dag("d", task("other")))
        await it.trigger("d", "new")

        await it.finish_all()

        assert await it.states("old") == {"t0": "success", "t1": "success"}
        assert await it.states("new") == {"other": "success"}
        assert await it.runs("d") == {"old": "success", "new": "success"}
        numbers = await it.fetch(
            "SELECT v.number FROM dag_run r JOIN dag_version v ON v.id = r.version_id ORDER BY r.id"
        )
        assert [number for (number,) in numbers] == [1, 2]
        await it.assert_consistent()


async def test_a_pinned_run_goes_on_after_a_restart_with_a_newer_version(dsn: str, clock: FakeClock) -> None:
    """Sections 31.3 and 34 (decision 18)."""
    async with running(dsn, clock, chain("d", 3)) as it:
        await it.trigger("d", "old")
        await it.finish("t0")

    async with running(dsn, clock, dag("d", task("other"))) as it:
        await it.finish_all()

        assert await it.states("old") == {"t0": "success", "t1": "success", "t2": "success"}


async def test_a_new_schedule_counts_from_now_on(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("d", schedule=24 * HOUR, start_date=NEW_YEAR, catchup=True)) as it:
        await it.register(dag("d", schedule=HOUR, start_date=NEW_YEAR, catchup=True))
        await it.advance(2 * 3600)

        assert await it.dates("d") == hours(0, 1)


# -- pause ------------------------------------------------------------------------------------


@pytest.mark.parametrize("restarted", [False, True], ids=["held", "restarted"])
async def test_nothing_of_a_paused_dag_changes_but_what_runs(dsn: str, clock: FakeClock, restarted: bool) -> None:
    spec = dag("d", task("a"), task("b", after="a"), task("again", retries=1, retry_delay=60.0), task("hello"))
    async with contextlib.AsyncExitStack() as stack:
        it = await stack.enter_async_context(running(dsn, clock, spec))
        await it.trigger("d", "r")
        it.executor.fail(await it.attempt("again"))
        await it.settled()
        await it.ask("pause", "d")
        await it.finish("a")
        await it.advance(120)
        if restarted:
            it.executor.succeed(await it.attempt("hello"))
            await it.settled()
            await stack.aclose()
            it = await stack.enter_async_context(running(dsn, clock))
        paused = await it.fetch("SELECT task_index, state, try_number FROM task_instance ORDER BY task_index")

        await it.ask("unpause", "d")

        hello = "success" if restarted else "queued"
        assert [tuple(row) for row in paused] == [
            (0, "success", 1),
            (1, None, 0),
            (2, "up_for_retry", 1),
            (3, hello, 1),
        ]
        await it.finish("b", "again", *(() if restarted else ("hello",)))
        assert await it.runs("d") == {"r": "success"}
        await it.assert_consistent()


async def test_looking_at_a_run_to_come_again_and_again_costs_no_memory(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("d")) as it:
        await it.trigger("d", "later", run_after=NEW_YEAR + 30 * HOUR)
        before = len(it.session.cache.work.due_runs)

        for _ in range(5):
            it.session.cache.work.to_start["d"] = None
            it.session.wakeups.creation.wake()
            await it.settled()
        await it.ask("pause", "d")
        await it.ask("unpause", "d")

        assert len(it.session.cache.work.due_runs) == before == 1
        await it.advance(30 * 3600)
        assert await it.runs("d") == {"later": "running"}


async def test_a_trigger_may_unpause(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("d")) as it:
        await it.ask("pause", "d")

        result = await it.ask("trigger", "d", run_id="r", unpause=True)

        assert result["paused"] is False
        assert await it.runs("d") == {"r": "running"}


# -- manual runs ------------------------------------------------------------------------------


async def test_a_manual_run_has_the_conf_run_id_and_date_that_were_given(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("d")) as it:
        await it.trigger(
            "d", "mine", conf={"x": [1, "ü"]}, logical_date=datetime(2031, 5, 1, 12, 0, 0, 999, tzinfo=UTC)
        )

        run = (await it.attempt("a")).run
        assert (run.run_id, run.run_type, run.conf) == ("mine", "manual", {"x": [1, "ü"]})
        assert run.logical_date == datetime(2031, 5, 1, 12, tzinfo=UTC)  # in the future, and it starts all the same
        assert run.start_date == NEW_YEAR


async def test_a_run_that_waits_for_its_run_after_survives_a_restart(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("d")) as it:
        await it.trigger("d", "later", run_after=NEW_YEAR + HOUR)

    async with running(dsn, clock) as it:
        assert await it.runs("d") == {"later": "queued"}
        await it.advance(3600)

        assert await it.runs("d") == {"later": "running"}


async def test_params_are_checked_and_defaults_do(dsn: str, clock: FakeClock) -> None:
    spec = dag("d", params={"n": ParamSpec(value=3, json_schema={"type": "integer", "minimum": 1})})
    async with running(dsn, clock, spec) as it:
        with pytest.raises(Refused, match="n"):
            await it.scheduler.trigger("d", conf={"n": 0})
        assert await it.runs("d") == {}

        await it.trigger("d", "r", conf={"n": 5})

        assert await it.runs("d") == {"r": "running"}


async def test_a_manual_run_on_the_next_logical_date_takes_its_place(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("d", schedule=HOUR, start_date=NEW_YEAR, catchup=True)) as it:
        await it.trigger("d", "mine", logical_date=NEW_YEAR)
        await it.advance(2 * 3600)

        assert await it.dates("d") == hours(0, 1)
        assert list(await it.runs("d")) == ["mine", f"scheduled__{(NEW_YEAR + HOUR).isoformat()}"]


async def test_a_dag_that_does_not_exist_cannot_be_triggered(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock) as it:
        with pytest.raises(NotFound, match="nobody"):
            await it.scheduler.trigger("nobody")


async def test_a_stale_dag_takes_no_runs_but_its_live_ones_go_on(dsn: str, clock: FakeClock) -> None:
    """Section 34, decision 20, in place of 30.4 on stale DAGs."""
    async with running(dsn, clock, chain("d", 2, schedule=HOUR, start_date=NEW_YEAR, catchup=True)) as it:
        await it.trigger("d", "r")
        await it.execute("UPDATE dag SET is_stale = true")
        it.dags_changed("d")
        await it.settled()

        with pytest.raises(Refused, match="defined by no file and no application"):
            await it.scheduler.trigger("d")
        await it.advance(3 * 3600)
        await it.finish_all()

        assert await it.runs("d") == {"r": "success"}


async def test_hundreds_of_due_runs_of_many_dags_are_created_and_finished(dsn: str, clock: FakeClock) -> None:
    specs = [chain(f"d{i}", 2, schedule=HOUR, start_date=NEW_YEAR, catchup=True) for i in range(20)]
    clock.advance(10 * 3600)
    async with running(dsn, clock, *specs) as it:
        it.executor.script = succeeding
        await it.finish_all()
        await it.scheduler.wait_idle()

        assert await it.fetch("SELECT state, count(*) FROM dag_run GROUP BY 1") == [(RunState.SUCCESS, 200)]
        await it.assert_consistent()
