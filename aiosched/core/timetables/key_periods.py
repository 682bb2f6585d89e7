"""Mappers of single partition keys: the key itself, a fixed one, or the period that contains the instant of a key.

Their combinations, and what mappers are for: key_mappers.py. Source: the semantics reference, section 37.2.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta, tzinfo
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec
from msgspec.structs import force_setattr

from aiosched.core.timetables.interval import zone_field
from aiosched.core.timetables.key_formats import (
    DEFAULT_FORMAT,
    QUARTER,
    check_format,
    format_key,
    instant_at,
    read_instant,
    read_period,
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
class StoredMapper(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind"):
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


class IdentityMapper(StoredMapper, frozen=True, tag="identity"):
    """The key itself. The run also takes over the partition date of the event."""

    def to_downstream(self, key: str) -> str:
        return key


class AllowedKeyMapper(StoredMapper, frozen=True, tag="allowed"):
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


class FixedKeyMapper(StoredMapper, frozen=True, tag="fixed"):
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


class PeriodMapper(StoredMapper, frozen=True, kw_only=True):
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
        return instant_at(self.decode_downstream(downstream_key), self.timezone).astimezone(UTC)


class StartOfHourMapper(PeriodMapper, frozen=True, tag="hour"):
    """The hour: `2024-03-13T10`."""

    default_output_format: ClassVar[str] = "%Y-%m-%dT%H"

    def normalize(self, dt: datetime) -> datetime:
        return dt.replace(minute=0, second=0, microsecond=0)


class StartOfDayMapper(PeriodMapper, frozen=True, tag="day"):
    """The day: `2024-03-13`."""

    default_output_format: ClassVar[str] = "%Y-%m-%d"

    def normalize(self, dt: datetime) -> datetime:
        return _midnight(dt)


class StartOfWeekMapper(PeriodMapper, frozen=True, tag="week"):
    """The Monday of the week, with its ISO number: `2024-03-11 (W11)`."""

    default_output_format: ClassVar[str] = "%Y-%m-%d (W%V)"

    def normalize(self, dt: datetime) -> datetime:
        return _midnight(dt - timedelta(days=dt.weekday()))


class StartOfMonthMapper(PeriodMapper, frozen=True, tag="month"):
    """The month: `2024-03`."""

    default_output_format: ClassVar[str] = "%Y-%m"

    def normalize(self, dt: datetime) -> datetime:
        return _midnight(dt).replace(day=1)


class StartOfQuarterMapper(PeriodMapper, frozen=True, tag="quarter"):
    """The quarter: `2024-Q1`."""

    default_output_format: ClassVar[str] = f"%Y-Q{QUARTER}"

    def normalize(self, dt: datetime) -> datetime:
        return _midnight(dt).replace(month=(dt.month - 1) // 3 * 3 + 1, day=1)


class StartOfYearMapper(PeriodMapper, frozen=True, tag="year"):
    """The year: `2024`."""

    default_output_format: ClassVar[str] = "%Y"

    def normalize(self, dt: datetime) -> datetime:
        return _midnight(dt).replace(month=1, day=1)


def _midnight(at: datetime) -> datetime:
    return at.replace(hour=0, minute=0, second=0, microsecond=0)
