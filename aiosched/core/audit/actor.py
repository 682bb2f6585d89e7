"""Who is behind what this process does now, and from where: the first half of each entry of the audit log.

It belongs to the context of a request or a command, like its deadline, so that no function between the address that a
request came to and the row that it changes has to hand it on, and none can forget to. The web server sets it where
it learns who asks (web/auth/access.py), the command line where it opens the database (cli/base/session.py).

Why: docs/decisions/0043-audit-log.md.
"""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Actor:
    """`who` as in `request.requested_by`: `api:ada`, `cli:ada@host`. `session` and `token` are ids of their rows."""

    who: str
    address: str | None = None
    session: int | None = None
    token: int | None = None


PROCESS: Final = Actor("aiosched")  # nobody has asked: a process does it by itself
_actor: ContextVar[Actor] = ContextVar("aiosched_actor", default=PROCESS)


def actor() -> Actor:
    """Who is behind what is done in this context."""
    return _actor.get()


def act_for(who: Actor) -> None:
    """What this context does from now on, `who` has asked for."""
    _actor.set(who)
