"""The newest position of the database that a scheduler has seen stored; compared after each lost connection.

A failover to a replica that was behind, and a restore, give back a database without the newest commits. What is known
outlives incarnations; `serve` also keeps it in a file of its home, for its next start. It is read before anything is
written on a new connection, by the main loop and by the lease thread: whoever is first stores the lost span.
Source: docs/decisions/0062-a-database-that-went-back.md.
"""

from __future__ import annotations

import logging
import time
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import msgspec

from aiosched.core.fleet.positions import Found, Position, is_foreign, lost_since
from aiosched.db.server.connection import DatabaseConnection
from aiosched.db.statements import positions
from aiosched.db.statements.ownership import Renewal
from aiosched.errors import ForeignFleet

logger: logging.Logger = logging.getLogger(__name__)


class KnownPosition:
    """See the module docstring. `name`: of the scheduler; `file`: where it is kept between two processes."""

    def __init__(self, name: str = "", file: Path | None = None) -> None:
        self._name, self._file = name, file
        self._seen = None if file is None else _read(file)
        self._renewed: float | None = None  # the monotonic second of `renewed_at`, in this process
        self._found: Found | None = None
        self.is_foreign: bool = False  # the database that was met last is for other schedulers
        self.confirmed: tuple[int, float] | None = None  # number of the newest confirmed transaction, monotonic second

    @property
    def position(self) -> Position | None:
        """The newest thing that is known to be stored; None: nothing is known."""
        seen, confirmed = self._seen, self.confirmed
        if seen is None or confirmed is None or self._renewed is None:
            return seen
        later = timedelta(seconds=max(confirmed[1] - self._renewed, 0.0))
        return replace(seen, number=confirmed[0], stored_at=seen.renewed_at + later)

    @property
    def is_kept(self) -> bool:
        """Whether it has a file."""
        return self._file is not None

    async def compare(self, conn: DatabaseConnection) -> None:
        """Compare it with the database, and store and say what was lost. Call it outside a transaction.

        Raises ForeignFleet if the database is for other schedulers.
        """
        seen = self.position
        found = await positions.find(conn, seen)
        if found is None:  # a standby
            return
        self.is_foreign = seen is not None and is_foreign(seen.fleet, found)
        if self.is_foreign:
            raise ForeignFleet(found.fleet)
        if found.place is not None and found.first_number is None:
            found = replace(found, first_number=await positions.meet(conn, found.place))
        if seen is not None:
            if (span := lost_since(seen, found)) is not None:
                new = await positions.note_lost(conn, span, by=self._name, seen=seen.place, found=found.place)
                (logger.warning if new else logger.info)(
                    "the database is older than what this scheduler has seen stored: what was stored %sto %s may be "
                    "lost%s. Was a replica promoted that was behind, or a backup restored? Tasks and runs of that time "
                    'may run again; see docs/operations.md, "Replicas, failover and restores"',
                    "" if span.begin is None else f"from {_utc(span.begin)} ", _utc(span.end), _places(seen, found),
                )  # fmt: skip
                self._forget(found)
            elif self._seen is not None and self._seen.incarnation == seen.incarnation:
                self._seen = replace(self._seen, place=found.place)
        self._found = found

    def joined(self, incarnation: int) -> None:
        """A new incarnation was registered, on the connection that `compare` has looked at last."""
        if (found := self._found) is not None:
            self.confirmed, self._renewed = None, time.monotonic()
            self._seen = Position(found.fleet, incarnation, 0, found.at, place=found.place)

    def renewed(self, renewal: Renewal) -> None:
        """The lease was renewed."""
        if self._seen is not None:
            self._renewed = time.monotonic()
            self.confirmed = renewal.number, self._renewed
            self._seen = replace(self._seen, renewals=renewal.renewals, renewed_at=renewal.at)

    def confirm(self, number: int) -> None:
        """The transaction of this number is stored."""
        self.confirmed = number, time.monotonic()

    def left(self) -> None:
        """The incarnation has ended cleanly, and its row is gone."""
        if (seen := self.position) is not None:
            self._seen = replace(seen, has_left=True)
            self.confirmed = None

    def keep(self) -> None:
        """Write it into its file, if it has one. Raises OSError."""
        if self._file is not None and (seen := self.position) is not None:
            partial = self._file.with_name(f"{self._file.name}.new")
            partial.write_bytes(msgspec.json.encode(seen))
            partial.replace(self._file)

    def _forget(self, found: Found) -> None:
        """From now on what the database has counts."""
        self.confirmed = None
        if (seen := self._seen) is not None:
            self._seen = replace(
                seen, renewals=found.renewals or 0, number=None, stored_at=None, place=found.place, has_left=False
            )


def _read(file: Path) -> Position | None:
    """What was kept; None if nothing was, or it cannot be read."""
    try:
        return msgspec.json.decode(file.read_bytes(), type=Position)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.MsgspecError) as error:
        logger.warning("what this scheduler saw stored last cannot be read from %s: %s", file, error)
        return None


def _places(seen: Position, found: Found) -> str:
    before, now = seen.place, found.place
    if before is None or now is None:
        return ""
    if before.system != now.system:
        return f" (it is another PostgreSQL: system {now.system} instead of {before.system})"
    return f" (timeline {before.timeline} was seen at {before.lsn}; this is timeline {now.timeline} at {now.lsn})"


def _utc(instant: datetime) -> str:
    return f"{instant:%Y-%m-%d %H:%M:%S} UTC"
