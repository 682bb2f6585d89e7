"""What the modelled database says to a statement, and the register of the functions that carry statements out."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from datetime import datetime
from functools import cache
from typing import Any, Final, NamedTuple

import msgspec

from aiosched.db.schema.table import Table
from tests.simulation.store import Row, Strength, Transaction


class Record(tuple[Any, ...]):
    """A row of an answer, as asyncpg gives it: by position and by name."""

    names: tuple[str, ...] = ()

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str):
            return tuple.__getitem__(self, self.names.index(key))
        return tuple.__getitem__(self, key)

    def values(self) -> tuple[Any, ...]:
        return tuple(self)

    def items(self) -> Iterator[tuple[str, Any]]:
        return zip(self.names, self, strict=True)


class Answer(NamedTuple):
    """What a statement says: its rows, and the tag of the command."""

    rows: list[Record]
    tag: str


_KINDS: dict[tuple[str, ...], type[Record]] = {}


Columns = str | Iterable[str]  # names; a text has spaces between them


def _names(columns: Columns) -> tuple[str, ...]:
    return tuple(columns.split() if isinstance(columns, str) else columns)


def answer(columns: Columns, rows: Iterable[Sequence[Any]], verb: str = "SELECT") -> Answer:
    """An answer of rows with these columns."""
    names = _names(columns)
    kind = _KINDS.get(names)
    if kind is None:
        kind = _KINDS[names] = type("Record", (Record,), {"names": names})
    found: list[Record] = [kind(row) for row in rows]
    return Answer(found, f"{verb} {len(found)}")


def changed(verb: str, count: int) -> Answer:
    """The answer of a statement that changed so many rows, and returns none."""
    return Answer([], f"{verb} {count:d}")


def pick(row: Row, columns: Columns) -> list[Any]:
    """The values of these columns."""
    return [row[name] for name in _names(columns)]


def select(t: Transaction, table: Table, columns: Columns, wanted: Callable[[Row], object]) -> Answer:
    """The wanted rows of a table."""
    return answer(columns, [pick(row, columns) for _, row in t.rows(table.name) if wanted(row)])


_DEFAULT: Final = re.compile(r" DEFAULT (\S+)")
_TEXT: Final = str | None
_KINDS_OF: Final[dict[str, Any]] = {
    "smallint": int | None, "int": int | None, "bigint": int | None, "boolean": bool | None,
    "timestamptz": datetime | None,
}  # fmt: skip


def batch(table: Table, columns: Sequence[str], arrays: Iterable[Any]) -> list[Row]:
    """The rows of `Table.batch`. Texts with escapes do not occur here."""
    kinds = [_KINDS_OF.get(table.types[name.removeprefix("old_")], _TEXT) for name in columns]
    values = [
        _decoder(kind).decode(f"[{array[1:-1]}]") if isinstance(array, str) else array
        for kind, array in zip(kinds, arrays, strict=True)
    ]
    return [dict(zip(columns, row, strict=True)) for row in zip(*values, strict=True)]


def new_row(table: Table, given: Row) -> Row:
    """A row as INSERT makes it: the columns that are not given are NULL, or as the table says. No times and numbers."""
    found: Row = {}
    for name, definition in table.columns.items():
        default = _DEFAULT.search(definition)
        if name in given:
            found[name] = given[name]
        elif default is None:
            found[name] = None
        elif default[1] != "now()":
            found[name] = msgspec.json.decode(default[1].replace("'", '"'))
    return found


def key_of(table: Table, row: Row) -> Any:
    """The key by which the model keeps a row."""
    key = tuple(row[name] for name in table.key)
    return key if len(key) > 1 else key[0]


async def insert(t: Transaction, table: Table, rows: Iterable[Row]) -> int:
    """INSERT with ON CONFLICT DO NOTHING; returns the number of rows that were not there."""
    count = 0
    for row in rows:
        if await t.reserve(table.name, key := key_of(table, row)):
            t.put(table.name, key, new_row(table, row))
            count += 1
    return count


async def upsert(t: Transaction, table: Table, rows: Sequence[Row]) -> int:
    """`Table.upsert`; returns the number of rows."""
    for row in rows:
        old: Row | None = None
        if not await t.reserve(table.name, key := key_of(table, row)):
            old = await t.lock(table.name, key, Strength.NO_KEY_UPDATE)
        t.put(table.name, key, new_row(table, row) if old is None else old | row)
    return len(rows)


async def update(
    t: Transaction, table: str, changes: Iterable[tuple[Any, Row]], wanted: Callable[[Row], bool] = lambda row: True
) -> Answer:
    """UPDATE of the rows with these keys that are wanted."""
    count = 0
    for key, values in changes:
        row = await t.lock(table, key, Strength.NO_KEY_UPDATE, wanted)
        if row is not None:
            t.put(table, key, row | values)
            count += 1
    return changed("UPDATE", count)


async def delete(t: Transaction, table: Table, keys: Iterable[Any]) -> int:
    """DELETE of the rows with these keys; returns the number of those that were there."""
    count = 0
    for key in keys:
        if await t.lock(table.name, key, Strength.UPDATE) is not None:
            t.delete(table.name, key)
            count += 1
    return count


class UnknownStatement(Exception):
    """The scheduler has a statement that tests/simulation/statements.py does not have."""


Handler = Callable[..., Awaitable[Answer]]
HANDLERS: dict[str, Handler] = {}


def normal(text: str) -> str:
    """A statement's text, however it is broken into lines."""
    return " ".join(text.split())


def handles(*texts: str) -> Callable[[Handler], Handler]:
    """Register the function that carries these statements out."""

    def note(handler: Handler) -> Handler:
        for text in texts:
            HANDLERS[normal(text)] = handler
        return handler

    return note


def document(value: object) -> str:
    """JSON as it is stored."""
    return msgspec.json.encode(value).decode()


@cache
def _decoder(kind: Any) -> msgspec.json.Decoder[list[Any]]:
    return msgspec.json.Decoder(list[kind])
