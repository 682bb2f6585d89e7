"""What a benchmark says in the end: figures, their budgets, and whether they are reached. Pure.

The budgets are those of docs/benchmarks.md, "Budgets"; a figure without one is there to be compared.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

Verdict = Literal["reached", "missed", ""]


@dataclass(frozen=True)
class Figure:
    """One measured value. `most` or `least` is its budget; neither: it has none."""

    what: str
    value: float
    unit: str
    most: float | None = None
    least: float | None = None

    @property
    def verdict(self) -> Verdict:
        if self.most is None and self.least is None:
            return ""
        fits = (self.most is None or self.value <= self.most) and (self.least is None or self.value >= self.least)
        return "reached" if fits else "missed"

    @property
    def shown(self) -> str:
        return f"{_number(self.value)} {self.unit}".rstrip()

    @property
    def budget(self) -> str:
        if self.most is not None:
            return f"at most {_number(self.most)}"
        return f"at least {_number(self.least)}" if self.least is not None else ""

    @property
    def told(self) -> str:
        """The verdict in words; one that missed says by how much."""
        if self.verdict != "missed":
            return self.verdict
        if self.most is not None:
            return f"missed: {self.value / self.most:.2f} times the budget" if self.most else "missed"
        assert self.least is not None
        return f"missed: {self.value / self.least:.2f} of the budget"


@dataclass(frozen=True)
class Finding:
    """One benchmark's outcome; `problems` is empty when what it did was checked and found right."""

    name: str
    about: str  # what was done, in a line: sizes, executor
    machine: str
    figures: Sequence[Figure]
    problems: Sequence[str] = ()
    notes: Sequence[str] = field(default=())

    @property
    def missed(self) -> bool:
        return any(figure.verdict == "missed" for figure in self.figures)


def as_table(finding: Finding) -> str:
    """Aligned lines: what, figure, budget, verdict."""
    rows = [(figure.what, figure.shown, figure.budget, figure.told) for figure in finding.figures]
    widths = [max((len(row[column]) for row in rows), default=0) for column in range(4)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    checks = "passed" if not finding.problems else "FAILED"
    head = [f"{finding.name}: {finding.about}", finding.machine]
    return "\n".join([*head, *lines, *finding.notes, f"checks {checks}", *(f"  {p}" for p in finding.problems)])


def as_json(finding: Finding) -> str:
    figures = [{**asdict(figure), "verdict": figure.verdict} for figure in finding.figures]
    return json.dumps({**asdict(finding), "figures": figures})


def from_json(text: str) -> Finding:
    """The finding that `as_json` wrote."""
    document: dict[str, Any] = json.loads(text)
    figures = [_figure(found) for found in document.pop("figures")]
    problems, notes = tuple(document.pop("problems")), tuple(document.pop("notes"))
    return Finding(figures=figures, problems=problems, notes=notes, **document)


MARKDOWN_HEAD = "| benchmark | what | figure | budget | verdict |\n| --- | --- | ---: | ---: | --- |"


def as_markdown(finding: Finding) -> str:
    """Rows under `MARKDOWN_HEAD`. A finding whose checks failed has no rows: raises ValueError."""
    if finding.problems:
        raise ValueError(f"{finding.name} failed its checks: {'; '.join(finding.problems)}")
    return "\n".join(
        f"| {finding.name} | {figure.what} | {figure.shown} | {figure.budget} | {figure.told} |"
        for figure in finding.figures
    )


def budgeted(findings: Iterable[Finding]) -> list[tuple[str, Figure]]:
    """The figures that have a budget, with the names of their benchmarks."""
    return [(finding.name, figure) for finding in findings for figure in finding.figures if figure.verdict]


def _figure(found: Mapping[str, Any]) -> Figure:
    return Figure(found["what"], found["value"], found["unit"], found["most"], found["least"])


def _number(value: float | None) -> str:
    if value is None:
        return ""
    if value == int(value) and abs(value) < 1e15:
        return f"{int(value):,}"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.2f}" if abs(value) >= 1 else f"{value:.3f}"
