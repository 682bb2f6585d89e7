"""How schedulers share partitions by load: the rules as examples, and what holds for every fleet.

In place of the semantics reference, section 20.1.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from hypothesis import assume, given
from hypothesis import strategies as st

from aiosched.core.fleet.loads import AVERAGED_OVER, PartitionLoads
from aiosched.core.fleet.shares import AT_ONCE, IDLE, RESTING, Shares, for_joining, gives, to_even_out
from aiosched.core.values.ids import PARTITIONS

Owners = dict[int, int | None]


def owners(*counts: int) -> Owners:
    """Partitions in order: so many of scheduler 1, so many of scheduler 2 …; the others are free."""
    flat: list[int | None] = [number + 1 for number, count in enumerate(counts) for _ in range(count)]
    return dict(enumerate(flat + [None] * (PARTITIONS - len(flat))))


def shares(owned: Mapping[int, int | None], living: int, loads: Mapping[int, float] | None = None) -> Shares:
    return Shares(range(1, living + 1), owned, loads or {})


def given_by(shares: Shares, me: int, *joining: int, settled_for: float = RESTING) -> list[int]:
    return gives(shares, me, joining=joining, settled_for=settled_for)


# -- examples ---------------------------------------------------------------------------------


def test_free_partitions_with_equal_loads_are_shared_by_number() -> None:
    taken, takers = shares(owners(), 3).with_free_ones()

    assert sorted(Counter(takers.values()).values()) == [21, 21, 22]
    assert set(taken.owners.values()) == {1, 2, 3}


def test_hot_partitions_are_shared_and_their_owner_has_fewer() -> None:
    loads = {0: 100.0, 1: 50.0, 2: 50.0}

    taken, takers = shares(owners(), 2, loads).with_free_ones()

    assert {takers[0]} != {takers[1]} == {takers[2]}
    assert max(taken.totals().values()) - min(taken.totals().values()) <= IDLE


def test_one_hot_partition_leaves_the_others_to_the_others() -> None:
    _, takers = shares(owners(), 2, {5: 1000.0}).with_free_ones()

    assert Counter(takers.values()) == {takers[5]: 1, 3 - takers[5]: 63}


def test_who_has_hot_dags_gives_some_of_its_partitions_the_heaviest_first() -> None:
    loads = {0: 40.0, 1: 30.0, 2: 20.0, 3: 10.0, 4: 10.0, 5: 10.0}

    leaving = given_by(shares(owners(32, 32), 2, loads), 1)

    assert leaving[0] == 0
    assert 0 < len(leaving) <= AT_ONCE
    assert given_by(shares(owners(32, 32), 2, loads), 2) == []


def test_a_single_hot_partition_stays_where_it_is() -> None:
    """Neither it nor the idle ones beside it would make a clear difference."""
    assert given_by(shares(owners(32, 32), 2, {0: 1000.0}), 1) == []


def test_nothing_moves_for_a_small_difference() -> None:
    loads = {0: 55.0, 1: 50.0, 40: 50.0, 41: 45.0}

    assert given_by(shares(owners(32, 32), 2, loads), 1) == []


def test_nothing_moves_while_the_last_move_has_not_shown_its_effect() -> None:
    hot = shares(owners(32, 32), 2, dict.fromkeys(range(10), 50.0))

    assert given_by(hot, 1, settled_for=RESTING - 1) == []
    assert given_by(hot, 1, settled_for=RESTING) != []


def test_a_new_scheduler_gets_a_share_at_once_by_load() -> None:
    loads = dict.fromkeys(range(8), 100.0)

    leaving = given_by(shares(owners(64), 2, loads), 1, 2, settled_for=0.0)

    assert len(set(leaving) & loads.keys()) == 4
    assert 0.47 < sum(1 + loads.get(p, 0.0) for p in leaving) / (64 + 800) < 0.53


def test_a_new_scheduler_gets_half_of_the_busy_partitions_however_little_they_store() -> None:
    """Long tasks store few rows and hold slots: a new scheduler that got all of them would have no slots left."""
    loads = dict.fromkeys((3, 13, 27, 33, 46, 55), 0.044)

    leaving = given_by(shares(owners(64), 2, loads), 1, 2, settled_for=0.0)

    assert len(leaving) == 32
    assert len(set(leaving) & loads.keys()) == 3


def test_a_new_scheduler_gets_some_of_everybody() -> None:
    loads = {p: 8.0 if p % 4 == 0 else 0.5 for p in range(PARTITIONS)}
    fleet = shares(owners(32, 32), 3, loads)

    moves = for_joining(fleet, {3})

    busy = Counter(giver for partition, giver, _ in moves if loads[partition] == 8.0)
    assert {*busy} == {1, 2}
    assert 5 <= busy.total() <= 6
    totals = Shares(fleet.living, {**fleet.owners, **{p: 3 for p, _, _ in moves}}, loads).totals()
    assert max(totals.values()) - min(totals.values()) <= 9.0


def test_a_new_scheduler_that_has_its_share_gets_no_more() -> None:
    assert given_by(shares(owners(32, 32), 2), 1, 2) == []


def test_what_cannot_leave_stays_and_others_go_instead() -> None:
    hot = shares(owners(32, 32), 2, dict.fromkeys(range(10), 50.0))

    leaving = gives(hot, 1, joining=(), settled_for=RESTING, staying=[0, 1, 2, 3, 4])

    assert set(leaving) <= set(range(5, 32))
    assert set(leaving) & set(range(5, 10))


# -- what always holds ------------------------------------------------------------------------

LOADS = st.dictionaries(st.integers(0, PARTITIONS - 1), st.floats(0.0, 2000.0), max_size=PARTITIONS)
FLEETS = st.integers(1, 8)


@st.composite
def fleets(draw: st.DrawFn) -> Shares:
    """Any owners, among them free partitions and those of schedulers that do not take part."""
    living = draw(FLEETS)
    names = st.sampled_from([None, *range(1, living + 2)])
    return shares({p: draw(names) for p in range(PARTITIONS)}, living, draw(LOADS))


@given(fleets())
def test_every_free_partition_gets_a_living_taker_and_no_other_changes_hands(fleet: Shares) -> None:
    taken, takers = fleet.with_free_ones()

    assert takers.keys() == {p for p, owner in fleet.owners.items() if owner is None}
    assert set(takers.values()) <= set(fleet.living)
    assert all(taken.owners[p] == owner for p, owner in fleet.owners.items() if owner is not None)


@given(fleets(), st.data())
def test_nobody_gives_what_it_does_not_have_or_what_cannot_leave(fleet: Shares, data: st.DataObject) -> None:
    staying = data.draw(st.sets(st.integers(0, PARTITIONS - 1)))
    joining = data.draw(st.sets(st.sampled_from(list(fleet.living))))
    settled_for = data.draw(st.sampled_from([0.0, 100.0]))

    for me in fleet.living:
        leaving = gives(fleet, me, joining=joining, settled_for=settled_for, staying=staying)

        assert len(set(leaving)) == len(leaving)
        assert all(fleet.owners[p] == me and p not in staying for p in leaving)


@given(fleets())
def test_moves_conserve_the_total_and_never_raise_the_greatest_weight(fleet: Shares) -> None:
    totals = fleet.totals()

    moves, most = to_even_out(fleet)

    for partition, giver, taker in moves:
        assert fleet.owners[partition] == giver != taker
        totals[giver] -= fleet.weight(partition)
        totals[taker] += fleet.weight(partition)
    assert abs(sum(totals.values()) - sum(fleet.totals().values())) < 1e-6
    assert len({move.partition for move in moves}) == len(moves)
    assert abs(max(totals.values()) - most) < 1e-6
    assert most <= max(fleet.totals().values()) + 1e-6


@given(fleets(), st.data())
def test_who_joins_never_raises_the_greatest_weight_and_moves_come_to_rest(fleet: Shares, data: st.DataObject) -> None:
    joining = data.draw(st.sets(st.sampled_from(list(fleet.living))))

    for _ in range(PARTITIONS):
        if not (moves := for_joining(fleet, joining)):
            break
        assert all(fleet.owners[p] == giver != taker and taker in joining for p, giver, taker in moves)
        assert len({move.partition for move in moves}) == len(moves)
        moved = Shares(fleet.living, {**fleet.owners, **{p: taker for p, _, taker in moves}}, fleet.loads)
        assert max(moved.totals().values()) <= max(fleet.totals().values()) + 1e-6
        fleet = moved

    assert for_joining(fleet, joining) == []


@given(st.lists(st.integers(0, 20), min_size=1, max_size=8), st.sampled_from([0.0, 3.0]))
def test_with_equal_loads_free_partitions_make_numbers_equal(had: list[int], load: float) -> None:
    """As far as what each had before allows it: nobody above an equal share gets any."""
    assume(sum(had) <= PARTITIONS)
    loads = dict.fromkeys(range(PARTITIONS), load)
    taken, _ = shares(owners(*had), len(had), loads).with_free_ones()

    counts = Counter(taken.owners.values())

    growing = [counts[n + 1] for n, count in enumerate(had) if counts[n + 1] > count]
    assert all(counts[n + 1] >= max(growing, default=0) - 1 for n in range(len(had)))


@given(FLEETS, st.data(), st.sampled_from([0.0, 3.0]))
def test_with_equal_loads_everybody_who_joins_makes_numbers_equal(
    living: int, data: st.DataObject, load: float
) -> None:
    loads = dict.fromkeys(range(PARTITIONS), load)
    owned = dict(shares(owners(), living, loads).with_free_ones()[0].owners)
    newcomer = living + 1

    for me in data.draw(st.permutations(range(1, living + 1))):  # they look one after the other
        fleet = shares(owned, newcomer, loads)
        for partition in given_by(fleet, me, newcomer, settled_for=0.0):
            owned[partition] = None
        owned = dict(shares(owned, newcomer, loads).with_free_ones()[0].owners)

    counts = Counter(owned.values())
    assert max(counts.values()) - min(counts[n] for n in range(1, newcomer + 1)) <= 1


@given(FLEETS, LOADS, st.data())
def test_under_constant_loads_shares_come_to_rest_and_nothing_moves_back(
    living: int, loads: dict[int, float], data: st.DataObject
) -> None:
    owned: Owners = {p: data.draw(st.integers(1, living)) for p in range(PARTITIONS)}
    begun = max(shares(owned, living, loads).totals().values())
    times = Counter[int]()

    for _ in range(PARTITIONS):
        fleet, moved = shares(owned, living, loads), list[int]()
        for me in fleet.living:
            leaving = given_by(fleet, me)
            assert len(leaving) <= AT_ONCE
            moved += leaving
        if not moved:
            break
        givers = {p: owned[p] for p in moved}
        owned, takers = {**owned, **dict.fromkeys(moved)}, dict[int, int]()
        taken, takers = shares(owned, living, loads).with_free_ones()
        owned = dict(taken.owners)
        times.update(p for p in moved if takers[p] != givers[p])

    totals = shares(owned, living, loads).totals()
    assert not any(given_by(shares(owned, living, loads), me) for me in range(1, living + 1))
    assert max(totals.values()) <= begun + 1e-6
    assert all(count == 1 for count in times.values())


@given(FLEETS, LOADS)
def test_no_scheduler_that_is_at_rest_has_much_more_than_it_could(living: int, loads: dict[int, float]) -> None:
    """Shared out anew, the greatest weight is at most that of the heaviest partition above an equal share."""
    taken, _ = shares(owners(), living, loads).with_free_ones()
    totals = taken.totals()

    heaviest = max(map(taken.weight, range(PARTITIONS)))

    assert max(totals.values()) <= sum(totals.values()) / living + heaviest + 1e-6


# -- measuring --------------------------------------------------------------------------------


def test_a_steady_rate_becomes_the_load_and_fades_when_it_ends() -> None:
    loads = PartitionLoads()
    for second in range(int(10 * AVERAGED_OVER)):
        loads.add({3: 50}, float(second))

    (load,) = [load for load in loads.published({3}) if load is not None]
    loads.add({}, 11 * AVERAGED_OVER)

    assert abs(load - 50) < 1
    assert abs((loads.published({3})[3] or 0) / load - 0.36) < 0.01


def test_a_load_follows_its_partition_and_only_ours_are_published() -> None:
    loads = PartitionLoads()
    loads.begin({1: 7.0, 2: 5.0})
    loads.forget([2])

    assert loads.published({1, 2, 4})[:6] == [None, 7.0, 0.0, None, 0.0, None]


def test_a_clock_that_stands_still_or_goes_back_fades_nothing() -> None:
    loads = PartitionLoads()
    loads.begin({1: 7.0})
    for now in (10.0, 10.0, 5.0):
        loads.add({}, now)

    assert loads.published({1})[1] == 7.0
