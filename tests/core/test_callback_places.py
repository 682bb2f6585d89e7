"""Which callbacks run next: core/slots/fairness.py."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from aiosched.core.slots.fairness import next_callbacks

DAGS = st.sampled_from("abcde")


def test_one_dag_leaves_the_last_place_free() -> None:
    assert next_callbacks({"a": [1, 2, 3, 4, 5]}, {}, 4) == [1, 2, 3]
    assert next_callbacks({"a": [4, 5]}, {"a": 3}, 4) == []
    assert next_callbacks({"a": [4, 5], "b": [6, 7]}, {"a": 3}, 4) == [6]


def test_the_dag_with_the_fewest_goes_first_and_then_the_oldest_callback() -> None:
    assert next_callbacks({"a": [1, 2, 3], "b": [4, 5]}, {}, 4) == [1, 4, 2]
    assert next_callbacks({"a": [1, 2], "b": [4], "c": [3]}, {"a": 1}, 4) == [3, 4]


def test_slow_callbacks_take_no_place_but_count_for_their_own_dag() -> None:
    hanging = {"a": 3, "b": 1}
    assert next_callbacks({"a": [1], "b": [2], "c": [3]}, hanging, 4) == []
    assert next_callbacks({"a": [1], "b": [2], "c": [3]}, hanging, 4, slow=4) == [3, 2]
    assert next_callbacks({"a": [1], "b": [2, 4, 5]}, hanging, 4, slow=1) == []  # the last place, and both have some


def test_there_is_an_end_to_the_slow_ones() -> None:
    hanging = {"a": 3, "b": 3, "c": 3, "d": 3, "e": 3}
    assert next_callbacks({"e": [1], "f": [2, 3]}, hanging, 4, slow=15) == [2]
    assert next_callbacks({"g": [4]}, {**hanging, "f": 1}, 4, slow=16) == []


@given(
    st.dictionaries(DAGS, st.integers(1, 6)),
    st.dictionaries(DAGS, st.integers(0, 3)),
    st.integers(1, 6),
)
def test_places_are_shared(waiting: dict[str, int], running: dict[str, int], places: int) -> None:
    numbers = iter(range(1_000))
    queues = {dag_id: [next(numbers) for _ in range(count)] for dag_id, count in waiting.items()}
    owner = {number: dag_id for dag_id, queue in queues.items() for number in queue}

    chosen = next_callbacks(queues, running, places)

    free = places - sum(running.values())
    taken = Counter(owner[number] for number in chosen)
    assert len(chosen) == len(set(chosen)) <= max(free, 0)
    for dag_id, count in taken.items():
        assert [number for number in chosen if owner[number] == dag_id] == queues[dag_id][:count]  # in their order
    after = Counter(running) + taken
    if places > 1 and not any(count >= places for count in running.values()):
        assert all(count < places for count in after.values())  # no DAG has all places
    idle = [dag_id for dag_id in waiting if not running.get(dag_id)]
    assert sum(dag_id in taken for dag_id in idle) == min(len(idle), max(free, 0))  # as many of those as can
    if free - len(chosen) > 1:
        assert taken == Counter(waiting)  # a place is free although somebody waits: only the last one
