"""What a timetable is asked, its flags, and what `schedule=` means. Source: the semantics reference, section 11.1.

The dates between which a DAG is scheduled, and what cannot be: tests/core/test_run_creation.py.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from dateutil.relativedelta import relativedelta

from aiosched import DAG, Asset
from aiosched.core.creation.run_creation import compute_next
from aiosched.core.graph.spec import DagSpec, TaskSpec
from aiosched.core.timetables import (
    PRESETS,
    AnyTimetable,
    AssetOrTimeSchedule,
    AssetTriggeredTimetable,
    ContinuousTimetable,
    CronDataIntervalTimetable,
    CronTriggerTimetable,
    DeltaDataIntervalTimetable,
    DeltaTriggerTimetable,
    EventsTimetable,
    MultipleCronTriggerTimetable,
    NullTimetable,
    OnceTimetable,
    parse_schedule,
)
from aiosched.errors import TimetableError
from aiosched.testing import World

START = datetime(2026, 1, 1, tzinfo=UTC)
DAY, HOUR = timedelta(days=1), timedelta(hours=1)
EVENTS = EventsTimetable([START + 5 * DAY])


@pytest.mark.parametrize(
    ("timetable", "periodic", "schedulable", "limit"),
    [
        (CronDataIntervalTimetable("@daily", "UTC"), True, True, None),
        (DeltaDataIntervalTimetable(DAY), True, True, None),
        (CronTriggerTimetable("@daily", "UTC"), True, True, None),
        (MultipleCronTriggerTimetable(["@daily"], "UTC"), True, True, None),
        (DeltaTriggerTimetable(DAY), True, True, None),
        (OnceTimetable(), False, True, None),
        (ContinuousTimetable(), False, True, 1),
        (NullTimetable(), False, False, None),
        (EVENTS, True, True, None),
        (parse_schedule([Asset("a")]), False, True, None),
        (parse_schedule(AssetOrTimeSchedule("@daily", Asset("a"))), True, True, None),  # as the inner one
        (parse_schedule(AssetOrTimeSchedule("@once", Asset("a"))), False, True, None),
        (parse_schedule(AssetOrTimeSchedule(ContinuousTimetable(), Asset("a"))), False, True, 1),
        (parse_schedule(AssetOrTimeSchedule(EVENTS, Asset("a"))), True, True, None),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, (bool, int, type(None))) else str(value),
)
def test_the_flags_of_each_timetable(
    timetable: AnyTimetable, periodic: bool, schedulable: bool, limit: int | None
) -> None:
    found = (timetable.periodic, timetable.can_be_scheduled, timetable.active_runs_limit)

    assert found == (periodic, schedulable, limit)


@pytest.mark.parametrize(
    ("schedule", "kind"),
    [
        (None, NullTimetable),
        ("@once", OnceTimetable),
        ("@continuous", ContinuousTimetable),
        ("0 6 * * *", CronDataIntervalTimetable),  # decision 1
        ("@hourly", CronDataIntervalTimetable),
        (HOUR, DeltaDataIntervalTimetable),
        (relativedelta(months=1), DeltaDataIntervalTimetable),
        (CronTriggerTimetable("@daily", "UTC"), CronTriggerTimetable),
        (Asset("a"), AssetTriggeredTimetable),
        ([Asset("a"), Asset("b")], AssetTriggeredTimetable),
        (Asset("a") | Asset("b"), AssetTriggeredTimetable),
    ],
    ids=str,
)
def test_what_a_schedule_means(schedule: object, kind: type[AnyTimetable]) -> None:
    assert type(parse_schedule(schedule)) is kind


def test_the_presets() -> None:
    expected = {
        "@hourly": "0 * * * *",
        "@daily": "0 0 * * *",
        "@weekly": "0 0 * * 0",
        "@monthly": "0 0 1 * *",
        "@quarterly": "0 0 1 */3 *",
        "@yearly": "0 0 1 1 *",
    }

    assert {name: PRESETS[name] for name in expected} == expected


AMSTERDAM = ZoneInfo("Europe/Amsterdam")


@pytest.mark.parametrize(
    ("options", "zone"),
    [
        ({"start_date": datetime(2026, 1, 1, tzinfo=AMSTERDAM)}, "Europe/Amsterdam"),
        ({"default_args": {"start_date": datetime(2026, 1, 1, tzinfo=AMSTERDAM)}}, "Europe/Amsterdam"),
        ({"start_date": datetime(2026, 1, 1, tzinfo=UTC)}, "UTC"),
        ({}, "UTC"),
    ],
)
def test_a_cron_expression_is_read_in_the_zone_of_the_start_date(options: dict[str, Any], zone: str) -> None:
    timetable = DAG("d", schedule="@daily", catchup=False, **options).to_spec().timetable

    assert isinstance(timetable, CronDataIntervalTimetable)
    assert timetable.timezone == zone


def task(name: str, first: int | None = None, final: int | None = None) -> TaskSpec:
    start, end = (None if number is None else START + number * DAY for number in (first, final))
    return TaskSpec(task_id=name, operator="X", start_date=start, end_date=end)


async def test_a_timetable_that_breaks_means_no_run_and_the_others_go_on() -> None:
    at_the_end = datetime(9999, 12, 31, 12, tzinfo=UTC)
    broken = DagSpec(dag_id="broken", timetable=parse_schedule("@daily"), tasks=(task("a"),))
    with pytest.raises(TimetableError):
        compute_next(broken, None, at_the_end)

    async with World(now=at_the_end) as world:
        world.add(broken, DagSpec(dag_id="other", tasks=(task("a"),)))
        run = world.trigger("other")
        await world.run_for(timedelta(minutes=1))

        assert (world.runs("broken"), world.run("other", run).state) == ([], "success")
