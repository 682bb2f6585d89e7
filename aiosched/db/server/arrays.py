"""Array parameters of hot statements in text format: `$1::text::bigint[]` takes the result of `array_text`.

The driver encodes each element of a list separately, which takes eight times as much CPU time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final

import msgspec

_encode: Final = msgspec.json.Encoder().encode
_encode_lines: Final = msgspec.json.Encoder().encode_lines
_BRACES: Final = bytes.maketrans(b"[]", b"{}")


def array_text(values: Sequence[int | str | datetime | None]) -> str:
    """The text of an array: JSON with different brackets and different string escapes. Datetimes must be aware."""
    text = _encode(values)[1:-1].decode()
    if "\\" in text:
        text = ",".join("null" if value is None else _quoted(str(value)) for value in values)
    return f"{{{text}}}"


def array_texts(rows: Sequence[Iterable[int | str | datetime | None]], width: int) -> list[str]:
    """The columns of rows with `width` values, each as the text of an array."""
    if not rows:
        return ["{}"] * width
    columns = list(zip(*rows, strict=True))
    text = _encode_lines(columns)  # JSON has no line ends within strings
    if b"\\" in text or not text.count(b"[") == text.count(b"]") == width:  # a string has an escape or a bracket
        return [array_text(column) for column in columns]
    return text[:-1].translate(_BRACES).decode().split("\n")


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
