"""Variables, connections and pools for people who may see those of their teams, and those of nobody."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

from aiosched.core.access.roles import Role
from aiosched.db.access.owners import OwnedKind, read_owners
from aiosched.db.server.engine import Database
from aiosched.web.auth.sight import Sight
from aiosched.web.server.problems import Problem

T = TypeVar("T")

_PIECE: Final = 500  # rows that are read at once


async def seen_things(
    db: Database,
    sight: Sight,
    kind: OwnedKind,
    rows: Sequence[T],
    name_of: Callable[[T], str],
    *,
    needed: Role = Role.VIEWER,
) -> list[T]:
    """Those of `rows` for which the sender has the role `needed`."""
    if sight.person.role >= needed:
        return list(rows)
    owners = await read_owners(db, kind, [name_of(row) for row in rows])
    on_team = sight.person.rights.on_team
    return [row for row in rows if (name := name_of(row)) in owners and on_team(owners[name]) >= needed]


async def seen_page(
    db: Database,
    sight: Sight,
    kind: OwnedKind,
    read: Callable[[str, int], Awaitable[Sequence[T]]],
    name_of: Callable[[T], str],
    *,
    after: str,
    limit: int,
) -> list[T]:
    """The first `limit` that can be seen, after the name `after`; `read` reads rows after a name."""
    if sight.is_whole:
        return list(await read(after, limit))
    found: list[T] = []
    while len(found) < limit:
        rows = await read(after, _PIECE)
        found += await seen_things(db, sight, kind, rows, name_of)
        if len(rows) < _PIECE:
            break
        after = name_of(rows[-1])
    return found[:limit]


async def check_seen(db: Database, sight: Sight, kind: OwnedKind, name: str) -> None:
    """Raise Problem 404 for what exists and cannot be seen, or does not exist, if not everything can be seen."""
    if sight.is_whole:
        return
    owners = await read_owners(db, kind, [name])
    if name not in owners or not sight.sees_team(owners[name]):
        raise _unseen(kind)


async def check_editable(
    db: Database, sight: Sight, kind: OwnedKind, name: str, *, is_new: bool = False, team: str | None = None
) -> None:
    """Raise Problem 404 for what cannot be seen, and 403 for what belongs to a team without the role editor for it.

    `is_new`: it may be missing; what is created belongs to `team`, or to nobody, which needs the role everywhere. What
    gets to belong to another `team` (empty: to nobody; None: it keeps its own) needs the role for both.
    """
    if sight.person.role >= Role.EDITOR:
        return
    owners = await read_owners(db, kind, [name])
    if name in owners:
        if not sight.sees_team(owners[name]):
            raise _unseen(kind)
        sight.check_team(owners[name], Role.EDITOR)
        if team is not None:
            sight.check_team(team or None, Role.EDITOR)
    elif is_new:
        sight.check_team(team or None, Role.EDITOR)
    else:
        raise _unseen(kind)


def _unseen(kind: OwnedKind) -> Problem:
    return Problem(404, "not-found", f"There is no such {kind} among those that you may see.")
