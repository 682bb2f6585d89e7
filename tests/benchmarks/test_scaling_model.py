"""What the model says of more cores, as examples."""

from __future__ import annotations

import re
from pathlib import Path

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


def test_the_page_says_what_the_model_says() -> None:
    page = (Path(__file__).parents[2] / "docs" / "how-far.md").read_text(encoding="utf-8")
    found = re.search(r"costs (\d+) us of its scheduler, (\d+) us of PostgreSQL, (\d+) bytes .* a (\d+)th of", page)
    assert found is not None
    scheduler, postgres, wal, syncs = map(int, found.groups())
    cost = TaskCost(scheduler * MICRO, postgres * MICRO, 200 * MICRO / syncs, wal)
    lines = re.findall(r"^\| .*: modelled \| (\d+) \| (\d+) \| ([\d,]+) \| ([\d,]+) \| (\w+) \|$", page, re.MULTILINE)

    assert len(lines) == 4
    for schedulers, cores, tasks, millions, limit in lines:
        expected = predicted(cost, int(schedulers), int(cores))
        a_second = int(tasks.replace(",", ""))
        assert a_second == pytest.approx(expected.throughput, rel=0.01)
        assert int(millions.replace(",", "")) == pytest.approx(a_second * 86_400 / 1e6, rel=0.01)
        assert limit == expected.limit
