"""The lines around an error."""

from __future__ import annotations

from aiosched.parsing.code_frame import code_frame

SOURCE = "one\ntwo\nthree = four(5)\nsix\nseven\neight"


def test_a_frame_shows_two_lines_around_and_marks_the_columns() -> None:
    frame = code_frame(SOURCE, line=3, file="a.py", column=9, end_column=16)

    assert frame == (
        "a.py:3:9\n  1 | one\n  2 | two\n> 3 | three = four(5)\n    |         ^^^^^^^\n  4 | six\n  5 | seven"
    )


def test_a_frame_at_the_edge_of_the_file_is_shorter() -> None:
    assert code_frame(SOURCE, line=6, file="a.py") == "a.py:6\n  4 | six\n  5 | seven\n> 6 | eight"


def test_line_numbers_are_aligned() -> None:
    frame = code_frame("\n" * 20, line=9, file="a.py")

    assert frame is not None
    assert frame.splitlines()[1:] == ["   7 |", "   8 |", ">  9 |", "  10 |", "  11 |"]


def test_there_is_no_frame_for_a_line_that_does_not_exist() -> None:
    assert code_frame(SOURCE, line=7, file="a.py") is None
    assert code_frame(SOURCE, line=0, file="a.py") is None


def test_tabs_and_control_characters_take_one_column() -> None:
    frame = code_frame("\tx\x1b[31m = 1", line=1, file="a.py", column=2, end_column=3)

    assert frame == "a.py:1:2\n> 1 |  x [31m = 1\n    |  ^"


def test_a_form_feed_does_not_begin_a_line() -> None:
    assert code_frame("a\x0cb\nc", line=2, file="a.py") == "a.py:2\n  1 | a b\n> 2 | c"


def test_long_lines_are_cut() -> None:
    frame = code_frame("x" * 1000, line=1, file="a.py", column=150, end_column=1000)

    assert frame is not None
    assert max(map(len, frame.splitlines())) < 180
