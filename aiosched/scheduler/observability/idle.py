"""What is left to do, here and in the whole fleet: for `wait_idle`.

Idleness is a property of the fleet: every partition has a living owner; every file of the DAGs folder has been read
since this scheduler started, by it or by its peers; no request, report or callback waits; no run is unfinished, and
none is due. Runs of a paused DAG do not count, except for their queued or running attempts.

A DAG in quarantine is not idle: what it would do is not known, and it is tried again by itself. When nothing else is
left, and every DAG in quarantine has failed three times in a row, waiting ends with an error that names them.

What is owned here is read from memory, everything else from the rows, in one snapshot of the database.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Collection
from datetime import datetime
from typing import Final

from aiosched.core.assets.conditions import AssetStatus, alias_names, why_not_triggered
from aiosched.core.creation.next_run import next_scheduled_run
from aiosched.core.creation.run_creation import active_runs_limit, allows
from aiosched.core.timetables.assets import condition_of
from aiosched.core.values.ids import PARTITIONS
from aiosched.core.values.instants import stamp
from aiosched.core.values.states import RunType
from aiosched.db.assets import asset_partitions, assets
from aiosched.db.queries import idle
from aiosched.db.queries.quarantine_queries import QuarantineRow, list_quarantined
from aiosched.db.server.connection import DatabaseConnection
from aiosched.db.server.failures import is_of_database
from aiosched.db.statements import ownership
from aiosched.db.statements.ownership import FleetView
from aiosched.db.statements.runs import DagRow, StoredVersion, load_dags, load_versions
from aiosched.db.statements.schedules import schedule_positions
from aiosched.errors import DagError, InQuarantine
from aiosched.parsing.service import Parser
from aiosched.scheduler.session.session import Session

logger: logging.Logger = logging.getLogger(__name__)

_ALL: Final = frozenset(range(PARTITIONS))
_ENOUGH_FAILURES: Final = 3  # in a row, after which a DAG in quarantine is not waited for
_LOG_AFTER: Final = 10.0  # seconds for which the same thing must be left to do before it is logged


class IdleLog:
    """Logs once what a long wait is waiting for. Instants of the monotonic clock."""

    def __init__(self) -> None:
        self._left, self._log_at = "", 0.0

    def note(self, left: str, now: float) -> None:
        """Note that `left` is still to do; log it if it has been so for long."""
        if left != self._left:
            self._left, self._log_at = left, now + _LOG_AFTER
        elif now >= self._log_at:
            logger.info("not idle: %s", left)
            self._log_at = math.inf


def left_here(session: Session, now: datetime) -> str | None:
    """Something that this scheduler still has to do or to check; None when there is nothing."""
    cache = session.cache
    if not session.locks.loaded.is_set() or session.locks.ownership.locked():
        return "partitions, requests or new runs are being processed"
    if session.notifications.changed_dags or cache.work.assets:
        return "DAGs or assets have changed"
    if any(not cache.dags[board.run.dag_id].row.is_paused for board in cache.boards.values()):
        return "runs are unfinished"
    if session.outbox.waiting:
        return "callbacks are to be delivered"
    due = cache.next_due()
    return None if due is None or due > now else "a run is due"


async def left_anywhere(session: Session, parser: Parser | None, now: datetime) -> str | None:
    """Something that any scheduler or parser of the fleet still has to do or to read; None when there is nothing.

    `parser`: the one that reads the DAGs folder in this process; None if other processes do. Raises InQuarantine if
    nothing is left but DAGs in quarantine that have failed again and again.
    """
    if (left := left_here(session, now)) is not None:
        return left
    try:
        async with (
            session.env.db.acquire(unhurried=True) as conn,
            conn.transaction(isolation="repeatable_read", readonly=True),
        ):
            left = await _left_in_rows(session, conn, parser, now)
    except Exception as error:
        if not is_of_database(error):
            raise
        return f"the database cannot be read: {error}"
    return left if left is not None else left_here(session, now)


async def _left_in_rows(session: Session, conn: DatabaseConnection, parser: Parser | None, now: datetime) -> str | None:
    view = await ownership.read_fleet(conn)
    if (left := _unowned(view, session)) is not None:
        return left
    if parser is not None and (left := await parser.unread(conn)) is not None:
        return left
    if (left := await idle.unfinished_work(conn)) is not None:
        return left
    held = await list_quarantined(conn)
    others = _ALL - session.cache.partitions
    if others:
        every = session.env.settings.scheduler.safety_poll
        in_quarantine = {row.dag_id for row in held}
        if (left := await _due_elsewhere(conn, others, now, in_quarantine, noticed_within=2 * every)) is not None:
            return left
    return _waits_for_quarantine(held)


def _waits_for_quarantine(held: Collection[QuarantineRow]) -> str | None:
    """What is waited for when nothing is left but DAGs in quarantine. Raises InQuarantine if that is pointless."""
    if not held:
        return None
    if all(row.failures >= _ENOUGH_FAILURES for row in held):
        told = " ".join(f"{row}, {row.failures} times in a row." for row in held)
        commands = ", ".join(f"`{row.release}`" for row in held)
        raise InQuarantine(
            f"Nothing else is left to do. {told} When the cause is removed, try again: {commands}.",
            [row.dag_id for row in held],
        )
    return "; ".join(f"{row}; it is tried again at {stamp(row.retry_at)}, or now by `{row.release}`" for row in held)


def _unowned(view: FleetView, session: Session) -> str | None:
    living = {peer.incarnation for peer in view.peers if not peer.dead}
    unowned = sum(owner not in living for owner in view.leases.values())
    if unowned:
        return f"{unowned} partitions have no living owner yet"
    mine = {partition for partition, owner in view.leases.items() if owner == session.env.incarnation}
    return None if mine == session.cache.partitions else "partitions are moving"


async def _due_elsewhere(
    conn: DatabaseConnection,
    partitions: Collection[int],
    now: datetime,
    left_alone: Collection[str],
    *,
    noticed_within: float,
) -> str | None:
    """A run that a peer has to create now, by the schedule of its DAG or by asset events."""
    dags = await idle.perhaps_due(conn, partitions, now, noticed_within=noticed_within)
    queue = await assets.read_queue(conn, partitions)
    keyed = await asset_partitions.dags_with_work(conn, partitions)
    with_events = queue.keys() | keyed
    queued = [row for row in await load_dags(conn, partitions) if row.dag_id in with_events] if with_events else []
    queued = [row for row in queued if row.dag_id not in left_alone]
    if not dags and not queued:
        return None
    versions, _ = await load_versions(conn, {row.version_id for row in (*dags, *queued)})
    # versions that cannot be read here are left out
    specs = [versions[row.version_id].spec for row in dags if row.version_id in versions]
    positions = await schedule_positions(conn, specs, now)
    for spec in specs:
        try:
            next_run = next_scheduled_run(spec, positions[spec.dag_id], now)
        except DagError:
            continue
        if next_run is not None and next_run.run_after <= now:
            return f"a run of {spec.dag_id} is due"
    for row in queued:
        version = versions.get(row.version_id)
        if version is None:
            continue
        if row.dag_id in keyed and not row.is_paused and allows(version.spec, RunType.ASSET_TRIGGERED):
            return f"partitions of {row.dag_id} are to make runs"
        if row.dag_id in queue and await _is_triggered(conn, row, version, queue):
            return f"asset events are to make a run of {row.dag_id}"
    return None


async def _is_triggered(conn: DatabaseConnection, row: DagRow, version: StoredVersion, queue: assets.Queue) -> bool:
    condition = condition_of(version.spec.timetable)
    status = AssetStatus(
        condition=condition,
        active_runs=0,  # there are none, or the DAG is paused
        max_active_runs=active_runs_limit(version.spec),
        is_paused=row.is_paused,
        is_stale=row.is_stale,
        has_import_errors=row.has_import_errors,
    )
    aliases = await assets.alias_targets(conn, alias_names(condition)) if condition is not None else {}
    return why_not_triggered(status, queue[row.dag_id], aliases) is None
