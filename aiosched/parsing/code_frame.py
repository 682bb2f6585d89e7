"""The source lines around an error, in the style of compilers. Pure."""

from __future__ import annotations

import re
from typing import Final

CONTEXT: Final = 2  # lines before and after
MAX_WIDTH: Final = 160  # characters of a source line

_NEWLINE: Final = re.compile(r"\r\n|\r|\n")  # line ends as Python counts them; `splitlines` splits at more


def code_frame(
    source: str, *, line: int, file: str, column: int | None = None, end_column: int | None = None
) -> str | None:
    """The source around `line` (from 1) with a marker, under the file's name; None if there is no such line.

    Columns are characters counted from 1, the end exclusive; without them only the line is marked.

        sales.py:3:6
          1 | from aiosched import DAG
          2 |
        > 3 | with DAG("sales", schedule="0 25 * * *"):
            |      ^^^
          4 |     ...
    """
    lines = _NEWLINE.split(source)
    if not 1 <= line <= len(lines):
        return None
    first, last = max(1, line - CONTEXT), min(len(lines), line + CONTEXT)
    width = len(str(last))
    where = f"{file}:{line}" if column is None else f"{file}:{line}:{column}"
    shown = [where]
    for number in range(first, last + 1):
        text = _plain(lines[number - 1])
        mark = ">" if number == line else " "
        shown.append(f"{mark} {number:>{width}} | {_cut(text)}".rstrip())
        if number == line and column is not None and 1 <= column <= MAX_WIDTH:
            span = max(1, min((end_column or column + 1), len(text) + 1, MAX_WIDTH + 1) - column)
            shown.append(f"  {' ' * width} | {' ' * (column - 1)}{'^' * span}")
    return "\n".join(shown)


def _plain(line: str) -> str:
    """One column a character: tabs and control characters become spaces."""
    return "".join(c if c.isprintable() else " " for c in line)


def _cut(line: str) -> str:
    return line if len(line) <= MAX_WIDTH else line[:MAX_WIDTH] + "…"
