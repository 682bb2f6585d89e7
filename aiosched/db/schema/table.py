"""What a table is: its columns, the rules about its rows, and the texts of statements on batches of rows.

Statements are made of these once, when they are imported. Without SQLAlchemy, which a scheduler does not import.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Mapping
from functools import cached_property
from typing import Final, NamedTuple


def one_of(column: str, values: Iterable[str]) -> str:
    """The condition that a column has one of these values."""
    return f"{column} IN ({', '.join(repr(str(value)) for value in values)})"


class Unique:
    """No two rows have the same values in these columns."""

    def __init__(self, *columns: str) -> None:
        self.columns = columns


class Check(NamedTuple):
    """Every row meets this condition."""

    name: str
    condition: str


class Index:
    """An index of the rows that meet the condition `where`. `name`: None for the usual one."""

    def __init__(self, *columns: str, name: str | None = None, unique: bool = False, where: str | None = None) -> None:
        self.columns, self.name, self.unique, self.where = columns, name, unique, where


class Table:
    """A table. `columns`: by name, as in CREATE TABLE; `PRIMARY KEY` stands at each column of the key.

    `fillfactor`: how many percent of a page are filled by inserts; None: all.
    """

    def __init__(
        self,
        name: str,
        columns: Mapping[str, str],
        *rules: Unique | Check | Index,
        fillfactor: int | None = None,
    ) -> None:
        self.name, self.columns, self.rules, self.fillfactor = name, columns, rules, fillfactor

    @cached_property
    def types(self) -> Mapping[str, str]:
        """The types of the columns."""
        return {name: definition.partition(" ")[0] for name, definition in self.columns.items()}

    @cached_property
    def key(self) -> tuple[str, ...]:
        """The columns of the primary key."""
        return tuple(name for name, definition in self.columns.items() if " PRIMARY KEY" in definition)

    def columns_of(self, kind: type, **named: str) -> dict[str, str]:
        """Which column each field of a class is stored in, for those that are. `named`: where the names differ."""
        columns = {field: named.get(field, field) for field in kind.__annotations__}
        return {field: column for field, column in columns.items() if column in self.columns}

    def batch(self, columns: Iterable[str], first: int = 1, *, name: str = "n", as_texts: bool = False) -> str:
        """Rows that are passed as arrays, one for each column, from parameter `first` on: `unnest(…) AS n (…)`.

        JSON is passed as text. `as_texts`: all arrays but those of bytes are passed as texts
        (db/server/arrays.py). A column `old_x` is
        the value that `x` is expected to have.
        """
        columns = list(columns)
        kinds = [self.types[column.removeprefix("old_")] for column in columns]
        arrays = (
            f"${place}{'::text' if as_texts and kind != 'bytea' else ''}::{'text' if kind in _DOCUMENTS else kind}[]"
            for place, kind in enumerate(kinds, first)
        )
        return f"unnest({', '.join(arrays)}) AS {name} ({', '.join(columns)})"

    def rows(self, columns: Collection[str], number: int, first: int = 1, *, name: str = "n") -> str:
        """So many rows, each value a parameter of its own, from parameter `first` on: `(VALUES …) AS n (…)`.

        The server takes less time for a few of them than for a `batch`; `OFFSET 0` has it planned alike, for rows that
        are not known yet. JSON is not passed so.
        """
        kinds = [self.types[column.removeprefix("old_")] for column in columns]
        places = itertools.count(first)
        values = (", ".join(f"${next(places)}::{kind}" for kind in kinds) for _ in range(number))
        return f"(VALUES ({'), ('.join(values)}) OFFSET 0) AS {name} ({', '.join(columns)})"

    def insert(
        self, columns: Collection[str], first: int = 1, *, as_texts: bool = False, source: str | None = None
    ) -> str:
        """INSERT of a `batch`, or of the rows of `source`; what happens to rows that exist is to be added."""
        names, values = ", ".join(columns), ", ".join(map(self.read, columns))
        source = source or self.batch(columns, first, as_texts=as_texts)
        return f"INSERT INTO {self.name} ({names}) SELECT {values} FROM {source}"

    def upsert(self, columns: Collection[str], *, source: str | None = None) -> str:
        """INSERT of a `batch`, or of the rows of `source`; rows that exist get the new values."""
        values = self.assignments(columns, "excluded")
        return f"{self.insert(columns, source=source)} ON CONFLICT ({', '.join(self.key)}) DO UPDATE SET {values}"

    def assignments(self, columns: Iterable[str], source: str) -> str:
        """What an UPDATE sets, to the values in `source`: not the key, and not what is expected (`old_x`)."""
        changed = (column for column in columns if column not in self.key and not column.startswith("old_"))
        return ", ".join(f"{column} = {source}.{column}" for column in changed)

    def delete(self, columns: Collection[str], first: int = 1) -> str:
        """DELETE of the rows that have the values of a `batch`; a condition on them, `t`, may be added."""
        batch, found = self.batch(columns, first), same(columns, "t", "n")
        return f"DELETE FROM {self.name} AS t USING {batch} WHERE {found}"

    def read(self, column: str) -> str:
        """The value of a column of a `batch`."""
        return f"{column}::{self.types[column]}" if self.types[column] in _DOCUMENTS else column


_DOCUMENTS: Final = ("json", "jsonb")


def same(columns: Iterable[str], one: str, other: str) -> str:
    """The condition that two rows have the same values in these columns."""
    return " AND ".join(f"{one}.{column} = {other}.{column}" for column in columns)
