"""Which runs follow from asset events with partition keys: the decisions about partitioned DAGs.

An event is mapped to the keys of the runs that it belongs to. A key of a run is *pending* from its first event until
its run is created; it is due when the events that have arrived for it meet the condition of the schedule.

Does not live here: what mappers and windows are (core/timetables), storing events and creating runs
(scheduler/runs/partitioned_runs.py). Source: the semantics reference, section 37.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, NamedTuple

import msgspec

from aiosched.core.assets.conditions import AssetId, is_met, leaves
from aiosched.core.timetables.assets import PartitionedAssetTimetable
from aiosched.core.timetables.base import Partition
from aiosched.core.timetables.custom import CustomTimetable
from aiosched.core.timetables.key_formats import check_key
from aiosched.core.timetables.key_mappers import (
    AnyMapper,
    IdentityMapper,
    RollupMapper,
    keys_of,
)
from aiosched.core.timetables.parse import AnyTimetable
from aiosched.core.timetables.partitions import CronPartitionTimetable, PartitionedAtRuntime
from aiosched.errors import Refused

MOST_KEYS: Final = 1000  # runs that one event may lead to, unless its mapper or a setting says otherwise
_SHOWN: Final = 5  # missing keys that an explanation names

Arrived = Mapping[AssetId, Collection[str]]
"""The keys of the events that have arrived for a pending key, by asset."""


class KeyRefused(ValueError):
    """No run follows from an event. The text says why."""


def mapping_digest(timetable: PartitionedAssetTimetable) -> str:
    """Identifies the condition and the mappers: what was mapped by others is mapped again."""
    return hashlib.sha256(msgspec.json.encode(timetable, order="sorted")).hexdigest()[:16]


def keys_of_runs(timetable: PartitionedAssetTimetable, asset: AssetId, key: str, *, most: int = MOST_KEYS) -> list[str]:
    """The keys of the runs to which an event of the asset with this key belongs: at most `most`, or as its mapper says.

    Raises KeyRefused for a key that the mapper does not take, and for one that leads to too many runs.
    """
    mapper = timetable.mapper_of(asset)
    name = type(mapper).__name__
    try:
        found = keys_of(mapper, key)
        for one in found:
            check_key(one)
    except (ValueError, TypeError, OverflowError) as error:
        raise KeyRefused(f"{name} cannot map the key {key!r} of asset {asset.name}: {error}") from error
    most = mapper.max_downstream_keys or most
    if len(found) > most:
        raise KeyRefused(
            f"{name} maps the key {key!r} of asset {asset.name} to {len(found)} runs, more than "
            f"max_downstream_keys={most}"
        )
    return found


def carried_date(timetable: PartitionedAssetTimetable, asset: AssetId, date: datetime | None) -> datetime | None:
    """The partition date that a run takes over from an event: only with the event's own key, unchanged."""
    return date if isinstance(timetable.mapper_of(asset), IdentityMapper) else None


class AssetProgress(NamedTuple):
    """What has arrived of one asset for a pending key: `arrived` of `needed` keys, and some that are missing."""

    asset: AssetId
    arrived: int
    needed: int
    missing: tuple[str, ...] = ()
    problem: str | None = None  # why it can never be enough

    @property
    def is_enough(self) -> bool:
        return self.problem is None and self.arrived >= self.needed

    def __str__(self) -> str:
        if self.problem is not None:
            return f"{self.asset.name}: {self.problem}"
        text = f"{self.arrived} of {self.needed} keys of {self.asset.name}"
        if self.is_enough or not self.missing:
            return text
        return f"{text} (missing: {', '.join(self.missing[:_SHOWN])}{' …' if len(self.missing) > _SHOWN else ''})"


@dataclass(frozen=True, slots=True)
class PartitionProgress:
    """How far a pending key is."""

    key: str
    is_due: bool
    assets: tuple[AssetProgress, ...]

    def waits_for(self, condition: object) -> str:
        """What it waits for, as text."""
        return f"{self.key} waits for {condition}: {', '.join(map(str, self.assets))}"


def progress_of(
    timetable: PartitionedAssetTimetable, key: str, arrived: Arrived, aliases: Mapping[str, Collection[str]]
) -> PartitionProgress:
    """Whether the run of `key` is due, by the events that have arrived for it.

    An asset counts when one of its events has arrived; with a RollupMapper when as many keys of the window have as its
    wait policy needs. `aliases` are as in `is_met`. Source: the semantics reference, section 37.3.
    """
    found = [_progress(timetable.mapper_of(asset), asset, key, set(keys)) for asset, keys in sorted(arrived.items())]
    enough = [one.asset for one in found if one.is_enough]
    return PartitionProgress(key, is_met(timetable.assets, enough, aliases), tuple(found))


def _progress(mapper: AnyMapper, asset: AssetId, key: str, arrived: set[str]) -> AssetProgress:
    if not isinstance(mapper, RollupMapper):
        return AssetProgress(asset, len(arrived), 1)
    try:
        window = mapper.to_upstream(key)
    except (ValueError, TypeError, OverflowError) as error:
        return AssetProgress(asset, len(arrived), 1, problem=f"its window of {key!r} cannot be computed: {error}")
    needed, here = mapper.wait_policy.needed(len(window)), len(arrived & window)
    if needed > len(window):
        problem = f"{needed} keys are needed, but the window of {key!r} has only {len(window)}"
        return AssetProgress(asset, here, needed, problem=problem)
    return AssetProgress(asset, here, needed, tuple(sorted(window - arrived)))


def partition_of_run(
    timetable: PartitionedAssetTimetable, key: str, assets: Iterable[AssetId], carried: datetime | None
) -> Partition:
    """The partition of a run: the date is that which its mappers read from the key, if they agree.

    Where none of them reads one, it is the one that the events have carried.
    """
    dates = _dates({timetable.mapper_of(asset) for asset in assets}, key)
    if not dates:
        return Partition(key, carried)
    return Partition(key, dates.pop() if len(dates) == 1 else None)


def _dates(mappers: Iterable[AnyMapper], key: str) -> set[datetime]:
    found = set()
    for mapper in mappers:
        try:
            date = mapper.to_partition_date(key)
        except (ValueError, OverflowError):  # a key without that format has no date
            continue
        if date is not None:
            found.add(date.astimezone(UTC))
    return found


def is_partitioned(timetable: AnyTimetable) -> bool:
    """Whether runs of the schedule are about partitions."""
    if isinstance(timetable, CustomTimetable):
        return timetable.partitioned_at_runtime
    return isinstance(timetable, (CronPartitionTimetable, PartitionedAtRuntime, PartitionedAssetTimetable))


def manual_partition(dag_id: str, timetable: AnyTimetable, key: str) -> Partition:
    """The partition of a run that is triggered with this key. Raises Refused for a key that the schedule cannot have.

    Source: the semantics reference, section 37.4.
    """
    if not is_partitioned(timetable):
        raise Refused(
            f"DAG {dag_id!r} has no partitions, so a run of it takes no partition key; leave it out, or give the DAG "
            "a schedule such as PartitionedAtRuntime()."
        )
    try:
        check_key(key)
        if isinstance(timetable, CronPartitionTimetable):
            return Partition(key, timetable.date_of(key))
        if isinstance(timetable, PartitionedAssetTimetable):
            assets = (AssetId(leaf.name, getattr(leaf, "uri", "")) for leaf in leaves(timetable.assets))
            mappers = {timetable.mapper_of(asset) for asset in assets}
            dates = {date for mapper in mappers if (date := mapper.to_partition_date(key)) is not None}
            return Partition(key, dates.pop().astimezone(UTC) if len(dates) == 1 else None)
    except (ValueError, OverflowError) as error:
        raise Refused(f"The partition key {key!r} does not suit the schedule of DAG {dag_id!r}: {error}.") from error
    return Partition(key)
