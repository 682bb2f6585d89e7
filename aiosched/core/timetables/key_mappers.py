"""Mappers of partition keys: from the key of an asset event to the key, or the keys, of the runs of a consumer.

    StartOfDayMapper()                      "2024-03-13T10:42:15" -> "2024-03-13"
    RollupMapper(upstream_mapper=StartOfDayMapper(), window=DayWindow())     waits for the 24 hours of a day
    FanOutMapper(upstream_mapper=StartOfWeekMapper(), window=WeekWindow())   one key gives the seven days of its week

They are data in the serialized DAG, so the scheduler applies them without the code of authors. `to_downstream` raises
ValueError for a key that a mapper does not take. Source: the semantics reference, section 37.2.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from datetime import datetime, timedelta, tzinfo
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec
from msgspec.structs import force_setattr

from aiosched.core.timetables.interval import zone_field
from aiosched.core.timetables.key_formats import (
    DEFAULT_FORMAT,
    QUARTER,
    check_format,
    exists,
    format_key,
    read_instant,
    read_period,
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
from aiosched.core.timetables.zones import zone
from aiosched.errors import TimetableError


class PartitionMapper(ABC):
    """The base of all mappers. Those of aiosched are registered; one of your own can be defined, but not used.

    `expected_decoded_type` is what a key stands for: an instant, or only a text.
    """

    is_rollup: ClassVar[bool] = False
    expected_decoded_type: ClassVar[type] = str

    def __init__(self, *, max_downstream_keys: int | None = None) -> None:
        self.max_downstream_keys = max_downstream_keys

    @abstractmethod
    def to_downstream(self, key: str) -> str | Iterable[str]:
        """The key, or the keys, of the consumer's runs for the key of an event."""


@PartitionMapper.register
class _Mapper(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind"):
    """`max_downstream_keys`: more runs than that for one event are refused; None: the setting counts."""

    max_downstream_keys: int | None = None

    is_rollup: ClassVar[bool] = False
    expected_decoded_type: ClassVar[type] = str

    def __post_init__(self) -> None:
        most = self.max_downstream_keys
        if most is not None and (isinstance(most, bool) or not isinstance(most, int) or most < 1):
            raise TimetableError(f"max_downstream_keys={most!r} is wrong: give a number from 1 on, or None.")

    def to_downstream(self, key: str) -> str | Iterable[str]:
        """The key, or the keys, of the consumer's runs for the key of an event. Raises ValueError."""
        raise NotImplementedError

    def decode_downstream(self, downstream_key: str) -> Any:
        """What a key of the consumer stands for: the beginning of its period (naive), or the key itself."""
        return downstream_key

    def encode_upstream(self, decoded: Any) -> str:
        """The key of an event for a member of a window."""
        return str(decoded)

    def to_partition_date(self, downstream_key: str) -> datetime | None:
        """The beginning of the period that the consumer's key names; None for a key without a date."""
        return None


class IdentityMapper(_Mapper, frozen=True, tag="identity"):
    """The key itself. The run also takes over the partition date of the event."""

    def to_downstream(self, key: str) -> str:
        return key


class AllowedKeyMapper(_Mapper, frozen=True, tag="allowed"):
    """The key itself, if it is one of those listed: `AllowedKeyMapper(["us", "eu"])`."""

    allowed_keys: tuple[str, ...]

    if TYPE_CHECKING:

        def __init__(self, allowed_keys: Iterable[str], *, max_downstream_keys: int | None = ...) -> None: ...

    def __post_init__(self) -> None:
        super().__post_init__()
        keys = (self.allowed_keys,) if isinstance(self.allowed_keys, str) else tuple(self.allowed_keys)
        if not keys or any(not isinstance(key, str) for key in keys):
            raise TimetableError(f"AllowedKeyMapper({self.allowed_keys!r}) needs a list of texts: the allowed keys.")
        force_setattr(self, "allowed_keys", keys)

    def to_downstream(self, key: str) -> str:
        if key not in self.allowed_keys:
            raise ValueError(f"it is not one of the allowed keys {', '.join(self.allowed_keys)}")
        return key


class FixedKeyMapper(_Mapper, frozen=True, tag="fixed"):
    """One and the same key for all: `FixedKeyMapper("all_regions")`."""

    downstream_key: str

    if TYPE_CHECKING:

        def __init__(self, downstream_key: str, *, max_downstream_keys: int | None = ...) -> None: ...

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.downstream_key, str) or not self.downstream_key:
            raise TimetableError(f"FixedKeyMapper({self.downstream_key!r}) needs a text that is not empty.")

    def to_downstream(self, key: str) -> str:
        return self.downstream_key


class _PeriodMapper(_Mapper, frozen=True, kw_only=True):
    """From the instant in a key to the period that contains it, on the wall clock of `timezone`.

    `input_format` is the format of the keys of events, `output_format` that of the consumer's keys.
    """

    timezone: str = "UTC"
    input_format: str = DEFAULT_FORMAT
    output_format: str | None = None  # None: that of the class

    default_output_format: ClassVar[str]
    expected_decoded_type: ClassVar[type] = datetime

    if TYPE_CHECKING:

        def __init__(
            self,
            *,
            timezone: str | tzinfo = ...,
            input_format: str = ...,
            output_format: str | None = ...,
            max_downstream_keys: int | None = ...,
        ) -> None: ...

    def __post_init__(self) -> None:
        super().__post_init__()
        force_setattr(self, "timezone", zone_field(self.timezone))
        zone(self.timezone)
        try:
            check_format(self.output)
        except ValueError as error:
            raise TimetableError(f"{type(self).__name__}: {error}") from None

    @property
    def output(self) -> str:
        """The format of the consumer's keys."""
        return self.output_format or self.default_output_format

    def to_downstream(self, key: str) -> str:
        return self.format(self.normalize(read_instant(key, self.input_format, self.timezone)))

    def normalize(self, dt: datetime) -> datetime:
        """The beginning of the period that contains the time."""
        raise NotImplementedError

    def format(self, dt: datetime) -> str:
        """The consumer's key for the period that begins at this time."""
        return format_key(dt, self.output)

    def decode_downstream(self, downstream_key: str) -> datetime:
        return self.normalize(read_period(downstream_key, self.output))

    def encode_upstream(self, decoded: datetime) -> str:
        return format_key(decoded.replace(tzinfo=zone(self.timezone)), self.input_format)

    def to_partition_date(self, downstream_key: str) -> datetime:
        return self.decode_downstream(downstream_key).replace(tzinfo=zone(self.timezone))


class StartOfHourMapper(_PeriodMapper, frozen=True, tag="hour"):
    """The hour: `2024-03-13T10`."""

    default_output_format: ClassVar[str] = "%Y-%m-%dT%H"

    def normalize(self, dt: datetime) -> datetime:
        return dt.replace(minute=0, second=0, microsecond=0)


class StartOfDayMapper(_PeriodMapper, frozen=True, tag="day"):
    """The day: `2024-03-13`."""

    default_output_format: ClassVar[str] = "%Y-%m-%d"

    def normalize(self, dt: datetime) -> datetime:
        return _midnight(dt)


class StartOfWeekMapper(_PeriodMapper, frozen=True, tag="week"):
    """The Monday of the week, with its ISO number: `2024-03-11 (W11)`."""

    default_output_format: ClassVar[str] = "%Y-%m-%d (W%V)"

    def normalize(self, dt: datetime) -> datetime:
        return _midnight(dt - timedelta(days=dt.weekday()))


class StartOfMonthMapper(_PeriodMapper, frozen=True, tag="month"):
    """The month: `2024-03`."""

    default_output_format: ClassVar[str] = "%Y-%m"

    def normalize(self, dt: datetime) -> datetime:
        return _midnight(dt).replace(day=1)


class StartOfQuarterMapper(_PeriodMapper, frozen=True, tag="quarter"):
    """The quarter: `2024-Q1`."""

    default_output_format: ClassVar[str] = f"%Y-Q{QUARTER}"

    def normalize(self, dt: datetime) -> datetime:
        return _midnight(dt).replace(month=(dt.month - 1) // 3 * 3 + 1, day=1)


class StartOfYearMapper(_PeriodMapper, frozen=True, tag="year"):
    """The year: `2024`."""

    default_output_format: ClassVar[str] = "%Y"

    def normalize(self, dt: datetime) -> datetime:
        return _midnight(dt).replace(month=1, day=1)


class RollupMapper(_Mapper, frozen=True, kw_only=True, tag="rollup"):
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
        if isinstance(mapper, _PeriodMapper):
            members = [member for member in members if exists(member, mapper.timezone)]
        return frozenset(mapper.encode_upstream(member) for member in members)

    def to_partition_date(self, downstream_key: str) -> datetime | None:
        return self.upstream_mapper.to_partition_date(downstream_key)


class FanOutMapper(_Mapper, frozen=True, kw_only=True, tag="fan_out"):
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
        if not isinstance(parts, _PeriodMapper):
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


class _SeveralMappers(_Mapper, frozen=True, kw_only=True, metaclass=_TakesMappers):
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
            keys = [found for one in keys for found in keys_of(mapper, one)]
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

_USUAL_PARTS: dict[type[Any], type[_PeriodMapper]] = {
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


def _check_parts(owner: _Mapper, mappers: Iterable[object], window: object = None) -> None:
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


def _midnight(at: datetime) -> datetime:
    return at.replace(hour=0, minute=0, second=0, microsecond=0)
