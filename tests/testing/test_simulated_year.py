"""A year of 200 mixed schedules (the full form needs AIOSCHED_NIGHTLY=1), and decisions that nothing shakes."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import timedelta

import pytest

from benchmarks.simulate_year import FIRST, schedules, simulate_once

NIGHTLY = os.environ.get("AIOSCHED_NIGHTLY") == "1"
DAYS = 365 if NIGHTLY else 4
BUDGET = 60.0 if NIGHTLY else 6.0


@pytest.mark.slow
async def test_200_mixed_schedules_simulate_quickly_and_twice_alike() -> None:
    one = await simulate_once(schedules(200), FIRST + timedelta(days=DAYS))
    two = await simulate_once(schedules(200), FIRST + timedelta(days=DAYS))

    assert one.digest == two.digest
    assert one.runs > 200 * DAYS
    assert max(one.seconds, two.seconds) < BUDGET


async def test_the_invariants_hold_after_every_commit_of_a_mixed_week() -> None:
    outcome = await simulate_once(schedules(40), FIRST + timedelta(days=4), checked=True)

    assert outcome.runs > 100


@pytest.mark.slow
def test_decisions_do_not_depend_on_the_order_of_hashes() -> None:
    program = """
import asyncio, datetime
from benchmarks.simulate_year import FIRST, schedules, simulate_once
print(asyncio.run(simulate_once(schedules(30), FIRST + datetime.timedelta(days=2))).digest)
"""
    digests = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.getcwd()},  # noqa: PTH109
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "77")
    }

    assert len(digests) == 1


def test_the_schedules_are_mixed() -> None:
    specs = schedules(200)

    assert len({spec.timetable.summary for spec in specs}) > 50
    assert len({spec.timezone for spec in specs}) == 10
    assert {spec.catchup for spec in specs} == {True, False}
    assert any(spec.max_active_runs == 1 for spec in specs)
