"""Timetables by assets: runs by asset events, and runs by both time and asset events.

`next_run` does not consider asset runs: they are created when the condition is met (core/assets/conditions.py).
Source: the semantics reference, sections 11.1 and 11.5.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, runtime_checkable

import msgspec
from msgspec.structs import force_setattr

from aiosched.core.assets.conditions import AllRequired, AnyRequired, AssetExpression, leaves
from aiosched.core.timetables.base import DataInterval, NextRun, Restriction
from aiosched.core.timetables.custom import CustomTimetable
from aiosched.core.timetables.interval import CronDataIntervalTimetable, DeltaDataIntervalTimetable
from aiosched.core.timetables.simple import ContinuousTimetable, EventsTimetable, NullTimetable, OnceTimetable
from aiosched.core.timetables.trigger import (
    CronTriggerTimetable,
    DeltaTriggerTimetable,
    MultipleCronTriggerTimetable,
)
from aiosched.errors import TimetableError

TimedTimetable = (
    NullTimetable
    | OnceTimetable
    | ContinuousTimetable
    | CronDataIntervalTimetable
    | DeltaDataIntervalTimetable
    | CronTriggerTimetable
    | MultipleCronTriggerTimetable
    | DeltaTriggerTimetable
    | EventsTimetable
    | CustomTimetable
)
"""Every timetable that follows the clock."""


@runtime_checkable
class StandsForAssets(Protocol):
    """What authors write: an asset, an alias, or an expression of them."""

    def to_expression(self) -> AssetExpression: ...


class AssetTriggeredTimetable(msgspec.Struct, frozen=True, tag_field="kind", tag="assets"):
    """`schedule=[orders, customers]`: a run whenever the condition on assets is met, never by time."""

    condition: AssetExpression

    periodic: ClassVar[bool] = False
    can_be_scheduled: ClassVar[bool] = True
    active_runs_limit: ClassVar[int | None] = None

    @property
    def summary(self) -> str:
        return str(self.condition)

    def validate(self) -> None:
        """Raise TimetableError for a condition without assets."""
        _check(self.condition)

    def next_run(self, *, last: DataInterval | None, restriction: Restriction, now: datetime) -> NextRun | None:
        return None

    def manual_interval(self, run_after: datetime) -> DataInterval:
        at = run_after.astimezone(UTC)
        return DataInterval(at, at)


class AssetOrTimeSchedule(msgspec.Struct, frozen=True, tag_field="kind", tag="asset_or_time"):
    """Runs by `timetable`, and asset runs in addition: `AssetOrTimeSchedule(timetable="@daily", assets=orders)`.

    `timetable` is a timetable, or a string or timedelta as `DAG(schedule=…)` takes it; `assets` an
    asset, a list (all of them) or an expression. The asset runs do not move the timetable.
    """

    timetable: TimedTimetable
    assets: AssetExpression

    if TYPE_CHECKING:

        def __init__(self, timetable: Any, assets: Any) -> None: ...

    def __post_init__(self) -> None:
        if not isinstance(self.assets, AssetExpression):
            condition = asset_condition(self.assets)
            if condition is None:
                raise TimetableError(
                    f"AssetOrTimeSchedule(assets={self.assets!r}) names no assets; give an Asset, a list of them, "
                    "or an expression such as a | b."
                )
            force_setattr(self, "assets", condition)

    @property
    def periodic(self) -> bool:
        return self.timetable.periodic

    @property
    def can_be_scheduled(self) -> bool:
        return True

    @property
    def active_runs_limit(self) -> int | None:
        return self.timetable.active_runs_limit

    @property
    def summary(self) -> str:
        return f"{self.timetable.summary} or {self.assets}"

    def validate(self) -> None:
        """Raise TimetableError if the timetable is invalid or there are no assets."""
        self.timetable.validate()
        _check(self.assets)

    def next_run(self, *, last: DataInterval | None, restriction: Restriction, now: datetime) -> NextRun | None:
        return self.timetable.next_run(last=last, restriction=restriction, now=now)

    def manual_interval(self, run_after: datetime) -> DataInterval:
        return self.timetable.manual_interval(run_after)


def condition_of(timetable: object) -> AssetExpression | None:
    """The condition on assets under which a timetable creates runs; None if it follows only the clock."""
    if isinstance(timetable, AssetTriggeredTimetable):
        return timetable.condition
    return timetable.assets if isinstance(timetable, AssetOrTimeSchedule) else None


def asset_condition(schedule: object) -> AssetExpression | None:
    """The condition for a `schedule` that is an asset, an expression, or a list (all of them); None for anything else.

    Raises TimetableError for an empty list, and for a list with anything else.
    """
    if isinstance(schedule, AssetExpression):
        return schedule
    if isinstance(schedule, StandsForAssets):
        return schedule.to_expression()
    if isinstance(schedule, (list, tuple, set, frozenset)):
        members = [asset_condition(member) for member in schedule]
        if not members:
            raise TimetableError("schedule=[] is not a schedule; list the assets, or write schedule=None.")
        if wrong := [item for item, member in zip(schedule, members, strict=True) if member is None]:
            raise TimetableError(f"{wrong[0]!r} in a list as schedule is not an asset; write Asset({wrong[0]!r}).")
        known = [member for member in members if member is not None]
        if isinstance(schedule, (set, frozenset)):  # two parses give the same spec
            known.sort(key=str)
        return known[0] if len(known) == 1 else AllRequired(tuple(known))
    return None


def _check(condition: AssetExpression) -> None:
    if next(leaves(condition), None) is None:
        raise TimetableError("A condition without assets is never met; name some, or use schedule=None.")
    if isinstance(condition, (AllRequired, AnyRequired)):
        for member in condition.members:
            _check(member)
