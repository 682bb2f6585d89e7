"""What the modelled database says to a statement, and the register of the functions that carry statements out."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import cache
from typing import Any, NamedTuple, get_type_hints

import msgspec

from tests.simulation.store import Row


class Record(tuple[Any, ...]):
    """A row of an answer, as asyncpg gives it: by position and by name."""

    names: tuple[str, ...] = ()

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str):
            return tuple.__getitem__(self, self.names.index(key))
        return tuple.__getitem__(self, key)

    def values(self) -> tuple[Any, ...]:
        return tuple(self)


class Answer(NamedTuple):
    """What a statement says: its rows, and the tag of the command."""

    rows: list[Record]
    tag: str


_KINDS: dict[tuple[str, ...], type[Record]] = {}


def answer(columns: str, rows: Iterable[Sequence[Any]], verb: str = "SELECT") -> Answer:
    """An answer of rows with these (space separated) columns."""
    names = tuple(columns.split())
    kind = _KINDS.get(names)
    if kind is None:
        kind = _KINDS[names] = type("Record", (Record,), {"names": names})
    found: list[Record] = [kind(row) for row in rows]
    return Answer(found, f"{verb} {len(found)}")


def changed(verb: str, count: int) -> Answer:
    """The answer of a statement that changed so many rows, and returns none."""
    return Answer([], f"{verb} {count:d}")


def pick(row: Row, columns: str) -> list[Any]:
    """The values of these columns."""
    return [row[name] for name in columns.split()]


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


def read_arrays(texts: Iterable[str], kinds: Iterable[Any]) -> list[list[Any]]:
    """The values of columns that came as texts of arrays. Texts with escapes do not occur here."""
    return [_decoder(kind).decode(f"[{text[1:-1]}]") for text, kind in zip(texts, kinds, strict=True)]


@cache
def kinds_of(row: type) -> tuple[Any, ...]:
    """The types of the fields of a row's class."""
    return tuple(get_type_hints(row).values())


@cache
def _decoder(kind: Any) -> msgspec.json.Decoder[list[Any]]:
    return msgspec.json.Decoder(list[kind])
