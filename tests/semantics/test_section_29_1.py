"""What a backfill makes of the dates that it is asked for. Source: the semantics reference, section 29.1.

How its runs are stored, limited, paused and cancelled is in tests/scheduler/test_backfilling.py.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from aiosched import Asset
from aiosched.core.messages import Attempt
from aiosched.core.spec import DagSpec, TaskSpec
from aiosched.core.timetables.parse import parse_schedule
from aiosched.errors import AioschedError
from aiosched.testing import Ending, World, fails, never_ends, succeeds

NOW = datetime(2026, 1, 20, 12, tzinfo=UTC)
DATE = datetime(2026, 1, 5, tzinfo=UTC)
DAY = timedelta(days=1)
EVER = NOW + 365 * DAY


def dag(schedule: object = "@daily", *, dag_id: str = "d", **options: Any) -> DagSpec:
    of_task = options.pop("of_task", {})
    return DagSpec(
        dag_id=dag_id,
        tasks=(TaskSpec(task_id="a", operator="X", **of_task),),
        timetable=parse_schedule(schedule),
        catchup=False,
        **options,
    )


def ending(attempt: Attempt) -> Ending:
    return {"failed": fails(), "running": never_ends()}.get(attempt.run.run_id, succeeds())


@pytest.mark.parametrize(
    ("existing", "missing", "failed", "completed"),
    [
        (None, "create", "create", "create"),
        ("queued", "in flight", "in flight", "in flight"),
        ("running", "in flight", "in flight", "in flight"),
        ("success", "already exists", "already exists", "rerun"),
        ("failed", "already exists", "rerun", "rerun"),
    ],
)
async def test_what_becomes_of_a_date_that_has_a_run(
    existing: str | None, missing: str, failed: str, completed: str
) -> None:
    async with World(now=NOW) as world:
        world.add(dag())
        world.script("d", "a", ending)
        if existing:
            later = EVER if existing == "queued" else None
            world.trigger("d", run_id=existing, logical_date=DATE, run_after=later)
            await world.run_for(timedelta(hours=1))
            assert world.run("d", existing).state == existing

        def fate(rerun: str) -> str:
            ((date),) = world.backfill("d", DATE, DATE, rerun=rerun, dry_run=True)["dates"]
            return str(date["fate"])

        assert (fate("none"), fate("failed"), fate("completed")) == (missing, failed, completed)


async def test_a_run_that_is_taken_over_is_of_the_backfill_and_begins_anew() -> None:
    async with World(now=NOW) as world:
        world.add(dag())
        world.script("d", "a", lambda attempt: fails() if attempt.key.try_number == 1 else succeeds())
        world.trigger("d", run_id="old", logical_date=DATE, conf={"old": True})
        await world.run_until_idle()

        number = world.backfill("d", DATE, DATE, rerun="failed", conf={"new": True})["id"]
        await world.run_until_idle()

        run = world.run("d", "old")
        assert (run.run_type, run.backfill_id, run.conf, run.state) == ("backfill", number, {"new": True}, "success")
        assert world.task("d", "old", "a").try_number == 2


async def test_dates_are_those_whose_interval_has_ended_ends_included_whatever_the_dags_own_dates() -> None:
    """The DAG starts in a year; today's interval goes on."""
    async with World(now=NOW) as world:
        world.add(dag(start_date=EVER))

        dates = world.backfill("d", NOW - 3 * DAY, NOW + 3 * DAY, dry_run=True)["dates"]

        assert [date["logical_date"][:10] for date in dates] == ["2026-01-18", "2026-01-19"]


@pytest.mark.parametrize(
    ("spec", "options"),
    [
        pytest.param(dag(), {"first": DATE + DAY, "final": DATE}, id="from after to"),
        pytest.param(dag(), {"first": NOW + DAY, "final": NOW + 2 * DAY}, id="wholly in the future"),
        pytest.param(dag("0 0 1 1 *"), {}, id="no date in the range"),
        pytest.param(dag(None), {}, id="no schedule"),
        pytest.param(dag("@once"), {}, id="once"),
        pytest.param(dag("@continuous", max_active_runs=1), {}, id="continuous"),
        pytest.param(dag(Asset("x")), {}, id="assets"),
        pytest.param(dag(of_task={"depends_on_past": True}), {"backwards": True}, id="the past, backwards"),
    ],
)
async def test_what_is_refused(spec: DagSpec, options: dict[str, Any]) -> None:
    async with World(now=NOW) as world:
        world.add(spec)

        with pytest.raises(AioschedError):
            world.backfill("d", **{"first": DATE, "final": DATE + DAY} | options)
        assert not world.backfills("d")


async def test_a_dag_has_one_unfinished_backfill() -> None:
    async with World(now=NOW) as world:
        world.add(dag())
        world.backfill("d", DATE, DATE)

        with pytest.raises(AioschedError, match="unfinished backfill"):
            world.backfill("d", DATE + DAY, DATE + DAY)
        await world.run_until_idle()
        assert world.backfill("d", DATE + DAY, DATE + DAY)["id"] is not None
