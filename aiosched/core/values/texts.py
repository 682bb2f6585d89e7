"""Strings that UTF-8 and PostgreSQL can store, and words for messages."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

LONGEST_SHOWN: Final = 500  # characters of a value in a message

_ESCAPE: Final = re.compile(r"\x1b(?:\[[\d;:?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\^_])")


def without_escapes(text: str) -> str:
    """`text` without the escape sequences of terminals, such as colours."""
    return _ESCAPE.sub("", text) if "\x1b" in text else text


def storable(text: str) -> str:
    """`text` with escapes in place of lone surrogates and NUL, which cannot be stored."""
    return text.encode("utf-8", "backslashreplace").decode().replace("\0", "\\x00")


def a_type(value: object) -> str:
    """The type of a value with its article: "an int", "a datetime.date"."""
    kind = type(value)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    return f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"


def cut_repr(value: object) -> str:
    """`repr` of a JSON value for a message, cut after 500 characters: a large one takes no longer."""
    found = ""
    for piece in _pieces(value):
        found += piece
        if len(found) > LONGEST_SHOWN:
            return f"{found[:LONGEST_SHOWN]}…"
    return found


def _pieces(value: object) -> Iterator[str]:
    if isinstance(value, str | bytes):
        yield repr(value[: LONGEST_SHOWN + 1])
    elif isinstance(value, Mapping):
        yield "{"
        for number, (key, item) in enumerate(value.items()):
            yield ", " if number else ""
            yield from _pieces(key)
            yield ": "
            yield from _pieces(item)
        yield "}"
    elif isinstance(value, list | tuple):
        yield "[" if isinstance(value, list) else "("
        for number, item in enumerate(value):
            yield ", " if number else ""
            yield from _pieces(item)
        yield "]" if isinstance(value, list) else ",)" if len(value) == 1 else ")"
    elif isinstance(value, int) and value.bit_length() > 4 * LONGEST_SHOWN:
        yield f"an integer of {value.bit_length():,} bits"  # Python makes no text of thousands of digits
    else:
        yield repr(value)
