"""How a result is shown."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from benchmarks.lag import Lag
from benchmarks.measure import Usage, Usages
from benchmarks.report import MARKDOWN_HEAD, Result, as_json, as_markdown, as_table

RESULT = Result(
    shape="chain-200",
    executor="inline",
    callable="async",
    at="2026-01-01T00:00:00+00:00",
    machine="2 cores",
    postgres="PostgreSQL 18.1",
    tasks=200,
    makespan=0.5,
    creation=0.0,
    lag=Lag(total=0.4, mean=0.002, p50=0.002, p99=0.006),
    commit_p50=0.001,
    statements=50,
    wal_bytes=100_000,
    hot_share=0.995,
    scans={"task_instance": 0},
    most_at_once=1,
    stall=0.002,
    usage=Usages(Usage(0.3, 80 * 2**20), Usage(0.0, 0), Usage(0.2, 10 * 2**20)),
    problems=(),
)


def test_json_holds_the_measured_and_the_derived_figures() -> None:
    shown = json.loads(as_json(RESULT))

    assert shown["tasks_per_second"] == 400
    assert shown["lag_p50_in_commits"] == 2
    assert shown["lag_p99_in_commits"] == 6
    assert shown["statements_per_task"] == 0.25
    assert shown["wal_bytes_per_task"] == 500
    assert shown["lag"]["total"] == 0.4
    assert shown["usage"]["scheduler"]["peak_bytes"] == 80 * 2**20


def test_the_table_names_every_figure_and_the_verification() -> None:
    table = as_table(RESULT)

    for line in (
        "throughput          400 tasks/s",
        "lag in commits      p50 2.0, p99 6.0",
        "heap-only updates   99.5%",
        "task lag p50        2 commits, budget at most 3: reached",
        "verification        passed",
    ):
        assert line in table


def test_a_failed_verification_is_shown_and_never_becomes_a_row() -> None:
    failed = replace(RESULT, problems=("1 tasks never ran: chain-200.00000 t0001",))

    assert as_table(failed).endswith("verification        FAILED\n  1 tasks never ran: chain-200.00000 t0001")
    with pytest.raises(ValueError, match="never ran"):
        as_markdown(failed)


def test_a_markdown_row_has_a_cell_for_every_heading() -> None:
    head = MARKDOWN_HEAD.splitlines()[0]

    assert as_markdown(RESULT).count("|") == head.count("|")
    assert as_markdown(RESULT).startswith("| chain-200 | inline | async | 400 |")
