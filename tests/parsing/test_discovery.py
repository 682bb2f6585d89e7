"""Which files count as DAG files. Source: the semantics reference, section 30.3 and section 34, decision 15."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from aiosched.parsing.discovery import Discovery, Listing, looks_like_dags
from tests.parsing.builders import dag_source, write, write_zip

LATER = 2**62  # ns: every file was changed long ago


def listed(folder: Path, *, safe_mode: bool = True) -> Listing:
    return Discovery(folder, safe_mode=safe_mode).list(now_ns=LATER)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"from aiosched import DAG", True),
        (b"from airflow import DAG", True),
        (b"import AIRFLOW\n@DAG", True),
        (b"from aiosched import Asset", True),
        (b"import aiosched", False),
        (b"dag = asset = 1", False),
        (b"# a dag for airflow", True),
        (b"\xff\xfe aiosched dag", True),
        (b"", False),
    ],
)
def test_safe_mode_wants_a_word_for_the_system_and_one_for_a_dag(content: bytes, expected: bool) -> None:
    assert looks_like_dags(content) is expected


def test_python_files_are_found_in_all_folders_but_hidden_ones(tmp_path: Path) -> None:
    for name in ("a.py", "sub/b.py", "sub/deep/c.py", ".hidden/d.py", "__pycache__/e.py", ".f.py", "notes.txt"):
        write(tmp_path, name, "# aiosched dag")

    assert list(listed(tmp_path).files) == ["a.py", "sub/b.py", "sub/deep/c.py"]


def test_without_safe_mode_every_python_file_counts(tmp_path: Path) -> None:
    write(tmp_path, "helper.py", "x = 1")

    assert list(listed(tmp_path).files) == []
    assert list(listed(tmp_path, safe_mode=False).files) == ["helper.py"]
    assert list(listed(tmp_path).modules) == ["helper.py"]


@pytest.mark.parametrize(
    ("rules", "found"),
    [
        ({".aioschedignore": "b.py"}, ["a.py", "sub/a.py"]),
        ({".airflowignore": "b.py"}, ["a.py", "sub/a.py"]),
        ({".aioschedignore": "/b.py"}, ["a.py", "sub/a.py", "sub/b.py"]),
        ({".aioschedignore": "sub/"}, ["a.py", "b.py"]),
        ({".aioschedignore": "a.py/"}, ["a.py", "b.py", "sub/a.py", "sub/b.py"]),
        ({".aioschedignore": "# all\n*.py\n!a.py"}, ["a.py", "sub/a.py"]),
        ({".aioschedignore": "!a.py\n*.py"}, []),
        ({".aioschedignore": "sub/b.py"}, ["a.py", "b.py", "sub/a.py"]),
        ({"sub/.aioschedignore": "b.py"}, ["a.py", "b.py", "sub/a.py"]),
        ({"sub/.aioschedignore": "/b.py"}, ["a.py", "b.py", "sub/a.py"]),
        ({".aioschedignore": "b.py", "sub/.airflowignore": "!b.py"}, ["a.py", "sub/a.py", "sub/b.py"]),
        ({".airflowignore": "b.py", ".aioschedignore": "!b.py"}, ["a.py", "b.py", "sub/a.py", "sub/b.py"]),
    ],
)
def test_ignore_files_work_as_gitignore_does(tmp_path: Path, rules: dict[str, str], found: list[str]) -> None:
    for name in ("a.py", "b.py", "sub/a.py", "sub/b.py"):
        write(tmp_path, name, "# aiosched dag")
    for name, text in rules.items():
        write(tmp_path, name, text)

    assert list(listed(tmp_path).files) == found


def test_an_ignore_file_that_cannot_be_understood_is_a_problem_and_ignores_nothing(tmp_path: Path) -> None:
    write(tmp_path, "a.py", "# aiosched dag")
    write(tmp_path, ".aioschedignore", "!\na.py")

    listing = listed(tmp_path)

    assert list(listing.files) == ["a.py"]
    assert "it ignores nothing" in listing.problems[".aioschedignore"].message


def test_an_archive_is_known_by_its_content_and_gives_the_modules_at_its_root(tmp_path: Path) -> None:
    write_zip(tmp_path / "bundle.anything", {"one.py": "x = 1", "two.py": "", "inner/three.py": "", "data.txt": ""})
    write(tmp_path, "fake.anything", "not an archive")

    listing = listed(tmp_path)

    assert list(listing.files) == ["bundle.anything/one.py", "bundle.anything/two.py"]
    assert listing.files["bundle.anything/one.py"].member == "one.py"
    assert listing.files["bundle.anything/one.py"].path == tmp_path / "bundle.anything"


def test_symbolic_links_are_followed(tmp_path: Path) -> None:
    dags, elsewhere = tmp_path / "dags", tmp_path / "elsewhere"
    write(elsewhere, "a.py", "# aiosched dag")
    dags.mkdir()
    (dags / "linked").symlink_to(elsewhere)
    (dags / "nothing").symlink_to(tmp_path / "nowhere")

    assert list(listed(dags).files) == ["linked/a.py"]


def test_a_link_to_a_folder_above_it_is_a_problem_and_the_rest_is_found(tmp_path: Path) -> None:
    write(tmp_path, "sub/a.py", "# aiosched dag")
    (tmp_path / "sub" / "again").symlink_to(tmp_path)

    listing = listed(tmp_path)

    assert list(listing.files) == ["sub/a.py"]
    assert "Remove the link" in listing.problems["sub/again"].message


def test_an_unchanged_file_is_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, "a.py", "# aiosched dag")
    discovery = Discovery(tmp_path)
    first = discovery.list(now_ns=LATER)

    monkeypatch.setattr(Path, "read_bytes", lambda _: pytest.fail("was read"))

    assert discovery.list(now_ns=LATER) == first


def test_a_change_behind_the_same_stamp_is_seen_while_the_file_is_young(tmp_path: Path) -> None:
    path = write(tmp_path, "a.py", "# aiosched dag 1")
    stamp = path.stat().st_mtime_ns
    discovery = Discovery(tmp_path)
    before = discovery.list(now_ns=stamp + 1)

    path.write_text("# aiosched dag 2")
    os.utime(path, ns=(stamp, stamp))
    after = discovery.list(now_ns=stamp + 2)

    assert before.files["a.py"].digest != after.files["a.py"].digest


@pytest.mark.parametrize("name", [b"caf\xe9.py", b"caf\xe9/a.py"])
def test_a_dag_file_whose_name_is_not_utf8_is_a_problem_that_says_rename(tmp_path: Path, name: bytes) -> None:
    write(tmp_path, os.fsdecode(name), dag_source("a"))
    write(tmp_path, os.fsdecode(b"notes\xe9.txt"), "not even Python")
    write(tmp_path, "b.py", dag_source("b"))

    listing = listed(tmp_path)

    assert list(listing.files) == ["b.py"]
    (problem,) = listing.problems.values()
    assert problem.name == name.decode(errors="backslashreplace")
    assert "is not UTF-8" in problem.message
    assert "Rename" in problem.message
    assert r"caf\xe9" in problem.message


def test_ignore_files_work_beside_names_that_are_not_utf8(tmp_path: Path) -> None:
    for name in (b"caf\xe9.py", b"bar\xe9.py", b"a.py", b"sub\xe9/a.py", b"sub\xe9/b.py"):
        write(tmp_path, os.fsdecode(name), dag_source("a"))
    write(tmp_path, ".aioschedignore", "caf*")
    write(tmp_path, os.fsdecode(b"sub\xe9/.aioschedignore"), "/a.py")

    listing = listed(tmp_path)

    assert (list(listing.files), list(listing.problems)) == (["a.py"], [r"bar\xe9.py", r"sub\xe9/b.py"])


def test_a_folder_that_does_not_exist_is_the_callers_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        listed(tmp_path / "nowhere")


def test_no_ignore_pattern_takes_more_than_linear_time(tmp_path: Path) -> None:
    (tmp_path / ".aioschedignore").write_text("*a*a*a*a*a*a*a*a*a*a*a*a*b\n")
    (tmp_path / ("a" * 200 + ".py")).write_text("from aiosched import dag")

    found = listed(tmp_path)  # with backtracking this would not end

    assert len(found.files) == 1
