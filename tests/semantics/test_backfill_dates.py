"""What a backfill makes of the dates that it is asked for. Source: the semantics reference, section 29.1.

How its runs are stored, limited, paused and cancelled is in tests/scheduler/test_backfilling.py.
"""

from __future__ import annotations

import warnings
from datetime import UTC, datetime, timedelta
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
