"""Who one is, logging in and out."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, Field

from aiosched.web.access import Person, Role, allow
from aiosched.web.accounts import Accounts
from aiosched.web.problems import Problem

router = APIRouter(tags=["Login"])


class Me(BaseModel):
    """Who sends the requests. `csrf` goes into `X-CSRF-Token` of requests that change something."""

    name: str
    role: Literal["viewer", "operator", "admin"]
    login: Literal["none", "password"]
    csrf: str | None = None


class Credentials(BaseModel):
    """A name and its password."""

    name: Annotated[str, Field(max_length=200)]
    password: Annotated[str, Field(max_length=1000)]


@router.get("/me")
@allow(Role.VIEWER)
async def me(request: Request, person: Person) -> Me:
    """Who one is, and may do."""
    accounts = request.app.state.authenticator
    csrf = None
    if isinstance(accounts, Accounts) and (session := await accounts.session(request)) is not None:
        csrf = await accounts.csrf(session)
    login = "password" if isinstance(accounts, Accounts) else "none"
    return Me.model_validate({"name": person.name, "role": person.role.name.lower(), "login": login, "csrf": csrf})


@router.post("/login", response_model=Me)
@allow(Role.PUBLIC)
async def log_in(request: Request, credentials: Credentials) -> Response:
    """Begin a session: the answer sets its cookie."""
    accounts = _accounts(request)
    person, session = await accounts.log_in(request, credentials.name, credentials.password)
    csrf = await accounts.csrf(session)
    role = person.role.name.lower()
    response = JSONResponse({"name": person.name, "role": role, "login": "password", "csrf": csrf})
    await accounts.give_cookie(request, response, session)
    return response


@router.post("/logout", status_code=204)
@allow(Role.PUBLIC)
async def log_out(request: Request) -> Response:
    """End the session in this browser."""
    response = Response(status_code=204)
    if isinstance(accounts := request.app.state.authenticator, Accounts):
        accounts.take_cookie(request, response)
    return response


def _accounts(request: Request) -> Accounts:
    accounts = request.app.state.authenticator
    if not isinstance(accounts, Accounts):
        raise Problem(409, "no-login", "This server needs no login (web.auth).")
    return accounts
