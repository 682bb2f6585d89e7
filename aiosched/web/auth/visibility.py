"""What the sender of a request may see: the ids of DAGs for lists, and questions about single things."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, TypeVar, cast

from fastapi import Depends, Request

from aiosched.core.access.grants import FilePlace
from aiosched.core.access.roles import Role
from aiosched.web.auth.access import Person, Principal, check_dag, check_role
from aiosched.web.auth.known_dags import KnownDags

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Visible:
    """`dags` are the ids of the DAGs that `person` may see; None: all."""

    person: Principal
    known: KnownDags
    dags: frozenset[str] | None

    @property
    def is_whole(self) -> bool:
        """Whether everything can be seen."""
        return self.dags is None

    def sees(self, dag_id: str | None) -> bool:
        """Whether a DAG, or (None) what is about no DAG, can be seen."""
        return self.dags is None or (dag_id is not None and dag_id in self.dags)

    def among(self, dag_ids: Iterable[str]) -> list[str]:
        """Those of `dag_ids` that can be seen, in their order."""
        return [dag_id for dag_id in dag_ids if self.sees(dag_id)]

    def sees_team(self, team: str | None) -> bool:
        """Whether the variables, connections and pools of a team (None: of nobody) can be seen."""
        return self.person.rights.on_team(team) >= Role.VIEWER

    def sees_file(self, file: str, team: str | None, dag_ids: Iterable[str]) -> bool:
        """Whether a DAG file can be seen: by where it lies, or because one of its DAGs can be."""
        if self.dags is None:
            return True
        place = FilePlace.of(file, team)
        return self.person.rights.on_file(place) >= Role.VIEWER or bool(self.among(dag_ids))

    async def check_dag(self, dag_id: str, needed: Role) -> None:
        """Raise Problem 404 for a DAG that cannot be seen, and 403 if the role for it is too low."""
        await check_dag(self.person, self.known, dag_id, needed)

    async def may(self, dag_id: str, needed: Role) -> bool:
        """Whether the person has at least that role for a DAG."""
        if self.person.role >= needed:
            return True
        dag = await self.known.find(dag_id)
        return dag is not None and self.person.rights.on_dag(dag) >= needed

    def check_team(self, team: str | None, needed: Role) -> None:
        """Raise Problem 403 if the role for what a team owns (None: for what nobody owns) is too low."""
        where = "for what is of no team" if team is None else f"for team {team}"
        check_role(self.person, self.person.rights.on_team(team), needed, where)


async def visible_of(person: Principal, known: KnownDags) -> Visible:
    """What a person sees now."""
    return Visible(person, known, await known.seen_by(person.rights))


async def _visible(request: Request, person: Person) -> Visible:
    return await visible_of(person, cast("KnownDags", request.app.state.known_dags))


TheVisible = Annotated[Visible, Depends(_visible)]
