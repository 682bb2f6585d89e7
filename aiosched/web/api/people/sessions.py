"""The sessions of users: which browsers are logged in, and ending them."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import Response
from pydantic import BaseModel

from aiosched.db.people import web_sessions
from aiosched.db.people.accounts import NAME_PATTERN
from aiosched.web.api.base.models import Instant, Resource
from aiosched.web.api.base.paging import Cursor, Limit, Page, decode_cursor, page_of
from aiosched.web.auth.access import Person, Principal, Role, RoleScope, allow
from aiosched.web.auth.accounts import Accounts
from aiosched.web.requests.request_client import ThePrimary, TheRequestClient
from aiosched.web.server.problems import Problem

router: APIRouter = APIRouter(tags=["Users"])

User = Annotated[
    str | None, Query(pattern=NAME_PATTERN, description="somebody else's, for administrators; default: own")
]


class SessionResource(Resource):
    """A browser in which a user is logged in. `address` is where the login came from."""

    id: int
    user: str
    created_at: Instant
    last_used_at: Instant
    expires_at: Instant
    address: str
    agent: str
    is_current: bool = False


class EndedSessions(BaseModel):
    """How many sessions were ended, and how many tokens of `POST /auth/token`."""

    ended: int
    tokens: int


@router.get("/sessions")
@allow(Role.VIEWER, RoleScope.OWN)
async def list_sessions(
    request: Request,
    request_client: ThePrimary,
    person: Person,
    user: User = None,
    limit: Limit = 100,
    cursor: Cursor = None,
) -> Page[SessionResource]:
    """The sessions of a user that are not over, oldest first."""
    rows = await web_sessions.list_sessions(
        request_client.db,
        _whose(person, user),
        idle_seconds=_idle_seconds(request),
        after=decode_cursor(cursor, int) or 0,
        limit=limit + 1,
    )
    page = page_of(SessionResource, rows, limit, lambda row: row.id)
    for session in page.items:
        session.is_current = session.id == person.session
    return page


@router.delete("/sessions", status_code=200)
@allow(Role.VIEWER, RoleScope.OWN)
async def end_sessions(request_client: TheRequestClient, person: Person, user: User = None) -> EndedSessions:
    """Log a user out everywhere: all sessions and tokens of /auth/token but the one that asks end.

    Tokens for programs stay.
    """
    caller = web_sessions.Caller(person.session, person.token)
    ended = await web_sessions.end_sessions(request_client.db, _whose(person, user), but=caller)
    return EndedSessions(ended=ended.sessions, tokens=ended.tokens)


@router.delete("/sessions/{session}", status_code=204)
@allow(Role.VIEWER, RoleScope.OWN)
async def end_session(
    request_client: TheRequestClient, person: Person, session: Annotated[int, Path(ge=1, lt=2**63)]
) -> Response:
    """End a session: one's own, or any as an administrator."""
    await web_sessions.end_session(request_client.db, session, None if person.role >= Role.ADMIN else person.name)
    return Response(status_code=204)


def _idle_seconds(request: Request) -> float:
    accounts = request.app.state.authenticator
    if isinstance(accounts, Accounts):
        return accounts.idle_seconds
    return float(request.app.state.request_client.settings.web.session_idle_hours * 3600)


def _whose(person: Principal, user: str | None) -> str:
    if user is not None and user != person.name and person.role < Role.ADMIN:
        raise Problem(403, "role-too-low", f"{person.name} is no administrator: only own sessions can be seen.")
    return user or person.name
