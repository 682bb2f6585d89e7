"""Which names a backend is asked for, and who may read what belongs to a team. Pure.

A backend has one space of names. With a pattern such as `{team}/{name}` a name that fits it belongs to that team, so
nobody reaches it by writing it out.

Source: docs/secrets.md, "Teams".
"""

from __future__ import annotations

import re
from functools import cache
from typing import Final, NamedTuple

_NAME: Final = re.compile(r"^[\w.:()#@+-]+(?:/[\w.:()#@+-]+)*$", re.ASCII)
_LONGEST: Final = 250


class Reader(NamedTuple):
    """For whom something is read: the DAGs of a team (None: of no team), or somebody who may read everything."""

    team: str | None
    sees_all: bool = False

    def is_denied(self, owner: str | None) -> bool:
        """Whether what belongs to the team `owner` (None: to nobody) is withheld."""
        return owner is not None and owner != self.team and not self.sees_all

    def may_change(self, owner: str | None) -> bool:
        """Whether what belongs to the team `owner` may be changed. What belongs to nobody is read by all teams, so a
        team changes only its own."""
        return owner == self.team or self.sees_all


EVERYTHING: Final = Reader(None, sees_all=True)


def names_to_ask(name: str, team: str | None, pattern: str | None) -> tuple[str, ...]:
    """The names by which a backend may have `name` for a DAG of `team`, the first one that it has counts.

    Own names of the team come first. None for a name that cannot be the name of a secret, such as `../x`. A team whose
    name has a character of what stands between the two in the pattern has no own names: they could be another team's.

    >>> names_to_ask("shop", "sales", "{team}/{name}"), names_to_ask("hr/pay", "sales", "{team}/{name}")
    (('sales/shop', 'shop'), ('sales/hr/pay',))
    """
    if not is_plain(name):
        return ()
    if pattern is None:
        return (name,)
    has_own = team is not None and is_plain(team) and not set(between(pattern)) & set(team)
    own = (pattern.format(team=team, name=name),) if has_own else ()
    return own if _of_a_team(pattern).match(name) else (*own, name)


def is_plain(name: str) -> bool:
    """Whether a backend may be asked for a name: no part of it leads out of a folder."""
    return len(name) <= _LONGEST and _NAME.match(name) is not None and not {".", ".."} & set(name.split("/"))


def between(pattern: str) -> str:
    """What stands between the team and the name."""
    return re.split(r"\{team\}|\{name\}", pattern)[1]


@cache
def _of_a_team(pattern: str) -> re.Pattern[str]:
    parts = re.split(r"(\{team\}|\{name\})", pattern)
    return re.compile("".join(".+" if part in ("{team}", "{name}") else re.escape(part) for part in parts) + r"\Z")
