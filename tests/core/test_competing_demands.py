"""Slots that several schedulers want, and tasks that are passed over for long: who goes first."""

from __future__ import annotations

import math
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiosched.core.slots.allocation import Candidate, PoolRoom
from aiosched.core.slots.competing_demands import TURN, CompetingDemand, Demand, DemandPlace
from aiosched.core.slots.waiting import WaitingQueue
from tests.core.slot_builders import dag_room, needs, room

LIMIT = 600.0


def normal(weight: int, since: float = 0.0) -> DemandPlace:
    return DemandPlace(False, weight, since)


def overdue(since: float = 0.0) -> DemandPlace:
    return DemandPlace(True, 1, since)


@pytest.mark.parametrize(
    ("competing_demand", "mine", "goes_first"),
    [
        (normal(5), normal(3), True),
        (normal(3), normal(5), False),
        (normal(5, since=10), normal(5, since=10), False),
        (normal(5, since=10), normal(5, since=10 + TURN), False),
        (normal(5, since=10), normal(5, since=10.1 + TURN), True),
        (overdue(), normal(9), True),
        (normal(9), overdue(), False),
        (overdue(since=1), overdue(since=2), True),
        (overdue(since=2), overdue(since=1), False),
    ],
)
def test_weight_decides_then_who_has_waited_a_turn_longer_and_the_overdue_go_before_all(
    competing_demand: DemandPlace, mine: DemandPlace, goes_first: bool
) -> None:
    assert competing_demand.precedes(mine) is goes_first


places = st.builds(DemandPlace, st.booleans(), st.integers(-2, 2), st.floats(0, 5))


@given(places, places)
def test_two_schedulers_never_yield_to_each_other(one: DemandPlace, other: DemandPlace) -> None:
    assert not (one.precedes(other) and other.precedes(one))


@given(st.lists(places, max_size=6), places)
def test_those_that_go_before_a_place_stand_first_in_order(others: list[DemandPlace], mine: DemandPlace) -> None:
    first = [place.precedes(mine) for place in sorted(others, key=lambda place: place.order)]

    assert first == sorted(first, reverse=True)


# -- what a pass leaves to others -------------------------------------------------------------


def pool(slots: int, used: int, *competing_demands: Demand) -> PoolRoom:
    return PoolRoom(
        slots,
        slots - used,
        competing_demands=[CompetingDemand(10 + n, demand) for n, demand in enumerate(competing_demands)],
    )


def queue_of(*candidates: Candidate, limit: float = math.inf) -> WaitingQueue:
    queue = WaitingQueue(limit)
    for candidate in candidates:
        queue.add(candidate)
    return queue


def test_slots_are_left_to_a_rival_with_a_higher_weight_and_the_rest_is_taken() -> None:
    etl = pool(8, 4, Demand(normal(5), 1, 3))
    best, second, third = needs(weight=9), needs(weight=3), needs(weight=2)

    grant = queue_of(best, second, third).take(room(etl=etl), 0.0)

    assert grant.taken == [best]
    assert etl.winners == [10]
    assert [reason for _, reason in grant.refused] == [
        "pool 'etl': needs 1 slot, 0 of 8 open, 3 reserved for tasks that go first"
    ]


def test_a_rival_that_does_not_fit_is_passed_over_unless_it_is_overdue() -> None:
    small = needs(weight=1)
    assert queue_of(small).take(room(etl=pool(4, 2, Demand(normal(5), 3, 3))), 0.0).taken == [small]

    etl = pool(4, 2, Demand(overdue(), 3, 3))
    assert queue_of(needs(weight=1)).take(room(etl=etl), 0.0).taken == []
    assert (etl.open, etl.kept, etl.winners) == (0, 2, [])  # nobody is woken for what is not enough


def test_rivals_for_another_pool_take_nothing_away() -> None:
    candidate = needs(pool="other")

    given_room = room(etl=pool(1, 0, Demand(normal(9), 1, 1)), other=1)

    assert queue_of(candidate).take(given_room, 0.0).taken == [candidate]


def test_a_demand_names_the_first_that_lacks_nothing_but_slots() -> None:
    full = dag_room("full", limit=0)
    queue = queue_of(
        needs(weight=9, dag=full), needs(9, weight=8), needs(2, weight=5), needs(weight=4), needs(weight=3)
    )
    given_room = room(etl=pool(3, 3))

    queue.take(given_room, 7.0)

    assert queue.demands(given_room, 7.0) == {"etl": Demand(normal(5, since=7.0), 2, 3)}


@pytest.mark.parametrize("lacking", [{"parallelism": 0}, {"plain": 0}])
def test_what_lacks_more_than_slots_demands_nothing(lacking: dict[str, int]) -> None:
    queue = queue_of(needs())
    given_room = room(etl=pool(1, 1), **lacking)

    queue.take(given_room, 0.0)

    assert queue.demands(given_room, 0.0) == {}


def test_a_scheduler_waits_from_the_last_slot_that_it_got() -> None:
    queue = queue_of(*(needs() for _ in range(3)))
    seen = []
    for now, used in ((1.0, 1), (2.0, 1), (3.0, 0), (4.0, 1)):
        given_room = room(etl=pool(1, used))
        queue.take(given_room, now)
        seen.append(queue.demands(given_room, now)["etl"].place.since)

    assert seen == [1.0, 1.0, 3.0, 3.0]


# -- nobody starves ---------------------------------------------------------------------------


def test_who_was_passed_over_for_too_long_goes_before_a_higher_weight_once() -> None:
    dag = dag_room("low", limit=100)
    queue = queue_of(*(needs(weight=1, dag=dag) for _ in range(3)), limit=LIMIT)
    weights = []
    for now in range(0, 2000, 100):
        queue.add(needs(weight=9))
        weights += [c.weight for c in queue.take(room(etl=1), float(now)).taken]

    assert [n * 100 for n, weight in enumerate(weights) if weight == 1] == [600, 1200, 1800]


def test_slots_are_kept_for_a_big_one_that_small_ones_would_pass_over_for_ever() -> None:
    big = needs(3, weight=2)
    queue = queue_of(big, limit=LIMIT)
    queue.take(room(etl=pool(3, 3)), 0.0)
    queue.add(needs(weight=1))
    assert [c.pool_slots for c in queue.take(room(etl=pool(3, 2)), 599.0).taken] == [1]

    queue.add(needs(weight=9))
    assert queue.take(room(etl=pool(3, 2)), 600.0).taken == []
    assert queue.take(room(etl=pool(3, 1)), 601.0).taken == []
    assert queue.take(room(etl=pool(3, 0)), 602.0).taken == [big]


@pytest.mark.parametrize("hidden_by", ["its DAG", "its executor", "a pool that is too small"])
def test_an_overdue_one_that_cannot_run_hides_nobody(hidden_by: str) -> None:
    limits = {"its DAG": 0}.get(hidden_by, 5)
    blocked = needs(
        9 if hidden_by == "a pool that is too small" else 1,
        dag=dag_room("blocked", limit=5),
        is_async=hidden_by == "its executor",
    )
    other = needs(weight=1)
    queue = queue_of(blocked, other, limit=LIMIT)
    queue.take(room(etl=pool(1, 1), asynchronous=0), 0.0)
    blocked.dag.limit = limits

    assert queue.take(room(etl=1, asynchronous=0), 700.0).taken == [other]


@given(
    st.lists(st.tuples(st.integers(1, 3), st.integers(0, 9)), min_size=1, max_size=5),
    st.integers(1, 4),
    st.randoms(use_true_random=False),
)
def test_with_any_stream_of_better_ones_nobody_is_passed_over_for_longer_than_the_limit(
    starving: list[tuple[int, int]], slots: int, random: object
) -> None:
    """The bound: from `limit` seconds on, nothing that lined up later gets a slot before the first of a DAG."""
    first = [needs(need, weight=weight, dag=dag_room(f"d{n}")) for n, (need, weight) in enumerate(starving)]
    queue = queue_of(*first, limit=10.0)
    running: list[tuple[float, Candidate]] = []
    waiting = [c for c in first if c.pool_slots <= slots]
    numbers = count()
    for now in range(60):
        queue.add(needs(weight=50, dag=dag_room(f"vip{next(numbers)}")))
        queue.add(needs(weight=40, dag=dag_room(f"vip{next(numbers)}")))
        running = [(end, c) for end, c in running if end > now]
        used = sum(c.pool_slots for _, c in running)
        taken = queue.take(room(etl=pool(slots, used)), float(now)).taken
        running += [(now + 1 + random.randint(0, 1), c) for c in taken]  # type: ignore[attr-defined]
        if now >= 10 and any(c in waiting for c in taken) is False and waiting:
            assert not taken, "somebody who lined up later was served while one was overdue"
        waiting = [c for c in waiting if c not in taken]
    assert not waiting
