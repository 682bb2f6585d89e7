"""Where the lines of a log are, in blocks: whole lines, every byte once, and on from where an index ended."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiosched.web import log_index
from aiosched.web.log_index import Block, index_log

LINES = st.lists(st.binary(max_size=30).map(lambda line: line.replace(b"\n", b"")), max_size=40)


def text_of(block: Block, log: bytes) -> bytes:
    return log[block.offset : block.offset + block.size]


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_index, "BLOCK", 64)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("log") / "attempt=1.log"


@given(lines=LINES, ends=st.booleans())
def test_blocks_hold_every_byte_once_and_number_every_line(path: Path, lines: list[bytes], ends: bool) -> None:
    log = b"\n".join(lines) + (b"\n" if lines and ends else b"")
    path.write_bytes(log)

    blocks = index_log(path, limit=1000)

    assert b"".join(text_of(block, log) for block in blocks) == log
    for block in blocks:
        assert block.line == log[: block.offset].count(b"\n")
        assert block.lines == len(text_of(block, log).removesuffix(b"\n").split(b"\n"))
        assert block.size <= 64


@given(before=LINES, after=LINES)
def test_an_index_goes_on_from_its_last_block(path: Path, before: list[bytes], after: list[bytes]) -> None:
    path.write_bytes(b"".join(line + b"\n" for line in before))
    begun = index_log(path, limit=1000)
    path.write_bytes(b"".join(line + b"\n" for line in before + after))
    last = begun[-1] if begun else Block(0, 0, 0, 0)

    grown = index_log(path, offset=last.offset, line=last.line, limit=1000)

    assert begun[:-1] + grown == index_log(path, limit=1000)


def test_a_line_longer_than_a_block_is_cut(path: Path) -> None:
    path.write_bytes(b"x" * 150 + b"\nshort\n")

    blocks = index_log(path, limit=10)

    assert [(block.offset, block.line, block.size, block.lines) for block in blocks] == [
        (0, 0, 64, 1),
        (64, 1, 64, 1),
        (128, 2, 29, 2),
    ]


def test_a_log_that_does_not_exist_has_no_blocks(tmp_path: Path) -> None:
    assert index_log(tmp_path / "none.log", limit=10) == []


def test_no_more_blocks_than_asked_for(path: Path) -> None:
    path.write_bytes(b"line\n" * 100)

    assert len(index_log(path, limit=3)) == 3
