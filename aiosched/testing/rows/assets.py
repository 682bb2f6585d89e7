"""Asset events of a `World`, their queues by DAG, and what checks said, in place of the tables (db/assets)."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from aiosched.core.assets.conditions import (
    AliasRequired,
    AssetId,
    QueuedAsset,
    ReferenceRequired,
    consumed_after,
    is_met,
    leaves,
    triggering_instant,
    why_not_triggered,
)
from aiosched.core.graph.spec import DagSpec, asset_references
from aiosched.core.timetables.assets import PartitionedAssetTimetable, condition_of
from aiosched.db.assets.assets import NewAssetEvent
from aiosched.db.statements.runs import DagRow, StoredVersion
from aiosched.scheduler.memory.cache import OwnedDag
from aiosched.scheduler.runs.asset_runs import run_by_assets, status_of
from aiosched.scheduler.runs.new_runs import Creation
from aiosched.scheduler.runs.partitioned_runs import Partitioned
from aiosched.testing.rows.partitions import PartitionRows


class WorldCheck(NamedTuple):
    """What one try of a check said of an asset: `status` is pass, warn or fail."""

    asset: str
    dag_id: str
    run_id: str
    task_id: str
    map_index: int
    try_number: int
    status: str
    message: str
    metadata: dict[str, Any]


@dataclass(slots=True)
class AssetQueues:
    """The events, the assets queued for each DAG, and the events that each run has consumed."""

    events: list[NewAssetEvent] = field(default_factory=list)
    waiting: dict[str, dict[str, QueuedAsset]] = field(default_factory=dict)  # by DAG id, then by the asset's name
    aliases: dict[str, set[str]] = field(default_factory=dict)
    consumed: dict[int, list[NewAssetEvent]] = field(default_factory=dict)  # by the key of the run
    checks: list[WorldCheck] = field(default_factory=list)  # what they said
    partitions: PartitionRows = field(default_factory=PartitionRows)
    _of_asset: dict[str, tuple[list[datetime], list[int]]] = field(default_factory=dict)  # instants and positions
    _at_uri: dict[str, set[str]] = field(default_factory=dict)  # names of assets with events
    _first: dict[tuple[str, str], datetime] = field(default_factory=dict)  # first queued event by (DAG id, asset)
    _scheduled_at: dict[str, tuple[datetime, int]] = field(default_factory=dict)  # and how many events there were
    _last_run: dict[str, datetime] = field(default_factory=dict)
    _consumed: dict[str, set[int]] = field(default_factory=dict)  # positions of consumed events by DAG id

    def record(
        self, events: Iterable[NewAssetEvent], dags: Iterable[DagRow], versions: dict[int, StoredVersion]
    ) -> None:
        """Queue events for the DAGs whose conditions they match; an asset that is queued already becomes newer.

        For paused or stale DAGs nothing is queued (15.2), but their next run still consumes the events. An event with
        a partition key concerns only DAGs with partitions, and the other way round (37.1).
        """
        awake = [row for row in dags if not (row.is_paused or row.is_stale)]
        timetables = {row.dag_id: versions[row.version_id].spec.timetable for row in awake}
        conditions = {
            dag_id: None if isinstance(timetable, PartitionedAssetTimetable) else condition_of(timetable)
            for dag_id, timetable in timetables.items()
        }
        for event in events:
            if event.partition_key is not None:
                self.events.append(event)
                self._note_alias(event)
                self.partitions.record(len(self.events) - 1, event, awake, versions, self.aliases)
                continue
            times, positions = self._of_asset.setdefault(event.name, ([], []))
            times.append(event.timestamp)
            positions.append(len(self.events))
            self.events.append(event)
            self._at_uri.setdefault(event.uri, set()).add(event.name)
            asset = AssetId(event.name, event.uri)
            self._note_alias(event)
            for dag_id, condition in conditions.items():
                if condition is None or not any(is_met(leaf, [asset], self.aliases) for leaf in leaves(condition)):
                    continue
                queued = QueuedAsset(len(self.events), asset, event.timestamp)
                self.waiting.setdefault(dag_id, {})[asset.name] = queued
                self._first.setdefault((dag_id, asset.name), event.timestamp)

    def _note_alias(self, event: NewAssetEvent) -> None:
        if event.alias is not None:
            self.aliases.setdefault(event.alias, set()).add(event.name)

    def ready(self, dag: OwnedDag, number: int) -> Creation | None:
        """The run that the queued events of `dag` trigger now, if any. Its run id has `number` as its suffix."""
        queue = list(self.waiting.get(dag.row.dag_id, {}).values())
        if not queue or why_not_triggered(status_of(dag), queue, self.aliases) is not None:
            return None
        at: datetime = triggering_instant(queue)
        creation = run_by_assets(dag, at)
        if creation is None:
            return None
        run_id = f"{creation.planned.run_type}__{at.isoformat()}_{number:08x}"
        return creation._replace(planned=creation.planned._replace(run_id=run_id))

    def ready_partitions(self, owner: Partitioned, number: int) -> list[tuple[str, Creation]]:
        """The runs of partitions of a DAG that are due, with their keys; `number` is that of the next run."""
        found = self.partitions.ready(owner, self.aliases)
        return [
            (key, run._replace(planned=run.planned._replace(run_id=f"{run.planned.run_id[:-8]}{number + place:08x}")))
            for place, (key, run) in enumerate(found)
        ]

    def consume_partition(self, dag_id: str, key: str, run: int) -> None:
        """The run consumes the events of its partition."""
        self.consumed[run] = [self.events[position] for position in self.partitions.consume(dag_id, key)]

    def consume(self, dag: OwnedDag, run: int | None, until: datetime) -> None:
        """A run (None: it could not be created) consumes the DAG's queue and the events of its window (15.4).

        Of the events at the instant at which the DAG was scheduled, only later ones count.
        """
        dag_id = dag.row.dag_id
        waiting = self.waiting.pop(dag_id, {})
        first = {name: self._first.pop((dag_id, name)) for name in waiting}
        if run is None:
            return
        last, catchup = self._last_run.get(dag_id), dag.version.spec.catchup
        scheduled_at, events_before = self._scheduled_at.get(dag_id, (None, 0))
        after = consumed_after(last, scheduled_at=scheduled_at, catchup=catchup)
        consumed, mine = self._consumed.setdefault(dag_id, set()), set[int]()
        for name in self._names(dag) | waiting.keys():
            times, positions = self._of_asset.get(name, ([], []))
            begin = 0 if after is None else bisect_left(times, after)
            if last is None and after is not None:
                begin = max(begin, bisect_left(positions, events_before))
            if name in first:
                begin = min(begin, bisect_left(times, first[name]))
            mine.update(positions[begin : bisect_right(times, until)])
        mine -= consumed
        consumed |= mine
        self.consumed[run] = [self.events[position] for position in sorted(mine)]
        self._last_run[dag_id] = until

    def _names(self, dag: OwnedDag) -> set[str]:
        """The assets that the DAG is scheduled on; by URI or alias, only those that have had events."""
        found: set[str] = set()
        for leaf in leaves(dag.asset_condition) if dag.asset_condition is not None else ():
            if isinstance(leaf, AliasRequired):
                found |= self.aliases.get(leaf.name, set())
            elif isinstance(leaf, ReferenceRequired) and leaf.uri:
                found |= self._at_uri.get(leaf.uri, set())
            else:
                found.add(leaf.name)
        return found

    def schedule(self, dag_id: str, now: datetime) -> None:
        """The DAG is scheduled on assets: from now on, unless it was already."""
        self._scheduled_at.setdefault(dag_id, (now, len(self.events)))

    def keep(self, dag_id: str, *, partitioned: bool) -> None:
        """Forget what was queued while the schedule of the DAG was of the other kind."""
        if partitioned:
            self._drop_queue(dag_id)
        else:
            self.partitions.forget(dag_id)

    def _drop_queue(self, dag_id: str) -> None:
        for name in self.waiting.pop(dag_id, {}):
            self._first.pop((dag_id, name))

    def unschedule(self, dag_id: str) -> None:
        """The DAG was removed: it is no longer scheduled on assets."""
        self._scheduled_at.pop(dag_id, None)

    def forget(self, dag_id: str) -> None:
        """The DAG is not scheduled on assets (any more): drop its queue (15.3)."""
        self.partitions.forget(dag_id)
        self._drop_queue(dag_id)
        self.unschedule(dag_id)


def is_mentioned(name: str, specs: Iterable[DagSpec]) -> tuple[str | None, list[str]]:
    """The URI of an asset (None: no DAG mentions it), and the names of all mentioned assets."""
    found: dict[str, str] = {}
    for spec in specs:
        for reference in asset_references(spec):
            if reference.kind in ("asset", "name"):
                found[reference.name] = reference.uri or found.get(reference.name, "")
    return found.get(name), sorted(found)


def mentioned_names(specs: Iterable[DagSpec], aliases: Mapping[str, Iterable[str]]) -> set[str]:
    """The names of all mentioned assets, and of those that a mentioned alias resolved to."""
    found: set[str] = set()
    for reference in (ref for spec in specs for ref in asset_references(spec)):
        if reference.kind in ("asset", "name"):
            found.add(reference.name)
        elif reference.kind == "alias":
            found.update(aliases.get(reference.name, ()))
    return found


def names_by_uri(specs: Iterable[DagSpec]) -> dict[str, str]:
    """The names of the assets that are mentioned with a URI, by that URI."""
    return {ref.uri: ref.name for spec in specs for ref in asset_references(spec) if ref.kind == "asset" and ref.uri}
