"""Who may do what: roles, the person behind a request, and the check that denies by default.

A route says which role it needs with `@allow(Role.VIEWER)`; one that says nothing is closed to
everybody. How a request proves who sends it is the business of an `Authenticator` (accounts.py,
or `Loopback` here).
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Final, Protocol, TypeVar

from fastapi import Depends, Request

from aiosched.web.server.problems import Problem

F = TypeVar("F", bound=Callable[..., Any])

_NEEDED: Final = "__aiosched_role__"


class Role(enum.IntEnum):
    """What people may do; each role may do what those below it may."""

    PUBLIC = 0  # health, the login itself, the UI's own files
    VIEWER = 1  # look at everything but secrets
    OPERATOR = 2  # trigger, pause, clear, mark, backfill, emit
    ADMIN = 3  # pools, variables, connections, users, tokens

    @classmethod
    def of(cls, name: str) -> Role:
        """The role with that name in small letters, as settings and rows have it."""
        return cls[name.upper()]


@dataclass(frozen=True, slots=True)
class Principal:
    """Who sent a request. `name` goes into the audit log as `api:<name>`."""

    name: str
    role: Role

    @property
    def requested_by(self) -> str:
        return f"api:{self.name}"


class Authenticator(Protocol):
    """Says who sent a request: None when it does not prove anything. Raises Problem for a broken proof."""

    async def __call__(self, request: Request) -> Principal | None: ...


class Loopback:
    """No login: whoever reaches the loopback address of this machine is its administrator."""

    async def __call__(self, request: Request) -> Principal | None:
        return Principal("local", Role.ADMIN)


def allow(role: Role) -> Callable[[F], F]:
    """Open an endpoint to `role` and those above."""

    def mark(endpoint: F) -> F:
        setattr(endpoint, _NEEDED, role)
        return endpoint

    return mark


def needed_role(endpoint: Callable[..., Any]) -> Role | None:
    """The role that an endpoint is open to; None: nobody."""
    return getattr(endpoint, _NEEDED, None)


async def authorise(request: Request) -> Principal:
    """The person behind a request that may pass; the dependency of every route. Raises Problem 401 or 403."""
    needed = needed_role(request.scope["endpoint"])
    if needed is None:
        raise Problem(403, "closed", "This address is open to nobody.")
    if needed is Role.PUBLIC:
        return Principal("anonymous", Role.PUBLIC)
    authenticator: Authenticator = request.app.state.authenticator
    person = await authenticator(request)
    if person is None:
        raise Problem(401, "login-needed", "Log in, or send a token: Authorization: Bearer …")
    if person.role < needed:
        raise Problem(
            403,
            "role-too-low",
            f"{person.name} is {person.role.name.lower()}; this needs {needed.name.lower()}. An administrator can "
            "change it: aiosched users role NAME ROLE.",
        )
    return person


Person = Annotated[Principal, Depends(authorise)]
