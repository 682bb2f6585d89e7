"""The partitions of an asset for people: what events and runs of its producers say of each. No decisions here."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from aiosched.core.values.states import RunState
from aiosched.db.access.visibility import Seen
from aiosched.db.server.engine import Database

MOST_EVENTS: Final = 10_000  # newest ones of an asset that are looked at
MOST_RUNS: Final = 1_000  # newest ones of each producer


@dataclass(frozen=True, slots=True)
class PartitionRow:
    """A partition of an asset, its newest event, and the newest run of a producer about it.

    `state` is that of the run; None: only events, or a run that is not seen, tell of it.
    """

    key: str
    last_event_at: datetime | None
    events: int
    dag_id: str | None = None
    run_id: str | None = None
    state: str | None = None

    @property
    def is_made(self) -> bool:
        """Whether it was produced, and no later run has failed or goes on."""
        return self.last_event_at is not None and self.state in (None, RunState.SUCCESS)


@dataclass(frozen=True, slots=True)
class AssetPartitions:
    """The partitions of an asset by key; not `is_complete`: there are older events or runs than were looked at."""

    partitions: list[PartitionRow]
    is_complete: bool


# Index: uq_asset_name, ix_asset_event_asset_id_timestamp backwards.
EVENTS: Final = """
    SELECT partition_key AS key, max(timestamp) AS last_event_at, count(*)::int AS events,
           (sum(count(*)) OVER ())::int AS seen
      FROM (SELECT e.partition_key, e.timestamp FROM asset_event AS e
             WHERE e.asset_id = (SELECT id FROM asset WHERE name = $1)
             ORDER BY e.timestamp DESC, e.id DESC LIMIT $2) AS newest
     GROUP BY partition_key
"""
# Index: ix_dag_run_dag_id_run_after_id backwards, for each producer.
RUNS: Final = """
    SELECT DISTINCT ON (r.partition_key) r.partition_key AS key, d.dag_id, r.run_id, r.state, r.number
      FROM unnest($1::text[]) AS d (dag_id)
     CROSS JOIN LATERAL (
           SELECT id, run_id, partition_key, state, run_after, row_number() OVER (ORDER BY run_after DESC) AS number
             FROM dag_run WHERE dag_id = d.dag_id ORDER BY run_after DESC, id DESC LIMIT $2
     ) AS r
     WHERE r.partition_key IS NOT NULL
     ORDER BY r.partition_key, r.id DESC
"""


async def partitions_of(db: Database, name: str, producers: Collection[str], *, seen: Seen = None) -> AssetPartitions:
    """The partitions of the asset `name`: those with events, and those that runs of `producers` that are `seen` were
    about."""
    known = [dag_id for dag_id in producers if seen is None or dag_id in seen]
    async with db.acquire() as conn:
        events = await conn.fetch(EVENTS, name, MOST_EVENTS)
        runs = {row["key"]: row for row in await conn.fetch(RUNS, known, MOST_RUNS)}
    found = {
        row["key"]: PartitionRow(row["key"], row["last_event_at"], row["events"])
        for row in events
        if row["key"] is not None
    }
    for key, run in runs.items():
        told = found.get(key) or PartitionRow(key, None, 0)
        found[key] = PartitionRow(key, told.last_event_at, told.events, run["dag_id"], run["run_id"], run["state"])
    is_complete = all(row["seen"] < MOST_EVENTS for row in events) and all(
        row["number"] < MOST_RUNS for row in runs.values()
    )
    return AssetPartitions([found[key] for key in sorted(found)], is_complete)
