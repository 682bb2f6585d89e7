"""Timetables of runs that produce partitions: by the clock, or with keys that are known only at run time.

Source: the semantics reference, section 37.1.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo
from typing import TYPE_CHECKING, ClassVar

import msgspec

from aiosched.core.timetables.base import DataInterval, NextRun, Partition, Restriction, StoredTimetable
from aiosched.core.timetables.key_formats import DEFAULT_FORMAT, check_format, format_key, read_instant
from aiosched.core.timetables.trigger import CronTriggerTimetable
from aiosched.core.timetables.zones import zone
from aiosched.errors import TimetableError


class CronPartitionTimetable(CronTriggerTimetable, frozen=True, kw_only=True, omit_defaults=True, tag="cron_partition"):
    """Runs at the ticks of a cron expression, each about the partition of one tick.

        CronPartitionTimetable("0 2 * * *", timezone="Europe/Amsterdam", run_offset=-1, key_format="%Y-%m-%d")

    `run_offset` is the distance in ticks from the run to its partition: 0 that of the run itself, -1 the tick before.
    The key is the partition's tick on the wall clock of `timezone`, in `key_format` (as of `strftime`).
    """

    run_offset: int = 0
    key_format: str = DEFAULT_FORMAT

    if TYPE_CHECKING:

        def __init__(
            self,
            cron: str,
            *,
            timezone: str | tzinfo,
            run_offset: int | None = ...,
            run_immediately: bool | float | timedelta = ...,
            key_format: str = ...,
        ) -> None: ...

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.run_offset is None:
            msgspec.structs.force_setattr(self, "run_offset", 0)

    def validate(self) -> None:
        """Raise TimetableError if the expression, the zone, the offset or the format of the keys is invalid."""
        super().validate()
        if isinstance(self.run_offset, bool) or not isinstance(self.run_offset, int):
            raise TimetableError(f"run_offset={self.run_offset!r} is wrong: give a number of ticks, such as -1.")
        try:
            check_format(self.key_format)
        except ValueError as error:
            raise TimetableError(f"key_format={self.key_format!r} cannot be used: {error}") from None

    def next_run(self, *, last: DataInterval | None, restriction: Restriction, now: datetime) -> NextRun | None:
        run = super().next_run(last=last, restriction=restriction, now=now)
        return None if run is None else run._replace(partition=self.partition_at(run.run_after))

    def partition_at(self, tick: datetime) -> Partition:
        """The partition of the run at this tick."""
        at = tick
        for _ in range(abs(self.run_offset)):
            at = self.clock.next_tick(at) if self.run_offset > 0 else self.clock.prev_tick(at)
        return Partition(format_key(at.astimezone(zone(self.timezone)), self.key_format), at.astimezone(UTC))

    def date_of(self, key: str) -> datetime:
        """The instant that a key stands for. Raises ValueError for one that does not have the format."""
        return read_instant(key, self.key_format, self.timezone).astimezone(UTC)


class PartitionedAtRuntime(StoredTimetable, frozen=True, tag="partitioned_at_runtime"):
    """Manual runs only; their tasks, or whoever triggers them, choose the keys of the partitions."""

    periodic: ClassVar[bool] = False
    can_be_scheduled: ClassVar[bool] = False

    @property
    def summary(self) -> str:
        return "partitioned at runtime"
