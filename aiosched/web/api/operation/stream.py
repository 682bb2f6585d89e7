"""The stream of live changes: one for each open browser page, as server-sent events."""

from __future__ import annotations

from typing import Annotated, cast

from fastapi import APIRouter, Header, Query, Request
from fastapi.responses import StreamingResponse

from aiosched.db.access.visibility import Seen
from aiosched.db.server.failures import is_of_database
from aiosched.web.auth.access import Authenticator, Role, RoleScope, allow
from aiosched.web.auth.visibility import TheVisible
from aiosched.web.server.problems import Problem
from aiosched.web.views.live import Hub, StreamOver

router: APIRouter = APIRouter(tags=["Live"])


@router.get(
    "/stream",
    response_class=StreamingResponse,
    responses={200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}}},
)
@allow(Role.VIEWER, RoleScope.SEEN)
async def stream(
    request: Request,
    first: TheVisible,
    topic: Annotated[
        list[str] | None, Query(max_length=20, description="`run:<key>`: include changes of that run's task instances")
    ] = None,
    last_event_id: Annotated[str | None, Header(max_length=100)] = None,
    after: Annotated[str | None, Query(max_length=100, description="as Last-Event-ID, which takes precedence")] = None,
) -> StreamingResponse:
    """Patches as they happen, continued after `Last-Event-ID`; begins with the event `reset` if that is too old."""
    hub = cast("Hub", request.app.state.hub)
    authenticator: Authenticator = request.app.state.authenticator

    seen = first.dags

    async def sees() -> Seen:
        nonlocal seen
        try:
            person = await authenticator(request)
            if person is None or person.rights.possible < Role.VIEWER:
                raise StreamOver
            seen = await first.known.seen_by(person.rights)
        except Problem:
            raise StreamOver from None
        except Exception as error:
            if not is_of_database(error):
                raise
        return seen  # asked again after the database has come back

    messages = hub.stream(frozenset(map(_run, topic or ())), last_event_id or after, sees=sees)
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(messages, media_type="text/event-stream", headers=headers)


def _run(topic: str) -> int:
    kind, _, key = topic.partition(":")
    if kind != "run" or not (key.isascii() and key.isdecimal()) or len(key) > 18:
        raise Problem(422, "unusable-request", "A topic looks like run:123, with the key of a run.")
    return int(key)
