"""Strings that UTF-8 and PostgreSQL can store, and words for messages."""

from __future__ import annotations

import re
from typing import Final

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
