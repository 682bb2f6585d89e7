"""Which run is the previous one. Source: the semantics reference, section 6.1."""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime, timedelta

import pytest

from aiosched.core.graph.spec import DagSpec, TaskSpec
from aiosched.core.timetables.base import DataInterval
from aiosched.core.timetables.parse import parse_schedule
from aiosched.testing import Ending, World, fails, succeeds

START = datetime(2026, 1, 10, tzinfo=UTC)
DAY = timedelta(days=1)


async def last_of(dates: dict[str, datetime], *, failing: Collection[str], catchup: bool) -> str | None:
    """The state of `a`, which depends on its past, in the last scheduled run after runs of these types and dates."""
    async with World(now=START + timedelta(minutes=1)) as world:
        world.add(
            DagSpec(
                dag_id="d",
                timetable=parse_schedule("@daily"),
                start_date=START - 9 * DAY,
                catchup=catchup,
                tasks=(TaskSpec(task_id="a", operator="X", depends_on_past=True),),
            ),
            last=DataInterval(START - DAY, START),  # nothing is left of it, and it is not looked for
        )

        def ending(attempt: object) -> Ending:
            return fails() if attempt.run.run_type in failing else succeeds()  # type: ignore[attr-defined]

        world.script("d", "a", ending)
        if "backfill" in dates:
            world.backfill("d", dates["backfill"], dates["backfill"], rerun="failed")
        if "manual" in dates:
            world.trigger("d", logical_date=dates["manual"])
        await world.run_until(START + DAY)  # [START, START + DAY) is the first scheduled run
        scheduled = [run for run in world.runs("d") if run.run_type == "scheduled"]
        assert [run.logical_date for run in scheduled] == [START]
        await world.run_for(timedelta(minutes=1))
        return world.states("d", scheduled[0].run_id)["a"]


EARLIER, LATEST = START - 2 * DAY, START - DAY


@pytest.mark.parametrize(
    ("dates", "failing", "with_catchup", "without"),
    [
        ({}, [], "success", "success"),
        ({"manual": LATEST}, ["manual"], "success", None),  # with catchup, a manual run is not looked at
        ({"manual": LATEST}, [], "success", "success"),
        ({"backfill": LATEST}, ["backfill"], None, None),
        ({"backfill": EARLIER, "manual": LATEST}, ["manual"], "success", None),  # the latest that may be one
        ({"backfill": EARLIER, "manual": LATEST}, ["backfill"], None, None),  # the manual run waits as well
        ({"manual": EARLIER, "backfill": LATEST}, ["backfill"], None, None),
        ({"manual": START + DAY}, ["manual"], "success", "success"),  # a later date is not before
    ],
    ids=str,
)
async def test_the_previous_run_is_the_latest_with_an_earlier_logical_date(
    dates: dict[str, datetime], failing: list[str], with_catchup: str | None, without: str | None
) -> None:
    # the first run of a backfill, and one that has no run before it, run whatever happened
    found = [await last_of(dates, failing=failing, catchup=catchup) for catchup in (True, False)]

    assert found == [with_catchup, without]


@pytest.mark.parametrize("catchup", [True, False])
async def test_a_run_without_a_logical_date_has_no_previous_run_and_is_none(catchup: bool) -> None:
    async with World(now=START) as world:
        spec = DagSpec(dag_id="d", catchup=catchup, tasks=(TaskSpec(task_id="a", operator="X", depends_on_past=True),))
        world.add(spec)
        world.script("d", "a", lambda attempt: fails() if attempt.run.run_id == "dated" else succeeds())

        world.trigger("d", run_id="dated", logical_date=START - DAY)
        world.trigger("d", run_id="undated")
        await world.run_until_idle()

        assert (world.states("d", "dated"), world.states("d", "undated")) == ({"a": "failed"}, {"a": "success"})
