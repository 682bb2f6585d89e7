"""The facts about the partitions of a DAG for its explanation, read from the rows."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from aiosched.core.creation.partitions import progress_of
from aiosched.core.timetables import PartitionedAssetTimetable
from aiosched.core.why.dag import MOST_SHOWN, PartitionFacts
from aiosched.db.assets import asset_partitions
from aiosched.db.server.connection import DatabaseConnection


async def partition_facts(
    conn: DatabaseConnection,
    dag_id: str,
    timetable: PartitionedAssetTimetable,
    aliases: Mapping[str, Collection[str]],
) -> PartitionFacts:
    """What the newest pending keys of the DAG wait for, and which events led to no run."""
    due = await asset_partitions.count_due(conn, dag_id)
    pending = await asset_partitions.pending_of_dag(conn, dag_id, limit=MOST_SHOWN)
    progress = [progress_of(timetable, one.key, one.arrived, aliases) for one in pending]
    refused, reason = await asset_partitions.refused_of_dag(conn, dag_id)
    return PartitionFacts(tuple(one for one in progress if not one.is_due), due, refused, reason)
