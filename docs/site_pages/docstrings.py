"""Our docstrings are plain text with Markdown's backticks; autodoc reads reStructuredText. From one to the other."""

from __future__ import annotations

import re
from itertools import groupby
from typing import Any, Final

from sphinx.application import Sphinx

_CODE: Final = re.compile(r"`([^`]+)`")
_SPECIAL: Final = re.compile(r"([*|_\\])")
_ITEM: Final = re.compile(r"^\s*([-*]|\d+\.) ")


def as_restructured_text(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Replace the lines of a docstring."""
    lines[:] = converted(lines)


def converted(lines: list[str]) -> list[str]:
    """The lines as reStructuredText: code in double backticks, examples as literal blocks, columns as lines."""
    made: list[str] = []
    for has_text, block in groupby(lines, key=lambda line: bool(line.strip())):
        if has_text:
            made += [*_block(list(block)), ""]
    return made


def _block(lines: list[str]) -> list[str]:
    """One paragraph, or a paragraph with the list that follows it."""
    first = next((number for number, line in enumerate(lines) if _ITEM.match(line)), len(lines))
    text, items = lines[:first], lines[first:]
    if text and text[0].startswith(" "):
        return ["::", "", *lines]
    columns = any(line.startswith(" ") for line in text)
    made = [f"| {line.strip()}" for line in _marked(text)] if columns else _marked(text)
    return [*made, "", *_marked(items)]


def _marked(lines: list[str]) -> list[str]:
    parts = _CODE.split("\n".join(lines))
    text = ""
    for number, part in enumerate(parts):
        text += f"\\ ``{part.strip()}``\\ " if number % 2 else _escaped(part)
    return text.split("\n")


def _escaped(text: str) -> str:
    return "\n".join(
        (found[0] if (found := _ITEM.match(line)) else "") + _SPECIAL.sub(r"\\\1", line[found.end() if found else 0 :])
        for line in text.split("\n")
    )
