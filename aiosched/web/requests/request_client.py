"""What the API works with: the database, the settings, and the way to ask the owner of a DAG for something.

A request of a person becomes a row of the command inbox, so it is done by whichever scheduler
owns the DAG, survives a crash, and stands in the audit log; a preview is only read.
Source: docs/architecture.md, "Who writes what".
"""

from __future__ import annotations

from typing import Annotated, Any, Final, cast

from fastapi import Depends, Request

from aiosched.clock import Clock, SystemClock
from aiosched.config import Settings
from aiosched.core.requests import requests
from aiosched.db.server.engine import Database
from aiosched.db.statements.inbox import OwnerAnswer, ask_owner
from aiosched.scheduler.requests.preview import preview
from aiosched.web.auth.access import Principal

ANSWER_SECONDS: Final = 5.0


class RequestClient:
    """One for each web application."""

    def __init__(self, db: Database, settings: Settings, *, clock: Clock | None = None) -> None:
        self.db, self.settings = db, settings
        self.clock: Clock = clock or SystemClock()

    async def ask(
        self, request: requests.Request, dag_id: str | None, *, by: Principal, reason: str | None = None
    ) -> OwnerAnswer:
        """Ask the owner of `dag_id` (None: of an asset); wait a few seconds for the answer.

        Raises NotFound, Refused or InternalError with the owner's words.
        """
        return await ask_owner(
            self.db, request, dag_id, requested_by=by.requested_by, timeout=ANSWER_SECONDS, reason=reason
        )

    async def preview(self, request: requests.TaskChange | requests.BackfillCreate, dag_id: str) -> dict[str, Any]:
        """What a request would touch, read from the rows. Raises NotFound and Refused as its owner does."""
        return await preview(self.db, dag_id, request, now=self.clock.now())


def _request_client(request: Request) -> RequestClient:
    return cast("RequestClient", request.app.state.request_client)


TheRequestClient = Annotated[RequestClient, Depends(_request_client)]
