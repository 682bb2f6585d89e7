"""Variables, connections and pools for people who may see those of their teams, and those of nobody."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from aiosched.core.access.roles import Role
from aiosched.db.access.owners import OwnedKind, read_owners
from aiosched.db.server.engine import Database
from aiosched.web.auth.visibility import Visible
from aiosched.web.requests.seen_rows import first_seen
from aiosched.web.server.problems import Problem

T = TypeVar("T")


async def seen_things(
    db: Database,
    visible: Visible,
    kind: OwnedKind,
    rows: Sequence[T],
    name_of: Callable[[T], str],
    *,
    needed: Role = Role.VIEWER,
) -> list[T]:
    """Those of `rows` for which the sender has the role `needed`."""
    if visible.person.role >= needed:
        return list(rows)
    owners = await read_owners(db, kind, [name_of(row) for row in rows])
    on_team = visible.person.rights.on_team
    return [row for row in rows if (name := name_of(row)) in owners and on_team(owners[name]) >= needed]


async def seen_page(
    db: Database,
    visible: Visible,
    kind: OwnedKind,
    read: Callable[[str, int], Awaitable[Sequence[T]]],
    name_of: Callable[[T], str],
    *,
    after: str = "",
    limit: int,
    needed: Role = Role.VIEWER,
) -> list[T]:
    """The first `limit` for which the sender has the role `needed`, after the name `after`; `read` reads rows after a
    name."""
    if visible.person.role >= needed:
        return list(await read(after, limit))

    async def seen(rows: Sequence[T]) -> Sequence[T]:
        return await seen_things(db, visible, kind, rows, name_of, needed=needed)

    return await first_seen(read, seen, name_of, after=after, limit=limit)


async def check_seen(db: Database, visible: Visible, kind: OwnedKind, name: str) -> None:
    """Raise Problem 404 for what exists and cannot be seen, or does not exist, if not everything can be seen."""
    if visible.is_whole:
        return
    owners = await read_owners(db, kind, [name])
    if name not in owners or not visible.sees_team(owners[name]):
        raise _unseen(kind)


async def check_editable(
    db: Database, visible: Visible, kind: OwnedKind, name: str, *, is_new: bool = False, team: str | None = None
) -> None:
    """Raise Problem 404 for what cannot be seen, and 403 for what belongs to a team without the role editor for it.

    `is_new`: it may be missing; what is created belongs to `team`, or to nobody, which needs the role everywhere. What
    gets to belong to another `team` (empty: to nobody; None: it keeps its own) needs the role for both.
    """
    if visible.person.role >= Role.EDITOR:
        return
    owners = await read_owners(db, kind, [name])
    if name in owners:
        if not visible.sees_team(owners[name]):
            raise _unseen(kind)
        visible.check_team(owners[name], Role.EDITOR)
        if team is not None:
            visible.check_team(team or None, Role.EDITOR)
    elif is_new:
        visible.check_team(team or None, Role.EDITOR)
    else:
        raise _unseen(kind)


def _unseen(kind: OwnedKind) -> Problem:
    return Problem(404, "not-found", f"There is no such {kind} among those that you may see.")
