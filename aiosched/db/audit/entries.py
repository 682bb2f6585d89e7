"""Adding entries to the audit log. Entries say what was done, never a secret.

`record` writes in the transaction of the change, so that there is no change without its entry. Who it was comes from
the context (core/audit/actor.py) unless the caller says. Requests need no call: a trigger adds their entry when they
are answered (db/schema/tables.py).

Elsewhere: what is repeated (repeated.py), reading and removing (reading.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from aiosched.core.audit.actor import Actor, actor
from aiosched.core.audit.kinds import AuditKind, Result
from aiosched.db.schema.tables import AUDIT_LOG
from aiosched.db.server.connection import Queryable

_LONGEST: Final = 250  # characters of a name

ADD: Final = AUDIT_LOG.insert(
    ("kind", "who", "address", "session_id", "token_id", "object", "dag_id", "result", "detail")
)


@dataclass(frozen=True, slots=True)
class NewEntry:
    """An entry to add. `object` is the name of what it is about; `detail` holds no secrets."""

    kind: AuditKind
    object: str | None = None
    dag_id: str | None = None
    result: Result = Result.DONE
    detail: Mapping[str, Any] = field(default_factory=dict)
    by: Actor | None = None  # None: that of the context


async def record(
    conn: Queryable,
    kind: AuditKind,
    about: str | None = None,
    *,
    dag_id: str | None = None,
    result: Result = Result.DONE,
    by: Actor | None = None,
    **detail: Any,
) -> None:
    """Add an entry: `about` is the name of what it is about, `by` who did it; by default whoever the context is of."""
    await record_all(conn, [NewEntry(kind, about, dag_id, result, detail, by)])


async def record_all(conn: Queryable, entries: Sequence[NewEntry]) -> None:
    """Add entries in one statement."""
    rows = [row_of(entry) for entry in entries]
    if rows:
        await conn.execute(ADD, *map(list, zip(*rows, strict=True)))


def row_of(entry: NewEntry) -> tuple[Any, ...]:
    """The values of an entry, in the order of the statements."""
    by = entry.by or actor()
    detail = msgspec.json.encode({name: value for name, value in entry.detail.items() if value is not None}).decode()
    names = (_text(by.who), _text(by.address), by.session, by.token, _text(entry.object), _text(entry.dag_id))
    return (entry.kind.value, *names, entry.result.value, detail)


def _text(value: str | None) -> str | None:
    """A name as the database takes it: shortened, without characters that it does not know."""
    if value is None:
        return None
    return value[:_LONGEST].replace("\0", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode()
