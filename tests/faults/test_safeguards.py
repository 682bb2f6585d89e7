"""Each safeguard is needed: without it, the checker of simulated fleets objects.

A fleet of three machines that is never left alone is played with one seed after the other until
the checker has something to say; all seeds are harmless with the safeguard in place.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.faults import safeguards
from tests.faults.safeguards import Removal, together
from tests.simulation.checker import violations
from tests.simulation.simulate import Simulation, simulate
from tests.simulation.store import Strength, Transaction
from tests.simulation.workload import make_plan

_SEEDS = 40

# What is taken away, which rule of the checker notices, and the seed to begin with: one that shows it soon.
NEEDED: dict[str, tuple[tuple[Removal, ...], str, int]] = {
    "the fence": ((safeguards.fence,), "owner", 1),
    "both lines around pools": ((safeguards.pool_lock, safeguards.pool_guard), "pool", 24),
    "commit before dispatch": ((safeguards.commit_first,), "commit first", 0),
    "one process for an attempt": ((safeguards.one_process,), "overlap", 0),
    "the trust window": ((safeguards.trust,), "memory", 2),
    "a request and its answer in one transaction": ((safeguards.exactly_once,), "inbox", 2),
    "dropping stale reports": ((safeguards.stale_reports,), "lost", 0),
    "taking free partitions only": ((safeguards.free_partitions,), "lease", 0),
    "noticing lost attempts": ((safeguards.lost_attempts,), "lost", 0),
    "waiting for the run before": ((safeguards.waiting_for_the_past,), "past", 0),
    "callbacks that stay until they have run": ((safeguards.kept_callbacks,), "callbacks", 11),
}

_QUICK = {
    "the fence",
    "commit before dispatch",
    "one process for an attempt",
    "taking free partitions only",
    "waiting for the run before",
}


def objections(seed: int, *removals: Removal) -> list[str]:
    """What the checker says to a seed that is played without these safeguards."""
    plan = make_plan(seed, harsh=True)
    with together(*removals):
        history = simulate(seed, plan)
    return violations(plan, history)


@pytest.mark.parametrize(
    "name", [name if name in _QUICK else pytest.param(name, marks=pytest.mark.slow) for name in NEEDED]
)
def test_without_it_the_checker_objects(name: str) -> None:
    removals, rule, first = NEEDED[name]
    said: list[str] = []
    for seed in (*range(first, _SEEDS), *range(first)):
        said += objections(seed, *removals)
        if any(one.startswith(f"[{rule}]") for one in said):
            return
    raise AssertionError(f"{_SEEDS} seeds without {name}, and no rule {rule!r} was broken; there was {said[:5]}")


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (0, 2, 3, 4))])
def test_with_all_of_them_it_does_not(seed: int) -> None:
    assert objections(seed) == []


@pytest.mark.slow
@pytest.mark.parametrize("removal", [safeguards.pool_lock, safeguards.pool_guard, safeguards.settled_commits])
def test_a_danger_with_two_lines_of_defence_survives_the_loss_of_one(removal: Removal) -> None:
    for seed in range(3):
        assert objections(seed, removal) == []


@pytest.mark.parametrize("is_guarded", [True, False])
def test_a_row_that_somebody_changed_is_not_overwritten_because_updates_are_guarded(is_guarded: bool) -> None:
    """The fence keeps other schedulers out; the guard finds whoever came in all the same."""

    def fail_what_runs(simulation: Simulation) -> None:
        store = simulation.store
        backend = store.connect(0, "somebody")
        transaction: Transaction = store.begin(backend, explicit=False)
        for key, row in list(transaction.rows("task_instance")):
            untouched = store.free(transaction, ("task_instance", key), Strength.UPDATE)
            if row["state"] in ("queued", "running") and untouched:
                transaction.put("task_instance", key, {**row, "state": "failed"})
        store.commit(transaction)
        store.end(backend)

    def meddle(simulation: Simulation) -> None:
        for at in range(5, 40):
            simulation.loop.call_at(at, fail_what_runs, simulation)

    plan = replace(make_plan(2, harsh=True), machines=1, blows=(), rough=0.0)
    with together(*(() if is_guarded else (safeguards.guard,))):
        history = simulate(2, plan, meddle=meddle)

    overwritten = [one for one in violations(plan, history) if one.startswith("[final]")]
    assert bool(overwritten) != is_guarded
