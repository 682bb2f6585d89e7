"""Whole days that people ask for, as instants: those of the time zone of the DAG that is meant, else of UTC."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Final

from aiosched.core.timetables.days import DayOrInstant, is_day, start_after, start_of
from aiosched.db.audit.reading import EntrySelection
from aiosched.db.server.engine import Database

# Index: uq_dag_version_dag_id_number, backwards.
TIMEZONE: Final = "SELECT spec ->> 'timezone' FROM dag_version WHERE dag_id = $1 ORDER BY number DESC LIMIT 1"


async def timezone_of(db: Database, dag_id: str) -> str:
    """The time zone of a DAG, by its newest version; UTC if there is no such DAG."""
    return str(await db.fetchval(TIMEZONE, dag_id) or "UTC")


async def span_of(
    db: Database, dag_id: str | None, since: DayOrInstant | None, until: DayOrInstant | None
) -> tuple[datetime | None, datetime | None]:
    """The first instant that is meant, and the one that ends it and belongs to it no more; None: unbounded."""
    named = dag_id is not None and (is_day(since) or is_day(until))
    timezone = await timezone_of(db, dag_id) if named and dag_id is not None else "UTC"
    return (
        None if since is None else start_of(since, timezone),
        None if until is None else start_after(until, timezone),
    )


async def entries_meant(db: Database, selection: EntrySelection) -> EntrySelection:
    """The same selection of audit entries with instants in place of days."""
    since, until = await span_of(db, selection.dag_id, selection.since, selection.until)
    return replace(selection, since=since, until=until)
