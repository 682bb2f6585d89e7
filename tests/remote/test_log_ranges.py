"""Which files in remote storage make up a log."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiosched.remote.log_ranges import LogRange, chain, range_of, segments

SEGMENT = "20260101T000000000000Z-host-0a1b2c3d"


def part(start: int, end: int, segment: str = SEGMENT, attempt: int = 1) -> LogRange:
    return LogRange(attempt, segment, segment.partition("-")[2], start, end)


def test_a_name_says_everything() -> None:
    assert part(0, 81_920).name == f"attempt=1.{SEGMENT}.0-81920.log"
    assert range_of(part(7, 9).name, 2) == part(7, 9)


@pytest.mark.parametrize(
    ("name", "size"),
    [
        (part(0, 10).name, 9),  # not written completely
        (part(0, 10).name, 11),
        ("attempt=1.log", 10),
        (".0a1b.new", 10),
        (f"attempt=x.{SEGMENT}.0-10.log", 10),
    ],
)
def test_other_files_do_not_count(name: str, size: int) -> None:
    assert range_of(name, size) is None


@pytest.mark.parametrize(
    ("ranges", "used", "end"),
    [
        ([], [], 0),
        ([(0, 5), (5, 9)], [(0, 5), (5, 9)], 9),
        ([(0, 5), (5, 9), (0, 9)], [(0, 9)], 9),  # put together, the others not removed yet
        ([(0, 5), (7, 9)], [(0, 5)], 5),  # a gap
        ([(0, 5), (3, 9)], [(0, 5), (3, 9)], 9),  # overlapping
        ([(2, 5)], [], 0),
    ],
)
def test_ranges_follow_each_other_without_a_gap(
    ranges: list[tuple[int, int]], used: list[tuple[int, int]], end: int
) -> None:
    assert chain([part(*one) for one in ranges], 0) == ([part(*one) for one in used], end)


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(1, 10))))
def test_a_chain_covers_every_byte_up_to_its_end_and_no_range_continues_it(found: list[tuple[int, int]]) -> None:
    ranges = [part(start, start + size) for start, size in found]

    used, end = chain(ranges, 0)

    assert {byte for one in used for byte in range(one.start, one.end)} == set(range(end))
    assert not any(one.start <= end < one.end for one in ranges)


def test_segments_are_in_the_order_in_which_they_began() -> None:
    later = "20260102T000000000000Z-host-0a1b2c3d"
    found = segments([part(0, 5, later), part(5, 9), part(0, 5)])

    assert list(found.items()) == [(SEGMENT, [part(0, 5), part(5, 9)]), (later, [part(0, 5, later)])]
