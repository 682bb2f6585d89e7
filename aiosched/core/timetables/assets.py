"""Timetables by assets: runs by asset events, by those of one partition, and by both time and asset events.

`next_run` does not consider asset runs: they are created when the condition is met (core/assets/conditions.py).
Source: the semantics reference, sections 11.1, 11.5 and 37.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, runtime_checkable

import msgspec
from msgspec.structs import force_setattr

from aiosched.core.assets.conditions import (
    AliasRequired,
    AllRequired,
    AnyRequired,
    AssetExpression,
    AssetId,
    Leaf,
    leaves,
)
from aiosched.core.timetables.base import DataInterval, NextRun, Restriction, StoredTimetable
from aiosched.core.timetables.custom import CustomTimetable
from aiosched.core.timetables.interval import CronDataIntervalTimetable, DeltaDataIntervalTimetable
from aiosched.core.timetables.key_mappers import AnyMapper, IdentityMapper, check_mapper
from aiosched.core.timetables.partitions import CronPartitionTimetable, PartitionedAtRuntime
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
    | CronPartitionTimetable
    | PartitionedAtRuntime
)
"""Every timetable that follows the clock."""


@runtime_checkable
class StandsForAssets(Protocol):
    """What authors write: an asset, an alias, or an expression of them."""

    def to_expression(self) -> AssetExpression: ...


class AssetTriggeredTimetable(StoredTimetable, frozen=True, tag="assets"):
    """`schedule=[orders, customers]`: a run whenever the condition on assets is met, never by time."""

    condition: AssetExpression

    periodic: ClassVar[bool] = False

    @property
    def asset_condition(self) -> AssetExpression:
        """Airflow's name of the condition."""
        return self.condition

    @property
    def summary(self) -> str:
        return str(self.condition)

    def validate(self) -> None:
        """Raise TimetableError for a condition without assets."""
        _check(self.condition)


class MappedAsset(msgspec.Struct, frozen=True):
    """The mapper for the keys of one asset of a condition."""

    asset: Leaf
    mapper: AnyMapper


class PartitionedAssetTimetable(
    StoredTimetable, frozen=True, kw_only=True, omit_defaults=True, tag="partitioned_assets"
):
    """A run for each partition whose events meet the condition.

        PartitionedAssetTimetable(assets=orders & customers, default_partition_mapper=StartOfDayMapper())

    `assets` is an asset, a list (all of them) or an expression; `partition_mapper_config` has the mappers of single
    assets, by asset, `default_partition_mapper` that of all others. Only events with a partition key count.
    """

    assets: AssetExpression
    partition_mapper_config: tuple[MappedAsset, ...] = ()
    default_partition_mapper: AnyMapper = IdentityMapper()

    periodic: ClassVar[bool] = False

    if TYPE_CHECKING:

        def __init__(
            self,
            *,
            assets: Any,
            partition_mapper_config: Mapping[Any, AnyMapper] | None = ...,
            default_partition_mapper: AnyMapper = ...,
        ) -> None: ...

    def __post_init__(self) -> None:
        where = "PartitionedAssetTimetable"
        if not isinstance(self.assets, AssetExpression):
            force_setattr(self, "assets", _condition_for(where, self.assets))
        config = self.partition_mapper_config or ()
        if isinstance(config, Mapping):
            given = [(_condition_for(where, asset), mapper) for asset, mapper in config.items()]
            for _, mapper in given:
                check_mapper(mapper, where)
            config = tuple(MappedAsset(leaf, mapper) for condition, mapper in given for leaf in leaves(condition))
        force_setattr(self, "partition_mapper_config", config)
        check_mapper(self.default_partition_mapper, where)

    @property
    def summary(self) -> str:
        return f"partitions of {self.assets}"

    def validate(self) -> None:
        """Raise TimetableError for a condition without assets, and for a mapper of an alias."""
        _check(self.assets)
        for one in self.partition_mapper_config:
            if isinstance(one.asset, AliasRequired):
                raise TimetableError(f"The {one.asset} has a partition mapper: give it to the assets it stands for.")

    def mapper_of(self, asset: AssetId) -> AnyMapper:
        """The mapper for the keys of an asset: by its name, then by its URI, else the default."""
        for kind in ("name", "uri"):
            wanted = getattr(asset, kind)
            for one in self.partition_mapper_config:
                if wanted and getattr(one.asset, kind, "") == wanted:
                    return one.mapper
        return self.default_partition_mapper


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
            force_setattr(self, "assets", _condition_for("AssetOrTimeSchedule", self.assets))

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
    return timetable.assets if isinstance(timetable, (AssetOrTimeSchedule, PartitionedAssetTimetable)) else None


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


def _condition_for(where: str, assets: object) -> AssetExpression:
    condition = asset_condition(assets)
    if condition is None:
        raise TimetableError(
            f"{where}(assets={assets!r}) names no assets; give an Asset, a list of them, or an expression such as "
            "a | b."
        )
    return condition


def _check(condition: AssetExpression) -> None:
    if next(leaves(condition), None) is None:
        raise TimetableError("A condition without assets is never met; name some, or use schedule=None.")
    if isinstance(condition, (AllRequired, AnyRequired)):
        for member in condition.members:
            _check(member)
