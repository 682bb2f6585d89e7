"""Schedules that are data in a `World`: as those of a scheduler, on the virtual clock."""

from __future__ import annotations

import inspect
from datetime import UTC, datetime, timedelta

import pytest

from aiosched import Scheduler
from aiosched.errors import NotFound, Refused, TimetableError
from aiosched.testing import World
from tests.scheduler.harness import dag

START = datetime(2026, 3, 28, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


def world() -> World:
    it = World(now=START)
    it.add(dag("ship"), dag("other"))
    return it


def instants(it: World, dag_id: str = "ship") -> list[tuple[str, datetime]]:
    return [(run.run_id.partition("__")[0], run.run_after) for run in it.runs(dag_id)]


async def test_a_schedule_starts_runs_at_its_instants_whatever_the_clocks_of_people_do() -> None:
    async with world() as it:
        it.schedule("ship", "tenant-7", cron="0 6 * * *", timezone="Europe/Amsterdam", conf={"order": 7})
        it.schedule("ship", "once", at=START + HOUR)
        it.schedule("other", "poll", every=900, end=START + HOUR)
        await it.run_for(timedelta(days=2))

        assert instants(it) == [
            ("once", START + HOUR),
            ("tenant-7", datetime(2026, 3, 29, 4, tzinfo=UTC)),  # summer time has begun
            ("tenant-7", datetime(2026, 3, 30, 4, tzinfo=UTC)),
        ]
        assert {run.state for run in it.runs("ship")} == {"success"}
        assert it.runs("ship")[-1].conf == {"order": 7}
        assert it.runs("ship")[-1].run_id == "tenant-7__2026-03-30T04:00:00+00:00"
        assert [after - START for _, after in instants(it, "other")] == [k * HOUR / 4 for k in range(5)]


async def test_they_are_listed_with_the_next_instant_and_what_became_of_the_last() -> None:
    async with world() as it:
        it.schedule("ship", "b", every=3600, conf={"n": 1})
        it.schedule("ship", "a", at=START + HOUR)
        it.schedule("other", "c", cron="0 6 * * *")
        before = it.schedules("ship")
        await it.run_for(HOUR + timedelta(minutes=1))

        assert [(one.name, one.next_at, one.last_state) for one in before] == [
            ("a", START + HOUR, None), ("b", START, None),
        ]  # fmt: skip
        assert [(one.dag_id, one.name, one.last_at, one.next_at, one.last_state) for one in it.schedules()] == [
            ("other", "c", None, datetime(2026, 3, 29, 6, tzinfo=UTC), None),
            ("ship", "a", START + HOUR, None, "success"),
            ("ship", "b", START + HOUR, START + 2 * HOUR, "success"),
        ]
        assert (it.schedules("ship")[1].summary, it.schedules("ship")[1].conf) == ("every 3600 s", {"n": 1})


@pytest.mark.parametrize("catchup", [False, True])
async def test_after_a_pause_the_last_missed_instant_runs_or_each(catchup: bool) -> None:
    async with world() as it:
        it.schedule("ship", "s", every=3600, catchup=catchup)
        it.pause_schedule("ship", "s")
        await it.run_for(3.5 * HOUR)
        assert instants(it) == []
        it.resume_schedule("ship", "s")
        await it.run_for(HOUR)

        missed = (0, 1, 2, 3, 4) if catchup else (3, 4)
        assert [after - START for _, after in instants(it)] == [k * HOUR for k in missed]


async def test_those_of_a_paused_dag_wait_and_what_is_removed_is_gone() -> None:
    async with world() as it:
        it.schedule("ship", "s", every=3600)
        it.pause("ship")
        await it.run_for(2 * HOUR)
        assert instants(it) == []
        it.unpause("ship")
        await it.run_for(HOUR)
        assert [after - START for _, after in instants(it)] == [2 * HOUR, 3 * HOUR]
        it.unschedule("ship", "s")
        await it.run_for(3 * HOUR)
        assert len(instants(it)) == 2
        assert it.schedules() == []
        await it.run_until_idle()


async def test_a_changed_one_begins_anew_and_another_conf_is_that_of_the_next_run() -> None:
    async with world() as it:
        it.schedule("ship", "s", every=3600)
        await it.run_for(HOUR)
        it.schedule("ship", "s", every=3600, conf={"n": 2})
        await it.run_for(HOUR)
        it.schedule("ship", "s", every=1800)
        await it.run_for(HOUR / 2)

        assert [after - START for _, after in instants(it)] == [0 * HOUR, HOUR, 2 * HOUR, 2.5 * HOUR]
        assert [run.conf for run in it.runs("ship")] == [{}, {}, {"n": 2}, {}]


async def test_waiting_until_the_world_is_idle_waits_for_no_schedule() -> None:
    async with world() as it:
        it.schedule("ship", "s", cron="30 * * * *")
        await it.run_until_idle()

        assert (it.now, instants(it)) == (START, [])


async def test_what_cannot_be_is_refused() -> None:
    async with world() as it:
        with pytest.raises(Refused, match="one of cron, every and at"):
            it.schedule("ship", "s")
        with pytest.raises(TimetableError):
            it.schedule("ship", "s", cron="61 * * * *")
        with pytest.raises(NotFound, match="no DAG 'shp'"):
            it.schedule("shp", "s", every=60)
        for change in (it.pause_schedule, it.resume_schedule, it.unschedule):
            with pytest.raises(NotFound, match="no schedule 's'"):
                change("ship", "s")


async def test_a_run_that_is_refused_is_the_error_of_the_schedule_which_goes_on() -> None:
    async with world() as it:
        it.schedule("ship", "s", every=3600)
        it.trigger("ship", run_id=f"s__{(START + HOUR).isoformat()}")
        await it.run_for(HOUR)
        (found,) = it.schedules("ship")
        assert (found.last_state, found.next_at) == ("success", START + 2 * HOUR)


def test_the_methods_are_those_of_a_scheduler() -> None:
    for name in ("schedule", "schedules", "pause_schedule", "resume_schedule", "unschedule"):
        of_world, of_scheduler = (inspect.signature(getattr(kind, name)).parameters for kind in (World, Scheduler))
        assert [*of_world] == [*of_scheduler], name
