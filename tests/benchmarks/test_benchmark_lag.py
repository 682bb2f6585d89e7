"""What is meant by task lag."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.lag import lags, percentile, summarise
from benchmarks.record import Record
from benchmarks.shapes import Shape

JOIN = Shape("join", 1, 3, ((0, 2), (1, 2)))
DAG = JOIN.dag_ids()[0]


def test_lag_counts_from_the_latest_upstream_and_for_roots_from_the_runs_creation() -> None:
    records = [
        Record(DAG, "t0000", 1, 7, start=10.5, end=11.0),
        Record(DAG, "t0001", 1, 7, start=10.25, end=13.0),
        Record(DAG, "t0002", 1, 7, start=13.125, end=14.0),
    ]

    assert lags(JOIN, records, {DAG: 10.0}) == [0.5, 0.25, 0.125]


def test_a_summary_has_total_mean_and_percentiles() -> None:
    summary = summarise([4.0, 1.0, 3.0, 2.0])

    assert (summary.total, summary.mean, summary.p50, summary.p99) == (10.0, 2.5, 2.0, 4.0)


def test_nothing_cannot_be_summarised() -> None:
    with pytest.raises(ValueError, match="nothing ran"):
        summarise([])


@given(st.lists(st.floats(0, 1000), min_size=1), st.integers(1, 100))
def test_a_percentile_is_a_value_that_so_many_do_not_exceed(values: list[float], percent: int) -> None:
    found = percentile(values, percent)

    assert found in values
    assert sum(value <= found for value in values) * 100 >= len(values) * percent
    assert sum(value < found for value in values) * 100 < len(values) * percent
