"""Figures, budgets and verdicts."""

from __future__ import annotations

import pytest

from benchmarks.figures import MARKDOWN_HEAD, Figure, Finding, as_json, as_markdown, as_table, budgeted, from_json

FINDING = Finding(
    "takeover",
    "3 deaths",
    "2 cores",
    [Figure("p99", 1.5, "s", most=2.0), Figure("throughput", 7500, "tasks/s", least=15_000), Figure("lost", 12, "")],
)


@pytest.mark.parametrize(
    ("figure", "verdict", "told"),
    [
        (Figure("x", 2, "", most=2), "reached", "reached"),
        (Figure("x", 3, "", most=2), "missed", "missed: 1.50 times the budget"),
        (Figure("x", 2, "", least=2), "reached", "reached"),
        (Figure("x", 1, "", least=2), "missed", "missed: 0.50 of the budget"),
        (Figure("x", 1, ""), "", ""),
    ],
    ids=["at its most", "above its most", "at its least", "below its least", "without a budget"],
)
def test_a_verdict_says_by_how_much_a_budget_is_missed(figure: Figure, verdict: str, told: str) -> None:
    assert (figure.verdict, figure.told) == (verdict, told)


@pytest.mark.parametrize(
    ("value", "shown"), [(12345, "12,345 s"), (1.234, "1.23 s"), (0.0123, "0.012 s"), (151.4, "151 s"), (0, "0 s")]
)
def test_a_figure_is_shown_as_exactly_as_it_is_of_use(value: float, shown: str) -> None:
    assert Figure("x", value, "s").shown == shown


def test_a_finding_survives_json() -> None:
    assert from_json(as_json(FINDING)) == FINDING


def test_a_table_has_a_line_for_each_figure_with_its_verdict() -> None:
    assert as_table(FINDING).splitlines() == [
        "takeover: 3 deaths",
        "2 cores",
        "p99         1.50 s         at most 2        reached",
        "throughput  7,500 tasks/s  at least 15,000  missed: 0.50 of the budget",
        "lost        12",
        "checks passed",
    ]


def test_a_failed_check_is_shown_and_never_becomes_a_row() -> None:
    failed = Finding("x", "y", "z", FINDING.figures, ("a run was lost",))

    assert as_table(failed).endswith("checks FAILED\n  a run was lost")
    with pytest.raises(ValueError, match="a run was lost"):
        as_markdown(failed)


def test_a_markdown_row_of_a_figure_has_a_cell_for_every_heading() -> None:
    rows = as_markdown(FINDING).splitlines()

    assert {row.count("|") for row in rows} == {MARKDOWN_HEAD.splitlines()[0].count("|")}
    assert rows[0] == "| takeover | p99 | 1.50 s | at most 2 | reached |"


def test_the_summary_has_only_figures_with_a_budget() -> None:
    assert [(name, figure.what) for name, figure in budgeted([FINDING])] == [
        ("takeover", "p99"),
        ("takeover", "throughput"),
    ]
    assert FINDING.missed
