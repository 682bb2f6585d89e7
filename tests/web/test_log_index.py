"""What is where in a log: lines in blocks, every byte once, on from where an index ended; errors; words."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiosched.web.views import log_index
from aiosched.web.views.log_index import Block, find_errors, find_level, find_text, index_log

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


@pytest.mark.parametrize("offset", [7, 2**50 - 1])  # beyond what the file system can hold, too
def test_there_is_nothing_beyond_the_end(path: Path, offset: int) -> None:
    path.write_bytes(b"a line")

    assert index_log(path, offset=offset, limit=10) == []


def test_no_more_blocks_than_asked_for(path: Path) -> None:
    path.write_bytes(b"line\n" * 100)

    assert len(index_log(path, limit=3)) == 3


WORDS = st.lists(st.sampled_from(["a", "B", "needle", "x" * 30, "Née", "\x1b[31mnee\x1b[0mdle"]), max_size=4).map(
    " ".join
)


@given(lines=st.lists(WORDS, max_size=30), words=st.sampled_from(["needle", "NÉE", "b a"]), data=st.data())
def test_words_are_found_in_the_next_line_behind_or_the_last_before(
    path: Path, lines: list[str], words: str, data: st.DataObject
) -> None:
    short = [line for line in lines if len(line.encode()) < 60]  # longer ones are cut, see above
    path.write_text("".join(line + "\n" for line in short))
    at = data.draw(st.integers(-1, len(short)))
    plain = [line.replace("\x1b[31m", "").replace("\x1b[0m", "").lower() for line in short]
    hits = [number for number, line in enumerate(plain) if words.lower() in line]

    assert find_text(path, words, after=at) == min((n for n in hits if n > at), default=None)
    assert find_text(path, words, before=max(at, 0)) == max((n for n in hits if n < at), default=None)


def test_a_line_is_searched_as_a_terminal_would_show_it(path: Path) -> None:
    path.write_bytes(b"first needle\rwritten over\r\nseen\rneedle\r\n")

    assert find_text(path, "needle") == 1
    assert find_text(path, "seen") is None


def test_errors_are_found_across_blocks_with_their_lines(path: Path) -> None:
    filler = [b"nothing to see here, move on please" for _ in range(10)]
    error = [b"[09:00] ERROR it broke", b"Traceback (most recent call last):", b"  File ...", b"ValueError: no"]
    lines = [*filler, *error, *filler, b"KeyError: 'x'", *filler, b"[10:00] CRITICAL again"]
    log = b"\r\n".join(lines) + b"\n"
    path.write_bytes(log)

    found = find_errors(path, limit=10)

    assert [log[offset:].split(b"\r\n")[0] for offset, _ in found] == [error[0], b"KeyError: 'x'", lines[-1] + b"\n"]
    assert [line for _, line in found] == [10, 24, 35]
    assert find_errors(path, limit=1) == found[:1]


def test_a_log_that_does_not_exist_has_no_errors_and_no_words(tmp_path: Path) -> None:
    assert find_errors(tmp_path / "none.log", limit=10) == []
    assert find_text(tmp_path / "none.log", "x") is None


def test_lines_of_a_level_come_with_their_tracebacks_and_without_colours(path: Path) -> None:
    path.write_text(
        "[INFO] a\n[\x1b[33mWARNING\x1b[0m] b\nprinted\n[ERROR] c\nTraceback (most recent call last):\n"
        '  File "x.py", line 1\nKeyError: 1\nprinted\n[WARN] d\n'
    )

    warnings = find_level(path, "warning", limit=100)
    errors = find_level(path, "error", limit=100)

    assert [number for number, _ in warnings] == [1, 3, 4, 5, 6, 8]
    assert warnings[0] == (1, "[WARNING] b")
    assert [number for number, _ in errors] == [3, 4, 5, 6]
    assert find_level(path, "warning", after=4, limit=1) == [(5, '  File "x.py", line 1')]
