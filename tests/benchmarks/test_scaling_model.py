"""What the model says of more cores, as examples."""

from __future__ import annotations

import pytest

from benchmarks.scaling_model import TaskCost, predicted

MICRO = 1e-6


def test_throughput_grows_with_schedulers_until_the_cores_are_used_up() -> None:
    cost = TaskCost(scheduler=100 * MICRO, postgres=100 * MICRO, serial=0.0)

    found = [predicted(cost, schedulers, 8).throughput for schedulers in (1, 2, 4, 8)]

    assert found == pytest.approx([10_000, 20_000, 40_000, 40_000])


@pytest.mark.parametrize(
    ("cost", "limit"),
    [
        pytest.param(
            TaskCost(100 * MICRO, 50 * MICRO, 0.0), "schedulers", id="a core for each, and enough beside them"
        ),
        pytest.param(TaskCost(100 * MICRO, 300 * MICRO, 0.0), "cores", id="PostgreSQL needs more than is left"),
        pytest.param(TaskCost(100 * MICRO, 50 * MICRO, 50 * MICRO), "locks", id="a lock that all need"),
        pytest.param(TaskCost(100 * MICRO, 50 * MICRO, 0.0, wal_bytes=10_000), "WAL", id="the disk"),
    ],
)
def test_the_model_names_what_limits(cost: TaskCost, limit: str) -> None:
    assert predicted(cost, 8, 16).limit == limit


def test_schedulers_without_a_core_add_nothing() -> None:
    cost = TaskCost(100 * MICRO, 0.0, 0.0)

    assert predicted(cost, 8, 2).throughput == pytest.approx(predicted(cost, 2, 2).throughput)
