"""The waiting queue: takes what a sorted walk would take, and looks at little else.

Source: the semantics reference, sections 17.3 and 17.4.
"""

from __future__ import annotations

import gc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from aiosched.core.slots.allocation import (
    Candidate,
    DagRoom,
    ExecutorRoom,
    PoolRoom,
    Room,
    TaskRoom,
)
from aiosched.core.slots.rates import RecentStarts
from aiosched.core.slots.waiting import WaitingQueue
from aiosched.core.values.messages import AttemptKey
from tests.core.slot_builders import dag_room, line_up_again, needs, put_back, queue_of, reference_walk, room


def test_candidates_leave_in_order_of_precedence_and_arrival() -> None:
    low, first, second, high = needs(weight=1), needs(weight=2), needs(weight=2), needs(weight=3)
    queue = queue_of(low, first, second, high)

    assert queue.take(room(etl=3), 0.0).taken == [high, first, second]
    assert queue.take(room(etl=3), 0.0).taken == [low]
    assert len(queue) == 0


def test_what_begins_in_its_trigger_needs_no_start_even_if_a_task_has_waited_too_long_for_one() -> None:
    blocked, begins, later = needs(), needs(defers=True), needs(defers=True)
    queue = WaitingQueue(limit=10)
    queue.add(blocked)
    queue.add(begins)

    def without_starts() -> Room:
        return room(etl=PoolRoom(4, 4, include_deferred=True, starts=RecentStarts.used_up("1/h")))

    assert queue.take(without_starts(), 0.0).taken == [begins]
    queue.add(later)
    assert queue.take(without_starts(), 20.0).taken == [later]
    assert queue.reason(blocked.key) == "pool 'etl': no start left, its rate is 1/h"


def test_what_has_left_waits_for_no_garbage_collector() -> None:
    queue, gone = queue_of(needs(weight=1), needs(weight=2)), needs(weight=3)
    queue.add(gone)
    gc.collect()

    queue.discard(gone.key)
    queue.take(room(etl=9), 0.0)

    assert gc.collect() == 0


def test_the_slots_that_all_need_together_are_known_for_each_pool() -> None:
    gone = needs(4)
    queue = queue_of(needs(1), needs(1), needs(3), gone)
    queue.discard(gone.key)

    assert (queue.slots_of("etl"), queue.slots_of("other")) == (5, 0)

    queue.take(room(etl=1), 0.0)

    assert queue.slots_of("etl") == 4


@pytest.mark.parametrize("parallelism", [9, 0])
def test_those_that_wait_in_vain_are_counted_until_they_can_start(parallelism: int) -> None:
    parked = dag_room("parked", limit=0)
    queue = queue_of(needs(1), needs(5), needs(5), needs(1, pool="gone"), needs(1, pool="gone", dag=parked))

    queue.take(room(etl=3, parallelism=parallelism), 0.0)

    assert [(why.name, number) for why, number in queue.in_vain().items()] == [("etl", 2), ("gone", 2)]

    queue.take(room(etl=5, gone=1), 1.0)

    assert queue.in_vain() == {}


def test_a_candidate_that_was_discarded_is_not_taken() -> None:
    dag = dag_room()
    gone, stays = needs(dag=dag, weight=2), needs(dag=dag, weight=1)
    queue = queue_of(gone, stays)

    assert queue.discard(gone.key)
    assert not queue.discard(gone.key)
    assert gone.key not in queue
    assert queue.take(room(etl=9), 0.0).taken == [stays]


def test_a_candidate_added_again_is_taken_once_with_its_new_needs() -> None:
    dag = dag_room()
    before, after = needs(5, dag=dag, run=1), needs(1, dag=dag, run=1)
    queue = queue_of(before, needs(5, dag=dag, run=2), after, after)

    assert queue.take(room(etl=PoolRoom(9, 1)), 0.0).taken == [after]
    assert len(queue) == 1


def test_a_dag_at_its_limit_hides_nobody_and_is_looked_at_once() -> None:
    greedy, other = dag_room("greedy", limit=1), needs(weight=1)
    queue = queue_of(*(needs(dag=greedy, run=1, index=n, weight=9) for n in range(1000)), other)

    grant = queue.take(room(etl=9), 0.0)

    assert [c.weight for c in grant.taken] == [9, 1]
    assert [reason for _, reason in grant.refused] == ["DAG 'greedy': 1 of 1 tasks active (max_active_tasks)"]
    assert queue.take(room(etl=9), 0.0).refused == [], "parked until the DAG has room"
    assert queue.reason(AttemptKey(1, 500, -1, 1)) == "DAG 'greedy': 1 of 1 tasks active (max_active_tasks)"


def test_a_dag_that_has_room_again_goes_on() -> None:
    dag = dag_room(limit=1)
    first, second = needs(dag=dag, run=1), needs(dag=dag, run=2)
    queue = queue_of(first, second)
    queue.take(room(etl=9), 0.0)

    dag.vacate(1)
    queue.release(dag)

    assert queue.take(room(etl=9), 0.0).taken == [second]


def test_a_limit_that_rose_counts_after_a_release() -> None:
    dag = dag_room(limit=0)
    queue = queue_of(candidate := needs(dag=dag))
    queue.take(room(etl=9), 0.0)

    dag.limit = 1

    assert queue.take(room(etl=9), 0.0).taken == []
    queue.release(dag)
    assert queue.take(room(etl=9), 0.0).taken == [candidate]


def test_a_better_candidate_that_arrives_later_goes_first() -> None:
    dag = dag_room(limit=1)
    worse, better = needs(dag=dag, weight=1), needs(dag=dag, weight=2)
    queue = queue_of(worse)
    queue.take(room(etl=0), 0.0)

    queue.add(better)

    assert queue.take(room(etl=9), 0.0).taken == [better]


def test_a_run_or_task_at_its_limit_does_not_park_its_dag() -> None:
    dag, task = dag_room(per_run=1), TaskRoom("load", per_dag=0)
    blocked = needs(dag=dag, run=1, task=task, weight=3)
    here, full, elsewhere = (
        needs(dag=dag, run=2, weight=2),
        needs(dag=dag, run=2, index=1, weight=2),
        needs(dag=dag, run=3),
    )

    grant = queue_of(blocked, here, full, elsewhere).take(room(etl=9), 0.0)

    assert grant.taken == [here, elsewhere]
    assert [c for c, _ in grant.refused] == [blocked, full]


def test_limits_that_come_and_go_take_effect_once_its_candidates_are_sorted_anew() -> None:
    dag = dag_room()
    candidates = [needs(dag=dag, run=run, index=n) for run in (1, 2) for n in (0, 1)]
    queue = queue_of(*candidates)

    dag.per_run = 1
    line_up_again(queue, dag)

    assert [c.key.run for c in queue.take(room(etl=9), 0.0).taken] == [1, 2]

    dag.per_run = None
    line_up_again(queue, dag)

    assert [c.key.run for c in queue.take(room(etl=9), 0.0).taken] == [1, 2]


def test_what_was_taken_but_not_claimed_waits_again_at_its_place() -> None:
    dag = dag_room(limit=2)
    first, second, third = (needs(dag=dag, run=run) for run in (1, 2, 3))
    queue = queue_of(first, second, third)
    grant = queue.take(room(etl=9), 0.0)

    for candidate in grant.taken:
        put_back(queue, candidate)

    assert (dag.active, dag.by_run) == (0, {})
    assert queue.take(room(etl=9), 0.0).taken == [first, second]


def test_every_candidate_that_waits_has_a_reason_after_a_pass() -> None:
    dag = dag_room(limit=1)
    candidates = [
        needs(dag=dag, run=1, index=0),
        needs(dag=dag, run=1, index=1),
        needs(4),
        needs(4),
        needs(pool="gone"),
    ]
    queue = queue_of(*candidates)

    queue.take(room(etl=PoolRoom(4, 2)), 0.0)

    assert [queue.reason(c.key) for c in candidates] == [
        None,  # was taken
        "DAG 'sales': 1 of 1 tasks active (max_active_tasks)",
        "pool 'etl': needs 4 slots, 1 of 4 open",
        "pool 'etl': needs 4 slots, 1 of 4 open",
        "pool 'gone' does not exist: create it with `aiosched pools set gone 1`",
    ]


def test_a_pass_asks_only_for_pools_somebody_could_use() -> None:
    closed = dag_room(limit=0)
    queue = queue_of(needs(pool="b"), needs(pool="a"), needs(3, pool="a"), needs(pool="c", dag=closed))

    assert queue.pools() == ["a", "b", "c"]
    queue.take(room(a=0, b=0, c=9), 0.0)
    assert queue.pools() == ["a", "b"], "what waits for its DAG alone needs no pool"


@pytest.mark.parametrize("order", [1, -1])
def test_many_discarded_candidates_leave_no_trace(order: int) -> None:
    dag = dag_room(limit=1000)
    candidates = [needs(dag=dag, run=1, index=n, weight=n) for n in range(1000)]
    queue = queue_of(*candidates)

    for candidate in candidates[::order][:999]:
        queue.discard(candidate.key)

    left = candidates[::order][999]
    assert list(queue) == [left]
    assert queue.take(room(etl=9), 0.0).taken == [left]
    assert queue.take(room(etl=9), 0.0).taken == []


def test_a_task_that_may_not_use_a_pool_neither_takes_nor_reserves_its_slots() -> None:
    foreign = needs(2, dag=dag_room("theirs", team="beta"), weight=9)
    queue, pool = queue_of(foreign), PoolRoom(2, 1, team="alpha")
    queue.limit = 10
    queue.take(room(etl=pool), now=0)
    own = needs(1, dag=dag_room("ours", team="alpha"))
    queue.add(own)

    grant = queue.take(room(etl=pool), now=100)  # the other one has waited for too long meanwhile

    assert grant.taken == [own]
    assert queue.reason(foreign.key) == "pool 'etl' belongs to another team: choose a pool that this DAG may use"
    assert queue.demands(room(etl=PoolRoom(2, 1, team="alpha")), 100) == {}


# -- properties --------------------------------------------------------------------------------


@st.composite
def situations(draw: st.DrawFn) -> tuple[list[Candidate], Room]:
    """Any mix of candidates and room, with limits low enough to be met, and pools of teams."""
    teams = st.sampled_from([None, "alpha", "beta"])
    dags = [
        DagRoom(f"dag{n}", draw(st.integers(0, 4)), draw(st.none() | st.integers(0, 2)), team=draw(teams))
        for n in range(draw(st.integers(1, 3)))
    ]
    tasks = {
        dag: [None, TaskRoom("x", draw(st.none() | st.integers(0, 3)), draw(st.none() | st.integers(0, 2)))]
        for dag in dags
    }
    candidates = []
    for number in range(draw(st.integers(0, 14))):
        dag = draw(st.sampled_from(dags))
        candidates.append(
            needs(
                draw(st.integers(1, 3)),
                pool=draw(st.sampled_from(["etl", "big", "gone"])),
                dag=dag,
                run=draw(st.integers(1, 2)) + 10 * dags.index(dag),
                index=number,
                map_index=draw(st.integers(-1, 1)),
                weight=draw(st.integers(-1, 2)),
                logical_at=draw(st.sampled_from([1.0, 2.0, float("inf")])),
                is_async=draw(st.booleans()),
                executor=draw(st.sampled_from([None, None, "local", "dask", "unknown"])),
                task=draw(st.sampled_from(tasks[dag])),
                defers=draw(st.sampled_from([False, False, False, True])),
            )
        )
    default, dask = (ExecutorRoom(name, draw(st.integers(0, 5)), draw(st.integers(0, 5))) for name in ("local", "dask"))
    parallelism = draw(st.integers(0, 8))
    pools = {
        "etl": PoolRoom(4, draw(st.integers(-1, 4)), draw(st.booleans()), team=draw(teams)),
        "big": draw(st.sampled_from([PoolRoom(-1, 0), PoolRoom(9, 9)])),
    }
    return candidates, Room(pools, {None: default, "local": default, "dask": dask}, parallelism, parallelism)


@given(situations())
def test_the_queue_takes_what_the_walk_of_the_reference_takes(situation: tuple[list[Candidate], Room]) -> None:
    candidates, given_room = situation
    expected = reference_walk(candidates, given_room)
    queue = queue_of(*candidates)

    grant = queue.take(given_room, 0.0)

    assert grant.taken == expected
    assert all(queue.reason(c.key) for c in candidates if c not in expected)
    assert {id(c) for c, _ in grant.refused} <= {id(c) for c in queue}


class QueueOverTime(RuleBasedStateMachine):
    """Arrivals, ends, withdrawals and passes in any order: every pass takes what the reference would."""

    @initialize()
    def start(self) -> None:
        self.dags = [dag_room("open", 3), dag_room("by run", 4, per_run=1)]
        self.limited = {dag: TaskRoom("x", per_dag=2, per_run=1) for dag in self.dags}
        self.queue = WaitingQueue()
        self.waiting: list[Candidate] = []
        self.active: list[Candidate] = []
        self.number = 0

    @rule(
        dag=st.integers(0, 1),
        run=st.integers(1, 2),
        slots=st.integers(1, 2),
        weight=st.integers(0, 2),
        limited=st.booleans(),
    )
    def arrive(self, dag: int, run: int, slots: int, weight: int, limited: bool) -> None:
        self.number += 1
        owner = self.dags[dag]
        candidate = needs(
            slots,
            dag=owner,
            run=run,
            index=self.number,
            weight=weight,
            task=self.limited[owner] if limited else None,
        )
        self.queue.add(candidate)
        self.waiting.append(candidate)

    @precondition(lambda self: self.waiting)
    @rule(data=st.data())
    def withdraw(self, data: st.DataObject) -> None:
        candidate = data.draw(st.sampled_from(self.waiting))
        self.waiting.remove(candidate)
        assert self.queue.discard(candidate.key)

    @precondition(lambda self: self.active)
    @rule(data=st.data())
    def end(self, data: st.DataObject) -> None:
        candidate = data.draw(st.sampled_from(self.active))
        self.active.remove(candidate)
        candidate.dag.vacate(candidate.key.run, candidate.task)
        self.queue.release(candidate.dag)

    @rule(open_slots=st.integers(0, 4), parallelism=st.integers(0, 4))
    def take(self, open_slots: int, parallelism: int) -> None:
        given_room = room(etl=PoolRoom(4, open_slots), parallelism=parallelism)
        in_order = sorted(self.waiting, key=lambda c: c.rank or ())
        expected = reference_walk(in_order, given_room)

        taken = self.queue.take(given_room, 0.0).taken

        assert taken == expected
        self.waiting = [c for c in self.waiting if c not in taken]
        self.active += taken

    @precondition(lambda self: self.active)
    @rule()
    def fail_to_commit(self) -> None:
        lost = self.active.pop()
        put_back(self.queue, lost)
        self.waiting.append(lost)

    @rule(dag=st.integers(0, 1), per_run=st.none() | st.integers(0, 2))
    def change_limits(self, dag: int, per_run: int | None) -> None:
        self.dags[dag].per_run = per_run
        line_up_again(self.queue, self.dags[dag])

    @invariant()
    def counts_are_right(self) -> None:
        assert len(self.queue) == len(self.waiting)
        for dag in self.dags:
            assert dag.active == sum(c.dag is dag for c in self.active) <= dag.limit
            assert dag.active == sum(dag.by_run.values())
            assert self.limited[dag].active == sum(c.task is self.limited[dag] for c in self.active) <= 2


TestQueueOverTime = QueueOverTime.TestCase
TestQueueOverTime.settings = settings(stateful_step_count=30)
