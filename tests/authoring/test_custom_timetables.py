"""Timetables of the author's own: what they are asked, what the scheduler is told, what is refused.

Source: the semantics reference, section 11.1.
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from aiosched import DAG, EmptyOperator, timetables
from aiosched.core.graph.spec import DagSpec, encode_spec
from aiosched.core.timetables import CustomTimetable, Restriction
from aiosched.errors import TimetableError
from aiosched.timetables import AssetOrTimeSchedule, DagRunInfo, DataInterval, TimeRestriction, Timetable

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
START = datetime(2026, 9, 1, tzinfo=UTC)  # a Tuesday


class AfterWorkday(Timetable):
    """The day after each working day, about that day."""

    def next_dagrun_info(
        self, *, last_automated_data_interval: DataInterval | None, restriction: TimeRestriction
    ) -> DagRunInfo | None:
        if last_automated_data_interval is not None:
            day = last_automated_data_interval.end
        elif restriction.earliest is not None:
            day = restriction.earliest.start_of("day")
        else:
            return None
        while day.weekday() >= 5:
            day += timedelta(days=1)
        return DagRunInfo.interval(day, day + timedelta(days=1))

    def infer_manual_data_interval(self, *, run_after: datetime) -> DataInterval:
        day = run_after.replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(days=1)
        while day.weekday() >= 5:
            day -= timedelta(days=1)
        return DataInterval(day, day + timedelta(days=1))


class Every(Timetable):
    """A run at each multiple of a distance from the start date."""

    def __init__(self, distance: timedelta) -> None:
        self.distance = distance
        self.description = f"every {distance}"
        self.asked = 0

    def next_dagrun_info(
        self, *, last_automated_data_interval: DataInterval | None, restriction: TimeRestriction
    ) -> DagRunInfo | None:
        self.asked += 1
        last = last_automated_data_interval
        return DagRunInfo.exact(last.end + self.distance if last else restriction.earliest or NOW)


def spec_of(
    timetable: Any, *, now: datetime = NOW, start: datetime | None = START, catchup: bool = True, **options: Any
) -> DagSpec:
    with DAG("d", schedule=timetable, start_date=start, catchup=catchup, **options) as dag:
        EmptyOperator(task_id="t")
    return dag.to_spec(now=now)


def listed(timetable: Any, **options: Any) -> CustomTimetable:
    found = spec_of(timetable, **options).timetable
    assert isinstance(found, CustomTimetable)
    return found


def test_the_calendar_is_listed_from_the_start_date_to_some_weeks_ahead() -> None:
    timetable = listed(AfterWorkday())

    assert timetable.summary == "AfterWorkday"
    assert timetable.runs[0] == (START, START + timedelta(days=1), START + timedelta(days=1))
    assert not any(run.start.weekday() >= 5 for run in timetable.runs)
    assert NOW + timedelta(days=56) < timetable.runs[-1].run_after < NOW + timedelta(days=85)


def test_the_scheduler_gets_the_runs_from_the_list() -> None:
    spec = spec_of(AfterWorkday(), catchup=False)

    run = spec.timetable.next_run(last=None, restriction=Restriction(START, None, False), now=NOW)
    assert run is not None
    assert run.interval == (datetime(2026, 11, 19, tzinfo=UTC), datetime(2026, 11, 20, tzinfo=UTC))


def test_the_same_file_parsed_again_gives_the_same_version_until_a_step_has_passed() -> None:
    beginning = datetime(2026, 10, 22, tzinfo=UTC)  # of a step of four weeks since the epoch
    documents = [
        encode_spec(spec_of(AfterWorkday(), now=beginning + timedelta(days=days))) for days in (0, 1.3, 27.9, 28)
    ]

    assert documents[0] == documents[1] == documents[2] != documents[3]


@pytest.mark.parametrize(
    ("distance", "most"),
    [
        (timedelta(minutes=1), timedelta(hours=3)),
        (timedelta(minutes=10), timedelta(days=3)),
        (timedelta(days=1), timedelta(days=84)),
        (timedelta(days=365), timedelta(days=3650)),
    ],
)
def test_the_denser_the_runs_the_shorter_the_list_reaches_and_something_is_always_ahead(
    distance: timedelta, most: timedelta
) -> None:
    runs = listed(Every(distance), start=datetime(2026, 11, 17, tzinfo=UTC)).runs
    ahead = [run for run in runs if run.run_after > NOW]

    assert 9 <= len(ahead) <= 1000
    assert ahead[-1].run_after - NOW <= most


def test_with_catchup_all_runs_since_the_start_are_listed_and_without_the_latest_ones() -> None:
    start = NOW - timedelta(days=1000)

    assert sum(run.run_after <= NOW for run in listed(Every(timedelta(days=1)), start=start).runs) == 1001
    past = [run for run in listed(Every(timedelta(days=1)), start=start, catchup=False).runs if run.run_after <= NOW]
    assert 400 <= len(past) <= 428
    assert past[0].run_after.hour == start.hour


@pytest.mark.slow
def test_a_long_past_without_catchup_is_not_walked_through() -> None:
    timetable = Every(timedelta(minutes=1))
    runs = listed(timetable, start=NOW - timedelta(days=3650), catchup=False).runs

    assert timetable.asked < 50_000
    assert runs[0].run_after < NOW < runs[-1].run_after


def test_a_dag_without_a_start_date_begins_some_time_before_now() -> None:
    runs = listed(AfterWorkday(), start=None, catchup=False).runs

    assert NOW - timedelta(days=57) < runs[0].run_after < NOW - timedelta(days=20)


def test_a_calendar_that_ends_is_listed_to_its_end() -> None:
    class Twice(Every):
        def next_dagrun_info(self, **given: Any) -> DagRunInfo | None:
            return super().next_dagrun_info(**given) if self.asked < 2 else None

    assert [run.start for run in listed(Twice(timedelta(days=1))).runs] == [START, START + timedelta(days=1)]


def test_the_end_date_is_respected_whatever_the_author_does() -> None:
    runs = listed(Every(timedelta(days=1)), end_date=START + timedelta(days=2)).runs

    assert [run.start for run in runs] == [START + n * timedelta(days=1) for n in range(3)]


def test_the_author_is_told_the_dates_of_tasks_too_and_gets_pendulum() -> None:
    seen: list[TimeRestriction] = []

    class Curious(Timetable):
        def next_dagrun_info(self, *, restriction: TimeRestriction, **_: Any) -> None:
            seen.append(restriction)

    with DAG("d", schedule=Curious(), start_date=START, catchup=True) as dag:
        EmptyOperator(task_id="t", start_date=START - timedelta(days=1), end_date=NOW)
    dag.to_spec(now=NOW)

    assert seen == [(START - timedelta(days=1), NOW, True)]
    assert (seen[0].earliest or 0).timezone_name == "UTC"  # type: ignore[union-attr]


def test_manual_runs_take_the_interval_that_the_author_infers() -> None:
    timetable = listed(AfterWorkday())

    def about(moment: datetime) -> datetime:
        return timetable.manual_interval(moment).start

    assert about(datetime(2026, 11, 20, 15, tzinfo=UTC)) == datetime(2026, 11, 19, tzinfo=UTC)
    assert about(datetime(2026, 11, 22, 15, tzinfo=UTC)) == datetime(2026, 11, 20, tzinfo=UTC)  # a Sunday
    assert about(datetime(2026, 11, 23, 15, tzinfo=UTC)) == datetime(2026, 11, 20, tzinfo=UTC)


def test_manual_runs_at_a_distance_are_about_any_moment() -> None:
    class Before(Every):
        def infer_manual_data_interval(self, *, run_after: datetime) -> DataInterval:
            return DataInterval(run_after - timedelta(hours=3), run_after)

    moment = datetime(1999, 1, 1, 1, 1, tzinfo=UTC)
    assert listed(Before(timedelta(days=1))).manual_interval(moment) == (moment - timedelta(hours=3), moment)
    assert listed(Every(timedelta(days=1))).manual_interval(moment) == (moment, moment)


def test_flags_reach_the_scheduler() -> None:
    class Manual(Every):
        can_be_scheduled = False
        periodic = False

    timetable = listed(Manual(timedelta(days=1)), catchup=False)
    assert (timetable.runs, timetable.can_be_scheduled, timetable.periodic) == ((), False, False)


def test_a_limit_of_active_runs_bounds_max_active_runs() -> None:
    class One(Every):
        active_runs_limit = 1

    assert spec_of(One(timedelta(days=1))).max_active_runs == 1


def test_it_goes_together_with_assets() -> None:
    from aiosched.authoring.assets.assets import Asset

    found = spec_of(AssetOrTimeSchedule(timetable=AfterWorkday(), assets=Asset("a"))).timetable

    assert isinstance(found, AssetOrTimeSchedule)
    assert isinstance(found.timetable, CustomTimetable)
    assert found.timetable.runs


def answering(*answers: Any) -> Timetable:
    given = iter(answers)

    class Answers(Timetable):
        def next_dagrun_info(self, **_: Any) -> Any:
            answer = next(given)
            if isinstance(answer, Exception):
                raise answer
            return answer

    return Answers()


def manual(interval: Callable[[datetime], Any]) -> Timetable:
    class Manual(Every):
        def infer_manual_data_interval(self, *, run_after: datetime) -> DataInterval:
            found: DataInterval = interval(run_after)
            return found

    return Manual(timedelta(days=1))


class Invalid(Every):
    def validate(self) -> None:
        raise ValueError("no days")


class Limited(Every):
    active_runs_limit = 0


LATER, EARLIER = START + timedelta(days=2), START + timedelta(days=1)
WRONG: list[tuple[str, Callable[[], Timetable], str]] = [
    (
        "raises",
        lambda: answering(KeyError("x")),
        r"raised KeyError\('x'\) for the first run",
    ),
    ("raises later", lambda: answering(DagRunInfo.exact(START), OSError()), r"for the run after 2026-09-01T00"),
    (
        "goes backwards",
        lambda: answering(DagRunInfo.exact(LATER), DagRunInfo.exact(EARLIER)),
        r"goes backwards: after the run of 2026-09-03.* comes one of 2026-09-02.*Let next_dagrun_info return",
    ),
    ("stands still", lambda: answering(DagRunInfo.exact(LATER), DagRunInfo.exact(LATER)), "goes backwards"),
    (
        "starts earlier",
        lambda: answering(
            DagRunInfo(LATER, DataInterval.exact(EARLIER)), DagRunInfo(EARLIER, DataInterval.exact(LATER))
        ),
        "goes backwards",
    ),
    (
        "no run",
        lambda: answering("tomorrow"),
        r"answered 'tomorrow'\. Let next_dagrun_info return a DagRunInfo",
    ),
    ("naive", lambda: answering(DagRunInfo.exact(datetime(2026, 9, 1))), "not an aware datetime. Give it a time zone"),  # noqa: DTZ001
    ("not implemented", Timetable, r"Timetable raised NotImplementedError.*implement it"),
    ("invalid", lambda: Invalid(timedelta()), r"Invalid is not valid: ValueError\('no days'\)"),
    ("limit", lambda: Limited(timedelta()), "active_runs_limit=0"),
    ("too many", lambda: Every(timedelta(seconds=1)), "more than 10000 runs between 2026-09-01 and now.*catchup=False"),
    ("manual raises", lambda: manual(lambda at: 1 / 0), r"raised ZeroDivisionError.* for a manual run at"),
    ("manual wrong", lambda: manual(lambda at: ("a", "b")), "answered with 'a'"),
]


@pytest.mark.parametrize(("make", "message"), [case[1:] for case in WRONG], ids=[case[0] for case in WRONG])
def test_a_wrong_timetable_is_an_error_of_its_file_that_names_the_remedy(
    make: Callable[[], Timetable], message: str
) -> None:
    with pytest.raises(TimetableError, match=message) as caught:
        spec_of(make())

    assert "DAG 'd': The timetable " in str(caught.value)
    assert (caught.value.file or "").endswith("test_custom_timetables.py")


@pytest.mark.slow
def test_too_many_runs_are_refused_without_catchup_too() -> None:
    with pytest.raises(TimetableError, match="more than 1000 runs in 3 hours"):
        spec_of(Every(timedelta(seconds=1)), catchup=False)


def test_an_installed_package_offers_timetables_by_entry_points(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = importlib.metadata.EntryPoint("AfterWorkday", f"{__name__}:AfterWorkday", "aiosched.timetables")

    def entry_points(*, group: str, name: str) -> list[importlib.metadata.EntryPoint]:
        return [entry] if (group, name) == ("aiosched.timetables", "AfterWorkday") else []

    monkeypatch.setattr(importlib.metadata, "entry_points", entry_points)

    assert timetables.AfterWorkday().summary == "AfterWorkday"
    with pytest.raises(AttributeError, match="no timetable 'Other'"):
        timetables.Other  # noqa: B018
