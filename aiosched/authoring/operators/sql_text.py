"""Splitting SQL text into statements."""

from __future__ import annotations

import re
from typing import Final

# Quoted text and comments, in which a semicolon does not end the statement; else one character.
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
    """The statements of `text` without their semicolons, in order, without those that are empty or only comments."""
    statements: list[str] = []
    begin, has_code = 0, False
    for piece in _PIECE.finditer(text):
        found = piece[0]
        if found == ";":
            if has_code:
                statements.append(text[begin : piece.start()].strip())
            begin, has_code = piece.end(), False
        elif not found.isspace() and not piece["line"] and not piece["block"]:
            has_code = True
    if has_code:
        statements.append(text[begin:].strip())
    return statements
