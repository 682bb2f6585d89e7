"""Fleets of real schedulers on a modelled database: whatever happens to machines and messages, the promises hold.

Source: the semantics reference, section 35: 1, 2, 3, 4 (with any number of schedulers), 6, 7, 8, 12 and 18.
`python -m tests.simulation --seeds 20000` plays more seeds, `--seed N --trace` shows one.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from tests.simulation.checker import violations
from tests.simulation.history import SchedulerRemoved
from tests.simulation.minimums import CHUNK, too_little
from tests.simulation.simulate import simulate
from tests.simulation.store import IDLE_SECONDS
from tests.simulation.workload import Blow, make_plan

NIGHTLY = bool(os.environ.get("AIOSCHED_NIGHTLY"))
_REPLAYED = 55  # has tasks that wait for the run before, and for triggers
_SEEDS = 5_000 if NIGHTLY else 100


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, _SEEDS, CHUNK))
def test_whatever_happens_to_machines_and_messages_the_promises_hold(first: int) -> None:
    seen: Counter[str] = Counter()
    for seed in range(first, first + CHUNK):
        plan = make_plan(seed)
        history = simulate(seed, plan)
        assert violations(plan, history) == [], f"replay: python -m tests.simulation --seed {seed} --trace"
        seen += history.seen

    assert too_little(seen, CHUNK) == []


@pytest.mark.parametrize("seed", [0, 4, 6])  # the first of those above
def test_a_fleet_keeps_its_promises(seed: int) -> None:
    plan = make_plan(seed)

    assert violations(plan, simulate(seed, plan)) == [], f"replay: python -m tests.simulation --seed {seed} --trace"


@pytest.mark.slow  # three simulations; for whoever looks for the cause of what one of them has found
def test_a_seed_is_played_again_exactly_here_and_by_another_process() -> None:
    trace = simulate(_REPLAYED).trace()

    output = subprocess.run(
        [sys.executable, "-m", "tests.simulation", "--seed", str(_REPLAYED), "--trace"],
        cwd=Path(__file__).parents[2],
        env=os.environ | {"PYTHONHASHSEED": "1"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout

    assert simulate(_REPLAYED).trace() == trace
    assert output.splitlines()[:-2] == "\n".join(trace).splitlines()


@pytest.mark.parametrize(
    "at", [pytest.param(10 + 0.31 * n, marks=[pytest.mark.slow] if n % 10 else []) for n in range(20)]
)
def test_a_machine_that_stops_at_any_instant_is_taken_over_within_its_lease_and_a_little(at: float) -> None:
    """In the middle of a transaction, too: its locks must not keep its peers waiting."""
    blows = (Blow(at, "freeze", 0, 30.0),)
    plan = replace(make_plan(2, harsh=True), machines=2, rough=0.0, latency=0.1, blows=blows)

    history = simulate(2, plan)

    removed = [event.at - at for event in history.events if isinstance(event, SchedulerRemoved)]
    assert removed
    # the database ends a transaction that is left open; then the others look when their requests leave them time
    assert removed[0] < max(plan.lease, IDLE_SECONDS) + 5.0
    assert violations(plan, history) == []
