"""The current user, logging in and out."""

from __future__ import annotations

import logging
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, Field

from aiosched.web.auth.access import Person, Principal, Role, RoleScope, allow
from aiosched.web.auth.accounts import Accounts
from aiosched.web.auth.oidc import Flow, Provider
from aiosched.web.server.problems import Problem

logger = logging.getLogger(__name__)

router = APIRouter(tags=["Login"])


RoleName = Literal["viewer", "operator", "editor", "admin"]


class Me(BaseModel):
    """The current user. Requests that change something send `csrf` in `X-CSRF-Token`.

    `role` is the highest one that the user has anywhere, `everywhere` the one for all there is (null: none); `grants`
    say where the others hold, as `operator@team:sales`.
    """

    name: str
    role: RoleName
    everywhere: RoleName | None
    grants: list[str]
    login: Literal["none", "password", "oidc"]
    csrf: str | None = None


class Credentials(BaseModel):
    """A user's name and password."""

    name: Annotated[str, Field(max_length=200)]
    password: Annotated[str, Field(max_length=1000)]


@router.get("/me")
@allow(Role.VIEWER, RoleScope.OWN)
async def me(request: Request, person: Person) -> Me:
    """The current user and role."""
    accounts = request.app.state.authenticator
    csrf = None
    if isinstance(accounts, Accounts) and (session := await accounts.session(request)) is not None:
        csrf = await accounts.csrf(session)
    return _me(request, person, csrf)


def _me(request: Request, person: Principal, csrf: str | None) -> Me:
    rights = person.rights
    return Me.model_validate(
        {
            "name": person.name,
            "role": max(rights.granted, Role.VIEWER).word,
            "everywhere": None if person.role is Role.NONE else person.role.word,
            "grants": list(map(str, rights.grants)),
            "login": _method(request),
            "csrf": csrf,
        }
    )


class LoginMethod(BaseModel):
    """How to log in; `oidc` means by going to /api/v1/login/oidc, and users who have a password can use it, too."""

    login: Literal["none", "password", "oidc"]


@router.get("/login")
@allow(Role.PUBLIC)
async def login_method(request: Request) -> LoginMethod:
    """How to log in: not at all, with a password, or with an identity provider."""
    return LoginMethod.model_validate({"login": _method(request)})


@router.get("/login/oidc", status_code=303, response_class=Response)
@allow(Role.PUBLIC)
async def begin_oidc(
    request: Request, back: Annotated[str, Query(max_length=500, description="the page to return to")] = ""
) -> Response:
    """Redirect to the identity provider."""
    accounts, provider = _accounts(request), _provider(request)
    flow = Flow.begin(back)
    try:
        response = Response(status_code=303, headers={"Location": await provider.address(flow, _callback(request))})
    except Problem as problem:
        return _refused(request, problem)
    await accounts.give_flow(request, response, flow)
    return response


@router.get("/login/callback", status_code=303, response_class=Response)
@allow(Role.PUBLIC)
async def end_oidc(
    request: Request,
    state: Annotated[str, Query(max_length=500)] = "",
    code: Annotated[str, Query(max_length=4000)] = "",
    error: Annotated[str, Query(max_length=500)] = "",
) -> Response:
    """Return from the identity provider: starts a session."""
    accounts, provider = _accounts(request), _provider(request)
    flow = await accounts.flow(request)
    try:
        if flow is None:
            raise Problem(
                400, "login-expired", "This login has taken too long, or was started in another browser: log in again."
            )
        if error:
            raise Problem(403, "not-invited", f"The identity provider says {error!r}.")
        session = await accounts.admit(request, await provider.identify(flow, state, code, _callback(request)))
    except Problem as problem:
        return _refused(request, problem)
    response = Response(status_code=303, headers={"Location": f"{_base(request)}/{flow.back}"})
    accounts.take_flow(request, response)
    await accounts.give_cookie(request, response, session)
    return response


def _refused(request: Request, problem: Problem) -> Response:
    """Redirect a browser to the login page, which shows its own message for the code in the address."""
    logger.warning("a login with the identity provider failed: %s", problem.detail)
    if "text/html" not in request.headers.get("accept", ""):
        raise problem
    return Response(status_code=303, headers={"Location": f"{_base(request)}/?refused={problem.code}"})


def _base(request: Request) -> str:
    return str(request.scope.get("root_path", "")).rstrip("/")


def _callback(request: Request) -> str:
    return f"{request.url.scheme}://{request.url.netloc}{_base(request)}/api/v1/login/callback"


def _method(request: Request) -> str:
    if request.app.state.provider is not None:
        return "oidc"
    return "password" if isinstance(request.app.state.authenticator, Accounts) else "none"


def _provider(request: Request) -> Provider:
    provider: Provider | None = request.app.state.provider
    if provider is None:
        raise Problem(409, "no-login", "This server has no identity provider (web.auth).")
    return provider


@router.post("/login", response_model=Me)
@allow(Role.PUBLIC)
async def log_in(request: Request, credentials: Credentials) -> Response:
    """Start a session: the answer sets its cookie."""
    accounts = _accounts(request)
    person, session = await accounts.log_in(request, credentials.name, credentials.password)
    response = JSONResponse(_me(request, person, await accounts.csrf(session)).model_dump(mode="json"))
    await accounts.give_cookie(request, response, session)
    return response


@router.post("/logout", status_code=204)
@allow(Role.PUBLIC)
async def log_out(request: Request) -> Response:
    """End the session of this browser."""
    response = Response(status_code=204)
    if isinstance(accounts := request.app.state.authenticator, Accounts):
        if (session := await accounts.session(request)) is not None:
            await accounts.end(session)
        accounts.take_cookie(request, response)
    return response


def _accounts(request: Request) -> Accounts:
    accounts = request.app.state.authenticator
    if not isinstance(accounts, Accounts):
        raise Problem(409, "no-login", "This server needs no login (web.auth).")
    return accounts
