"""Texts as UTF-8 and PostgreSQL can hold them."""

from __future__ import annotations


def storable(text: str) -> str:
    """`text` with escapes in place of what cannot be stored: lone surrogates and NUL."""
    return text.encode("utf-8", "backslashreplace").decode().replace("\0", "\\x00")
