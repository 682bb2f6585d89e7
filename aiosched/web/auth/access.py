"""Who may do what: roles, the user behind a request, and the check that denies by default.

A route says which role it needs with `@allow(Role.VIEWER)`; a route without it is closed to everybody. How a request is
authenticated is up to an `Authenticator` (accounts.py, or `Loopback` here).
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Final, Protocol, TypeVar

from fastapi import Depends, Request

from aiosched.core.audit.actor import Actor, act_for
from aiosched.web.server.problems import Problem

F = TypeVar("F", bound=Callable[..., Any])

_NEEDED: Final = "__aiosched_role__"


class Role(enum.IntEnum):
    """What users may do; each role includes those below it."""

    PUBLIC = 0  # health, the login itself, the UI's own files
    VIEWER = 1  # read everything but secrets
    OPERATOR = 2  # trigger, pause, clear, mark, backfill, emit
    ADMIN = 3  # pools, variables, connections, users, tokens

    @classmethod
    def of(cls, name: str) -> Role:
        """The role with this lower-case name, as used in settings and rows. Raises Problem 403 for an unknown one."""
        try:
            return cls[name.upper()]
        except KeyError:
            raise Problem(
                403,
                "unknown-role",
                f"The role {name!r} means nothing to this aiosched: a newer one may know it. An administrator can give "
                "another: aiosched users role NAME ROLE.",
            ) from None


@dataclass(frozen=True, slots=True)
class Principal:
    """The sender of a request. The audit log has `name` as `api:<name>`.

    `session` and `token` are the ids of the session or the token by which the sender is known.
    """

    name: str
    role: Role
    session: int | None = None
    token: int | None = None

    @property
    def requested_by(self) -> str:
        return f"api:{self.name}"


class Authenticator(Protocol):
    """Finds the sender of a request: None without credentials. Raises Problem for invalid ones."""

    async def __call__(self, request: Request) -> Principal | None: ...


class Loopback:
    """No login: everyone who reaches the loopback address of this machine is an administrator."""

    async def __call__(self, request: Request) -> Principal | None:
        return Principal("local", Role.ADMIN)


def allow(role: Role) -> Callable[[F], F]:
    """Open an endpoint to `role` and those above."""

    def mark(endpoint: F) -> F:
        setattr(endpoint, _NEEDED, role)
        return endpoint

    return mark


def needed_role(endpoint: Callable[..., Any]) -> Role | None:
    """The lowest role that may use an endpoint; None: no role may."""
    return getattr(endpoint, _NEEDED, None)


async def authorise(request: Request) -> Principal:
    """The user behind an allowed request; the dependency of every route. Raises Problem 401 or 403."""
    needed = needed_role(request.scope["endpoint"])
    if needed is None:
        raise Problem(403, "closed", "This address declares no role that may use it.")
    address = request.client.host if request.client else None
    act_for(Actor("anonymous", address))
    if needed is Role.PUBLIC:
        return Principal("anonymous", Role.PUBLIC)
    authenticator: Authenticator = request.app.state.authenticator
    person = await authenticator(request)
    if person is None:
        raise Problem(401, "login-needed", "Log in, or send a token: Authorization: Bearer …")
    act_for(Actor(person.requested_by, address, person.session, person.token))
    if person.role < needed:
        raise Problem(
            403,
            "role-too-low",
            f"{person.name} is {person.role.name.lower()}; this needs {needed.name.lower()}. An administrator can "
            "change it: aiosched users role NAME ROLE.",
        )
    return person


Person = Annotated[Principal, Depends(authorise)]
