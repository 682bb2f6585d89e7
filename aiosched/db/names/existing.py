"""What storing under a name does if the name exists already, or does not exist."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from enum import StrEnum

from aiosched.errors import NotFound, Refused


class IfExists(StrEnum):
    """How to treat names that already exist, and those that do not."""

    OVERWRITE = "overwrite"  # create or change
    SKIP = "skip"  # create, and leave what exists as it is
    FAIL = "fail"  # create only
    REQUIRE = "require"  # change only


def check_existing(existing: IfExists, kind: str, names: Iterable[str], known: Collection[str]) -> None:
    """Raise Refused if one of `names` exists and may not, and NotFound if one does not exist and has to.

    Nobody can take away a `known` name whose row is locked. Another one can appear until the row is inserted, so the
    statement that inserts it looks again.
    """
    if existing is IfExists.FAIL and (taken := sorted(name for name in names if name in known)):
        raise exists_already(kind, taken)
    if existing is IfExists.REQUIRE and (gone := [name for name in names if name not in known]):
        raise NotFound(f"There is no {kind} {gone[0]!r} to change; it may have been deleted.")


def exists_already(kind: str, names: Collection[str]) -> Refused:
    """The refusal to create what exists."""
    if len(names) == 1:
        return Refused(f"The {kind} {next(iter(names))!r} exists already. Nothing was changed.")
    return Refused(f"These {kind}s exist already: {', '.join(names)}. Nothing was changed.")
