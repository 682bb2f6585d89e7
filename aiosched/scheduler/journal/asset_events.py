"""Storing asset events: those of tasks that succeeded, those of asset watchers, and those that people emit.

Source: the semantics reference, sections 15.1 and 15.2.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from datetime import datetime

from aiosched.core.values.messages import Report
from aiosched.db.assets.assets import NewAssetEvent, record_events
from aiosched.db.server.connection import DatabaseConnection

logger: logging.Logger = logging.getLogger(__name__)


def events_of(report: Report, dag_id: str, now: datetime) -> Iterable[NewAssetEvent]:
    """The events of a task's success, to be stored with it."""
    key = report.key
    for touch in report.assets:
        yield NewAssetEvent(
            touch.name, touch.uri, touch.extra, touch.alias, now, dag_id, key.run, key.task_index, key.map_index,
            touch.partition_key, touch.partition_date,
        )  # fmt: skip


async def store_events(conn: DatabaseConnection, events: Sequence[NewAssetEvent]) -> frozenset[int]:
    """Store events in the open transaction; returns the partitions of the DAGs that they were queued for.

    Events of assets that no DAG mentions any more are dropped with a warning.
    """
    recorded = await record_events(conn, events)
    for name in recorded.refused:
        logger.warning("no event for the asset %r: no DAG mentions it any more", name)
    return recorded.partitions
