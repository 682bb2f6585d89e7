"""Which files count as DAG files. Source: the semantics reference, section 30.3 and section 34, decision 15."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest

from aiosched.authoring.base.file_stamps import read_whole
from aiosched.parsing import ignore_files
from aiosched.parsing.discovery import Discovery, FileSelection, Listing, read_archive
from tests.parsing.builders import dag_source, write, write_zip

LATER = 2**62  # ns: every file was changed long ago


def listed(folder: Path, *, safe_mode: bool = True, syntax: str = "by file") -> Listing:
    return Discovery(folder, FileSelection(safe_mode, syntax)).list(now_ns=LATER)


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


@pytest.mark.parametrize("pattern", ["*a*b*.py", "x/*y*z*w/b.py", "**/x/**/b.py"])
def test_without_re2_a_pattern_that_could_take_long_is_a_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pattern: str
) -> None:
    monkeypatch.setattr(ignore_files, "has_re2", lambda: False)
    write(tmp_path, "b.py", "# aiosched dag")
    write(tmp_path, ".aioschedignore", pattern)

    listing = listed(tmp_path)

    assert list(listing.files) == ["b.py"]
    assert "line 1 is no pattern" in listing.problems[".aioschedignore"].message


def test_without_re2_usual_patterns_ignore_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ignore_files, "has_re2", lambda: False)
    for name in ("a.py", "test_a.py", "sub/deep/b.py", "old/c.py"):
        write(tmp_path, name, "# aiosched dag")
    write(tmp_path, ".aioschedignore", "test_*.py\nsub/**/b.py\nold/\n")

    assert list(listed(tmp_path).files) == ["a.py"]


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


@pytest.mark.parametrize(
    ("link", "target"),
    [
        ("research/whole", "../sales"),
        ("research/a.py", "../sales/a.py"),
        ("a_research/first.py", "../sales/a.py"),
        ("research/absolute", "{dags}/sales"),
        ("research/over", "../out/back"),
        ("research/proc", "/proc/self/root{dags}/sales"),
        ("research/twice", "../research/once"),
    ],
)
def test_a_link_to_what_is_found_without_it_adds_nothing(tmp_path: Path, link: str, target: str) -> None:
    """Else whoever may put a link into the folder of a team gets another team's files, and the DAGs of new ones."""
    dags, out = tmp_path / "dags", tmp_path / "out"
    for folder in (dags / "sales", dags / "research", dags / "a_research", out):
        folder.mkdir(parents=True)
    (dags / "out").symlink_to(out)
    (out / "back").symlink_to(dags / "sales")
    (dags / "research" / "once").symlink_to(dags / "sales")
    (dags / link).symlink_to(target.format(dags=dags))
    before = listed(dags)

    write(dags, "sales/a.py", "# aiosched dag")
    after = listed(dags)

    assert (list(before.files), list(before.modules)) == ([], [])
    assert (list(after.files), list(after.modules)) == (["sales/a.py"], ["sales/a.py"])


def test_a_link_to_what_is_hidden_or_ignored_is_followed(tmp_path: Path) -> None:
    """So Kubernetes mounts files, and so people switch DAGs on one by one."""
    write(tmp_path, "..2026_01_01/mounted.py", "# aiosched dag")
    write(tmp_path, "available/on.py", "# aiosched dag")
    (tmp_path / "..data").symlink_to("..2026_01_01")
    (tmp_path / "mounted.py").symlink_to("..data/mounted.py")
    (tmp_path / ".aioschedignore").write_text("available/\n")
    (tmp_path / "enabled.py").symlink_to("available/on.py")

    assert list(listed(tmp_path).files) == ["enabled.py", "mounted.py"]


def test_a_link_to_a_folder_above_it_is_a_problem_and_the_rest_is_found(tmp_path: Path) -> None:
    write(tmp_path, "sub/a.py", "# aiosched dag")
    (tmp_path / "sub" / "again").symlink_to(tmp_path)

    listing = listed(tmp_path)

    assert list(listing.files) == ["sub/a.py"]
    assert "Remove the link" in listing.problems["sub/again"].message


def test_an_unchanged_file_is_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, "a.py", "# aiosched dag")
    discovery = Discovery(tmp_path, FileSelection())
    first = discovery.list(now_ns=LATER)

    monkeypatch.setattr(Path, "read_bytes", lambda _: pytest.fail("was read"))

    assert discovery.list(now_ns=LATER) == first


def test_a_change_behind_the_same_stamp_is_seen_while_the_file_is_young(tmp_path: Path) -> None:
    path = write(tmp_path, "a.py", "# aiosched dag 1")
    stamp = path.stat().st_mtime_ns
    discovery = Discovery(tmp_path, FileSelection())
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


def test_an_ignore_file_does_not_show_what_a_link_leads_to(tmp_path: Path) -> None:
    """The scheduler reads it, perhaps as root, and its problem is on a page."""
    (tmp_path / "shadow").write_text("# users\n!\nroot:$6$hash:1:2::\n")
    (tmp_path / "key").write_bytes(b"secret\xff\xfe")
    for name, target, said in (("one", "shadow", "line 2 is no pattern"), ("two", "key", "it is not UTF-8")):
        folder = tmp_path / "dags" / name
        folder.mkdir(parents=True)
        (folder / ".airflowignore").symlink_to(tmp_path / target)

        (problem,) = listed(folder).problems.values()

        assert problem.message == f".airflowignore cannot be used, so it ignores nothing: {said}"


def test_few_links_do_not_become_many_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder cannot be listed then, which says nothing about its files: none counts as removed."""
    monkeypatch.setattr("aiosched.parsing.discovery.MOST_ENTRIES", 1_000)
    (tmp_path / "0").mkdir()
    write(tmp_path / "0", "a.py", dag_source("a"))
    for depth in range(1, 40):
        (tmp_path / str(depth)).mkdir()
        for side in "lr":
            (tmp_path / str(depth) / side).symlink_to(f"../{depth - 1}")

    with pytest.raises(OSError, match="more than 1,000 files and folders"):
        listed(tmp_path)


def endless(path: Path, kind: str) -> Path:
    """A file that has no end, or nobody who writes it, or an end that no memory holds."""
    match kind:
        case "device":
            path.symlink_to("/dev/zero")
        case "pipe":
            os.mkfifo(path)
        case "holes":
            path.touch()
            os.truncate(path, 2**40)
        case "archive":  # its list of names is as large as the file
            path.touch()
            os.truncate(path, 2**40)
            with path.open("ab") as stream:
                stream.write(struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 9, 9, 2**32 - 2, 0, 0))
    return path


@pytest.mark.parametrize("name", ["a.py", "a.zip", "data", "sub/a.py", "a.PY"])
@pytest.mark.parametrize("kind", ["device", "pipe", "holes", "archive"])
def test_no_file_holds_up_a_listing_or_fills_the_memory(tmp_path: Path, name: str, kind: str) -> None:
    write(tmp_path, "good.py", "# aiosched dag")
    (tmp_path / "sub").mkdir()
    endless(tmp_path / name, kind)

    found = Discovery(tmp_path, FileSelection()).list(now_ns=2**62, imported=[name])

    assert list(found.files) == ["good.py"]
    if kind in {"device", "pipe"} or name in {"data", "a.PY"}:
        assert not found.problems
    elif (kind, name) == ("holes", "a.zip"):
        assert "cannot be read as a zip archive" in found.problems[name].message
    else:
        size = (tmp_path / name).stat().st_size
        assert found.problems[name].message == f"{name} cannot be read: it has {size:,} bytes, and may have 67,108,864"


@pytest.mark.parametrize("kind", ["device", "pipe", "holes"])
def test_no_ignore_file_holds_up_a_listing(tmp_path: Path, kind: str) -> None:
    write(tmp_path, "good.py", "# aiosched dag")
    endless(tmp_path / ".airflowignore", kind)

    found = listed(tmp_path)

    assert list(found.files) == ["good.py"]
    why = "it has 1,099,511,627,776 bytes, and may have 1,048,576" if kind == "holes" else "it is no regular file"
    assert found.problems[".airflowignore"].message.endswith(f"so it ignores nothing: {why}")


def test_a_file_that_becomes_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    """Between the look at the folder and the reading of the file."""
    os.mkfifo(tmp_path / "pipe")

    with pytest.raises(OSError, match="it is no regular file"):
        read_whole(tmp_path / "pipe")
    with pytest.raises(OSError, match="it is no regular file"):
        read_archive(endless(tmp_path / "pipe.zip", "pipe"))
    assert read_archive(tmp_path / "pipe") is None
