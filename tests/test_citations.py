"""What docstrings and comments cite exists: sections of the semantics reference, headings of pages, decisions."""

from __future__ import annotations

import functools
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
REFERENCE = ROOT / "docs" / "reference" / "semantics.md"
CITING = sorted(
    path
    for pattern in (
        "aiosched/**/*.py",
        "tests/**/*.py",
        "benchmarks/**/*.py",
        "docs/*.md",
        "docs/decisions/*.md",
        "*.md",
    )
    for path in ROOT.glob(pattern)
)
NUMBER = r"\d+(?:\.\d+)?"
SECTIONS = re.compile(rf"(?<!Core 1\.0, )\b[Ss]ections? ({NUMBER}(?:(?:,| to| and|, and) {NUMBER}(?!\.?\w))*)")
HEADINGS = re.compile(r"\b((?:docs/[\w/]+|README|CONTRIBUTING)\.md), ((?:\"[^\"]+\"(?: and |, )?)+)")
DECISIONS = re.compile(r"[Dd]ecisions? (0\d{3})")


@functools.cache
def flat(path: Path) -> str:
    """The text of a file with every run of blanks, line ends and comment signs as one blank."""
    return re.sub(r"(?:\s|(?<=\n)\s*#)+", " ", path.read_text())


def anchors() -> list[str]:
    return re.findall(r'<a id="section-([\d.]+)"></a>', REFERENCE.read_text())


def test_each_section_of_the_reference_has_its_anchor_once_and_in_order() -> None:
    headings = re.findall(rf"^#+ ({NUMBER})\.? ", REFERENCE.read_text(), re.MULTILINE)

    assert anchors() == headings
    assert headings == sorted(set(headings), key=lambda number: [int(part) for part in number.split(".")])


def test_each_section_that_is_cited_exists() -> None:
    known = set(anchors())
    cited = [
        (str(path.relative_to(ROOT)), number)
        for path in CITING
        for sections in SECTIONS.findall(flat(path))
        for number in re.findall(NUMBER, sections)
    ]

    assert len(cited) > 300
    assert [citation for citation in cited if citation[1] not in known] == []


def test_each_heading_that_is_cited_exists() -> None:
    cited = [
        (str(path.relative_to(ROOT)), page, heading)
        for path in CITING
        for page, headings in HEADINGS.findall(flat(path))
        for heading in re.findall(r'"([^"]+)"', headings)
    ]

    assert len(cited) > 40
    assert [
        citation
        for citation in cited
        if not re.search(rf"^#+ {re.escape(citation[2])}$", (ROOT / citation[1]).read_text(), re.MULTILINE)
    ] == []


@pytest.mark.parametrize("words", ["the design, section", "the user journey"])
def test_nothing_is_cited_that_is_not_in_the_repository(words: str) -> None:
    assert [path.name for path in CITING if path.name != Path(__file__).name and words in flat(path).lower()] == []


def test_each_decision_that_is_cited_exists() -> None:
    known = {path.name[:4] for path in (ROOT / "docs" / "decisions").glob("0*.md")}

    assert {number for path in CITING for number in DECISIONS.findall(flat(path))} <= known
