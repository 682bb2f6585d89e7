"""How much each owned partition has to do: measured about once a second, published with the lease.

What is shared by it: ownership.py. Source: docs/decisions/0057-partitions-by-load.md.
"""

from __future__ import annotations

from collections import Counter

from aiosched.scheduler.session.session import Session


def measure_loads(session: Session) -> list[float | None]:
    """Add what was stored since the last call; the loads to publish, by partition from 0, None for those of others."""
    cache, loads = session.cache, session.env.loads
    stored, cache.stored_rows = cache.stored_rows, Counter()
    loads.add(
        {partition: rows for partition, rows in stored.items() if partition in cache.partitions},
        session.env.clock.monotonic(),
    )
    return loads.published(cache.partitions)
