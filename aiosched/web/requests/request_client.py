"""The API's access to the database, the settings, and the owners of DAGs.

A request becomes a row of the inbox, so it is applied by whichever scheduler owns the DAG, survives a crash,
and is in the audit log; a preview only reads. Source: docs/architecture.md, "Who writes what".
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Annotated, Any, Final, cast

from fastapi import Depends, Request

from aiosched.backends.asking import Backends
from aiosched.backends.kinds import backends_of
from aiosched.clock import Clock, SystemClock
from aiosched.config import Settings
from aiosched.core.requests import requests
from aiosched.db.crypto.keyring import Keyring
from aiosched.db.server.engine import Database
from aiosched.db.statements.inbox import OwnerAnswer, ask_owner, ask_owner_many
from aiosched.errors import AioschedError
from aiosched.remote.folder import RemoteFolder, open_folder
from aiosched.remote.logs import AttemptLogs
from aiosched.scheduler.requests.preview import preview
from aiosched.web.auth.access import Principal

READING: Final = "reading"  # in the state of a request that a replica may answer: the client for it
ANSWER_SECONDS: Final = 5.0
_STORE_SECONDS: Final = 15.0  # that one call of the store may take


class RequestClient:
    """One for each web application."""

    def __init__(self, db: Database, settings: Settings, *, clock: Clock | None = None) -> None:
        self.db: Database = db
        self.settings: Settings = settings
        self.clock: Clock = clock or SystemClock()

    @cached_property
    def logs(self) -> AttemptLogs:
        """The logs of attempts, here and in remote storage. Raises ConfigError."""
        return AttemptLogs.of(self.settings)

    @cached_property
    def remote_xcoms(self) -> RemoteFolder | None:
        """The folder of large XComs. Raises ConfigError."""
        xcom = self.settings.xcom
        return open_folder(xcom.remote, xcom.remote_options, setting="xcom.remote", limit=_STORE_SECONDS)

    @cached_property
    def backends(self) -> Backends:
        """The backends of secrets."""
        return backends_of(self.settings)

    async def ask(self, request: requests.Request, dag_id: str | None, *, by: Principal) -> OwnerAnswer:
        """Send a request to the owner of `dag_id` (None: of an asset) and wait a few seconds for the answer.

        Raises NotFound, Refused or InternalError with the owner's message.
        """
        return await ask_owner(
            self.db,
            request,
            dag_id,
            requested_by=by.requested_by,
            timeout=ANSWER_SECONDS,
            keyring=Keyring.of(self.settings),
        )

    async def ask_many(
        self, asked: Sequence[requests.Request], dag_id: str, *, by: Principal
    ) -> list[OwnerAnswer | AioschedError]:
        """As `ask`, for many requests of one kind with one reason; of one that is refused the error."""
        return await ask_owner_many(
            self.db,
            asked,
            dag_id,
            requested_by=by.requested_by,
            timeout=ANSWER_SECONDS,
            keyring=Keyring.of(self.settings),
        )

    async def preview(self, request: requests.TaskChange | requests.BackfillCreate, dag_id: str) -> dict[str, Any]:
        """What a request would affect, read from the rows. Raises NotFound and Refused as its owner does."""
        most = self.settings.scheduler.max_backfill_runs
        return await preview(self.db, dag_id, request, now=self.clock.now(), max_backfill_runs=most)


async def _primary(request: Request) -> RequestClient:
    return cast("RequestClient", request.app.state.request_client)


async def _request_client(request: Request) -> RequestClient:
    return cast("RequestClient", request.scope.get("state", {}).get(READING) or request.app.state.request_client)


# What only reads may get one on a replica of the database: the rows may be some seconds old (views/replica_gate.py).
TheRequestClient = Annotated[RequestClient, Depends(_request_client)]
# For questions that write, too, or show who may log in, which schedulers are alive, or their answers.
ThePrimary = Annotated[RequestClient, Depends(_primary)]
