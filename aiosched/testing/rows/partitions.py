"""Events with partition keys of a `World`, and the keys of runs to which they lead, in place of the tables."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from aiosched.core.assets.conditions import AssetId, is_met, leaves
from aiosched.core.timetables.assets import PartitionedAssetTimetable
from aiosched.db.assets.asset_partitions import KeyEvent, MappedEvent, PendingPartition
from aiosched.db.statements.assets import NewAssetEvent
from aiosched.db.statements.runs import DagRow, StoredVersion
from aiosched.scheduler.runs.new_runs import Creation
from aiosched.scheduler.runs.partitioned_runs import Partitioned, due_of, map_events, room_of, run_of

Aliases = Mapping[str, Collection[str]]


@dataclass(slots=True)
class _Pending:
    """A key of a run: its events, the digest of the schedule that mapped them, and the date that they carry."""

    number: int
    mapping: str
    events: list[KeyEvent] = field(default_factory=list)
    date: datetime | None = None

    def add(self, mapped: MappedEvent) -> None:
        self.events.append(mapped.event)
        if mapped.date is not None and self.date is not None and mapped.date != self.date:
            self.date = None
        else:
            self.date = self.date or mapped.date


@dataclass(slots=True)
class PartitionRows:
    """By DAG id: the events to be mapped, those refused (with reason and digest), the pending keys."""

    waiting: dict[str, list[KeyEvent]] = field(default_factory=dict)
    refused: dict[str, list[tuple[KeyEvent, str, str]]] = field(default_factory=dict)
    pending: dict[str, dict[str, _Pending]] = field(default_factory=dict)
    _had_runs: set[tuple[str, int, str]] = field(default_factory=set)  # (DAG id, event, key)
    _number: int = 0

    def record(
        self, position: int, event: NewAssetEvent, dags: Iterable[DagRow], versions: dict[int, StoredVersion],
        aliases: Aliases,
    ) -> None:  # fmt: skip
        """An event with a key waits to be mapped for the DAGs whose runs are of partitions of its asset."""
        asset = AssetId(event.name, event.uri)
        for row in dags:
            timetable = versions[row.version_id].spec.timetable
            if row.is_paused or row.is_stale or not isinstance(timetable, PartitionedAssetTimetable):
                continue
            if any(is_met(leaf, [asset], aliases) for leaf in leaves(timetable.assets)):
                key = event.partition_key or ""
                waits = KeyEvent(row.dag_id, position, asset, key, event.partition_date, event.timestamp)
                self.waiting.setdefault(row.dag_id, []).append(waits)

    def ready(self, owner: Partitioned, aliases: Aliases) -> list[tuple[str, Creation]]:
        """Map the events of a DAG; the runs that are due and for which it has room, with their keys."""
        self._map(owner)
        pending = [self._as_read(owner.dag_id, key, one) for key, one in self.pending.get(owner.dag_id, {}).items()]
        due = set(due_of({owner.dag_id: owner}, pending, aliases))
        chosen = sorted((one for one in pending if one.id in due), key=lambda one: (one.newest_at, one.id))
        runs = [(one.key, run_of(owner, one)) for one in chosen[: room_of(owner.dag)]]
        return [(key, run) for key, run in runs if run is not None]

    def consume(self, dag_id: str, key: str) -> list[int]:
        """The run of the key exists: the positions of its events."""
        events = self.pending[dag_id].pop(key).events
        self._had_runs |= {(dag_id, event.event_id, key) for event in events}
        return sorted({event.event_id for event in events})

    def forget(self, dag_id: str) -> None:
        """The schedule of the DAG has no partitions (any more)."""
        for rows in (self.waiting, self.refused, self.pending):
            rows.pop(dag_id, None)

    def _map(self, owner: Partitioned) -> None:
        dag_id = owner.dag_id
        events = {event.event_id: event for event in self.waiting.pop(dag_id, [])}
        pending, refused = self.pending.setdefault(dag_id, {}), self.refused.setdefault(dag_id, [])
        for key in [key for key, one in pending.items() if one.mapping != owner.mapping]:
            events |= {event.event_id: event for event in pending.pop(key).events}
        events |= {event.event_id: event for event, _, mapping in refused if mapping != owner.mapping}
        refused[:] = [one for one in refused if one[2] == owner.mapping]
        mapped, without = map_events({dag_id: owner}, [events[number] for number in sorted(events)])
        refused += [(events[number], reason, mapping) for _, number, reason, mapping in without]
        for one in mapped:
            if (dag_id, one.event.event_id, one.key) in self._had_runs:
                continue
            if one.key not in pending:
                self._number += 1
                pending[one.key] = _Pending(self._number, owner.mapping)
            pending[one.key].add(one)

    def _as_read(self, dag_id: str, key: str, one: _Pending) -> PendingPartition:
        arrived: dict[AssetId, Collection[str]] = {}
        for event in one.events:
            arrived[event.asset] = {*arrived.get(event.asset, ()), event.key}
        return PendingPartition(one.number, dag_id, key, one.date, max(event.at for event in one.events), arrived)
