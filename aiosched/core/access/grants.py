"""Grants: a role, and where it holds.

As text a grant is `ROLE` (everywhere) or `ROLE@KIND:NAME`: `viewer@team:alpha`, `operator@tag:etl`,
`operator@folder:sales/daily` (of the DAGs folder), `operator@folder:git:sales` (of the bundle `git`),
`viewer@dags:sales_*`. Source: docs/access.md.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from aiosched.core.access.roles import Role, find_role
from aiosched.errors import ConfigError, did_you_mean

_LONGEST: Final = 500  # characters of a name


class GrantKind(StrEnum):
    """By what a grant selects DAGs."""

    EVERYWHERE = "everywhere"
    TAG = "tag"
    FOLDER = "folder"
    DAGS = "dags"  # a glob over DAG ids
    TEAM = "team"


@dataclass(frozen=True, slots=True)
class FilePlace:
    """Where a DAG file lies: the path in its bundle (empty: the DAGs folder), and the team whose folder that is."""

    bundle: str = ""
    path: str = ""
    team: str | None = None

    @classmethod
    def of(cls, file: str, team: str | None = None) -> FilePlace:
        """The place of a file by its name, as parsing stores it: `bundle:path`, or a path in the DAGs folder."""
        bundle, colon, path = file.partition(":")
        return cls(bundle, path, team) if colon else cls("", file, team)


@dataclass(frozen=True, slots=True)
class GuardedDag:
    """What decides who may see a DAG. `control` are the roles that its author gives to groups and teams."""

    dag_id: str
    tags: frozenset[str] = frozenset()
    place: FilePlace | None = None  # None: a process has registered it, it has no file
    control: Mapping[str, Role] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RoleGrant:
    """A role for the DAGs that `kind` and `name` select."""

    role: Role
    kind: GrantKind = GrantKind.EVERYWHERE
    name: str = ""

    def __str__(self) -> str:
        return self.role.word if self.kind is GrantKind.EVERYWHERE else f"{self.role.word}@{self.kind}:{self.name}"

    @classmethod
    def parse(cls, text: str) -> RoleGrant:
        """The grant that `text` says. Raises ConfigError."""
        word, at, where = text.strip().partition("@")
        role = find_role(word)
        if role is None or role is Role.NONE:
            known = [each.word for each in Role if each is not Role.NONE]
            raise ConfigError(
                f"{text!r} begins with no role: write one of {', '.join(known)}.{did_you_mean(word, known)}"
            )
        kind, _, name = where.partition(":")
        if not at or where.removesuffix(":") == GrantKind.EVERYWHERE:
            return cls(role)
        if kind not in (*GrantKind,) or kind == GrantKind.EVERYWHERE:
            raise ConfigError(f"{text!r} does not say where: write {word}@tag:…, @folder:…, @dags:… or @team:….")
        return cls(role, GrantKind(kind), checked_name(GrantKind(kind), name))

    def covers(self, dag: GuardedDag) -> bool:
        """Whether it holds for a DAG."""
        match self.kind:
            case GrantKind.EVERYWHERE:
                return True
            case GrantKind.TAG:
                return self.name in dag.tags
            case GrantKind.DAGS:
                return _glob(self.name).fullmatch(dag.dag_id) is not None
        return dag.place is not None and self.covers_file(dag.place)

    def covers_file(self, place: FilePlace) -> bool:
        """Whether it holds for all that a DAG file defines."""
        match self.kind:
            case GrantKind.EVERYWHERE:
                return True
            case GrantKind.FOLDER:
                bundle, folder = split_folder(self.name)
                return bundle == place.bundle and is_inside(place.path, folder)
            case GrantKind.TEAM:
                return self.name == place.team
        return False

    def covers_team(self, team: str | None) -> bool:
        """Whether it holds for what belongs to a team as a whole (None: to nobody)."""
        return self.kind is GrantKind.EVERYWHERE or (self.kind is GrantKind.TEAM and self.name == team)


def readable(texts: Iterable[str]) -> tuple[RoleGrant, ...]:
    """The grants among stored texts; one that only a newer version understands gives nothing."""
    found = []
    for text in texts:
        try:
            found.append(RoleGrant.parse(text))
        except ConfigError:
            continue
    return tuple(found)


def checked_name(kind: GrantKind, name: str) -> str:
    """The name as it is stored. Raises ConfigError for one that can select nothing."""
    if kind is GrantKind.FOLDER:
        bundle, folder = split_folder(name)
        parts = [part for part in folder.split("/") if part not in ("", ".")]
        if ".." in parts or "\\" in folder:
            raise ConfigError(f"{name!r} is no folder: write a path below the DAGs folder, or BUNDLE:PATH.")
        name = f"{bundle}:{'/'.join(parts)}" if bundle else "/".join(parts)
    if (not name and kind is not GrantKind.FOLDER) or len(name) > _LONGEST or not name.isprintable():
        raise ConfigError(f"{name!r} is no name of a {kind}: write 1 to {_LONGEST} printable characters.")
    return name


def split_folder(name: str) -> tuple[str, str]:
    """The bundle (empty: the DAGs folder) and the path of a folder's name."""
    bundle, colon, folder = name.partition(":")
    return (bundle, folder) if colon else ("", name)


def is_inside(path: str, folder: str) -> bool:
    """Whether a file lies in a folder or below it; the empty folder holds all."""
    return not folder or path.startswith(f"{folder}/")


@functools.lru_cache(maxsize=1024)
def _glob(pattern: str) -> re.Pattern[str]:
    """`*` and `?`, as in lists of DAGs. Linear: a `*` takes as little as it can and never gives back."""
    first, *rest = [re.escape(part).replace(r"\?", ".") for part in pattern.split("*")]
    if not rest:
        return re.compile(first, re.DOTALL)
    *middle, last = rest
    return re.compile(first + "".join(f"(?>.*?{part})" for part in middle) + f".*{last}", re.DOTALL)
