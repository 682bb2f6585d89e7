"""Timetables without arithmetic."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from aiosched.core.timetables.base import DataInterval, NextRun, Restriction
from datetime import datetime


class NullTimetable(msgspec.Struct, frozen=True, tag_field="kind", tag="none"):
    """Never by itself: manual runs only."""

    periodic: ClassVar[bool] = False
    can_be_scheduled: ClassVar[bool] = False
    active_runs_limit: ClassVar[int | None] = None

    @property
    def summary(self) -> str:
        return "none"

    def validate(self) -> None:
        return None

    def next_run(self, *, last: DataInterval | None, restriction: Restriction, now: datetime) -> NextRun | None:
        return None

    def manual_interval(self, run_after: datetime) -> DataInterval:
        return DataInterval(run_after, run_after)
