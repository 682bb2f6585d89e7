"""The fenced code blocks of the README and of the pages in `docs`, and the `aiosched` commands in them."""

from __future__ import annotations

import re
import shlex
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
PAGES: Final = (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md")))
_FENCE: Final = re.compile(
    r"^(?:<!-- (?P<note>[^\n]*) -->\n\n?)?(?P<indent> *)```(?P<language>[^\n]*)\n(?P<text>.*?)^(?P=indent)```$",
    re.M | re.S,
)


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block; `note` is a comment above it, which says why it is not run, or what runs it."""

    page: Path
    line: int
    language: str
    text: str
    note: str = ""

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def blocks(*languages: str) -> list[Block]:
    """All blocks, or those in some languages, in the order of the pages."""
    return [block for page in PAGES for block in _blocks(page) if not languages or block.language in languages]


def _blocks(page: Path) -> Iterator[Block]:
    text = page.read_text(encoding="utf-8")
    for found in _FENCE.finditer(text):
        line = text.count("\n", 0, found.start("language")) + 1
        code = textwrap.dedent(found["text"])
        yield Block(page, line, found["language"], code, found["note"] or "")


def commands(block: Block) -> Iterator[list[str]]:
    """The words of each `aiosched …` in the lines of a console block that begin with a prompt."""
    text = block.text.replace("\\\n", " ")
    for line in re.findall(r"^\s*[$#] (.*)$", text, re.MULTILINE):
        yield from commands_of_line(line)


def commands_of_line(line: str) -> Iterator[list[str]]:
    """The arguments of each `aiosched` in a line of shell; what follows a `#` is a comment."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|&;<>()")
    lexer.whitespace_split = True
    lexer.commenters = "#"
    part: list[str] = []
    for word in [*lexer, ";"]:
        if not set(word) <= set("|&;<>()"):
            part.append(word)
        elif part:
            yield from _arguments(part)
            part = []


def _arguments(words: list[str]) -> Iterator[list[str]]:
    """What a command gives to `aiosched`: as the command itself, as another user, or in a container."""
    while words and ("=" in words[0] or words[0] == "sudo"):
        words = words[3:] if words[:2] == ["sudo", "-u"] else words[1:]
    in_container = words[:1] in (["docker"], ["kubectl"])
    if in_container and not {"exec", "run"} & set(words):
        return
    found = [number for number, word in enumerate(words) if Path(word).name == "aiosched"]
    start = (found[-1] if in_container else found[0]) if found else None
    if start is not None and (start == 0 or in_container):
        yield words[start + 1 :]
