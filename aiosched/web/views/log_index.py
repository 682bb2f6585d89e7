"""The index of a log: its lines in blocks, where errors begin, and which lines contain a text.

A block holds whole lines, about `BLOCK` bytes of them; a longer line is split. The index of a log of 200 MB has 1,600
blocks and is made in one pass with constant memory. The index of a growing log continues from its last block. A page
shows any part of a long log by requesting a few blocks, and searches here, so that the log itself need not be sent.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final

from aiosched.core.values.texts import without_escapes
from aiosched.remote.logs import LogView

Log = Path | LogView  # a file, or parts of several
BLOCK: Final = 2**17
_ERROR: Final = re.compile(
    rb"^((?P<traceback>Traceback \(most recent call last\))|.{0,60}\b(ERROR|CRITICAL|FATAL)\b"
    rb"|(?P<raised>\w*(Error|Exception): ))"
)
_ERROR_WORDS: Final = (b"Traceback", b"ERROR", b"CRITICAL", b"FATAL", b"Error: ", b"Exception: ")
_LEVELS: Final = {
    "warning": re.compile(r".{0,60}\b(WARN|WARNING|ERROR|CRITICAL|FATAL)\b"),
    "error": re.compile(r".{0,60}\b(ERROR|CRITICAL|FATAL)\b"),
}
_LEVEL_WORDS: Final = (b"WARN", b"ERROR", b"CRITICAL", b"FATAL", b"Traceback")
_TRACEBACK: Final = "Traceback (most recent call last)"
_CONTINUED: Final = re.compile(r"[ \t]+\S|[\w.]*(Error|Exception|Interrupt|Exit)\b|During handling|The above exception")
_LONGEST_LINE: Final = 2_000  # bytes of a line that are shown


@dataclass(frozen=True, slots=True)
class Block:
    """A part of a log: the offset of its first byte, the number of its first line (from 0), its numbers of bytes and
    lines."""

    offset: int
    line: int
    size: int
    lines: int


def index_log(log: Log, *, offset: int = 0, line: int = 0, limit: int) -> list[Block]:
    """At most `limit` blocks from byte `offset`, where line `line` begins; [] for a log that does not exist."""
    return [block for block, _ in islice(_blocks(log, offset, line), limit)]


def find_errors(log: Log, *, limit: int) -> list[tuple[int, int]]:
    """The byte offset and the line (from 0) of each error; a message, its traceback and its exception count as one."""
    found: list[tuple[int, int]] = []
    directly_before, raising = False, False
    for block, text in _blocks(log):
        if not any(word in text for word in _ERROR_WORDS):
            directly_before = False
            continue
        offset = block.offset
        for number, line in enumerate(_lines(text), block.line):
            if match := _ERROR.match(line):
                if not (directly_before if match["traceback"] else raising and match["raised"]):
                    found.append((offset, number))
                    if len(found) == limit:
                        return found
                raising = not match["raised"]
            directly_before = match is not None
            offset += len(line)
    return found


def find_text(log: Log, words: str, *, after: int = -1, before: int | None = None) -> int | None:
    """The first line after line `after` that contains `words`, ignoring case; with `before`, the last one before it.

    A line is compared as a terminal would show it: without colours, and without text overwritten after a carriage
    return.
    """
    wanted, last = words.lower(), None
    for block, part in _blocks(log):
        if before is not None and block.line >= before:
            break
        if before is None and block.line + block.lines <= after + 1:
            continue
        text = without_escapes(part.decode("utf-8", "replace")).lower()
        if wanted not in text:
            continue
        for number, line in enumerate(text.split("\n"), block.line):
            if wanted not in line or wanted not in line.removesuffix("\r").rpartition("\r")[2]:
                continue
            if before is None and number > after:
                return number
            if before is not None and number < before:
                last = number
    return last


def find_level(log: Log, level: str, *, after: int = -1, limit: int) -> list[tuple[int, str]]:
    """The lines after line `after` of this level ("warning", "error") or above, with their numbers; at most `limit`.

    A traceback belongs to them, and so do indented lines below one.
    """
    wanted, found = _LEVELS[level], []
    belongs = False
    for block, text in _blocks(log):
        if not belongs and not any(word in text for word in _LEVEL_WORDS):
            continue
        for number, line in enumerate(_lines(text), block.line):
            shown = without_escapes(line[:_LONGEST_LINE].decode("utf-8", "replace")).rstrip()
            if wanted.match(shown) or shown.startswith(_TRACEBACK):
                belongs = True
            else:
                belongs = belongs and _CONTINUED.match(shown) is not None
            if belongs and number > after:
                found.append((number, shown))
                if len(found) == limit:
                    return found
    return found


def _lines(text: bytes) -> Iterator[bytes]:
    """The lines with their ends: only a newline ends a line."""
    start = 0
    while end := text.find(b"\n", start) + 1:
        yield text[start:end]
        start = end
    if start < len(text):
        yield text[start:]


def _blocks(log: Log, offset: int = 0, line: int = 0) -> Iterator[tuple[Block, bytes]]:
    """The blocks of a log from byte `offset`, where line `line` begins, with their content."""
    try:
        with log.open("rb") as file:
            file.seek(min(offset, file.seek(0, os.SEEK_END)))
            rest = b""
            while part := rest + file.read(BLOCK - len(rest)):
                end = part.rfind(b"\n") + 1
                if len(part) < BLOCK or not end:  # the end of the log, or a line longer than a block
                    end = len(part)
                lines = part.count(b"\n", 0, end) + (part[end - 1] != 0x0A)
                yield Block(offset, line, end, lines), part[:end]
                rest, offset, line = part[end:], offset + end, line + lines
    except (FileNotFoundError, NotADirectoryError):
        return
