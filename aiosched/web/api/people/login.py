"""The current user, logging in and out."""

from __future__ import annotations

import logging
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, Field

from aiosched.errors import Refused
from aiosched.web.api.base.models import Body
from aiosched.web.auth.access import Person, Principal, Role, RoleScope, allow
from aiosched.web.auth.accounts import Accounts
from aiosched.web.auth.cookies import ID, read_cookie
from aiosched.web.auth.oidc import Flow, Provider
from aiosched.web.auth.sessions import WebSession
from aiosched.web.server.problems import Problem

logger: logging.Logger = logging.getLogger(__name__)

router: APIRouter = APIRouter(tags=["Login"])


Method = Literal["none", "token", "password", "oidc"]
RoleName = Literal["viewer", "operator", "editor", "admin"]


class CurrentUser(BaseModel):
    """The current user. Requests that change something send `csrf` in `X-CSRF-Token`.

    `role` is the highest one that the user has anywhere, `everywhere` the one for all there is (null: none); `grants`
    say where the others hold, as `operator@team:sales`.
    """

    name: str
    role: RoleName
    everywhere: RoleName | None
    grants: list[str]
    login: Method
    csrf: str | None = None


class Credentials(Body):
    """A user's name and password."""

    name: Annotated[str, Field(max_length=200)]
    password: Annotated[str, Field(max_length=1000)]


class Link(Body):
    """The one-time token of an address that `aiosched serve` or `aiosched web address` has printed."""

    token: Annotated[str, Field(min_length=1, max_length=200)]


@router.get("/me")
@allow(Role.VIEWER, RoleScope.OWN)
async def me(request: Request, person: Person) -> CurrentUser:
    """The current user and role."""
    accounts = request.app.state.authenticator
    csrf = None
    if isinstance(accounts, Accounts) and (session := await accounts.session(request)) is not None:
        csrf = await accounts.csrf(session)
    return _me(request, person, csrf)


def _me(request: Request, person: Principal, csrf: str | None) -> CurrentUser:
    rights = person.rights
    return CurrentUser.model_validate(
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
    """How to log in; `oidc` means by going to /api/v1/login/oidc, and users who have a password can use it, too.

    `token`: with the one-time token of the address that `aiosched serve` prints, to /api/v1/login/link.
    """

    login: Method


@router.get("/login")
@allow(Role.PUBLIC)
async def login_method(request: Request) -> LoginMethod:
    """How to log in: not at all, with a one-time token, with a password, or with an identity provider."""
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
        identity = await provider.identify(flow, state, code, _callback(request))
        session = await accounts.admit(request, identity)
    except Refused as refused:
        await accounts.note_refusal(None, "refused")
        return _refused(request, Problem(409, "refused", str(refused)))
    except Problem as problem:
        await accounts.note_refusal(None, problem.code)
        return _refused(request, problem)
    response = Response(status_code=303, headers={"Location": f"{_base(request)}/{flow.back}"})
    accounts.take_flow(request, response)
    await accounts.give_session(request, response, session)
    accounts.give_id_token(request, response, identity.id_token)
    return response


def _refused(request: Request, problem: Problem) -> Response:
    """Redirect a browser to the login page, which shows its own message for the code in the address."""
    logger.warning("a login with the identity provider failed: %s", problem.detail)
    if "text/html" not in request.headers.get("accept", ""):
        raise problem
    return Response(status_code=303, headers={"Location": f"{_base(request)}/?refused={problem.code}"})


def _base(request: Request) -> str:
    return str(request.scope.get("root_path", "")).rstrip("/")


def _origin(request: Request) -> str:
    return f"{request.url.scheme}://{request.url.netloc}{_base(request)}"


def _callback(request: Request) -> str:
    return f"{_origin(request)}/api/v1/login/callback"


def _method(request: Request) -> str:
    if request.app.state.provider is not None:
        return "oidc"
    accounts = request.app.state.authenticator
    if not isinstance(accounts, Accounts):
        return "none"
    return "token" if accounts.is_local else "password"


def _provider(request: Request) -> Provider:
    provider: Provider | None = request.app.state.provider
    if provider is None:
        raise Problem(409, "no-login", "This server has no identity provider (web.auth).")
    return provider


@router.post("/login", response_model=CurrentUser)
@allow(Role.PUBLIC)
async def log_in(request: Request, credentials: Credentials) -> Response:
    """Start a session: the answer sets its cookie."""
    accounts = _accounts(request)
    if accounts.is_local:
        raise Problem(409, "no-login", "Passwords are not asked for here (web.auth): use the address of serve.")
    return await _begun(request, accounts, await accounts.log_in(request, credentials.name, credentials.password))


@router.post("/login/link", response_model=CurrentUser)
@allow(Role.PUBLIC)
async def log_in_by_link(request: Request, link: Link) -> Response:
    """Start a session with a one-time token, at a loopback address without `web.auth`."""
    accounts = _accounts(request)
    if not accounts.is_local:
        raise Problem(409, "no-login", "One-time tokens are for servers at a loopback address (web.loopback_login).")
    return await _begun(request, accounts, await accounts.log_in_by_link(request, link.token))


async def _begun(request: Request, accounts: Accounts, login: tuple[Principal, WebSession]) -> Response:
    person, session = login
    csrf = await accounts.csrf(session)
    response = JSONResponse(_me(request, person, csrf).model_dump(mode="json"))
    await accounts.give_session(request, response, session)
    return response


class LoggedOut(BaseModel):
    """The session has ended. `provider` is where the browser goes on, to end the one at the identity provider, too."""

    provider: str | None


@router.post("/logout", response_model=LoggedOut)
@allow(Role.PUBLIC)
async def log_out(request: Request) -> Response:
    """End the session of this browser."""
    accounts, provider = request.app.state.authenticator, request.app.state.provider
    address = None
    if provider is not None and (hint := read_cookie(request, ID)) is not None:
        address = await provider.logout_address(hint, f"{_origin(request)}/")
    response = JSONResponse({"provider": address})
    if isinstance(accounts, Accounts):
        if (session := await accounts.session(request)) is not None:
            await accounts.end(session)
        await accounts.take_session(request, response)
    return response


def _accounts(request: Request) -> Accounts:
    accounts = request.app.state.authenticator
    if not isinstance(accounts, Accounts):
        raise Problem(409, "no-login", "This server needs no login (web.auth).")
    return accounts
