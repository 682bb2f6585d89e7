"""How old a replica is, by positions of the write-ahead log and one clock."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from aiosched.core.fleet.replicas import (
    MOST_BEHIND,
    LogPlace,
    PassedPositions,
    difference,
    needed_position,
    read_position,
    shown_position,
)

PLACE = LogPlace(system=7, timeline=1, database=5, is_replica=False, position=100)
POSITIONS = st.integers(0, 2**64 - 1)


@given(POSITIONS, POSITIONS)
def test_positions_are_read_as_they_are_shown_and_their_texts_have_their_order(one: int, other: int) -> None:
    assert read_position(shown_position(one)) == one
    assert (shown_position(one) < shown_position(other)) == (one < other)


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("0/0", 0),
        ("16/B374D848", (0x16 << 32) + 0xB374D848),
        ("", None),
        ("/", None),
        ("1/2/3", None),
        ("1/123456789", None),
        (" 1/2", None),
        ("1/2\n", None),
        ("-1/2", None),
        ("1/0x2", None),
        ("١/٢", None),
    ],
)
def test_only_positions_are_read(text: str, position: int | None) -> None:
    assert read_position(text) == position


@pytest.mark.parametrize(
    ("begun", "needed"),
    [
        (8192 + 24, 8192),  # the page before is full: nothing on this one can be replayed yet
        (16 * 2**20 + 40, 16 * 2**20),  # the log was switched
        (8192 + 48, 8192 + 48),  # the shortest record behind a header
        (8192, 8192),
        (8191, 8191),
    ],
)
def test_a_header_is_not_waited_for(begun: int, needed: int) -> None:
    assert needed_position(begun) == needed


def passed(*seen: tuple[float, int]) -> PassedPositions:
    found = PassedPositions()
    for at, position in seen:
        found.note(at, position)
    return found


@pytest.mark.parametrize(
    ("position", "behind"),
    [(99, None), (100, 3.0), (150, 3.0), (200, 2.0), (300, 1.0), (999, 1.0)],
)
def test_a_replica_is_as_old_as_the_last_position_that_it_has(position: int, behind: float | None) -> None:
    assert passed((0.0, 100), (1.0, 200), (2.0, 300)).behind(position, now=3.0) == behind


def test_a_database_that_stands_still_is_not_behind() -> None:
    assert passed((0.0, 100), (50.0, 100)).behind(100, now=50.0) == 0.0


def test_a_replica_must_have_what_the_primary_had_so_long_ago() -> None:
    found = passed((0.0, 100), (5.0, 200), (10.0, 300))

    assert found.least(now=10.0) == 100
    assert found.least(now=MOST_BEHIND + 1) == 200
    assert found.least(now=MOST_BEHIND + 11) is None  # the primary has not answered for so long
    assert passed().least(now=0.0) is None


@example([(1.8731336833198444, 0), (1.1208190449919726, 0)], 0, 10.0)  # the sum is rounded
@given(
    st.lists(st.tuples(st.floats(0.1, 5), st.integers(0, 500)), min_size=1), st.integers(0, 20_000), st.floats(0, 20)
)
def test_what_has_the_least_position_is_not_too_old_and_what_is_older_has_not(
    steps: list[tuple[float, int]], replayed: int, later: float
) -> None:
    seen, at, position = [], 0.0, 0
    for seconds, written in steps:
        at, position = at + seconds, position + written
        seen.append((at, position))
    found, now = passed(*seen), at + later

    least, behind = found.least(now), found.behind(replayed, now)
    if least is not None and replayed >= least:
        assert behind is not None
        assert behind <= MOST_BEHIND
    if behind is not None and behind <= MOST_BEHIND:
        assert least is not None
        assert replayed >= least


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"is_replica": True, "position": 3}, None),
        ({"system": 8}, "another cluster"),
        ({"database": 6}, "another database"),
        ({"timeline": 2}, "timeline 2, and the primary is in timeline 1"),
    ],
)
def test_positions_of_other_databases_say_nothing(change: dict[str, int], words: str | None) -> None:
    found = difference(PLACE, replace(PLACE, **change))

    assert (found is None) if words is None else (found is not None and words in found)
