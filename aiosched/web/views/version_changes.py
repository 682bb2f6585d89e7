"""What differs between two versions of a DAG, for people. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Literal, NamedTuple

from aiosched.db.queries.version_queries import VersionText
from aiosched.web.views.line_diff import unified

MOST_COMPARED: Final = 2**20  # characters of all modules of an answer
NOT_KEPT: Final = "Its source is not kept: it has more than 1 MiB, or it changed before it could be read."
_TOO_MUCH: Final = "It is too large to be compared here with the others: look at it in both versions."


Change = Literal["added", "removed", "changed"]


class ModuleDifference(NamedTuple):
    """A module that two versions do not have in common; its unified diff, or why there is none."""

    name: str
    change: Change
    diff: str | None
    why: str | None


class ChangedModule(NamedTuple):
    """A module by its path, with its content hashes in both versions; None: not imported."""

    name: str
    before: str | None
    after: str | None


def changed_modules(one: VersionText, two: VersionText) -> list[ChangedModule]:
    """What only one of the versions imports, or both with other content. Nothing if that is unknown."""
    if one.sources is None or two.sources is None:
        return []
    before = {name: digest for name, digest in one.sources.items() if name != one.file}
    after = {name: digest for name, digest in two.sources.items() if name != two.file}
    names = sorted(before.keys() | after.keys())
    return [ChangedModule(n, before.get(n), after.get(n)) for n in names if before.get(n) != after.get(n)]


def source_changed(one: VersionText, two: VersionText) -> bool | None:
    """Whether the DAG's own file differs; None: unknown, as of DAGs of applications."""
    if one.source is None or two.source is None:
        return None
    digests = [(version.sources or {}).get(version.file or "") for version in (one, two)]
    return one.source != two.source or (None not in digests and digests[0] != digests[1])


def compared(
    changes: Sequence[ChangedModule], texts: Mapping[str, str], versions: tuple[str, str]
) -> list[ModuleDifference]:
    """The differences of modules; `texts` are what is kept, by content hash, `versions` the names of the versions."""
    found, left = [], MOST_COMPARED
    for name, before, after in changes:
        change: Change = "added" if before is None else "removed" if after is None else "changed"
        sides = ["" if digest is None else texts.get(digest) for digest in (before, after)]
        kept = [text for text in sides if text is not None]
        size = sum(map(len, kept))
        if len(kept) < 2:
            found.append(ModuleDifference(name, change, None, NOT_KEPT))
        elif size > left:
            found.append(ModuleDifference(name, change, None, _TOO_MUCH))
        else:
            left -= size
            names = (f"{name} of {versions[0]}", f"{name} of {versions[1]}")
            found.append(ModuleDifference(name, change, unified(kept[0], kept[1], names), None))
    return found
