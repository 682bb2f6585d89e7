"""What a timetable is asked, its flags, and what `schedule=` means. Source: the semantics reference, section 11.1."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from dateutil.relativedelta import relativedelta

from aiosched import DAG, Asset
from aiosched.core.creation.run_creation import check_schedule, compute_next, restriction_of
from aiosched.core.graph.spec import DagSpec, ParamSpec, TaskSpec
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
    Restriction,
    parse_schedule,
)
from aiosched.errors import DagError, TimetableError
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


@pytest.mark.parametrize(
    ("cron", "ticks"),
    [
        ("30 6 * * *", ["01-01T06:30", "01-02T06:30"]),
        ("30 6 * * * 15", ["01-01T06:30:15", "01-02T06:30:15"]),  # six fields: seconds last
        ("0 0 13 * FRI", ["01-02T00:00", "01-09T00:00", "01-13T00:00", "01-16T00:00"]),  # both restricted: or
        ("0 0 L * *", ["01-31T00:00", "02-28T00:00"]),
    ],
)
def test_the_fields_of_a_cron_expression(cron: str, ticks: list[str]) -> None:
    timetable, found = CronTriggerTimetable(cron, "UTC"), []
    run = None
    for _ in ticks:
        last = None if run is None else run.interval
        run = timetable.next_run(last=last, restriction=Restriction(START, None, catchup=True), now=START)
        assert run is not None
        found.append(run.run_after)

    assert found == [datetime.fromisoformat(f"2026-{tick}").replace(tzinfo=UTC) for tick in ticks]


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


def dag(*tasks: TaskSpec, first: int | None = None, final: int | None = None, **fields: Any) -> DagSpec:
    start, end = (None if number is None else START + number * DAY for number in (first, final))
    return DagSpec(dag_id="d", tasks=tasks, start_date=start, end_date=end, **fields)


@pytest.mark.parametrize(
    ("spec", "earliest", "latest"),
    [
        (dag(task("a"), first=3), 3, None),
        (dag(task("a", 2), task("b", 5), first=3), 2, None),  # the minimum of all
        (dag(task("a", 5), task("b")), 5, None),
        (dag(task("a")), None, None),
        (dag(task("a"), final=7), None, 7),
        (dag(task("a", final=9), task("b"), final=7), None, 7),  # not every task has one: the DAG's
        (dag(task("a", final=9), task("b", final=8), final=7), None, 9),  # every task has one: the maximum
        (dag(task("a", final=5), task("b", final=6), final=7), None, 7),  # the DAG's included
    ],
)
def test_the_dates_between_which_a_dag_is_scheduled(spec: DagSpec, earliest: int | None, latest: int | None) -> None:
    found = restriction_of(spec)

    assert (found.earliest, found.latest) == tuple(None if d is None else START + d * DAY for d in (earliest, latest))


@pytest.mark.parametrize(
    ("timetable", "latest", "last_run"),
    [
        (CronDataIntervalTimetable("@daily", "UTC"), START + 2 * DAY, START + 3 * DAY),  # starts on the last day
        (CronTriggerTimetable("@daily", "UTC"), START + 2 * DAY, START + 2 * DAY),  # runs on the last day
    ],
)
def test_the_end_is_inclusive_for_the_start_of_an_interval_and_for_the_instant_of_a_tick(
    timetable: AnyTimetable, latest: datetime, last_run: datetime
) -> None:
    runs, last = [], None
    restriction = Restriction(START, latest, catchup=True)
    while (run := timetable.next_run(last=last, restriction=restriction, now=START + 9 * DAY)) is not None:
        runs.append(run.run_after)
        last = run.interval

    assert runs[-1] == last_run


CONTINUOUS = dag(task("a"), timetable=ContinuousTimetable(), max_active_runs=2)
NO_START = dag(task("a"), timetable=parse_schedule("@daily"), catchup=True)
NO_DEFAULT = dag(task("a"), timetable=parse_schedule("@daily"), params={"x": ParamSpec(required=True)})


@pytest.mark.parametrize("spec", [CONTINUOUS, NO_START, NO_DEFAULT], ids=["continuous", "no start", "no default"])
def test_some_dags_cannot_be_scheduled(spec: DagSpec) -> None:
    with pytest.raises(DagError):
        check_schedule(spec)


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
