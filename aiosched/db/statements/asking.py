"""Asking the owner of a DAG for something, and what it answers: for everybody who asks."""

from __future__ import annotations

from typing import Any, NamedTuple

from aiosched.core.requests.requests import EmitAsset, Request
from aiosched.core.requests.stored import encode
from aiosched.core.values.ids import partition_of
from aiosched.db.server.engine import Database
from aiosched.db.statements.inbox import add_command, wait_applied


class OwnerAnswer(NamedTuple):
    """What became of a request: its number, and its result, or None while it still waits."""

    command: int
    result: dict[str, Any] | None


async def ask_owner(
    db: Database,
    request: Request,
    dag_id: str | None,
    *,
    requested_by: str,
    timeout: float,
    reason: str | None = None,
) -> OwnerAnswer:
    """Ask the owner of `dag_id` (None: of an asset) for something, and wait `timeout` seconds for its answer.

    The request stays in the inbox then, and is applied when a scheduler comes. `reason` is kept in the audit log.
    Raises NotFound, Refused or InternalError with the owner's words.
    """
    verb, args = encode(request)
    async with db.acquire() as conn:
        number = await add_command(
            conn,
            verb=verb,
            dag_id=dag_id,
            args=args,
            requested_by=requested_by,
            reason=reason,
            partition=partition_of(request.name) if isinstance(request, EmitAsset) else None,
        )
    answer = await wait_applied(db, number, timeout=timeout)
    if answer is None:
        return OwnerAnswer(number, None)
    if answer.error is not None:
        raise answer.error
    return OwnerAnswer(number, answer.result)
