"""Runs of partitions: mapping the keys of asset events to runs of owned DAGs, and creating the runs that are due.

Called by the run-creation coroutine. Each step is a transaction of its own, so a pass that is interrupted continues
with the next one; a key has one pending row, and it is deleted with the creation of its run. The decisions are pure
(core/creation/partitions.py). Source: the semantics reference, section 37.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Final, NamedTuple

from aiosched.core.assets.conditions import alias_names
from aiosched.core.creation.partitions import (
    MOST_KEYS,
    KeyRefused,
    carried_date,
    keys_of_runs,
    mapping_digest,
    partition_of_run,
    progress_of,
)
from aiosched.core.creation.run_creation import active_runs_limit
from aiosched.core.timetables.assets import PartitionedAssetTimetable
from aiosched.db.assets import asset_partitions, assets
from aiosched.db.assets.asset_partitions import KeyEvent, MappedEvent, PendingPartition
from aiosched.scheduler.failures.isolation import concerning, for_each_dag
from aiosched.scheduler.memory.cache import OwnedDag
from aiosched.scheduler.runs.asset_runs import run_by_assets
from aiosched.scheduler.runs.new_runs import Creation, chunks, hold, in_parts, most_at_once, store
from aiosched.scheduler.session.session import Session

logger: logging.Logger = logging.getLogger(__name__)

EVENTS_AT_ONCE: Final = 500  # that are mapped in one transaction


class Partitioned(NamedTuple):
    """A DAG with runs for partitions of assets: its schedule, and the digest of the schedule."""

    dag: OwnedDag
    timetable: PartitionedAssetTimetable
    mapping: str

    @property
    def dag_id(self) -> str:
        return self.dag.row.dag_id


def partitioned(dag: OwnedDag) -> Partitioned | None:
    """The DAG, if its schedule is a PartitionedAssetTimetable."""
    timetable = dag.version.spec.timetable
    if not isinstance(timetable, PartitionedAssetTimetable):
        return None
    return Partitioned(dag, timetable, mapping_digest(timetable))


async def create_partitioned_runs(session: Session, partitions: Collection[int], now: datetime) -> None:
    """Map the new events in these partitions and create the runs that are due. Call with `locks.ownership` held."""
    dags = [dag for dag in session.cache.dags.values() if dag.row.partition in partitions]
    owned = [found for dag in dags if (found := partitioned(dag)) is not None]
    if not owned:
        return
    by_id = {one.dag_id: one for one in owned}

    async def work(part: Sequence[Partitioned]) -> None:
        await _map_events(session, part)
        await _create_due(session, part, now)

    await for_each_dag("runs of partitions", owned, lambda one: one.dag_id, work, held=by_id)


async def _map_events(session: Session, owned: Sequence[Partitioned]) -> None:
    """Map the oldest events of these DAGs. If more of them wait, the next pass follows at once."""
    by_id = {one.dag_id: one for one in owned}
    partitions = {one.dag.row.partition for one in owned}
    mappings = {one.dag_id: one.mapping for one in owned}
    settings = session.env.settings
    most = settings.scheduler.partition_mapper_max_downstream_keys
    if not await asset_partitions.are_to_map(session.env.db, mappings):
        return
    async with session.env.side_journal.transaction() as transaction:
        conn = transaction.conn
        await assets.lock_watermarks(conn, by_id)
        await asset_partitions.take_back(conn, mappings)
        events = await asset_partitions.key_events(conn, partitions, by_id, limit=EVENTS_AT_ONCE)
        mapped, refused = map_events(by_id, events, most=most)
        await asset_partitions.mark_refused(conn, refused)
        without = {(dag_id, event_id) for dag_id, event_id, *_ in refused}
        taken = [event for event in events if (event.dag_id, event.event_id) not in without]
        touched = await asset_partitions.put_events(conn, taken, mapped) if taken else {}
        pending = await asset_partitions.read_pending(conn, touched.values())
        aliases = await assets.alias_targets(conn, _aliases(owned))
        await asset_partitions.mark_due(conn, due_of(by_id, pending, aliases))
    for dag_id, _, reason, _ in refused:
        logger.warning("no run follows from an asset event: %s", reason, extra={"dag_id": dag_id})
    if len(events) == EVENTS_AT_ONCE:
        session.cache.work.assets |= partitions
        session.wakeups.creation.wake()


def map_events(
    by_id: Mapping[str, Partitioned], events: Sequence[KeyEvent], *, most: int = MOST_KEYS
) -> tuple[list[MappedEvent], list[tuple[str, int, str, str]]]:
    """The keys of runs that the events belong to, and the events that lead to none, with the reason.

    An event leads to at most `most` runs, unless its mapper says otherwise.
    """
    mapped: list[MappedEvent] = []
    refused: list[tuple[str, int, str, str]] = []
    for event in events:
        owner = by_id[event.dag_id]
        with concerning(event.dag_id, "the mapping of partition keys"):
            date = carried_date(owner.timetable, event.asset, event.date)
            try:
                keys = keys_of_runs(owner.timetable, event.asset, event.key, most=most)
            except KeyRefused as error:
                refused.append((event.dag_id, event.event_id, str(error), owner.mapping))
                continue
            mapped += [MappedEvent(event, key, owner.dag.row.partition, owner.mapping, date) for key in keys]
    return mapped, refused


def due_of(
    by_id: Mapping[str, Partitioned], pending: Sequence[PendingPartition], aliases: Mapping[str, Collection[str]]
) -> list[int]:
    """The ids of the pending keys whose condition is met."""
    found = []
    for one in pending:
        with concerning(one.dag_id, "the condition of a partition"):
            if progress_of(by_id[one.dag_id].timetable, one.key, one.arrived, aliases).is_due:
                found.append(one.id)
    return found


def room_of(dag: OwnedDag) -> int:
    """How many runs of partitions the DAG can get now."""
    row = dag.row
    if row.is_paused or row.is_stale or row.has_import_errors:
        return 0
    active = len(dag.runs.under_way()) + len(dag.runs.queued) + len(dag.runs.starting)
    return max(active_runs_limit(dag.version.spec) - active, 0)


def run_of(owner: Partitioned, pending: PendingPartition) -> Creation | None:
    """The run of a pending key that is due; None if the DAG allows no such runs."""
    partition = partition_of_run(owner.timetable, pending.key, pending.arrived, pending.date)
    return run_by_assets(owner.dag, pending.newest_at, partition)


async def _create_due(session: Session, owned: Sequence[Partitioned], now: datetime) -> None:
    """Create the runs of pending keys that are due, as many as `max_active_runs` leaves room for."""
    by_id = {one.dag_id: one for one in owned}
    rooms = {one.dag_id: (one.dag.row.partition, room) for one in owned if (room := room_of(one.dag))}
    async with session.env.db.acquire() as conn:
        due = await asset_partitions.due_partitions(conn, rooms)
        pending = await asset_partitions.read_pending(conn, [key for keys in due.values() for key in keys])
    found = [(creation, one.id) for one in pending if (creation := run_of(by_id[one.dag_id], one)) is not None]
    ids = {creation.planned.run_id: number for creation, number in found}
    for chunk in chunks(in_parts(creation for creation, _ in found), most_at_once(session.env.settings)):
        async with session.env.side_journal.transaction() as transaction:
            keys = await store(session, transaction.conn, chunk, now)
            stored = zip(chunk, keys, strict=True)
            consumed = [(ids[creation.planned.run_id], key) for creation, key in stored if key is not None]
            await asset_partitions.consume_partitions(transaction.conn, consumed)
        session.changed_runs.add_runs(key for key in keys if key is not None)
        hold(session.context, chunk, keys, now)


def _aliases(owned: Sequence[Partitioned]) -> set[str]:
    return {name for one in owned for name in alias_names(one.timetable.assets)}
