"""Timetables that follow assets. Source: the semantics reference, sections 11.1 and 11.5."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from aiosched.authoring.assets.assets import Asset, AssetAlias
from aiosched.core.assets.conditions import AllRequired, AnyRequired, AssetRequired
from aiosched.core.timetables import (
    AssetOrTimeSchedule,
    AssetTriggeredTimetable,
    CronTriggerTimetable,
    Restriction,
    condition_of,
    is_trigger,
    parse_schedule,
    scheduled_between,
)
from aiosched.errors import TimetableError

A, B = AssetRequired("a"), AssetRequired("b")
DAY = datetime(2026, 1, 1, tzinfo=UTC)
ALWAYS = Restriction(DAY, None, catchup=True)


@pytest.mark.parametrize(
    ("schedule", "condition", "summary"),
    [
        (A, A, "a"),
        ([A], A, "a"),
        ([A, B], AllRequired((A, B)), "a & b"),
        ((B, A), AllRequired((B, A)), "b & a"),
        ({Asset("b"), Asset("a")}, AllRequired((A, B)), "a & b"),
        (Asset("a") | Asset("b"), AnyRequired((A, B)), "a | b"),
        ([Asset("a"), Asset("b") | AssetAlias("c")], None, "a & (b | alias c)"),
    ],
    ids=["one", "a list of one", "a list", "a tuple", "a set", "an expression", "nested"],
)
def test_assets_as_a_schedule_are_a_condition(schedule: object, condition: object, summary: str) -> None:
    timetable = parse_schedule(schedule)

    assert isinstance(timetable, AssetTriggeredTimetable)
    assert condition in (None, condition_of(timetable))
    assert timetable.summary == summary


def test_a_set_of_assets_gives_the_same_condition_in_every_parse() -> None:
    assert len({str(condition_of(parse_schedule({Asset(n) for n in names}))) for names in ("abc", "cba", "bca")}) == 1


@pytest.mark.parametrize(
    ("schedule", "told"),
    [
        ([], "list the assets"),
        (["orders"], "write Asset('orders')"),
        ([Asset("a"), 5], "5 in a list"),
        (AllRequired(()), "without assets"),
        (AnyRequired((A, AllRequired(()))), "without assets"),
    ],
    ids=str,
)
def test_what_is_no_condition_is_refused_with_a_remedy(schedule: object, told: str) -> None:
    with pytest.raises(TimetableError, match=told.replace("(", r"\(").replace(")", r"\)")):
        parse_schedule(schedule)


def test_assets_never_make_a_run_by_time() -> None:
    timetable = AssetTriggeredTimetable(A)

    assert timetable.next_run(last=None, restriction=ALWAYS, now=DAY) is None
    assert (timetable.periodic, timetable.can_be_scheduled, timetable.active_runs_limit) == (False, True, None)
    assert timetable.manual_interval(DAY) == (DAY, DAY)


def test_asset_or_time_follows_its_timetable() -> None:
    both, alone = parse_schedule(AssetOrTimeSchedule(timetable="@daily", assets=[A, B])), parse_schedule("@daily")

    assert both.next_run(last=None, restriction=ALWAYS, now=DAY) == alone.next_run(
        last=None, restriction=ALWAYS, now=DAY
    )
    assert both.manual_interval(DAY) == alone.manual_interval(DAY)
    assert (both.periodic, both.can_be_scheduled, both.active_runs_limit) == (True, True, None)
    assert condition_of(both) == AllRequired((A, B))
    assert both.summary == f"{alone.summary} or a & b"
    runs = (
        list(scheduled_between(t, DAY, DAY + timedelta(days=3), now=DAY + timedelta(9), anchor=None))
        for t in (both, alone)
    )
    assert next(runs) == next(runs)


def test_the_cron_of_asset_or_time_is_read_in_the_dags_zone() -> None:
    both = parse_schedule(AssetOrTimeSchedule("0 6 * * *", A), timezone="Europe/Amsterdam")

    run = both.next_run(last=None, restriction=ALWAYS, now=DAY)
    assert run is not None
    assert run.interval.start.hour == 5


def test_asset_or_time_has_the_kind_of_its_timetable() -> None:
    assert is_trigger(AssetOrTimeSchedule(CronTriggerTimetable("@daily", "UTC"), A))


@pytest.mark.parametrize(
    ("timetable", "assets", "told"), [("@daily", [], "list the assets"), ("@daily", "orders", "names no assets")]
)
def test_asset_or_time_needs_assets(timetable: str, assets: object, told: str) -> None:
    with pytest.raises(TimetableError, match=told):
        parse_schedule(AssetOrTimeSchedule(timetable, assets))


def test_asset_or_time_needs_a_timetable_that_follows_the_clock() -> None:
    with pytest.raises(TimetableError, match="does not follow the clock"):
        parse_schedule(AssetOrTimeSchedule([A], B))


def test_a_list_that_holds_no_assets_at_all_is_no_schedule() -> None:
    with pytest.raises(TimetableError, match="0 6"):
        parse_schedule(["0 6 * * *"])
