"""`.airflowignore` in the syntax of its Airflow: regular expressions, or as `.gitignore`. docs/airflow.md."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from aiosched.cli.dags.dag_files import find_dag
from aiosched.config import Settings, load_settings
from aiosched.core.values import patterns
from aiosched.errors import NotFound
from aiosched.parsing.author_files import AuthorFiles
from aiosched.parsing.bundle_sources import FolderSource
from aiosched.parsing.check import check_paths
from aiosched.parsing.discovery import Discovery, FileSelection, Listing
from aiosched.testing import load_dag_bag
from aiosched.testing.airflow_dag_bag import DagBag
from tests.parsing.builders import dag_source, write

FILES = ("draft_a.py", "good.py", "libs/b.py", "sub/draft_c.py", "sub/d_test.py", "sub/libs/e.py")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for number, name in enumerate(FILES):
        write(tmp_path, name, dag_source(f"d{number}"))
    return tmp_path


def listed(folder: Path, syntax: str) -> Listing:
    return Discovery(folder, FileSelection(ignore_syntax=syntax)).list(now_ns=2**62)


def left_out(folder: Path, syntax: str) -> set[str]:
    listing = listed(folder, syntax)
    assert not listing.problems
    return set(FILES) - listing.files.keys()


REGEXPS = [
    (r"libs/.*", {"libs/b.py", "sub/libs/e.py"}),
    (r".*_test\.py", {"sub/d_test.py"}),
    (r".*_test.py", {"sub/d_test.py"}),
    (r"^draft", {"draft_a.py"}),
    (r"sub/.+\.py$", {"sub/draft_c.py", "sub/d_test.py", "sub/libs/e.py"}),
    ("# retired since \\d\n\n  \nlibs/.*  # all of it\r\n", {"libs/b.py", "sub/libs/e.py"}),
]


@pytest.mark.parametrize("syntax", ["regexp", "by file"])
@pytest.mark.parametrize(("text", "ignored"), REGEXPS)
def test_regular_expressions_search_the_path_below_the_dags_folder(
    folder: Path, syntax: str, text: str, ignored: set[str]
) -> None:
    write(folder, ".airflowignore", text)

    assert left_out(folder, syntax) == ignored


@pytest.mark.parametrize(
    ("text", "ignored"),
    [
        ("raft", {"draft_a.py", "sub/draft_c.py"}),
        ("libs/", {"libs/b.py", "sub/libs/e.py"}),
        ("/libs/", {"libs/b.py", "sub/libs/e.py"}),  # 1.10 searches the whole path
        ("/draft", {"draft_a.py", "sub/draft_c.py"}),
        ("sub", {"sub/draft_c.py", "sub/d_test.py", "sub/libs/e.py"}),
        (".", set(FILES)),
    ],
)
def test_so_do_words_if_they_are_said_to_be_regular_expressions(folder: Path, text: str, ignored: set[str]) -> None:
    write(folder, ".airflowignore", text)

    assert left_out(folder, "regexp") == ignored


def test_a_folder_adds_to_what_is_ignored(folder: Path) -> None:
    write(folder, ".airflowignore", "libs/.*")
    write(folder, "sub/.airflowignore", "d_test")
    write(folder, "libs/.airflowignore", "good")

    assert left_out(folder, "regexp") == {"libs/b.py", "sub/libs/e.py", "sub/d_test.py"}


@pytest.mark.parametrize(
    ("text", "ignored"),
    [
        ("libs/", {"libs/b.py", "sub/libs/e.py"}),
        ("draft_*.py\n.*.swp\n.*/", {"draft_a.py", "sub/draft_c.py"}),
        ("sub/*\n!sub/libs", {"sub/draft_c.py", "sub/d_test.py"}),
        ("*_test.py\nlibs/.*", {"sub/d_test.py"}),
    ],
)
@pytest.mark.parametrize("syntax", ["glob", "by file"])
def test_what_makes_sense_as_gitignore_is_read_so(folder: Path, syntax: str, text: str, ignored: set[str]) -> None:
    write(folder, ".airflowignore", text)

    assert left_out(folder, syntax) == ignored


def test_regular_expressions_that_are_said_to_be_globs_are_globs(folder: Path) -> None:
    write(folder, ".airflowignore", r".*_test\.py")

    assert left_out(folder, "glob") == set()


@pytest.mark.parametrize("syntax", ["glob", "by file", "regexp"])
def test_an_ignore_file_of_aiosched_is_always_as_gitignore_and_wins(folder: Path, syntax: str) -> None:
    write(folder, ".airflowignore", r"^draft")
    write(folder, ".aioschedignore", "*_test.py\n!draft_a.py")

    assert left_out(folder, syntax) == {"sub/d_test.py"}


@pytest.mark.parametrize("with_re2", [True, False])
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("^libs\n^(?!sub/).*", "line 2 is no possible regular expression"),
        (r"^(a)\1", "line 1 is no"),
        ("^" + "a{100}" * 1000, "line 1 is no"),
    ],
)
def test_what_cannot_be_used_keeps_its_folder_from_being_read(
    folder: Path, monkeypatch: pytest.MonkeyPatch, text: str, said: str, with_re2: bool
) -> None:
    monkeypatch.setattr(patterns, "has_re2", lambda: with_re2)
    patterns.searcher.cache_clear()
    write(folder, "sub/.airflowignore", text)

    listing = listed(folder, "by file")

    assert list(listing.files) == ["draft_a.py", "good.py", "libs/b.py"]
    assert said in listing.problems["sub/.airflowignore"].message
    assert "core.dag_ignore_file_syntax" in listing.problems["sub/.airflowignore"].message
    assert listing.hides("sub/d_test.py")
    assert not listing.hides("good.py")
    patterns.searcher.cache_clear()


@pytest.mark.parametrize("dead", ["^(", "*.pyc", "libs/**", "a{3", "(" * 900, "**/x"])
def test_a_line_that_airflow_does_not_understand_either_ignores_nothing(folder: Path, dead: str) -> None:
    write(folder, ".airflowignore", f"{dead}\n^draft\n")

    listing = listed(folder, "regexp")

    assert set(FILES) - listing.files.keys() == {"draft_a.py"}
    if dead != "a{3":  # which is text
        (problem,) = listing.problems.values()
        assert "line 1 is no regular expression, and ignores nothing" in problem.message
        assert not listing.hides("good.py")


def test_lookaround_is_named(folder: Path) -> None:
    write(folder, ".airflowignore", "^(?!sub/).*secret")

    (problem,) = listed(folder, "regexp").problems.values()

    assert "lookaround cannot be matched in linear time" in problem.message
    assert "secret" not in problem.message
    assert listed(folder, "regexp").hides("good.py")


async def test_files_of_a_bundle_that_are_hidden_so_are_not_gone(folder: Path) -> None:
    write(folder, "sub/.airflowignore", "^(?!a)")
    source = FolderSource("team", folder, AuthorFiles(FileSelection(ignore_syntax="regexp")))

    listing = await source.list(())

    assert listing.hides("team:sub/d_test.py")
    assert not listing.hides("team:good.py")


def test_no_regular_expression_takes_more_than_linear_time(folder: Path) -> None:
    write(folder, ".airflowignore", "^(a+)+$")
    write(folder, "a" * 200 + "b.py", "from aiosched import dag")

    assert len(listed(folder, "regexp").files) == len(FILES) + 1


def settings_of(folder: Path, **environ: str) -> Settings:
    return load_settings({"core.dags_folder": folder}, environ=environ).settings


@pytest.mark.parametrize(
    "environ",
    [{"AIOSCHED__CORE__DAG_IGNORE_FILE_SYNTAX": "regexp"}, {"AIRFLOW__CORE__DAG_IGNORE_FILE_SYNTAX": "regexp"}],
)
async def test_everything_that_reads_dag_files_honours_the_setting(
    folder: Path, monkeypatch: pytest.MonkeyPatch, environ: dict[str, str]
) -> None:
    write(folder, ".airflowignore", "d_test\nraft\nlibs")
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    settings = settings_of(folder, **environ)
    readers: dict[str, Callable[[], object]] = {
        "load_dag_bag": lambda: list(load_dag_bag(folder)),
        "DagBag": lambda: DagBag(folder).dag_ids,
        "DagBag without safe mode": lambda: DagBag(folder, safe_mode=False).dag_ids,
    }

    assert {name: read() for name, read in readers.items()} == {name: ["d1"] for name in readers}
    assert [file.name for file in await check_paths([], settings)] == ["good.py"]
    with pytest.raises(NotFound):
        find_dag("d4", settings)
