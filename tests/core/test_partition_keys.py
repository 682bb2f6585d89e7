"""Mappers, windows and formats of partition keys. Source: the semantics reference, sections 37.2 and 37.3."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from aiosched.core.timetables.key_formats import check_key, exists, format_key, read_period
from aiosched.core.timetables.key_mappers import (
    AllowedKeyMapper,
    AnyMapper,
    ChainMapper,
    FanOutMapper,
    FixedKeyMapper,
    IdentityMapper,
    PartitionMapper,
    ProductMapper,
    RollupMapper,
    StartOfDayMapper,
    StartOfHourMapper,
    StartOfMonthMapper,
    StartOfQuarterMapper,
    StartOfWeekMapper,
    StartOfYearMapper,
    check_mapper,
    keys_of,
)
from aiosched.core.timetables.key_windows import (
    DayWindow,
    HourWindow,
    MinimumCount,
    MonthWindow,
    QuarterWindow,
    SegmentWindow,
    WaitForAll,
    WeekWindow,
    Window,
    YearWindow,
)
from aiosched.errors import TimetableError

PERIODS = (
    StartOfHourMapper, StartOfDayMapper, StartOfWeekMapper, StartOfMonthMapper, StartOfQuarterMapper, StartOfYearMapper,
)  # fmt: skip
ZONES = ("UTC", "Europe/Amsterdam", "America/New_York", "Asia/Kolkata", "+05:30")
instants = st.datetimes(datetime(1971, 1, 1), datetime(2090, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001 - bounds

# Of the day 2024-03-13, a Wednesday; the keys are those of Airflow 3.3.
EXAMPLES = {
    StartOfHourMapper: "2024-03-13T10",
    StartOfDayMapper: "2024-03-13",
    StartOfWeekMapper: "2024-03-11 (W11)",
    StartOfMonthMapper: "2024-03",
    StartOfQuarterMapper: "2024-Q1",
    StartOfYearMapper: "2024",
}


@pytest.mark.parametrize(("mapper", "key"), EXAMPLES.items(), ids=lambda one: getattr(one, "__name__", one))
def test_a_period_has_the_usual_key(mapper: Any, key: str) -> None:
    assert mapper().to_downstream("2024-03-13T10:42:15") == key


@given(instants, st.sampled_from(PERIODS), st.sampled_from(ZONES))
def test_a_key_of_a_period_stands_for_its_beginning(at: datetime, kind: Any, zone: str) -> None:
    mapper = kind(timezone=zone, input_format="%Y-%m-%dT%H:%M:%S%z")
    key = mapper.to_downstream(at.strftime("%Y-%m-%dT%H:%M:%S%z"))
    begin = mapper.to_partition_date(key)

    assert mapper.decode_downstream(key) == mapper.normalize(mapper.decode_downstream(key))
    assert mapper.format(mapper.decode_downstream(key)) == key
    assert begin <= at + timedelta(hours=2)  # an hour that clocks repeat has one key
    assert at - begin <= timedelta(days=366, hours=2)


@given(instants, st.sampled_from(PERIODS))
def test_without_clock_changes_the_period_contains_the_instant(at: datetime, kind: Any) -> None:
    mapper, text = kind(), "%Y-%m-%dT%H:%M:%S"
    begin = mapper.to_partition_date(mapper.to_downstream(at.strftime(text)))
    following = mapper.to_downstream((at + timedelta(days=400)).strftime(text))

    assert begin <= at
    assert mapper.to_partition_date(following) > at


ROLLED = {
    "hour": (StartOfHourMapper, HourWindow(), timedelta(minutes=1), 60),
    "day": (StartOfDayMapper, DayWindow(), timedelta(hours=1), 24),
    "week": (StartOfWeekMapper, WeekWindow(), timedelta(days=1), 7),
    "month": (StartOfMonthMapper, MonthWindow(), timedelta(days=1), 31),
}


@pytest.mark.parametrize("name", ROLLED)
@given(at=instants)
def test_a_window_has_exactly_the_keys_that_are_mapped_to_its_period(name: str, at: datetime) -> None:
    kind, window, step, most = ROLLED[name]
    rollup = RollupMapper(upstream_mapper=kind(), window=window)
    (target,) = keys_of(rollup, at.strftime("%Y-%m-%dT%H:%M:%S"))
    begin = rollup.to_partition_date(target)
    assert begin is not None
    around = [begin + step * number for number in range(-3, most + 3)]
    mapped = {key for one in around if kind().to_downstream(key := one.strftime("%Y-%m-%dT%H:%M:%S")) == target}

    assert rollup.to_upstream(target) == mapped


@given(instants, st.sampled_from([DayWindow, WeekWindow, MonthWindow, QuarterWindow, YearWindow]))
def test_a_window_backwards_ends_with_its_period(at: datetime, kind: Any) -> None:
    begin = datetime(at.year, at.month, 1)  # noqa: DTZ001 - a wall clock
    forward = kind().to_upstream(begin)
    backward = kind(direction=Window.Direction.BACKWARD).to_upstream(begin)

    assert forward[0] == begin == backward[-1]
    assert forward == sorted(set(forward))
    assert backward == sorted(set(backward))


def test_times_in_clock_changes() -> None:
    hours = StartOfHourMapper(timezone="Europe/Amsterdam")
    assert hours.to_downstream("2024-03-31T02:30:00") == "2024-03-31T03"
    assert hours.to_partition_date("2024-10-27T02") == datetime(2024, 10, 27, 1, tzinfo=UTC)


def test_hours_that_clocks_skip_are_not_waited_for() -> None:
    rollup = RollupMapper(upstream_mapper=StartOfDayMapper(timezone="Europe/Amsterdam"), window=DayWindow())

    assert "2024-03-31T02:00:00" not in rollup.to_upstream("2024-03-31")
    assert [len(rollup.to_upstream(f"2024-{day}")) for day in ("03-30", "03-31", "10-27")] == [24, 23, 24]
    fan_out = FanOutMapper(upstream_mapper=StartOfDayMapper(timezone="Europe/Amsterdam"), window=DayWindow())
    assert len(fan_out.to_downstream("2024-03-31T10:00:00")) == 23


@given(instants, st.sampled_from(ZONES))
def test_a_time_exists_if_an_instant_has_it(at: datetime, zone: str) -> None:
    there = at.astimezone(ZoneInfo(zone)) if "/" in zone else at
    assert exists(there.replace(tzinfo=None), zone if "/" in zone else "UTC")


def test_a_fan_out_has_the_usual_parts_of_its_period() -> None:
    week = FanOutMapper(upstream_mapper=StartOfWeekMapper(), window=WeekWindow())
    assert week.to_downstream("2024-03-13T10:00:00") == [f"2024-03-{day}" for day in range(11, 18)]
    quarter = FanOutMapper(upstream_mapper=StartOfQuarterMapper(), window=QuarterWindow())
    assert quarter.to_downstream("2024-03-13T10:00:00") == ["2024-01", "2024-02", "2024-03"]
    regions = FanOutMapper(
        upstream_mapper=FixedKeyMapper("all"), window=SegmentWindow(["us", "eu"]), downstream_mapper=IdentityMapper()
    )
    assert regions.to_downstream("anything") == ["eu", "us"]


def test_products_and_chains() -> None:
    product = ProductMapper(IdentityMapper(), StartOfDayMapper())
    assert product.to_downstream("us|2024-03-13T10:42:15") == "us|2024-03-13"
    assert product.to_partition_date("us|2024-03-13") == datetime(2024, 3, 13, tzinfo=UTC)
    assert product.to_partition_date("us") is None
    with pytest.raises(ValueError, match="it has 1 parts"):
        product.to_downstream("us")
    days = FanOutMapper(upstream_mapper=StartOfWeekMapper(), window=WeekWindow())
    with pytest.raises(ValueError, match="more than one key"):
        ProductMapper(days, days).to_downstream("2024-03-13T10:00:00|2024-03-13T10:00:00")
    months = ChainMapper(days, StartOfMonthMapper(input_format="%Y-%m-%d"))
    assert keys_of(months, "2024-02-28T00:00:00") == ["2024-02", "2024-03"]


MAPPERS = st.recursive(
    st.one_of(
        st.builds(IdentityMapper),
        st.builds(AllowedKeyMapper, st.lists(st.text(min_size=1), min_size=1)),
        st.builds(FixedKeyMapper, st.text(min_size=1)),
        st.sampled_from(PERIODS).flatmap(lambda kind: st.builds(kind, timezone=st.sampled_from(ZONES))),
        st.builds(
            RollupMapper,
            upstream_mapper=st.builds(StartOfDayMapper),
            window=st.builds(DayWindow, direction=st.sampled_from(Window.Direction)),
            wait_policy=st.one_of(st.builds(WaitForAll), st.builds(MinimumCount, st.integers(1, 9))),
        ),
        st.builds(FanOutMapper, upstream_mapper=st.builds(StartOfWeekMapper), window=st.builds(WeekWindow)),
    ),
    lambda inner: st.lists(inner, min_size=2, max_size=3).flatmap(
        lambda mappers: st.sampled_from([ProductMapper, ChainMapper]).map(lambda kind: kind(*mappers))
    ),
    max_leaves=5,
)


@given(MAPPERS)
def test_a_stored_mapper_is_the_same_mapper(mapper: Any) -> None:
    assert isinstance(mapper, PartitionMapper)
    assert msgspec.json.decode(msgspec.json.encode(mapper), type=AnyMapper) == mapper


@given(MAPPERS, st.text(max_size=30))
def test_any_key_is_mapped_or_refused_with_a_value_error(mapper: Any, key: str) -> None:
    try:
        found = keys_of(mapper, key)
    except ValueError:
        return
    assert all(isinstance(one, str) for one in found)


@given(st.text(max_size=10), instants)
def test_a_format_with_any_text_gives_a_key_that_is_read_back(form: str, at: datetime) -> None:
    assume(form.isprintable() and "%" not in form and "{" not in form)
    text = f"{form}%Y-%m-%d"
    assert read_period(format_key(at, text), text) == datetime(at.year, at.month, at.day)  # noqa: DTZ001


def test_what_mappers_and_windows_refuse() -> None:
    class Own(PartitionMapper):
        def to_downstream(self, key: str) -> str:
            return key

    class Weekdays(Window):
        def to_upstream(self, decoded_downstream: Any) -> Any:
            return ()

    own: Any = Own(max_downstream_keys=3)
    days: Any = Weekdays()
    for wrong, words in {
        (lambda: check_mapper(own, "PartitionedAssetTimetable")): "Own in PartitionedAssetTimetable is a partition map",
        (lambda: ChainMapper(IdentityMapper(), own)): "Own in ChainMapper",
        (lambda: ChainMapper(IdentityMapper())): "at least two mappers",
        (lambda: RollupMapper(upstream_mapper=StartOfDayMapper(), window=days)): "Weekdays in RollupMapper is a window",
        (lambda: RollupMapper(upstream_mapper=IdentityMapper(), window=DayWindow())): "use a StartOf…Mapper",
        (lambda: FanOutMapper(upstream_mapper=StartOfHourMapper(), window=HourWindow())): "give it a downstream_mapper",
        (lambda: SegmentWindow([])): "at least one segment",
        (lambda: SegmentWindow([""])): "not empty",
        (lambda: MinimumCount(0)): "WaitForAll",
        (lambda: AllowedKeyMapper([])): "a list of texts",
        (lambda: FixedKeyMapper("")): "not empty",
        (lambda: IdentityMapper(max_downstream_keys=0)): "from 1 on",
        (lambda: StartOfDayMapper(timezone="Europe/Nowhere")): "no time zone",
        (lambda: StartOfDayMapper(output_format="%Y-%Y")): "twice",
        (lambda: DayWindow(direction="sideways")): "FORWARD",  # type: ignore[arg-type]
    }.items():
        with pytest.raises(TimetableError, match=words):
            wrong()


@pytest.mark.parametrize("key", ["", "  ", "x" * 251, "a\x00b", "two\nlines"])
def test_a_key_is_text_of_1_to_250_characters(key: str) -> None:
    with pytest.raises(ValueError, match="partition key"):
        check_key(key)


def test_a_wait_policy_needs_some_of_the_keys() -> None:
    assert [WaitForAll().needed(24), MinimumCount(3).needed(24), MinimumCount(-3).needed(24)] == [24, 3, 21]
    assert [MinimumCount(-30).needed(24), MinimumCount(30).needed(24)] == [0, 30]
