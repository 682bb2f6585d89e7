"""What storing or deleting a name does if it exists already, does not exist, or was changed since it was read."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping
from enum import StrEnum
from typing import Final, NamedTuple, TypeAlias

from aiosched.db.audit.reading import EntrySelection, newest_entry
from aiosched.db.server.connection import DatabaseConnection
from aiosched.errors import ChangedMeanwhile, NotFound, Refused


class IfExists(StrEnum):
    """How to treat names that already exist, and those that do not."""

    OVERWRITE = "overwrite"  # create or change
    SKIP = "skip"  # create, and leave what exists as it is
    FAIL = "fail"  # create only
    REQUIRE = "require"  # change only


class IfUnchanged(NamedTuple):
    """Change only what is still as it was read: with this `etag`."""

    etag: str


Existing: TypeAlias = IfExists | IfUnchanged


def etag_of(*values: object) -> str:
    """A version of what has these values: another one if one of them is another."""
    return hashlib.sha256(repr(values).encode()).hexdigest()[:16]


# The kinds of entries of the audit log that are changes.
_CHANGES: Final[Mapping[str, str]] = {
    "pool": "request.set_pool",
    "variable": "request.set_variable",
    "connection": "request.set_connection",
    "rule": "alert_rule.",
    "user": "user.,grant.",
    "note": "request.set_note",
    "view": "view.",
}


async def check_existing(
    conn: DatabaseConnection, existing: Existing, kind: str, names: Iterable[str], known: Mapping[str, str]
) -> None:
    """Before `names` are stored or deleted: raise Refused if one of them exists and may not, NotFound if one does not
    exist and has to, and ChangedMeanwhile if one is not as it was read. `known` are those that exist, with their etags.

    Nobody can take away or change a `known` name whose row is locked. Another one can appear until the row is
    inserted, so the statement that inserts it looks again.
    """
    if existing is IfExists.FAIL and (taken := sorted(name for name in names if name in known)):
        raise exists_already(kind, taken)
    if existing is not IfExists.REQUIRE and not isinstance(existing, IfUnchanged):
        return
    for name in names:
        if name not in known:
            raise NotFound(f"There is no {kind} {name!r} to change; it may have been deleted.")
        if isinstance(existing, IfUnchanged) and known[name] != existing.etag:
            raise ChangedMeanwhile(
                f"The {kind} {name!r} {await changed_by(conn, kind, name)}, since you read it. Nothing was changed: "
                "read it again, and say then what should hold."
            )


async def changed_by(conn: DatabaseConnection, kind: str, name: str, dag_id: str | None = None) -> str:
    """`was changed by NAME at INSTANT`, as far as the audit log knows."""
    selection = EntrySelection(kind=_CHANGES[kind], object=name, dag_id=dag_id, result="done")
    entry = await newest_entry(conn, selection)
    return "was changed" if entry is None else f"was changed by {entry.who} at {entry.at:%Y-%m-%d %H:%M:%S} UTC"


def exists_already(kind: str, names: Collection[str]) -> Refused:
    """The refusal to create what exists."""
    if len(names) == 1:
        return Refused(f"The {kind} {next(iter(names))!r} exists already. Nothing was changed.")
    return Refused(f"These {kind}s exist already: {', '.join(names)}. Nothing was changed.")
