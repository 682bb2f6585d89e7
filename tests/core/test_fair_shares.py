"""Who gets how much of what is not enough for all."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiosched.core.slots.fairness import fair_shares


@pytest.mark.parametrize(
    ("wanted", "room", "shares"),
    [
        ({"a": 3, "b": 2}, 10, {"a": 3, "b": 2}),
        ({"a": 1_000, "b": 2}, 10, {"a": 8, "b": 2}),
        ({"a": 1_000, "b": 1_000, "c": 1}, 11, {"a": 5, "b": 5, "c": 1}),
        ({"a": 9, "b": 9, "c": 9}, 2, {"a": 1, "b": 1, "c": 1}),  # nobody waits for ever
        ({}, 10, {}),
    ],
)
def test_who_wants_little_gets_all_of_it(wanted: dict[str, int], room: int, shares: dict[str, int]) -> None:
    assert fair_shares(wanted, room) == shares


@given(st.dictionaries(st.text(max_size=2), st.integers(1, 100)), st.integers(1, 300))
def test_no_room_is_left_while_somebody_wants_more_and_nobody_gets_more_than_one_who_lacks_some(
    wanted: dict[str, int], room: int
) -> None:
    shares = fair_shares(wanted, room)

    assert shares.keys() == wanted.keys()
    assert sum(shares.values()) <= max(room, len(wanted))
    assert all(1 <= shares[name] <= wanted[name] for name in wanted)
    lacking = [shares[name] for name in wanted if shares[name] < wanted[name]]
    if lacking:
        assert sum(shares.values()) >= room
        assert max(shares.values()) <= min(lacking) + 1
