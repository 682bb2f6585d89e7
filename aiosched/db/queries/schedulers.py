"""The state of the schedulers, and of attempts on engines, for people and schedulers. Read only, no SQLAlchemy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from aiosched.core.values.figures import read_figures
from aiosched.db.server.connection import DatabaseConnection
from aiosched.db.server.engine import Database
from aiosched.db.statements.ownership import FleetView, read_fleet


@dataclass(frozen=True, slots=True)
class SchedulerRow:
    """One incarnation. `lease_age` is seconds since its last renewal, by the database's clock.

    `alive`: its process is connected and its lease has not expired.
    """

    incarnation: int
    name: str
    hostname: str
    pid: int
    version: str
    executor: str
    slots: int
    draining: bool
    alive: bool
    lease_age: float
    partitions: int
    started_at: datetime
    figures: dict[str, Any] | None  # of aiosched.scheduler.observability.metrics_snapshot, as of the last renewal
    owned: tuple[int, ...] = ()  # the partitions
    load: float = 0.0  # of these partitions: rows of task instances stored in a second (core/fleet/loads.py)

    @property
    def stalled(self) -> float:
        """For how many seconds its event loop had been blocked at its last renewal; 0.0 unless that is long."""
        return float((self.figures or {}).get("stalled", 0.0)) if self.alive else 0.0

    @property
    def trouble(self) -> str | None:
        """The unforeseen error that kept it from its work at its last renewal."""
        return (self.figures or {}).get("trouble") if self.alive else None

    @property
    def remarks(self) -> Sequence[str]:
        """What it says about its machine, after its own name: its DAG files, its clock."""
        return [f"{self.name} {text}" for text in (self.figures or {}).get("remarks", ())] if self.alive else []

    @property
    def status(self) -> str:
        """One word for people: alive, stalled, draining or dead."""
        if not self.alive:
            return "dead"
        if self.stalled:
            return "stalled"
        return "draining" if self.draining else "alive"


SERVER_VERSION: Final = "SELECT current_setting('server_version')"

# An age is finite, and not negative, whatever the row has.
SCHEDULERS: Final = """
    SELECT incarnation, name, hostname, pid, version, executor, slots, draining, started_at, figures,
           least(greatest(extract(epoch FROM clock_timestamp()) - extract(epoch FROM renewed_at), 0), 1e9)::float8
           AS lease_age
      FROM scheduler ORDER BY incarnation
"""


async def server_version(db: Database) -> str:
    """The version of the PostgreSQL, such as `18.4`, with what its packagers add."""
    return str(await db.fetchval(SERVER_VERSION))


async def list_schedulers(db: Database) -> list[SchedulerRow]:
    """All known incarnations, oldest first; dead ones until they have been taken over."""
    async with db.acquire() as conn:
        return (await read_schedulers(conn))[1]


async def read_schedulers(conn: DatabaseConnection) -> tuple[FleetView, list[SchedulerRow]]:
    """The fleet as its members see it, and all known incarnations."""
    view = await read_fleet(conn)
    rows = await conn.fetch(SCHEDULERS)
    dead = {peer.incarnation for peer in view.peers if peer.dead}
    held: dict[int | None, list[int]] = {}
    for partition, owner in sorted(view.leases.items()):
        held.setdefault(owner, []).append(partition)
    return view, [
        SchedulerRow(
            **{**dict(row), "figures": read_figures(row["figures"])},
            alive=row["incarnation"] not in dead,
            partitions=len(held.get(row["incarnation"], ())),
            owned=tuple(held.get(row["incarnation"], ())),
            load=round(sum(view.loads.get(partition, 0.0) for partition in held.get(row["incarnation"], ())), 3),
        )
        for row in rows
    ]


# ---- attempts on engines ----

ENGINE_COUNTS: Final = """
    SELECT executor,
           CASE WHEN worker IS NULL THEN 'waiting' WHEN alive_until < now() THEN 'silent' ELSE 'running' END AS state,
           count(*)::int AS number
      FROM engine_attempt GROUP BY 1, 2 ORDER BY 1, 2
"""


async def count_on_engines(db: Database) -> dict[tuple[str, str], int]:
    """How many attempts are on engines, by the engine's name and state: waiting, running, or silent."""
    return {(row["executor"], row["state"]): row["number"] for row in await db.fetch(ENGINE_COUNTS)}
