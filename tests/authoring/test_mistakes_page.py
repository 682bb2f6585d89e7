"""docs/mistakes.md: each mistake of its table is found when it says, at the line, with the words that it quotes."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from aiosched.authoring.dag.loader import load_file
from aiosched.config import Settings
from aiosched.executors.dag_test import run_dag_test
from aiosched.parsing.check import check_paths
from aiosched.parsing.result import ParsedFile
from tests.authoring.mistakes import HEAD, MISTAKES

PAGE: Final = Path(__file__).parents[2] / "docs" / "mistakes.md"


class Row(NamedTuple):
    """A row of the table. `found`: error, warning, run."""

    mistake: str
    found: str
    said: str


def rows() -> list[Row]:
    lines = [line for line in PAGE.read_text().splitlines() if line.startswith("| ") and not line.startswith("| you ")]
    cells = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]
    return [Row(mistake, found, said) for mistake, found, said in cells]


ROWS: Final = rows()


def named(number: int, text: str) -> str:
    return HEAD + text.replace("mistaken", f"mistaken_{number}")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mistakes")
    for number, text in enumerate(MISTAKES.values()):
        (folder / f"m{number}.py").write_text(named(number, text))
    return folder


@pytest.fixture(scope="module")
def checked(folder: Path) -> dict[str, ParsedFile]:
    with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
        found = runner.run(check_paths([folder], Settings()))
    return dict(zip(MISTAKES, sorted(found, key=lambda one: int(one.name[1:-3])), strict=True))


def test_the_page_has_all_of_them_and_no_other() -> None:
    assert [row.mistake for row in ROWS] == list(MISTAKES)


@pytest.mark.parametrize("row", ROWS, ids=[row.mistake.replace("`", "") for row in ROWS])
async def test_a_mistake_is_found_when_the_page_says_with_its_words(
    row: Row, folder: Path, checked: dict[str, ParsedFile]
) -> None:
    number = list(MISTAKES).index(row.mistake)
    parsed = checked[row.mistake]
    match row.found:
        case "error":
            assert parsed.error is not None
            said = parsed.error.message
        case "warning":
            assert parsed.error is None
            said = " ".join(parsed.warnings)
        case _:
            assert (parsed.error, parsed.warnings) == (None, ())
            [dag] = load_file(folder / f"m{number}.py", root=folder).dags
            run = await run_dag_test(dag, pause=0.0)
            said = " ".join(task.reason or "" for task in run.tasks)

    assert row.said.strip("`").replace(r"\|", "|") in said.replace(f"mistaken_{number}", "mistaken")
