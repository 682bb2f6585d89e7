"""Users, and tokens for programs. A token is shown once, when it is created."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated, Literal

from fastapi import APIRouter, Path, Query
from fastapi.responses import Response
from pydantic import BaseModel, Field

from aiosched.core.access.grants import GrantKind, RoleGrant
from aiosched.db.access import grants
from aiosched.db.access.grants import HeldRights
from aiosched.db.people import accounts
from aiosched.db.server.engine import Database
from aiosched.errors import Refused
from aiosched.web.api.base.models import Body, Etag, Instant, Resource, Stored
from aiosched.web.api.base.paging import Cursor, Limit, Page, decode_cursor, page_of
from aiosched.web.auth.access import Person, Principal, Role, RoleScope, allow, role_of
from aiosched.web.auth.accounts import rights_of
from aiosched.web.auth.passwords import check_lifetime, check_password, hash_password, hash_token, new_token
from aiosched.web.requests.condition import TheVersion
from aiosched.web.requests.request_client import ThePrimary, TheRequestClient
from aiosched.web.server.problems import Problem

router: APIRouter = APIRouter(tags=["Users"])

KindName = Literal["person", "service", "local"]
RoleName = Literal["viewer", "operator", "editor", "admin"]
UserRole = Literal["none", "viewer", "operator", "editor", "admin"]
GrantText = Annotated[str, Field(max_length=600, pattern=r"^[^\x00-\x1f]*$")]
Name = Annotated[str, Path(pattern=accounts.NAME_PATTERN)]


class User(Resource):
    """A user. A person logs in, a service account only has tokens, `local` uses a server at a loopback address.

    `role` holds everywhere; `grants` hold for some DAGs, as `operator@team:sales`. `issuer` is the identity provider
    that a person logs in with, `groups` are those there, as of the last login.
    """

    name: str
    role: Stored[UserRole]
    grants: list[str]
    groups: list[str]
    kind: Stored[KindName]
    is_disabled: bool
    has_password: bool
    issuer: str | None
    created_at: Instant
    etag: Etag


class NewUser(Body):
    """A user to create: a person with a password, or a service account without one."""

    name: Annotated[str, Field(pattern=accounts.NAME_PATTERN)]
    role: UserRole
    kind: Literal["person", "service"] = "person"
    password: Annotated[str | None, Field(min_length=8, max_length=1000)] = None


class UserChange(Body):
    """What to change; null leaves a value unchanged. Any change ends the user's sessions.

    A new password also ends the user's tokens; with `keep_tokens`, or if it is one's own, only those of /auth/token,
    and one's own session goes on.
    """

    role: UserRole | None = None
    is_disabled: bool | None = None
    password: Annotated[str | None, Field(min_length=8, max_length=1000)] = None
    keep_tokens: bool = False


class Token(Resource):
    """A token, without its secret value. With `grants` it can do only what one of them covers; null: all that its owner
    can."""

    id: int
    owner: str
    label: str
    role: Stored[RoleName]
    read_only: bool
    grants: list[str] | None
    created_at: Instant
    expires_at: Instant | None
    last_used_at: Instant | None


class NewToken(Body):
    """A token to create for oneself, or for a service account as an administrator (`owner`).

    `days` until it expires, at most `web.max_token_days`; null: never, if there is no such limit. `read_only`: it
    answers only requests that change nothing. With `grants`, such as `viewer@tag:etl`, it can do only what one of them
    and one of its owner's covers.
    """

    label: Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f]*$")]
    role: RoleName = "viewer"
    grants: Annotated[list[GrantText] | None, Field(min_length=1, max_length=100)] = None
    days: Annotated[float | None, Field(gt=0, le=3650)] = 90.0
    read_only: bool = False
    owner: Annotated[str | None, Field(pattern=accounts.NAME_PATTERN)] = None


class MadeToken(BaseModel):
    """A new token: `token` is shown only this once."""

    token: str
    facts: Token


@router.get("/users")
@allow(Role.ADMIN, RoleScope.EVERYWHERE)
async def list_users(request_client: ThePrimary, limit: Limit = 100, cursor: Cursor = None) -> Page[User]:
    """Users by name."""
    after = decode_cursor(cursor, str)
    rows = await accounts.list_users(request_client.db, after=after or "", limit=limit + 1)
    return page_of(User, rows, limit, lambda row: row.name)


@router.get("/users/{name}")
@allow(Role.ADMIN, RoleScope.EVERYWHERE)
async def one_user(request_client: ThePrimary, name: Name) -> User:
    """One user."""
    return User.model_validate(await accounts.read_user(request_client.db, name))


@router.post("/users", status_code=201)
@allow(Role.ADMIN, RoleScope.EVERYWHERE)
async def create_user(request_client: TheRequestClient, body: NewUser) -> User:
    """Create a user."""
    digest = None
    if body.kind == "service":
        if body.password is not None:
            raise Refused("A service account has no password: create it without one, and then a token for it.")
    else:
        check_password(body.password or "")
        digest = await hash_password(body.password or "")
    made = await accounts.create_user(request_client.db, body.name, body.role, digest, kind=body.kind)
    return User.model_validate(made)


@router.patch("/users/{name}")
@allow(Role.ADMIN, RoleScope.EVERYWHERE)
async def change_user(
    request_client: TheRequestClient, person: Person, name: Name, change: UserChange, existing: TheVersion
) -> User:
    """Change a user's role or password, disable or enable the user."""
    digest = None
    if change.password is not None:
        check_password(change.password)
        digest = await hash_password(change.password)
    changed = await accounts.change_user(
        request_client.db,
        name,
        role=change.role,
        is_disabled=change.is_disabled,
        password=digest,
        keep_tokens=change.keep_tokens,
        session=person.session if person.name == name else None,
        existing=existing,
    )
    return User.model_validate(changed)


class GrantBody(Body):
    """A grant, such as `viewer@team:alpha`, `operator@tag:etl`, `operator@folder:sales`, `viewer@dags:sales_*`."""

    grant: GrantText


@router.post("/users/{name}/grants", status_code=201)
@allow(Role.ADMIN, RoleScope.EVERYWHERE)
async def grant_role(request_client: TheRequestClient, name: Name, body: GrantBody) -> User:
    """Give a user a role for some DAGs; it replaces the one that the user has for the same ones."""
    grant = RoleGrant.parse(body.grant)
    if grant.kind is GrantKind.EVERYWHERE:
        await accounts.change_user(request_client.db, name, role=grant.role.word)
    else:
        await grants.add_grant(request_client.db, name, grant)
    return User.model_validate(await accounts.read_user(request_client.db, name))


@router.delete("/users/{name}/grants")
@allow(Role.ADMIN, RoleScope.EVERYWHERE)
async def take_grant(
    request_client: TheRequestClient, name: Name, grant: Annotated[GrantText, Query(description="as in `grants`")]
) -> User:
    """Take a grant away from a user."""
    taken = RoleGrant.parse(grant)
    if taken.kind is GrantKind.EVERYWHERE:
        await accounts.change_user(request_client.db, name, role="none")
    else:
        await grants.remove_grant(request_client.db, name, taken)
    return User.model_validate(await accounts.read_user(request_client.db, name))


@router.delete("/users/{name}", status_code=204)
@allow(Role.ADMIN, RoleScope.EVERYWHERE)
async def delete_user(request_client: TheRequestClient, name: Name, existing: TheVersion) -> Response:
    """Delete a user, their tokens and their sessions."""
    await accounts.delete_user(request_client.db, name, existing=existing)
    return Response(status_code=204)


@router.get("/tokens")
@allow(Role.VIEWER, RoleScope.OWN)
async def list_tokens(
    request_client: ThePrimary,
    person: Person,
    everybody: Annotated[bool, Query(description="tokens of all users; for administrators")] = False,
    limit: Limit = 100,
    cursor: Cursor = None,
) -> Page[Token]:
    """One's own tokens, oldest first."""
    owner = None if everybody and person.role >= Role.ADMIN else person.name
    after = decode_cursor(cursor, int)
    rows = await accounts.list_tokens(request_client.db, owner, after=after or 0, limit=limit + 1)
    return page_of(Token, rows, limit, lambda row: row.id)


@router.post("/tokens", status_code=201)
@allow(Role.VIEWER, RoleScope.OWN)
async def create_token(request_client: TheRequestClient, person: Person, body: NewToken) -> MadeToken:
    """Create a token, with its owner's role or a lower one. Needs a login: a token makes none."""
    if person.token is not None:
        raise Problem(403, "login-needed", "A token cannot create others: log in, and create it then.")
    owner = await _owner(request_client.db, person, body.owner)
    highest = max(owner.rights.granted, Role.VIEWER)
    if role_of(body.role) > highest:
        raise Refused(f"{owner.name} is {highest.word}: a token cannot have a higher role.")
    check_lifetime(body.days, request_client.settings.web.max_token_days)
    expires_at = None if body.days is None else datetime.now(UTC) + timedelta(days=body.days)
    token = new_token()
    grants = None if body.grants is None else list(map(RoleGrant.parse, body.grants))
    made = await accounts.create_token(
        request_client.db,
        owner.name,
        body.label,
        hash_token(token),
        body.role,
        expires_at,
        grants,
        read_only=body.read_only,
    )
    return MadeToken(token=token, facts=Token.model_validate(made))


async def _owner(db: Database, person: Principal, name: str | None) -> Principal:
    """Whose token is created: one's own, or that of a service account. Raises Problem 403."""
    if name is None or name == person.name:
        return person
    if person.role < Role.ADMIN:
        raise Problem(403, "role-too-low", f"{person.name} is no administrator: only own tokens can be created.")
    owner = await accounts.read_user(db, name)
    if owner.kind != "service":
        raise Refused(f"{name!r} is no service account, and creates tokens alone, after a login.")
    return Principal.with_rights(owner.name, rights_of(HeldRights(owner.role, owner.grants)))


@router.delete("/tokens/{token}", status_code=204)
@allow(Role.VIEWER, RoleScope.OWN)
async def delete_token(
    request_client: TheRequestClient, person: Person, token: Annotated[int, Path(ge=1, lt=2**63)]
) -> Response:
    """Revoke a token: one's own, or any token as an administrator."""
    await accounts.delete_token(request_client.db, token, None if person.role >= Role.ADMIN else person.name)
    return Response(status_code=204)
