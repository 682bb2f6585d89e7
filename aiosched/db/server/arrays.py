"""Array parameters of hot statements in text format: `$1::text::bigint[]` takes the result of `array_text`.

The driver encodes each element of a list separately, which takes eight times as much CPU time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final

import msgspec

_encode: Final = msgspec.json.Encoder().encode


def array_text(values: Sequence[int | str | datetime | None]) -> str:
    """The text of an array: JSON with different brackets and different string escapes. Datetimes must be aware."""
    text = _encode(values)[1:-1].decode()
    if "\\" in text:
        text = ",".join("null" if value is None else _quoted(str(value)) for value in values)
    return f"{{{text}}}"


def array_texts(rows: Sequence[Iterable[int | str | datetime | None]], width: int) -> list[str]:
    """The columns of rows with `width` values, each as the text of an array."""
    return [array_text(column) for column in zip(*rows, strict=True)] if rows else ["{}"] * width


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
