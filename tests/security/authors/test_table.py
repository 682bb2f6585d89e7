"""The table of docs/security.md has each way of running and each goal, and no cell without a test or a reason."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "security.md"
WAYS = [
    "inline", "local", "`run_as`", "`run_as_user`", "bundles", "Dask", "Celery", "pods", "callbacks", "triggers",
    "parsing", "plugins", "`dags test`",
]  # fmt: skip
GOALS = [
    "another team's secret", "its state", "under its run's id", "a file of the service", "the database",
    "stop or slow the service", "an entry of the audit log",
]  # fmt: skip


def tables(text: str) -> list[list[list[str]]]:
    """The tables of the section, as rows of cells, the heading first."""
    section = re.split(r"^## ", text, flags=re.MULTILINE)
    (found,) = (part for part in section if part.startswith("What a hostile author reaches\n"))
    blocks = re.findall(r"(?:^\|.*\n)+", found, re.MULTILINE)
    rows = [[line.strip("|").split("|") for line in block.splitlines()] for block in blocks]
    return [[[cell.strip() for cell in row] for row in (table[0], *table[2:])] for table in rows]


@cache
def functions(file: Path) -> frozenset[str]:
    tree = ast.parse(file.read_text())
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def problems(text: str) -> list[str]:
    """What is wrong with the table and its two lists."""
    table, tests, reasons = tables(text)
    named, why = {row[0]: row[1] for row in tests[1:]}, {row[0]: row[1] for row in reasons[1:]}
    found = []
    if table[0][1:] != GOALS or [row[0] for row in table[1:]] != WAYS:
        found.append("the ways or the goals are others")
    used = set(re.findall(r"\((\d[^)]*)\)", " ".join(why.values())))
    said = {number for group in used for number in _numbers(group)}
    for way, *cells in table[1:]:
        if len(cells) != len(GOALS):
            found.append(f"{way}: {len(cells)} cells")
        for goal, cell in zip(GOALS, cells, strict=False):
            kind = "reason" if cell.startswith("no: ") else "test"
            names = cell.removeprefix("no: ").split(", ")
            found += [
                f"{way}, {goal}: no {kind} {name!r}"
                for name in names
                if name not in (why if kind == "reason" else named)
            ]
            said |= set(names)
    found += [f"{name} is in no cell" for name in (named.keys() | why.keys()) - said]
    found += [
        f"{letter} says nothing" for letter, reason in why.items() if not reason.endswith(".") or len(reason) < 40
    ]
    for number, test in named.items():
        file, _, name = test.strip("`").partition("::")
        if not (ROOT / file).is_file() or name not in functions(ROOT / file):
            found.append(f"{number}: {test} does not exist")
    return found


def _numbers(text: str) -> set[str]:
    if " to " in text:
        first, last = map(int, text.split(" to "))
        return {str(number) for number in range(first, last + 1)}
    return set(text.split(", "))


def test_each_way_and_each_goal_has_a_test_that_exists_or_a_reason() -> None:
    assert problems(PAGE.read_text()) == []


@pytest.mark.parametrize(
    ("was", "is_now", "problem"),
    [
        ("| inline | no: A |", "| inline | |", "inline, another team's secret: no test ''"),
        ("| inline | no: A |", "| inline | no: Z |", "no reason 'Z'"),
        ("| `run_as` | no: C | no: C | no: C | 1 |", "| `run_as` | no: C | no: C | no: C | 99 |", "no test '99'"),
        ("| inline | no: A |", "| inline | prevented |", "no test 'prevented'"),
        ("| plugins | no: J |", "| add-ons | no: J |", "the ways or the goals are others"),
        ("::test_a_forged_message_does_nothing_to_others", "::test_gone", "test_gone` does not exist"),
        ("| inline | no: A |", "| inline |", "inline: 6 cells"),
    ],
)  # fmt: skip
def test_a_silent_cell_is_noticed(was: str, is_now: str, problem: str) -> None:
    text = PAGE.read_text()
    assert was in text
    assert problem in "\n".join(problems(text.replace(was, is_now, 1)))
