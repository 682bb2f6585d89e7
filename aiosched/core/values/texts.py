"""Strings that UTF-8 and PostgreSQL can store."""

from __future__ import annotations


def storable(text: str) -> str:
    """`text` with escapes in place of lone surrogates and NUL, which cannot be stored."""
    return text.encode("utf-8", "backslashreplace").decode().replace("\0", "\\x00")
