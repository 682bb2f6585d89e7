"""Where the lines of a log are, in blocks: a page that shows any part of a long log asks for a few of them.

A block holds whole lines, about `BLOCK` bytes of them; a line that is longer than that is cut. The index of a log of
200 MB has 1,600 blocks and is made in one pass in constant memory. A log that grows is indexed on from its last block.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

BLOCK: Final = 2**17


@dataclass(frozen=True, slots=True)
class Block:
    """A part of a log: its first byte, the number of its first line (from 0), how many bytes and lines it has."""

    offset: int
    line: int
    size: int
    lines: int


def index_log(path: Path, *, offset: int = 0, line: int = 0, limit: int) -> list[Block]:
    """At most `limit` blocks from byte `offset` on, which begins line `line`; [] for a log that does not exist."""
    found: list[Block] = []
    try:
        with path.open("rb") as file:
            file.seek(offset)
            rest = b""
            while len(found) < limit:
                part = rest + file.read(BLOCK - len(rest))
                if not part:
                    break
                end = part.rfind(b"\n") + 1
                if len(part) < BLOCK or not end:  # the end of the log, or a line longer than a block
                    end = len(part)
                lines = part.count(b"\n", 0, end) + (part[end - 1] != 0x0A)
                found.append(Block(offset, line, end, lines))
                rest, offset, line = part[end:], offset + end, line + lines
    except (FileNotFoundError, NotADirectoryError):
        return []
    return found
