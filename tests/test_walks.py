"""The maps of the code name what exists: the walks in docs/architecture.md, the table of changes in CONTRIBUTING.md.

A walk opens no file twice.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
SECTION = PAGE.partition("## Three walks\n")[2].partition("\n## ")[0]
WALKS: dict[str, str] = dict(re.findall(r"\*\*(.+?)\*\*\n\n((?:\s*- .*\n)+)", SECTION))


def test_there_are_three() -> None:
    assert len(WALKS) == 3


@pytest.mark.parametrize("title", WALKS)
def test_a_walk_names_what_exists_and_returns_to_no_file(title: str) -> None:
    steps = re.findall(r"- `(\S+\.py)`: `([\w.]+)`", WALKS[title])

    assert len(steps) == WALKS[title].count("\n"), "each line names a file and a function"
    assert len({file for file, _ in steps}) == len(steps)
    for file, name in steps:
        text = (ROOT / "aiosched" / file).read_text(encoding="utf-8")
        owner, _, function = name.rpartition(".")
        assert re.search(rf"\bdef {function}\(", text), f"{file} has no {function}"
        assert not owner or re.search(rf"^class {owner}\b", text, re.M), f"{file} has no class {owner}"


def test_the_table_of_changes_names_what_exists() -> None:
    table = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").partition("## Where do I change …\n")[2]
    table = table.partition("\n## ")[0]
    paths = {path for path in re.findall(r"`([\w./]+)`", table) if "/" in path}

    assert len(paths) > 40
    assert [path for path in paths if not ((ROOT / "aiosched" / path).exists() or (ROOT / path).exists())] == []
