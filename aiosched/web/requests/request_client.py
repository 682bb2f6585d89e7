"""What the API works with: the database, the settings, and the way to ask the owner of a DAG for something.

A request of a person becomes a row of the command inbox, so it is done by whichever scheduler
owns the DAG, survives a crash, and stands in the audit log. Source: docs/architecture.md, "Who writes what".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, cast

from fastapi import Depends, Request

from aiosched.clock import Clock, SystemClock
from aiosched.config import Settings
from aiosched.db.server.engine import Database
from aiosched.db.statements import inbox
from aiosched.web.auth.access import Principal

ANSWER_SECONDS: Final = 5.0


@dataclass(frozen=True, slots=True)
class OwnerAnswer:
    """What became of a request: its number, and its result, or None while it still waits."""

    command: int
    result: dict[str, Any] | None


class RequestClient:
    """One for each web application."""

    def __init__(self, db: Database, settings: Settings, *, clock: Clock | None = None) -> None:
        self.db, self.settings = db, settings
        self.clock: Clock = clock or SystemClock()

    async def ask(
        self,
        verb: str,
        dag_id: str | None,
        args: Mapping[str, Any] | None = None,
        *,
        by: Principal,
        reason: str | None = None,
        partition: int | None = None,
    ) -> OwnerAnswer:
        """Ask the owner of `dag_id` (or of `partition`); wait a few seconds for the answer.

        Raises NotFound, Refused or InternalError with the owner's words.
        """
        async with self.db.acquire() as conn:
            number = await inbox.add_command(
                conn,
                verb=verb,
                dag_id=dag_id,
                args=args or {},
                requested_by=by.requested_by,
                reason=reason,
                partition=partition,
            )
        answer = await inbox.wait_applied(self.db, number, timeout=ANSWER_SECONDS)
        if answer is None:
            return OwnerAnswer(number, None)
        if answer.error is not None:
            raise answer.error
        return OwnerAnswer(number, answer.result)


def _request_client(request: Request) -> RequestClient:
    return cast("RequestClient", request.app.state.request_client)


TheRequestClient = Annotated[RequestClient, Depends(_request_client)]
