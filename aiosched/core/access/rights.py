"""What one person may do: all grants together, within the limits of the token by which they ask."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from aiosched.core.access.grants import FilePlace, GrantKind, GuardedDag, RoleGrant
from aiosched.core.access.roles import Role


@dataclass(frozen=True, slots=True)
class PersonRights:
    """The role for each DAG is the highest of the grants that cover it, and of what its author gives to the person.

    An author names groups of the identity provider (`groups`) and teams for which the person has a grant. A token has a
    highest role, and may have `limits`: grants of its own, of which one must cover the DAG, too.
    """

    grants: tuple[RoleGrant, ...] = ()
    groups: frozenset[str] = frozenset()
    limits: tuple[RoleGrant, ...] | None = None
    highest: Role = Role.ADMIN

    @property
    def names(self) -> frozenset[str]:
        """The names by which authors can give this person a role."""
        return self.groups | {grant.name for grant in self.grants if grant.kind is GrantKind.TEAM}

    @property
    def everywhere(self) -> Role:
        """The role for everything there is."""
        return self._role(lambda grant: grant.kind is GrantKind.EVERYWHERE)

    @property
    def granted(self) -> Role:
        """The highest role of all grants, wherever it holds."""
        return self._role(lambda grant: True)

    @property
    def possible(self) -> Role:
        """No DAG gives the person a higher role than this one."""
        by_authors = Role.OPERATOR if self.names else Role.NONE
        limit = Role.ADMIN if self.limits is None else _highest(self.limits)
        return min(max(_highest(self.grants), by_authors), limit, self.highest)

    def on_dag(self, dag: GuardedDag) -> Role:
        """The role for one DAG."""
        by_author = max((role for name, role in dag.control.items() if name in self.names), default=Role.NONE)
        return self._role(lambda grant: grant.covers(dag), at_least=by_author)

    def on_file(self, place: FilePlace) -> Role:
        """The role for a DAG file, whatever it defines."""
        return self._role(lambda grant: grant.covers_file(place))

    def on_team(self, team: str | None) -> Role:
        """The role for the variables, connections and pools of a team.

        What belongs to nobody (None) can be seen by all who have some grant, and changed with a role everywhere.
        """
        shared = min(self.granted, Role.VIEWER) if team is None else Role.NONE
        return max(self._role(lambda grant: grant.covers_team(team)), shared)

    def _role(self, covers: Callable[[RoleGrant], bool], *, at_least: Role = Role.NONE) -> Role:
        own = max(_highest(filter(covers, self.grants)), at_least)
        limit = Role.ADMIN if self.limits is None else _highest(filter(covers, self.limits))
        return min(own, limit, self.highest)


def _highest(grants: Iterable[RoleGrant]) -> Role:
    return max((grant.role for grant in grants), default=Role.NONE)
