"""Mappers of partition keys: from the key of an asset event to the key, or the keys, of the runs of a consumer.

    StartOfDayMapper()                      "2024-03-13T10:42:15" -> "2024-03-13"
    RollupMapper(upstream_mapper=StartOfDayMapper(), window=DayWindow())     waits for the 24 hours of a day
    FanOutMapper(upstream_mapper=StartOfWeekMapper(), window=WeekWindow())   one key gives the seven days of its week

They are data in the serialized DAG, so the scheduler applies them without the code of authors. `to_downstream` raises
ValueError for a key that a mapper does not take. Source: the semantics reference, section 37.2.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar, Final

import msgspec
from msgspec.structs import force_setattr

from aiosched.core.timetables.key_formats import exists
from aiosched.core.timetables.key_periods import (
    AllowedKeyMapper,
    FixedKeyMapper,
    IdentityMapper,
    PartitionMapper,
    PeriodMapper,
    StartOfDayMapper,
    StartOfHourMapper,
    StartOfMonthMapper,
    StartOfQuarterMapper,
    StartOfWeekMapper,
    StartOfYearMapper,
    StoredMapper,
)
from aiosched.core.timetables.key_windows import (
    AnyWindow,
    DayWindow,
    MonthWindow,
    QuarterWindow,
    WaitForAll,
    WaitPolicy,
    WeekWindow,
    Window,
    YearWindow,
)
from aiosched.errors import TimetableError

__all__ = [
    "AllowedKeyMapper",
    "AnyMapper",
    "ChainMapper",
    "FanOutMapper",
    "FixedKeyMapper",
    "IdentityMapper",
    "PartitionMapper",
    "ProductMapper",
    "RollupMapper",
    "StartOfDayMapper",
    "StartOfHourMapper",
    "StartOfMonthMapper",
    "StartOfQuarterMapper",
    "StartOfWeekMapper",
    "StartOfYearMapper",
    "check_mapper",
    "keys_of",
]

MOST_IN_A_CHAIN: Final = 10_000  # keys that a ChainMapper has at a time


class RollupMapper(StoredMapper, frozen=True, kw_only=True, tag="rollup"):
    """Many keys of events lead to one run, which waits for those of the window.

    `upstream_mapper` gives the run's key, `window` the keys that belong to it, and `wait_policy` how many of them the
    run waits for.
    """

    upstream_mapper: AnyMapper
    window: AnyWindow
    wait_policy: WaitPolicy = WaitForAll()

    is_rollup: ClassVar[bool] = True

    if TYPE_CHECKING:

        def __init__(
            self,
            *,
            upstream_mapper: AnyMapper,
            window: AnyWindow,
            wait_policy: WaitPolicy | None = ...,
            max_downstream_keys: int | None = ...,
        ) -> None: ...

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_parts(self, [self.upstream_mapper], self.window)
        if self.wait_policy is None:
            force_setattr(self, "wait_policy", WaitForAll())
        if not isinstance(self.wait_policy, WaitPolicy):
            raise TimetableError(f"wait_policy={self.wait_policy!r} is none; use WaitForAll() or MinimumCount(n).")

    def to_downstream(self, key: str) -> str | Iterable[str]:
        return self.upstream_mapper.to_downstream(key)

    def to_upstream(self, downstream_key: str) -> frozenset[str]:
        """The keys of events that belong to a run. Wall-clock times that clocks skip are left out."""
        mapper = self.upstream_mapper
        members: Iterable[Any] = self.window.to_upstream(mapper.decode_downstream(downstream_key))
        if isinstance(mapper, PeriodMapper):
            members = [member for member in members if exists(member, mapper.timezone)]
        return frozenset(mapper.encode_upstream(member) for member in members)

    def to_partition_date(self, downstream_key: str) -> datetime | None:
        return self.upstream_mapper.to_partition_date(downstream_key)


class FanOutMapper(StoredMapper, frozen=True, kw_only=True, tag="fan_out"):
    """One key of an event leads to a run for each member of the window.

    `upstream_mapper` reads the key of the event; `downstream_mapper` gives the runs' keys, by default with the usual
    parts of the window's period: hours of a day, days of a week or month, months of a quarter or year.
    """

    upstream_mapper: AnyMapper
    window: AnyWindow
    downstream_mapper: AnyMapper | None = None

    if TYPE_CHECKING:

        def __init__(
            self,
            *,
            upstream_mapper: AnyMapper,
            window: AnyWindow,
            downstream_mapper: AnyMapper | None = ...,
            max_downstream_keys: int | None = ...,
        ) -> None: ...

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.downstream_mapper is None:
            usual = _USUAL_PARTS.get(type(self.window))
            if usual is None and isinstance(self.window, AnyWindow):
                name = type(self.window).__name__
                raise TimetableError(f"FanOutMapper has no usual parts of a {name}; give it a downstream_mapper=….")
            there = getattr(self.upstream_mapper, "timezone", "UTC")
            force_setattr(self, "downstream_mapper", None if usual is None else usual(timezone=there))
        _check_parts(self, [self.upstream_mapper, self.downstream_mapper], self.window)

    def to_downstream(self, key: str) -> list[str]:
        period, parts = self.upstream_mapper.to_downstream(key), self.downstream_mapper
        if not isinstance(period, str):
            raise ValueError("the upstream_mapper of a FanOutMapper gives more than one key")
        members: Iterable[Any] = self.window.to_upstream(self.upstream_mapper.decode_downstream(period))
        if not isinstance(parts, PeriodMapper):
            return [one.isoformat() if isinstance(one, datetime) else str(one) for one in members]
        return [parts.format(one) for one in members if exists(one, parts.timezone)]

    def to_partition_date(self, downstream_key: str) -> datetime | None:
        return None if self.downstream_mapper is None else self.downstream_mapper.to_partition_date(downstream_key)


class _TakesMappers(msgspec.StructMeta):
    """Lets authors write the mappers one after the other, as in Airflow."""

    def __call__(cls, *mappers: Any, **options: Any) -> Any:
        if mappers and "mappers" in options:
            raise TimetableError(f"{cls.__name__} takes its mappers one after the other: {cls.__name__}(a, b).")
        return super().__call__(**{"mappers": mappers, **options})


class _SeveralMappers(StoredMapper, frozen=True, kw_only=True, metaclass=_TakesMappers):
    """Made of several mappers, at least two."""

    mappers: tuple[AnyMapper, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        name = type(self).__name__
        if len(self.mappers) < 2:
            raise TimetableError(f"{name} needs at least two mappers; with one write that mapper alone.")
        _check_parts(self, self.mappers)


class ProductMapper(_SeveralMappers, frozen=True, kw_only=True, tag="product"):
    """A key of several parts, with a mapper for each: `us|2024-03-13T10:00:00` by region and day."""

    delimiter: str = "|"

    if TYPE_CHECKING:

        def __init__(
            self, *mappers: AnyMapper, delimiter: str = ..., max_downstream_keys: int | None = ...
        ) -> None: ...

    def to_downstream(self, key: str) -> str:
        parts = key.split(self.delimiter)
        if len(parts) != len(self.mappers):
            raise ValueError(f"it has {len(parts)} parts between {self.delimiter!r}, not {len(self.mappers)}")
        mapped = [mapper.to_downstream(part) for mapper, part in zip(self.mappers, parts, strict=True)]
        found = [one for one in mapped if isinstance(one, str)]
        if len(found) < len(mapped):
            raise ValueError("one of the mappers of a ProductMapper gives more than one key")
        return self.delimiter.join(found)

    def to_partition_date(self, downstream_key: str) -> datetime | None:
        """That of the only part with a date; None with none or several of them."""
        parts = downstream_key.split(self.delimiter)
        if len(parts) != len(self.mappers):
            return None
        dates = [mapper.to_partition_date(part) for mapper, part in zip(self.mappers, parts, strict=True)]
        known = [date for date in dates if date is not None]
        return known[0] if len(known) == 1 else None


class ChainMapper(_SeveralMappers, frozen=True, kw_only=True, tag="chain"):
    """Mappers one after the other: each takes the keys of the one before."""

    if TYPE_CHECKING:

        def __init__(self, *mappers: AnyMapper, max_downstream_keys: int | None = ...) -> None: ...

    def to_downstream(self, key: str) -> str | list[str]:
        keys = [key]
        for mapper in self.mappers:
            keys = list(dict.fromkeys(found for one in keys for found in keys_of(mapper, one)))
            if len(keys) > MOST_IN_A_CHAIN:
                raise ValueError(f"the mappers of a ChainMapper give more than {MOST_IN_A_CHAIN} keys")
        return keys[0] if len(keys) == 1 else keys

    def to_partition_date(self, downstream_key: str) -> datetime | None:
        return self.mappers[-1].to_partition_date(downstream_key)


AnyMapper = (
    IdentityMapper
    | AllowedKeyMapper
    | FixedKeyMapper
    | StartOfHourMapper
    | StartOfDayMapper
    | StartOfWeekMapper
    | StartOfMonthMapper
    | StartOfQuarterMapper
    | StartOfYearMapper
    | RollupMapper
    | FanOutMapper
    | ProductMapper
    | ChainMapper
)
"""Every mapper that a serialized DAG can have."""

_USUAL_PARTS: Final[dict[type[Any], type[PeriodMapper]]] = {
    DayWindow: StartOfHourMapper,
    WeekWindow: StartOfDayMapper,
    MonthWindow: StartOfDayMapper,
    QuarterWindow: StartOfMonthMapper,
    YearWindow: StartOfMonthMapper,
}


def keys_of(mapper: AnyMapper, key: str) -> list[str]:
    """As `to_downstream`, always a list, without duplicates."""
    found = mapper.to_downstream(key)
    return [found] if isinstance(found, str) else list(dict.fromkeys(found))


def check_mapper(mapper: object, where: str) -> None:
    """Raise TimetableError for anything but a mapper of aiosched."""
    if isinstance(mapper, AnyMapper):
        return
    name = type(mapper).__name__
    if isinstance(mapper, PartitionMapper):
        raise TimetableError(
            f"{name} in {where} is a partition mapper of your own, and the scheduler runs no code of DAG files; "
            "combine those of aiosched (ChainMapper, ProductMapper …), or give the event its final key in the task "
            "that creates it: outlet_events[asset].add_partitions(key)."
        )
    raise TimetableError(f"{mapper!r} in {where} is not a partition mapper; use IdentityMapper(), say.")


def _check_parts(owner: StoredMapper, mappers: Iterable[object], window: object = None) -> None:
    name = type(owner).__name__
    for mapper in mappers:
        check_mapper(mapper, name)
    if window is None:
        return
    if isinstance(window, Window) and not isinstance(window, AnyWindow):
        raise TimetableError(
            f"{type(window).__name__} in {name} is a window of your own, and the scheduler runs no code of DAG files; "
            "use one of aiosched's, or a SegmentWindow with the keys listed."
        )
    if not isinstance(window, AnyWindow):
        raise TimetableError(f"window={window!r} of {name} is not a window; use DayWindow(), say.")
    first = next(iter(mappers))
    if isinstance(first, AnyMapper) and first.expected_decoded_type is not window.expected_decoded_type:
        raise TimetableError(
            f"{name} has the window {type(window).__name__}, whose members are of type "
            f"{window.expected_decoded_type.__name__}, but its upstream_mapper {type(first).__name__} gives "
            f"{first.expected_decoded_type.__name__}: for a window of time use a StartOf…Mapper, for a SegmentWindow "
            "a FixedKeyMapper."
        )
