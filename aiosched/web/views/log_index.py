"""What is where in a log: its lines in blocks, where errors begin, which line holds some words.

A block holds whole lines, about `BLOCK` bytes of them; a line that is longer than that is cut. The index of a log of
200 MB has 1,600 blocks and is made in one pass in constant memory. A log that grows is indexed on from its last block.
A page shows any part of a long log by asking for a few blocks; what is searched for is found here, so that the log
itself does not travel.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final

BLOCK: Final = 2**17
_ERROR: Final = re.compile(
    rb"^((?P<traceback>Traceback \(most recent call last\))|.{0,60}\b(ERROR|CRITICAL|FATAL)\b"
    rb"|(?P<raised>\w*(Error|Exception): ))"
)
_ERROR_WORDS: Final = (b"Traceback", b"ERROR", b"CRITICAL", b"FATAL", b"Error: ", b"Exception: ")
_ESCAPE: Final = re.compile(r"\x1b(?:\[[\d;:?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\^_])")


@dataclass(frozen=True, slots=True)
class Block:
    """A part of a log: its first byte, the number of its first line (from 0), how many bytes and lines it has."""

    offset: int
    line: int
    size: int
    lines: int


def index_log(path: Path, *, offset: int = 0, line: int = 0, limit: int) -> list[Block]:
    """At most `limit` blocks from byte `offset` on, which begins line `line`; [] for a log that does not exist."""
    return [block for block, _ in islice(_blocks(path, offset, line), limit)]


def find_errors(path: Path, *, limit: int) -> list[tuple[int, int]]:
    """The first byte and the line (from 0) of each error; a message, its traceback and what it raised are one."""
    found: list[tuple[int, int]] = []
    directly_before, raising = False, False
    for block, text in _blocks(path):
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


def find_text(path: Path, words: str, *, after: int = -1, before: int | None = None) -> int | None:
    """The first line behind line `after` that holds `words`, whatever their case; with `before` the last one before it.

    A line is what a terminal would show of it: without colours, and without what a carriage return writes over.
    """
    wanted, last = words.lower(), None
    for block, part in _blocks(path):
        if before is not None and block.line >= before:
            break
        if before is None and block.line + block.lines <= after + 1:
            continue
        text = part.decode("utf-8", "replace").lower()
        if "\x1b" in text:
            text = _ESCAPE.sub("", text)
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


def _lines(text: bytes) -> Iterator[bytes]:
    """Its lines with their ends: only a newline ends one."""
    start = 0
    while end := text.find(b"\n", start) + 1:
        yield text[start:end]
        start = end
    if start < len(text):
        yield text[start:]


def _blocks(path: Path, offset: int = 0, line: int = 0) -> Iterator[tuple[Block, bytes]]:
    """The blocks of a log from byte `offset` on, which begins line `line`, with what is in them."""
    try:
        with path.open("rb") as file:
            file.seek(min(offset, os.fstat(file.fileno()).st_size))
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
