"""What a backfill makes of the dates that it is asked for. Source: the semantics reference, section 29.1.

How its runs are stored, limited, paused and cancelled is in tests/scheduler/test_backfilling.py.
"""

from __future__ import annotations

import warnings
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from aiosched import DAG, Asset
from aiosched.authoring.dag.serialize import advise
from aiosched.core.creation.run_creation import DagStatus
from aiosched.core.graph.spec import DagSpec, TaskSpec, encode_spec
from aiosched.core.timetables import condition_of
from aiosched.core.timetables.parse import parse_schedule
from aiosched.core.values.messages import Attempt
from aiosched.core.values.states import RunType
from aiosched.core.why.dag import DagFacts, explain_dag
from aiosched.core.why.explanation import Owner
from aiosched.errors import AioschedError, DagError, Refused
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
    ("timezone", "schedule", "first", "final", "number", "ends"),
    [
        ("Europe/Amsterdam", "0 6 * * *", "2026-08-01", "2026-08-31", 31, "2026-08-31T04:00"),
        ("Europe/Amsterdam", "0 0 * * *", "2026-08-01", "2026-08-31", 31, "2026-08-30T22:00"),
        ("Europe/Amsterdam", "0 6 * * *", "2026-08-31", "2026-08-31", 1, "2026-08-31T04:00"),
        ("Europe/Amsterdam", "30 * * * *", "2026-03-29", "2026-03-29", 23, "2026-03-29T21:30"),
        ("Europe/Amsterdam", "30 * * * *", "2026-10-25", "2026-10-25", 25, "2026-10-25T22:30"),
        ("America/New_York", "59 23 * * *", "2026-07-01", "2026-07-31", 31, "2026-08-01T03:59"),
        ("America/New_York", "@hourly", "2026-11-01", "2026-11-01", 25, "2026-11-02T04:00"),
        ("Asia/Kolkata", "15 2 * * *", "2026-02-01", "2026-02-28", 28, "2026-02-27T20:45"),
        ("Asia/Kolkata", "@hourly", "2026-02-01", "2026-02-01", 24, "2026-02-01T17:30"),
        ("UTC", "*/15 * * * *", "2026-07-01", "2026-07-01", 96, "2026-07-01T23:45"),
    ],
)
async def test_a_date_without_a_time_is_that_day_in_the_dags_time_zone(
    timezone: str, schedule: str, first: str, final: str, number: int, ends: str
) -> None:
    spec = DagSpec(
        dag_id="d",
        tasks=(TaskSpec(task_id="a", operator="X"),),
        timetable=parse_schedule(schedule, timezone=timezone),
        timezone=timezone,
    )
    async with World(now=datetime(2026, 12, 24, tzinfo=UTC)) as world:
        world.add(spec)

        answer = world.backfill("d", date.fromisoformat(first), date.fromisoformat(final), dry_run=True)

    assert (len(answer["dates"]), answer["dates"][-1]["logical_date"]) == (number, f"{ends}:00+00:00")
    assert (answer["from"][:19], answer["to"][:26]) == (f"{first}T00:00:00", f"{final}T23:59:59.999999")
    assert (answer["timezone"], answer["left_out"]) == (timezone, None)


async def test_a_preview_says_which_dates_are_left_out_and_why() -> None:
    async with World(now=NOW) as world:
        world.add(dag("0 6 * * *"))

        answer = world.backfill("d", date(2026, 1, 18), date(2026, 1, 31), dry_run=True)
        backwards = world.backfill("d", date(2026, 1, 18), date(2026, 1, 31), dry_run=True, backwards=True)
        today = world.backfill("d", date(2026, 1, 18), date(2026, 1, 20), dry_run=True)
        over = world.backfill("d", date(2026, 1, 18), date(2026, 1, 19), dry_run=True)

        assert [one["logical_date"][:10] for one in answer["dates"]] == ["2026-01-18", "2026-01-19"]
        assert answer["left_out"] == backwards["left_out"] == today["left_out"] == {
            "logical_date": "2026-01-20T06:00:00+00:00",
            "reason": "its data interval ends at 2026-01-21 06:00:00 UTC, which has not passed",
        }  # fmt: skip
        assert over["left_out"] is None
        with pytest.raises(Refused, match="that of 2026-01-20 06:00:00 UTC ends at 2026-01-21 06:00:00 UTC"):
            world.backfill("d", date(2026, 1, 20), date(2026, 1, 20))


async def test_clearing_takes_the_runs_of_whole_days() -> None:
    spec = dag(None, timezone="America/New_York")
    async with World(now=NOW) as world:
        world.add(spec)
        for run_id, at in (("before", "05T04:59"), ("first", "05T05:00"), ("last", "06T04:59"), ("after", "06T05:00")):
            world.trigger("d", run_id=run_id, logical_date=datetime.fromisoformat(f"2026-01-{at}+00:00"))
        await world.run_until_idle()

        def cleared(**days: date) -> list[str]:
            return [one["run_id"] for one in world.clear("d", dry_run=True, **days)]

        day = date(2026, 1, 5)
        assert cleared(first=day, final=day) == ["first", "last"]
        assert cleared(first=day) == ["first", "last", "after"]
        assert cleared(final=day) == ["before", "first", "last"]
        assert cleared(first=datetime(2026, 1, 5, 5, tzinfo=UTC), final=day) == ["first", "last"]


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
        pytest.param(dag(allowed_run_types=("scheduled", "manual")), {}, id="a DAG that forbids backfills"),
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


# ---- a DAG that forbids backfills, or other kinds of runs ----


async def test_a_dag_takes_only_the_kinds_of_runs_that_it_allows() -> None:
    async with World(now=NOW) as world:
        world.add(dag("@hourly", start_date=DATE, allowed_run_types=("backfill",)))

        with pytest.raises(Refused, match=r"'d' takes no manual runs: .* are backfill\. Add 'manual' to them"):
            world.trigger("d")
        world.backfill("d", DATE, DATE)
        await world.run_for(timedelta(hours=3))

        assert [run.run_type for run in world.runs("d")] == ["backfill"]


async def test_asset_events_make_no_run_of_a_dag_that_forbids_them() -> None:
    async with World(now=NOW) as world:
        world.add(dag(Asset("x"), dag_id="closed", allowed_run_types=("manual",)), dag(Asset("x"), dag_id="open"))

        world.emit("x")
        world.trigger("closed", run_id="by_hand")
        await world.run_for(timedelta(hours=1))

        assert [run.run_type for run in world.runs("closed")] == ["manual"]
        assert [run.run_type for run in world.runs("open")] == ["asset_triggered"]


def test_a_dag_says_which_kinds_of_runs_it_takes() -> None:
    spec = DAG("d", schedule=None, allowed_run_types=["manual", RunType.BACKFILL, "manual"]).to_spec()

    assert spec.allowed_run_types == ("manual", "backfill")
    assert DAG("d", schedule=None, allowed_run_types="manual").to_spec().allowed_run_types == ("manual",)
    assert b"allowed_run_types" not in encode_spec(DAG("d", schedule=None).to_spec())


@pytest.mark.parametrize(
    ("wrong", "said"),
    [([], "allows no run"), (3, "allows no run"), (["backfil"], "Did you mean 'backfill'"), (["x"], "Use one of")],
    ids=str,
)
def test_kinds_of_runs_that_do_not_exist_are_refused(wrong: Any, said: str) -> None:
    with pytest.raises(DagError, match=said):
        DAG("d", schedule=None, allowed_run_types=wrong)


@pytest.mark.parametrize(
    ("schedule", "allowed", "warned"),
    [
        ("@daily", ["manual"], "makes no scheduled runs"),
        (Asset("x"), ["manual"], "makes no asset_triggered runs"),
        ("@daily", ["scheduled"], None),
        (None, ["manual"], None),
    ],
    ids=str,
)
def test_a_schedule_that_makes_no_run_is_warned_of(schedule: Any, allowed: list[str], warned: str | None) -> None:
    built = DAG("d", schedule=schedule, allowed_run_types=allowed)

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        advise(built)

    assert [warned in str(one.message) for one in caught if warned] == ([True] if warned else [])
    assert bool(caught) == bool(warned)


@pytest.mark.parametrize(
    ("schedule", "detail"),
    [
        ("@daily", "its allowed_run_types leave out 'scheduled'"),
        (Asset("x"), "its allowed_run_types leave out 'asset_triggered'"),
        (None, "it has no schedule, and its allowed_run_types leave out 'manual'"),
    ],
    ids=str,
)
def test_why_a_dag_has_no_run_names_what_it_does_not_allow(schedule: Any, detail: str) -> None:
    timetable = parse_schedule(schedule)
    condition = condition_of(timetable)
    status = DagStatus("d", None, 16, 0, allowed_run_types=("backfill",))

    why = explain_dag(
        DagFacts(
            now=NOW,
            owner=Owner(name="host", is_alive=True),
            status=status,
            is_timed=condition is None and timetable.can_be_scheduled,
            condition=condition,
        )
    )

    assert detail in [gate.detail for gate in why.gates if gate.closed]
