"""The health of each part. It is always read, never assumed: a part that cannot be read is not healthy.

Source: docs/operations.md, "Health".
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from sqlalchemy.exc import DBAPIError

from aiosched.db.queries.schedulers import SchedulerRow, list_schedulers
from aiosched.db.queries.status import ParsingSummary, parsing_summary
from aiosched.db.server.engine import Database
from aiosched.db.server.failures import DRIVER_ERRORS
from aiosched.db.server.schema_version import check_schema
from aiosched.db.statements.parsers import ParserRemark, Severity, is_read, list_parsers, remarks_on
from aiosched.errors import DatabaseError

logger: Final = logging.getLogger(__name__)

# What may happen to a question to the database while it is not healthy.
DATABASE_FAILURES: Final = (
    DatabaseError,
    *DRIVER_ERRORS,
    DBAPIError,
    OSError,
    TimeoutError,
)


class Status(StrEnum):
    """The status of one part; that of the whole is the worst one."""

    HEALTHY = "healthy"
    DEGRADED = "degraded"  # it works, but something needs attention
    UNHEALTHY = "unhealthy"
    UNKNOWN = "unknown"  # what it depends on is unhealthy


@dataclass(frozen=True, slots=True)
class HealthPart:
    """One part: its status, the facts, and the remedy if it is not healthy."""

    status: Status
    detail: str
    fix: str | None = None


@dataclass(frozen=True, slots=True)
class Health:
    """All parts by name, and the known schedulers (empty if the database cannot be read)."""

    parts: dict[str, HealthPart]
    schedulers: Sequence[SchedulerRow] = ()

    @property
    def status(self) -> Status:
        found = {part.status for part in self.parts.values()}
        return next((s for s in (Status.UNHEALTHY, Status.DEGRADED) if s in found), Status.HEALTHY)


async def examine(db: Database) -> Health:
    """Check the database, the schema, the schedulers, their executors and parsing."""
    began = time.perf_counter()
    try:
        await check_schema(db)
        seconds = time.perf_counter() - began
        schedulers = await list_schedulers(db)
        parsing = await parsing_summary(db)
        async with db.acquire() as conn:
            remarks = remarks_on(await list_parsers(conn), is_read=await is_read(conn), files=parsing.files)
    except DATABASE_FAILURES as error:
        return without_database(error)
    except Exception as error:  # of this server, which can only say so
        logger.exception("the health of the fleet cannot be read")
        text = f"this server cannot read it: {type(error).__name__}: {error}"
        return _unknown(HealthPart(Status.UNHEALTHY, text, "the log of this server has the details"))
    return Health(
        {
            "database": HealthPart(Status.HEALTHY, f"answers in {seconds * 1000:.1f} ms, its schema is current"),
            "schedulers": _schedulers(schedulers),
            "executors": _executors(schedulers),
            "parser": _parser(parsing, remarks),
        },
        schedulers,
    )


def without_database(error: BaseException) -> Health:
    """What can be said while the database does not answer."""
    return _unknown(HealthPart(Status.UNHEALTHY, str(error), "check that PostgreSQL runs, and run aiosched db check"))


def _unknown(broken: HealthPart) -> Health:
    unknown = HealthPart(Status.UNKNOWN, "the database must answer first")
    return Health({"database": broken, "schedulers": unknown, "executors": unknown, "parser": unknown})


def _schedulers(rows: Sequence[SchedulerRow]) -> HealthPart:
    alive = [row for row in rows if row.alive]
    if not alive:
        return HealthPart(Status.UNHEALTHY, "no scheduler is alive: nothing runs", "aiosched serve")
    stalled = [f"{row.name} ({row.stalled:.0f} s)" for row in alive if row.stalled]
    if stalled:
        status = Status.UNHEALTHY if len(stalled) == len(alive) else Status.DEGRADED
        return HealthPart(
            status,
            f"the event loop is blocked: {', '.join(stalled)}",
            "the scheduler's log names the line that blocks it; restart it if it does not recover",
        )
    if troubled := [f"{row.name} ({row.trouble})" for row in alive if row.trouble]:
        status = Status.UNHEALTHY if len(troubled) == len(alive) else Status.DEGRADED
        return HealthPart(
            status,
            f"an unforeseen error keeps {', '.join(troubled)} from its work",
            "its log has the details; it tries again, and ends after five minutes, to be started again",
        )
    if dead := sorted(row.name for row in rows if not row.alive):
        return HealthPart(
            Status.DEGRADED, f"no heartbeat from {', '.join(dead)}", "the others take over; look at that machine"
        )
    if remarks := [text for row in alive for text in row.remarks]:
        return HealthPart(Status.DEGRADED, "; ".join(remarks), "aiosched doctor")
    oldest = max(row.lease_age for row in alive)
    return HealthPart(Status.HEALTHY, f"{len(alive)} alive, the oldest lease is {oldest:.1f} s old")


def _executors(rows: Sequence[SchedulerRow]) -> HealthPart:
    alive = [row for row in rows if row.alive]
    if not alive:
        return HealthPart(Status.UNKNOWN, "a scheduler must run first")
    kinds = ", ".join(sorted({row.executor for row in alive}))
    return HealthPart(Status.HEALTHY, f"{kinds}: {sum(row.slots for row in alive)} slots")


def _parser(summary: ParsingSummary, remarks: Sequence[ParserRemark]) -> HealthPart:
    for severity, status in ((Severity.BROKEN, Status.UNHEALTHY), (Severity.ATTENTION, Status.DEGRADED)):
        if found := [remark for remark in remarks if remark.severity is severity]:
            return HealthPart(status, "; ".join(remark.text for remark in found), found[0].fix)
    what = "; ".join(
        [f"{_counted(summary.dags, 'DAG')} in {_counted(summary.files, 'file')}", *(remark.text for remark in remarks)]
    )
    if summary.errors:
        return HealthPart(
            Status.DEGRADED, f"{summary.errors} of {summary.files} files have errors", "aiosched dags errors"
        )
    return HealthPart(Status.HEALTHY, what)


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
