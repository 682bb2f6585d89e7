"""docs/security.md: each attack in its list names tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROWS = [
    line
    for line in (ROOT / "docs" / "security.md").read_text("utf-8").partition("## Attacks")[2].splitlines()
    if line.startswith("| ") and not line.startswith("| class")
]


def test_the_list_has_the_classes_of_published_vulnerabilities() -> None:
    assert len(ROWS) >= 20
    assert len({cve for row in ROWS for cve in re.findall(r"CVE-\d+-\d+", row)}) >= 40


@pytest.mark.parametrize("row", ROWS, ids=[row.split("|")[1].strip() for row in ROWS])
def test_each_attack_has_a_test(row: str) -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", row.rsplit("|", 2)[1])

    assert named
    for file, test in named:
        content = (ROOT / file).read_text("utf-8")
        assert not test or re.search(rf"def {test}\b", content), f"{file} has no {test}"
