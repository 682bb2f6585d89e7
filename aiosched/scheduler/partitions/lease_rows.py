"""The 64 rows of `partition_lease`, if somebody edits them by hand.

A scheduler holds in memory what its view of the fleet shows as its own. A row that is missing is inserted again, as
a free partition; a partition that belongs to somebody else is dropped with everything else in memory, and read again
by its owner. Guards keep the rows right until that is noticed. Source: docs/architecture.md, "Rows that people edit".
"""

from __future__ import annotations

import logging

from aiosched.core.values.ids import PARTITIONS
from aiosched.db.statements.ownership import FleetView
from aiosched.db.upkeep.recounts import add_leases
from aiosched.errors import StaleRows
from aiosched.scheduler.session.session import Session

logger: logging.Logger = logging.getLogger(__name__)


async def check_leases(session: Session, view: FleetView) -> bool:
    """Insert missing rows; returns whether there were any. Raises StaleRows if partitions are no longer ours."""
    missing = sorted(set(range(PARTITIONS)) - view.leases.keys())
    if missing:
        await add_leases(session.env.db, missing)
        session.env.metrics.recounted += len(missing)
        logger.warning("the rows of partitions %s were missing: inserted again", ", ".join(map(str, missing)))
    owned = {partition for partition, owner in view.leases.items() if owner == session.env.incarnation}
    lost = session.cache.partitions - owned
    if lost and view.at > session.membership.gained_at:  # otherwise the view is older than what we hold
        raise StaleRows(f"Partitions {', '.join(map(str, sorted(lost)))} no longer belong to this scheduler")
    return bool(missing)
