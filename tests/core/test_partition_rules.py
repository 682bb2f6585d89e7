"""Which runs of partitions follow from which events. Source: the semantics reference, section 37."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiosched import Asset
from aiosched.core.assets.conditions import (
    AliasRequired,
    AllRequired,
    AnyRequired,
    AssetId,
    AssetRequired,
    ReferenceRequired,
    is_met,
)
from aiosched.core.creation.partitions import (
    KeyRefused,
    carried_date,
    keys_of_runs,
    manual_partition,
    mapping_digest,
    partition_of_run,
    progress_of,
)
from aiosched.core.graph.spec import DagSpec, TaskSpec, decode_spec, encode_spec
from aiosched.core.timetables import (
    CronPartitionTimetable,
    NullTimetable,
    Partition,
    PartitionedAssetTimetable,
    PartitionedAtRuntime,
    Restriction,
)
from aiosched.core.timetables.key_mappers import (
    AllowedKeyMapper,
    ChainMapper,
    FanOutMapper,
    FixedKeyMapper,
    IdentityMapper,
    RollupMapper,
    StartOfDayMapper,
    StartOfHourMapper,
    StartOfWeekMapper,
    StartOfYearMapper,
)
from aiosched.core.timetables.key_windows import DayWindow, MinimumCount, SegmentWindow, WeekWindow
from aiosched.errors import Refused, TimetableError

A, B, C = (AssetRequired(name) for name in "abc")
IDS = {name: AssetId(name, name) for name in "abc"}
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
WEEK = FanOutMapper(upstream_mapper=StartOfWeekMapper(), window=WeekWindow())


def on(assets: Any, default: Any = None, config: Mapping[Any, Any] | None = None) -> PartitionedAssetTimetable:
    return PartitionedAssetTimetable(
        assets=assets, partition_mapper_config=config, default_partition_mapper=default or IdentityMapper()
    )


CONDITIONS = st.recursive(
    st.sampled_from([A, B, C]),
    lambda inner: st.builds(
        lambda kind, members: kind(tuple(members)),
        st.sampled_from([AllRequired, AnyRequired]),
        st.lists(inner, min_size=1, max_size=3),
    ),
    max_leaves=5,
)
ARRIVED = st.dictionaries(st.sampled_from(sorted(IDS)), st.sets(st.sampled_from(["us", "eu", "x"]), min_size=1))


@given(CONDITIONS, ARRIVED)
def test_a_key_is_due_when_the_assets_that_have_come_meet_the_condition(condition: Any, arrived: Any) -> None:
    progress = progress_of(on(condition), "k", {IDS[name]: keys for name, keys in arrived.items()}, {})

    assert progress.is_due == is_met(condition, [IDS[name] for name in arrived])


@given(CONDITIONS, ARRIVED, ARRIVED)
def test_further_events_never_undo_that_a_key_is_due(condition: Any, first: Any, further: Any) -> None:
    rollup = RollupMapper(upstream_mapper=FixedKeyMapper("all"), window=SegmentWindow(["us", "eu"]))
    timetable = on(condition, rollup)
    both = {name: first.get(name, set()) | further.get(name, set()) for name in first.keys() | further.keys()}
    before = progress_of(timetable, "all", {IDS[name]: keys for name, keys in first.items()}, {})
    after = progress_of(timetable, "all", {IDS[name]: keys for name, keys in both.items()}, {})

    assert after.is_due or not before.is_due


@given(st.sets(st.integers(0, 23)), st.integers(-25, 25).filter(bool))
def test_a_roll_up_is_due_with_as_many_keys_as_its_policy_needs(hours: set[int], n: int) -> None:
    rollup = RollupMapper(upstream_mapper=StartOfDayMapper(), window=DayWindow(), wait_policy=MinimumCount(n))
    keys = {f"2026-01-05T{hour:02}:00:00" for hour in hours} | {"2026-01-06T00:00:00", "2026-01-05T00:30:00"}
    progress = progress_of(on(A, rollup), "2026-01-05", {IDS["a"]: keys}, {})

    assert progress.is_due == (n <= 24 and len(hours) >= (n if n > 0 else max(0, 24 + n)))
    assert progress.assets[0].arrived == len(hours)


def test_what_a_pending_key_waits_for_is_told() -> None:
    rollup = RollupMapper(upstream_mapper=FixedKeyMapper("all"), window=SegmentWindow(["us", "eu"]))
    timetable = on(AllRequired((A, B)), config={Asset("a"): rollup})
    told = progress_of(timetable, "all", {IDS["a"]: {"us"}}, {}).waits_for(timetable.assets)
    assert told == "all waits for a & b: 1 of 2 keys of a (missing: eu)"

    never = RollupMapper(
        upstream_mapper=FixedKeyMapper("all"), window=SegmentWindow(["us"]), wait_policy=MinimumCount(3)
    )
    told = progress_of(on(A, never), "all", {IDS["a"]: {"us"}}, {}).waits_for(A)
    assert "3 keys are needed, but the window of 'all' has only 1" in told
    unreadable = ChainMapper(StartOfDayMapper(), IdentityMapper())
    assert progress_of(on(A, unreadable), "not a date", {IDS["a"]: {"us"}}, {}).is_due
    of_days = RollupMapper(upstream_mapper=StartOfDayMapper(), window=DayWindow())
    assert "cannot be computed" in str(progress_of(on(A, of_days), "soon", {IDS["a"]: {"us"}}, {}).assets[0])


def test_the_mapper_is_that_of_the_name_then_of_the_uri_then_the_default() -> None:
    config = {Asset("a"): StartOfDayMapper(), ReferenceRequired(uri="s3://b"): StartOfYearMapper()}
    timetable = on(AllRequired((A, B, C)), StartOfHourMapper(), config)
    key = "2026-01-05T10:20:00"

    assert keys_of_runs(timetable, AssetId("a", "s3://b"), key) == ["2026-01-05"]
    assert keys_of_runs(timetable, AssetId("b", "s3://b"), key) == ["2026"]
    assert keys_of_runs(timetable, AssetId("c", "c"), key) == ["2026-01-05T10"]


def test_an_alias_counts_for_the_assets_that_it_has_led_to() -> None:
    timetable = on(AliasRequired("late"))
    assert progress_of(timetable, "us", {IDS["a"]: {"us"}}, {"late": {"a"}}).is_due
    assert not progress_of(timetable, "us", {IDS["b"]: {"us"}}, {"late": {"a"}}).is_due
    with pytest.raises(TimetableError, match="alias late has a partition mapper"):
        on(AnyRequired((A, AliasRequired("late"))), config={AliasRequired("late"): IdentityMapper()}).validate()


def test_keys_that_no_run_follows_from() -> None:
    for mapper, key, words in (
        (AllowedKeyMapper(["us"]), "mars", "not one of the allowed keys us"),
        (StartOfDayMapper(), "mars", "does not match format"),
        (FanOutMapper(upstream_mapper=StartOfWeekMapper(), window=WeekWindow(), max_downstream_keys=6),
         "2026-01-05T00:00:00", "7 runs, more than max_downstream_keys=6"),
    ):  # fmt: skip
        with pytest.raises(KeyRefused, match=words):
            keys_of_runs(on(A, mapper), IDS["a"], key)
    wide = FanOutMapper(upstream_mapper=StartOfWeekMapper(), window=WeekWindow(), max_downstream_keys=7)
    assert len(keys_of_runs(on(A, wide), IDS["a"], "2026-01-05T00:00:00")) == 7


def test_the_date_of_a_run_is_read_from_its_key_or_carried_by_its_events() -> None:
    day = datetime(2026, 1, 5, tzinfo=UTC)
    assert partition_of_run(on(A, StartOfDayMapper()), "2026-01-05", [IDS["a"]], NOON) == Partition("2026-01-05", day)
    assert partition_of_run(on(A), "us", [IDS["a"]], NOON) == Partition("us", NOON)
    zones = {Asset("a"): StartOfDayMapper(), Asset("b"): StartOfDayMapper(timezone="Europe/Amsterdam")}
    both = on(AllRequired((A, B)), config=zones)
    assert partition_of_run(both, "2026-01-05", IDS.values(), NOON) == Partition("2026-01-05", None)
    assert (carried_date(on(A), IDS["a"], NOON), carried_date(both, IDS["a"], NOON)) == (NOON, None)


def test_the_digest_tells_schedules_apart_and_survives_storing() -> None:
    timetables = [on(A), on(B), on(A, StartOfDayMapper()), on(A, config={Asset("a"): StartOfDayMapper()}), on(A, WEEK)]
    assert len({mapping_digest(one) for one in timetables}) == len(timetables)
    for one in timetables:
        spec = DagSpec(dag_id="d", timetable=one, tasks=(TaskSpec(task_id="t", operator="X"),))
        stored = decode_spec(encode_spec(spec)).timetable
        assert isinstance(stored, PartitionedAssetTimetable)
        assert mapping_digest(stored) == mapping_digest(one)


CLOCK = CronPartitionTimetable("0 0 * * *", timezone="Europe/Amsterdam", key_format="%Y-%m-%d", run_offset=-1)


@given(st.datetimes(datetime(1975, 1, 1), datetime(2090, 1, 1), timezones=st.just(UTC)))  # noqa: DTZ001 - bounds
def test_a_run_by_the_clock_is_about_the_tick_before_and_the_key_leads_back_to_it(now: datetime) -> None:
    run = CLOCK.next_run(last=None, restriction=Restriction(now, None, catchup=True), now=now)
    assert run is not None
    assert run.partition is not None
    assert run.partition.date == CLOCK.clock.prev_tick(run.run_after)
    assert CLOCK.date_of(run.partition.key) == run.partition.date
    assert manual_partition("d", CLOCK, run.partition.key) == run.partition


def test_the_offset_of_a_run_by_the_clock() -> None:
    now = datetime(2026, 3, 29, 12, tzinfo=UTC)
    for offset, key in ((None, "2026-03-29T00:00:00"), (1, "2026-03-30T00:00:00"), (-2, "2026-03-27T00:00:00")):
        timetable = CronPartitionTimetable("0 0 * * *", timezone="UTC", run_offset=offset)
        found = timetable.partition_at(datetime(2026, 3, 29, tzinfo=UTC))
        assert found.key == key
    with pytest.raises(TimetableError, match="give a number of ticks"):
        CronPartitionTimetable("@daily", timezone="UTC", run_offset=1.5).validate()  # type: ignore[arg-type]
    with pytest.raises(TimetableError, match="cannot be used"):
        CronPartitionTimetable("@daily", timezone="UTC", key_format="%Y %Y").validate()
    assert now


def test_which_schedules_take_a_key_by_hand() -> None:
    assert manual_partition("d", PartitionedAtRuntime(), "us") == Partition("us", None)
    assert manual_partition("d", on(A, StartOfDayMapper()), "2026-01-05").date == datetime(2026, 1, 5, tzinfo=UTC)
    for timetable, key, words in (
        (NullTimetable(), "us", "has no partitions"),
        (CLOCK, "soon", "does not suit the schedule of DAG 'd'"),
        (on(A, StartOfDayMapper()), "soon", "does not suit"),
        (PartitionedAtRuntime(), " ", "not printable"),
    ):
        with pytest.raises(Refused, match=words):
            manual_partition("d", timetable, key)
