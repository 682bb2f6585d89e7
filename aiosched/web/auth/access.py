"""Who may do what: the person behind a request, and the check that denies by default.

A route says which role it needs and where: `@allow(Role.OPERATOR, RoleScope.DAG)`. One that says nothing, or not
where, is closed to everybody. How a request is authenticated is up to an `Authenticator` (accounts.py, or `Loopback`
here); what a person sees of lists is in visible.py. Source: docs/access.md.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Final, NamedTuple, Protocol, TypeVar, cast

from fastapi import Depends, Request

from aiosched.core.access.grants import RoleGrant
from aiosched.core.access.rights import PersonRights
from aiosched.core.access.roles import Role, find_role
from aiosched.core.audit.actor import Actor, act_for
from aiosched.errors import ConfigError
from aiosched.web.auth.known_dags import KnownDags
from aiosched.web.server.problems import Problem

__all__ = [
    "Authenticator",
    "Loopback",
    "Person",
    "Principal",
    "Role",
    "RoleScope",
    "Rule",
    "allow",
    "authorise",
    "role_of",
    "rule_of",
]

F = TypeVar("F", bound=Callable[..., Any])

_RULE: Final = "__aiosched_rule__"


class RoleScope(enum.Enum):
    """Where a role is needed."""

    DAG = "for the DAG in the address"
    SEEN = "the endpoint shows and changes only what its sender may: it asks for `TheVisible`"
    OWN = "what belongs to the sender"
    NEUTRAL = "the same for everybody, and nothing about DAGs"
    EVERYWHERE = "for everything there is"


class Rule(NamedTuple):
    """Who may use a route. Only what is public has no scope."""

    role: Role
    scope: RoleScope | None

    @property
    def is_complete(self) -> bool:
        return self.role is Role.PUBLIC or self.scope is not None


@dataclass(frozen=True, slots=True)
class Principal:
    """The sender of a request. The audit log has `name` as `api:<name>`.

    `role` is the one for everything there is; its word, such as "viewer", will do. Raises ConfigError for another word.
    `granted` is what the sender may do besides; None: nothing.
    `session` and `token` are the ids of the session or the token by which the sender is known.
    """

    name: str
    role: Role
    session: int | None = None
    token: int | None = None
    granted: PersonRights | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.role, Role):  # of an application without types
            if (role := find_role(str(self.role))) is None:
                words = ", ".join(role.word for role in Role if role)
                raise ConfigError(f"{self.role!r} is no role of {self.name!r}: use one of {words}.")
            object.__setattr__(self, "role", role)

    @classmethod
    def with_rights(
        cls, name: str, rights: PersonRights, *, session: int | None = None, token: int | None = None
    ) -> Principal:
        """A sender with these rights."""
        return cls(name, rights.everywhere, session, token, rights)

    @property
    def rights(self) -> PersonRights:
        """All that the sender may do."""
        return PersonRights((RoleGrant(self.role),)) if self.granted is None else self.granted

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


def role_of(word: str) -> Role:
    """The role of a lower-case word, as used in settings and rows. Raises Problem 403 for an unknown one."""
    role = find_role(word)
    if role is None:
        raise Problem(
            403,
            "unknown-role",
            f"The role {word!r} means nothing to this aiosched: a newer one may know it. An administrator can give "
            "another: aiosched users role NAME ROLE.",
        )
    return role


def allow(role: Role, scope: RoleScope | None = None) -> Callable[[F], F]:
    """Open an endpoint to `role` and those above, where `scope` says."""

    def mark(endpoint: F) -> F:
        setattr(endpoint, _RULE, Rule(role, scope))
        return endpoint

    return mark


def rule_of(endpoint: Callable[..., Any]) -> Rule | None:
    """Who may use an endpoint; None: nobody."""
    rule: Rule | None = getattr(endpoint, _RULE, None)
    return rule if rule is not None and rule.is_complete else None


async def authorise(request: Request) -> Principal:
    """The user behind an allowed request; the dependency of every route. Raises Problem 401, 403 or 404."""
    rule = rule_of(request.scope["endpoint"])
    if rule is None:
        raise Problem(403, "closed", "This address declares no role that may use it.")
    address = request.client.host if request.client else None
    act_for(Actor("anonymous", address))
    if rule.role is Role.PUBLIC:
        return Principal("anonymous", Role.PUBLIC)
    authenticator: Authenticator = request.app.state.authenticator
    person = await authenticator(request)
    if person is None:
        raise Problem(401, "login-needed", "Log in, or send a token: Authorization: Bearer …")
    act_for(Actor(person.requested_by, address, person.session, person.token))
    rights = person.rights
    if rule.scope is RoleScope.DAG:
        known = cast("KnownDags", request.app.state.known_dags)
        await check_dag(person, known, request.path_params["dag_id"], rule.role)
    elif rule.scope is RoleScope.EVERYWHERE:
        check_role(person, rights.everywhere, rule.role, "everywhere")
    else:
        check_role(person, rights.possible, rule.role)
    return person


async def check_dag(person: Principal, known: KnownDags, dag_id: str, needed: Role) -> None:
    """Raise Problem 404 for a DAG that a person may not see, as if it did not exist, and 403 if the role is too low."""
    if person.role >= max(needed, Role.VIEWER):
        return
    dag = await known.find(dag_id)
    has = person.rights.everywhere if dag is None else person.rights.on_dag(dag)
    if has < Role.VIEWER:
        raise no_such_dag()
    check_role(person, has, needed, "for this DAG")


def check_role(person: Principal, has: Role, needed: Role, where: str = "") -> None:
    """Raise Problem 403 if a role is too low."""
    if has < needed:
        place = f" {where}" if where else ""
        raise Problem(
            403,
            "role-too-low",
            f"{person.name} is {has.word}{place}; this needs {needed.word}. An administrator can change it: aiosched "
            "users role NAME ROLE, or aiosched users grant.",
        )


def no_such_dag() -> Problem:
    """The same for a DAG that does not exist and for one that the sender may not see."""
    return Problem(404, "not-found", "There is no such DAG among those that you may see.")


Person = Annotated[Principal, Depends(authorise)]
