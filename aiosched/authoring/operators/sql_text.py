"""Cutting SQL text into statements."""

from __future__ import annotations

import re
from typing import Final

# What may hold a semicolon that ends nothing: quotes, dollar quotes, comments. Else one character.
_PIECE: Final = re.compile(
    r"""
      '(?:[^']|'')*'                 # a string
    | "(?:[^"]|"")*"                 # a name
    | `[^`]*`                        # a name of MySQL
    | (?P<tag>\$(?:[A-Za-z_]\w*)?\$).*?(?P=tag)
    | (?P<line>--[^\n]*)
    | (?P<block>/\*.*?\*/)
    | .
    """,
    re.VERBOSE | re.DOTALL,
)


def split_sql(text: str) -> list[str]:
    """The statements of `text` without their semicolons, in order; what is empty or only comment is left out."""
    statements: list[str] = []
    begin, meant = 0, False
    for piece in _PIECE.finditer(text):
        found = piece[0]
        if found == ";":
            if meant:
                statements.append(text[begin : piece.start()].strip())
            begin, meant = piece.end(), False
        elif not found.isspace() and not piece["line"] and not piece["block"]:
            meant = True
    if meant:
        statements.append(text[begin:].strip())
    return statements
