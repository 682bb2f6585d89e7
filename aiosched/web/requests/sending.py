"""How an endpoint sends a request of a person to its owner, and answers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Any

import msgspec
from fastapi import Depends, Header, Request
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel

from aiosched.core.requests import requests
from aiosched.db.server.engine import Database
from aiosched.db.statements.inbox import MOST_KEY, find_request, keyed_request
from aiosched.web.auth.access import Person, Principal
from aiosched.web.requests.answers import waiting
from aiosched.web.requests.request_client import RequestClient, TheRequestClient

IdempotencyKey = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=MOST_KEY - 10,  # those of a batch have their number, too
        description="A request that is repeated with it is done once, and gets the answer to the first one.",
    ),
]


async def was_sent(db: Database, person: Principal, key: str | None) -> bool:
    """Whether a person has sent a request with this key."""
    if key is None:
        return False
    async with db.acquire() as conn:
        return await find_request(conn, keyed_request(person.requested_by, key)) is not None


class Sender:
    """The person who asks, and the way to the owners of DAGs."""

    def __init__(self, request: Request, client: RequestClient, person: Principal, key: str | None) -> None:
        self._key = key
        self.client: RequestClient = client
        self.person: Principal = person
        self.db: Database = client.db
        self._request = request

    async def was_sent(self) -> bool:
        """Whether the request has a key with which it was sent before: then its answer is there, whatever is so now."""
        return await was_sent(self.db, self.person, self._key)

    async def send(
        self,
        request: requests.Request,
        dag_id: str | None,
        show: Callable[[dict[str, Any]], BaseModel | Awaitable[BaseModel]],
        *,
        status: int = 200,
    ) -> Response:
        """Send a request to the owner of `dag_id` (None: of an asset); `show` makes the model of its answer.

        202 if no scheduler has applied it yet. Raises NotFound, Refused or InternalError with the owner's message.
        """
        keyed = request if self._key is None else msgspec.structs.replace(request, key=self._key)
        answer = await self.client.ask(keyed, dag_id, by=self.person)
        if answer.result is None:
            return waiting(self._request, answer.number)
        shown = show(answer.result)
        model = shown if isinstance(shown, BaseModel) else await shown
        return JSONResponse(model.model_dump(mode="json"), status)


async def _sender(
    request: Request, request_client: TheRequestClient, person: Person, key: IdempotencyKey = None
) -> Sender:
    return Sender(request, request_client, person, key)


TheSender = Annotated[Sender, Depends(_sender)]
