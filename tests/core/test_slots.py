"""Who gets a slot: examples, every limit, and every reason for a refusal.

Source: the semantics reference, sections 17.2 (order), 17.3 (the walk), 17.6 (examples) and 18.3 (limits).
"""

from __future__ import annotations

import pytest

from aiosched.core.slots.allocation import Candidate, Needs, PoolRoom, Room, TaskRoom, full_pool_words
from tests.core.slot_builders import allocate, dag_room, needs, room


class TestExamplesOfTheReference:
    def test_a_small_task_passes_a_big_one_that_does_not_fit(self) -> None:
        first, big, small = needs(1, weight=3), needs(2, weight=2), needs(1, weight=1)

        grant = allocate([small, big, first], room(etl=2))

        assert grant.taken == [first, small]
        assert grant.refused == [(big, "pool 'etl': needs 2 slots, 1 of 2 open")]

    def test_one_that_cannot_fit_does_not_hide_the_next(self) -> None:
        big, small = needs(2, weight=2), needs(1, weight=1)

        assert allocate([big, small], room(etl=1, parallelism=1)).taken == [small]

    def test_the_heaviest_tasks_of_a_run_get_the_places_of_its_dag(self) -> None:
        dag = dag_room(limit=2)
        low, middle, high = (needs(dag=dag, run=1, index=weight, weight=weight) for weight in (1, 2, 3))

        assert allocate([low, middle, high], room(etl=9)).taken == [high, middle]

    def test_a_task_limit_counts_over_all_runs_and_opens_when_one_ends(self) -> None:
        dag, task = dag_room(), TaskRoom("load", per_dag=2)
        runs = [needs(dag=dag, run=run, logical_at=float(run), task=task) for run in (1, 2, 3)]

        grant = allocate(runs, room(etl=9))

        assert grant.taken == runs[:2]
        assert grant.refused[0][1] == "task 'load': 2 of 2 instances active (max_active_tis_per_dag)"

        dag.vacate(1, task)

        assert allocate(runs[2:], room(etl=9)).taken == [runs[2]]

    def test_a_pool_that_was_shrunk_below_its_use_does_not_stop_the_others(self) -> None:
        here, elsewhere = needs(pool="shrunk"), needs(pool="etl")

        grant = allocate([here, elsewhere], room(shrunk=PoolRoom(2, -1), etl=1))

        assert grant.taken == [elsewhere]
        assert grant.refused == [(here, "pool 'shrunk': needs 1 slot, -1 of 2 open")]


class TestLimits:
    def test_a_dag_counts_all_its_runs_together(self) -> None:
        dag = dag_room(limit=2)

        grant = allocate([needs(dag=dag, run=run) for run in (1, 2, 3)], room(etl=9))

        assert len(grant.taken) == 2
        assert grant.refused[0][1] == "DAG 'sales': 2 of 2 tasks active (max_active_tasks)"
        assert (dag.active, dag.by_run) == (2, {1: 1, 2: 1})

    def test_a_run_may_have_a_limit_of_its_own(self) -> None:
        dag = dag_room(per_run=1)

        grant = allocate([needs(dag=dag, run=run, index=index) for run in (1, 2) for index in (0, 1)], room(etl=9))

        assert [c.key.run for c in grant.taken] == [1, 2]
        assert grant.refused[0][1] == "DAG 'sales': 1 of 1 tasks active in this run (max_active_tasks_per_run)"

    def test_mapped_siblings_may_have_a_limit_in_each_run(self) -> None:
        dag, task = dag_room(), TaskRoom("load", per_run=1)
        siblings = [needs(dag=dag, run=run, map_index=index, task=task) for run in (1, 2) for index in (0, 1)]

        grant = allocate(siblings, room(etl=9))

        assert [c.key.run for c in grant.taken] == [1, 2]
        assert grant.refused[0][1] == ("task 'load': 1 of 1 instances active in this run (max_active_tis_per_dagrun)")

    def test_async_and_plain_functions_have_slots_of_their_own(self) -> None:
        plain, waiting = [needs() for _ in range(2)], [needs(is_async=True) for _ in range(2)]

        grant = allocate(plain + waiting, room(etl=9, plain=1, asynchronous=2))

        assert grant.taken == [plain[0], *waiting]
        assert grant.refused == [(plain[1], "executor 'local': 0 slots open for plain functions, needs 1")]

    def test_a_deferred_task_stays_active_for_its_own_limit_only(self) -> None:
        dag, task = dag_room(limit=1), TaskRoom("load", per_dag=1)
        deferred, sibling, other = (
            needs(dag=dag, run=1, task=task),
            needs(dag=dag, run=2, task=task),
            needs(dag=dag, run=2, index=1),
        )
        allocate([deferred], room(etl=9))

        dag.vacate(1)  # queued and running no more

        assert allocate([sibling, other], room(etl=9)).taken == [other]
        assert (task.active, task.by_run) == (1, {1: 1})

    def test_everything_vacated_leaves_nothing_behind(self) -> None:
        dag, task = dag_room(), TaskRoom("load", per_dag=5)
        for run in (1, 1, 2):
            dag.occupy(run, task)
        for run in (1, 2, 1):
            dag.vacate(run, task)

        assert (dag.active, dag.by_run, task.active, task.by_run) == (0, {}, 0, {})


class TestReasons:
    @pytest.mark.parametrize(
        ("candidate", "given", "reason"),
        [
            (
                needs(2, pool="gone"),
                room(etl=1),
                "pool 'gone' does not exist: create it with `aiosched pools set gone 2`",
            ),
            (
                needs(3),
                room(etl=2),
                (
                    "pool 'etl': needs 3 slots, has 2 in all: "
                    "enlarge it with `aiosched pools set etl 3` or lower pool_slots"
                ),
            ),
            (needs(2), room(etl=PoolRoom(4, 1)), "pool 'etl': needs 2 slots, 1 of 4 open"),
            (
                needs(executor="dask"),
                room(etl=1),
                (
                    "executor 'dask' is not configured: known here is local. "
                    "Add it to executor.kind, or change the task's executor"
                ),
            ),
            (
                needs(is_async=True),
                room(etl=1, asynchronous=0),
                "executor 'local': 0 slots open for async functions, needs 1",
            ),
            (
                needs(),
                room(etl=1, parallelism=0),
                "parallelism: this scheduler runs 0 attempts, its maximum",
            ),
        ],
    )
    def test_a_refusal_names_the_numbers_or_the_remedy(self, candidate: Candidate, given: Room, reason: str) -> None:
        assert allocate([candidate], given).refused == [(candidate, reason)]

    def test_asking_changes_nothing(self) -> None:
        given = room(etl=1)

        assert [given.refusal(Needs("etl")) for _ in range(3)] == [None] * 3

    @pytest.mark.parametrize(
        ("given", "reason"),
        [
            (room(etl=9, parallelism=1), "parallelism: this scheduler runs 1 attempts, its maximum"),
            (room(etl=1, other=0), "pool 'etl': needs 1 slot, 0 of 1 open"),
            (
                room(etl=9, plain=1, asynchronous=0),
                "executor 'local': 0 slots open for plain functions, needs 1",
            ),
        ],
    )
    def test_once_nothing_can_be_taken_each_of_the_rest_has_the_reason(self, given: Room, reason: str) -> None:
        candidates = [needs() for _ in range(4)]

        grant = allocate(candidates, given)

        assert grant.taken == candidates[:1]
        assert grant.refused == [(c, reason) for c in candidates[1:]]

    def test_a_pool_that_does_not_exist_is_named_even_when_there_are_none(self) -> None:
        grant = allocate([needs(pool="gone")], room())

        assert "pool 'gone' does not exist" in grant.refused[0][1]

    def test_a_candidate_shows_its_dag_and_key(self) -> None:
        assert repr(needs(run=5)) == "<Candidate sales (5, 0, -1, 1)>"


@pytest.mark.parametrize(
    ("slots", "waiting", "words"),
    [
        (1, 1, "its slot is occupied, 1 task waits"),
        (1, 2, "its slot is occupied, 2 tasks wait"),
        (3, 1, "all 3 slots are occupied, 1 task waits"),
    ],
)
def test_a_full_pool_is_told_in_the_right_number(slots: int, waiting: int, words: str) -> None:
    assert full_pool_words(slots, waiting) == words


@pytest.mark.parametrize(
    ("given", "kind", "reason"),
    [
        (needs(3, pool="etl"), None, None),
        (needs(1, pool="etl", executor="local"), None, None),
        (needs(9, pool="endless"), None, None),
        (needs(2, pool="full"), None, None),  # it waits, and not in vain
        (needs(4, pool="etl"), "pool", "needs 4 slots, has 3 in all: enlarge it with `aiosched pools set etl 4`"),
        (needs(1, pool="closed"), "pool", "needs 1 slot, has 0 in all"),
        (needs(1, pool="gone"), "pool", "does not exist: create it with `aiosched pools set gone 1`"),
        (needs(1, pool="theirs"), "pool", "belongs to another team"),
        (needs(1, pool="etl", executor="dask"), "executor", "is not configured: known here is local"),
        (needs(4, pool="etl", defers=True), None, None),  # a deferred task takes no slot there
        (needs(1, pool="etl", executor="dask", defers=True), None, None),
        (needs(4, pool="deferring", defers=True), "pool", "has 3 in all"),
    ],
)
def test_what_can_never_start_is_told_from_what_waits(given: Candidate, kind: str | None, reason: str | None) -> None:
    pools = {
        "full": PoolRoom(2, -1),
        "theirs": PoolRoom(9, 9, team="sales"),
        "deferring": PoolRoom(3, 3, include_deferred=True),
    }
    there = room(etl=3, endless=-1, closed=0, **pools)

    found = there.impossible(given.needs)

    assert (found and found.kind) == kind
    if found is not None:
        assert reason is not None
        assert reason in found.reason
        assert found.name == (given.executor if kind == "executor" else given.pool)
        assert there.refusal(given.needs) == found.reason
