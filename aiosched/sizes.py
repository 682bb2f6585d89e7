"""Sizes of memory: bytes, and texts such as `2 GiB`."""

from __future__ import annotations

import re
from typing import Final

_UNITS: Final = {"GiB": 1 << 30, "MiB": 1 << 20, "KiB": 1 << 10}
_SIZE: Final = re.compile(r"(\d+) ?(GiB|MiB|KiB|)")


def in_units(size: int) -> str:
    """`size` bytes in readable form: `1 GiB`, `64 MiB`, `1000 bytes`."""
    for unit, factor in _UNITS.items():
        if size >= factor and size % factor == 0:
            return f"{size // factor} {unit}"
    return f"{size} bytes"


def size_of(given: object) -> int:
    """The bytes of a number of bytes, or of a text as `in_units` writes it; raises ValueError."""
    if isinstance(given, int) and not isinstance(given, bool) and given >= 0:
        return given
    if isinstance(given, str) and (found := _SIZE.fullmatch(given.strip().removesuffix("bytes").strip())):
        return int(found[1]) * _UNITS.get(found[2], 1)
    raise ValueError(f"{given!r} is no size: give bytes, or text such as '512 MiB' or '2 GiB'")
