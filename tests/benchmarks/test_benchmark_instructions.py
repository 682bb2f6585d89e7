"""`python -m benchmarks instructions`: what it reads from valgrind, what it says, and which trees it takes."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import instructions
from benchmarks.__main__ import main


def test_the_last_line_of_valgrind_tells_how_many() -> None:
    assert instructions.total_in("==7== Events    : Ir\n==7== Collected : 169444000\n==7==") == 169_444_000


@pytest.mark.parametrize(
    ("text", "said"),
    [("==7== Collected : 0\n", "Collected : 0"), ("no such file", "no such file"), ("", "valgrind said nothing")],
)
def test_nothing_counted_is_an_error_with_what_valgrind_said(text: str, said: str) -> None:
    with pytest.raises(instructions.NotCounted, match=said):
        instructions.total_in(text)


def test_two_trees_are_compared_by_their_medians() -> None:
    counts = {Path("old"): [1000, 4000, 2000], Path("new"): [2100, 2000, 2200]}
    assert instructions.lines(counts) == [
        "old  2,000 instructions a task  (1,000 to 4,000)",
        "new  2,100 instructions a task  (2,000 to 2,200)",
        "ratio 1.050",
    ]


def test_without_valgrind_it_says_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["instructions", "chain-200"]) == 1
    assert "apt-get install valgrind" in capsys.readouterr().err


def test_no_rounds_at_all_are_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["instructions", "chain-200", "--rounds", "0"])
    assert "--rounds" in capsys.readouterr().err


def test_a_folder_that_is_no_tree_of_the_project_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "valgrind").touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SystemExit):
        main(["instructions", "chain-200", "--against", str(tmp_path)])
    assert "there is no benchmarks/run.py" in capsys.readouterr().err
