"""Schedules that are data: set, paused, resumed, removed.

schedule_set, schedule_pause, schedule_resume -> {name, next_at}
schedule_remove -> {name}
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec

from aiosched.core.creation.durable_schedules import Terms, check_terms, due_instants
from aiosched.core.graph.params import resolve_params
from aiosched.core.graph.spec import DagSpec
from aiosched.core.requests.requests import PauseSchedule, RemoveSchedule, ResumeSchedule, SetSchedule
from aiosched.core.values.commands import command_line
from aiosched.db.statements import dag_schedules
from aiosched.db.statements.dag_schedules import StoredSchedule
from aiosched.errors import NotFound
from aiosched.scheduler.memory.cache import OwnedDag
from aiosched.scheduler.session.session import Session


async def set_schedule(session: Session, dag: OwnedDag, request: SetSchedule, number: int) -> None:
    """Make a schedule, or change the one of that name: one that gets other terms begins anew, now."""
    spec = dag.version.spec
    async with session.env.side_journal.transaction() as transaction:
        conn = transaction.conn
        conf = await session.env.confs.checked(conn, spec.params, dict(request.conf))
        before = await dag_schedules.find_schedule(conn, dag.row.dag_id, request.name)
        found = set_terms(request, spec, before, session.env.confs.open(conf), conf, session.env.clock.now())
        await dag_schedules.store_schedule(conn, found)
        await transaction.answer(number, {"name": request.name, "next_at": _text(found.next_at)})
    session.wakeups.schedules.wake()


def set_terms(
    request: SetSchedule,
    spec: DagSpec,
    before: StoredSchedule | None,
    conf: Mapping[str, Any],
    stored_conf: Mapping[str, Any],
    now: datetime,
) -> StoredSchedule:
    """The schedule that a request makes of the one `before`; `stored_conf` is its conf with secrets encrypted.

    Raises Refused, ParamError, TimetableError.
    """
    terms = Terms(
        request.cron, request.every, request.at, request.timezone, request.start, request.end, request.catchup, now
    )
    check_terms(request.name, terms)
    resolve_params(spec.params, conf)
    last_at = None
    if before is not None and not terms.differ(before.terms):
        terms, last_at = terms._replace(since=before.terms.since), before.last_at
    found = due_instants(terms, last_at, now)
    paused = request.paused if request.paused is not None else before is not None and before.is_paused
    next_at = found.instants[0] if found.instants else found.next_at
    document = msgspec.json.encode(stored_conf).decode()
    return StoredSchedule(spec.dag_id, request.name, terms, document, paused, last_at, next_at, None)


async def pause_schedule(session: Session, dag: OwnedDag, request: PauseSchedule, number: int) -> None:
    """Start no runs by it."""
    await _set_paused(session, dag, request.name, True, number)


async def resume_schedule(session: Session, dag: OwnedDag, request: ResumeSchedule, number: int) -> None:
    """Start runs by it again: for the last of the missed instants, or with catchup for each."""
    await _set_paused(session, dag, request.name, False, number)


async def _set_paused(session: Session, dag: OwnedDag, name: str, paused: bool, number: int) -> None:
    async with session.env.side_journal.transaction() as transaction:
        before = await dag_schedules.find_schedule(transaction.conn, dag.row.dag_id, name)
        if before is None:
            raise unknown(dag.row.dag_id, name)
        await dag_schedules.store_schedule(transaction.conn, before._replace(is_paused=paused))
        await transaction.answer(number, {"name": name, "next_at": _text(before.next_at)})
    session.wakeups.schedules.wake()


async def remove_schedule(session: Session, dag: OwnedDag, request: RemoveSchedule, number: int) -> None:
    """Remove it; its runs stay."""
    async with session.env.side_journal.transaction() as transaction:
        if not await dag_schedules.remove_schedule(transaction.conn, dag.row.dag_id, request.name):
            raise unknown(dag.row.dag_id, request.name)
        await transaction.answer(number, {"name": request.name})


def unknown(dag_id: str, name: str) -> NotFound:
    """The error about a schedule that a DAG does not have."""
    see = command_line("schedules list", options=("--dag", dag_id))
    return NotFound(f"DAG {dag_id!r} has no schedule {name!r}; see `{see}`.")


def _text(instant: Any) -> str | None:
    return None if instant is None else str(instant.isoformat())
