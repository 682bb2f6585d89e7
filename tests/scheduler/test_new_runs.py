"""Runs are created in batches that fit one transaction."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from aiosched.scheduler.runs.incomplete import PART
from aiosched.scheduler.runs.new_runs import Creation, chunks, in_parts

GRAPH: Any = SimpleNamespace(mappings=None)


def creation(tasks: int, dag_id: str = "d") -> Creation:
    dag: Any = SimpleNamespace(row=SimpleNamespace(dag_id=dag_id), graph=GRAPH)
    planned: Any = None
    return Creation(dag, planned, tuple(range(tasks)), triggered_by="", conf={}, starts=True)


@pytest.mark.parametrize(
    ("tasks", "batches"),
    [
        ([], []),
        ([1, 1, 1, 1, 1], [3, 2]),  # at most three runs
        ([PART, 1], [1, 1]),
        ([PART - 1, 1, 1], [2, 1]),
        ([PART + 1, 1], [2]),  # the first one's instances follow
    ],
)
def test_a_batch_has_as_many_runs_as_fit_a_transaction(tasks: list[int], batches: list[int]) -> None:
    runs = in_parts(map(creation, tasks))

    found = list(chunks(runs, 3))

    assert list(map(len, found)) == batches
    assert [run for batch in found for run in batch] == runs


def test_the_instances_of_a_large_run_and_those_beyond_a_dags_share_follow() -> None:
    runs = in_parts([creation(PART + 1), *(creation(PART) for _ in range(6)), creation(PART, "another")])

    assert [run.in_parts for run in runs] == [True, False, False, False, False, False, True, False]
    assert [run.starts for run in runs] == [not run.in_parts for run in runs]
