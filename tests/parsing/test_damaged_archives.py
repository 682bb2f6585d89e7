"""Archives of DAGs that are damaged or only copied in part: their DAGs stay, and an error names them.

Source: the semantics reference, section 30.3.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from aiosched.parsing.check import check_paths
from aiosched.parsing.discovery import Discovery, FileSelection, Listing
from aiosched.parsing.service import Parser
from tests.parsing.bench import Bench
from tests.parsing.builders import dag_source, settings_for, write, write_zip


def an_archive(folder: Path, *dag_ids: str) -> bytes:
    """The content of an archive with a DAG file `zd.py`; its other module has a name that is not ASCII."""
    path = write_zip(folder / "made", {"zd.py": dag_source(*dag_ids), "caf\u00e9.py": "x = 1"})
    content = path.read_bytes()
    path.unlink()
    return content


def damaged(whole: bytes, how: str) -> bytes:
    match how:
        case "empty":
            return b""
        case "no archive":
            return b"garbage"
        case "copied in part":
            return whole[:200]
        case "without its list":
            return whole.replace(b"PK\x01\x02", b"PK\x00\x00")
        case "with a name that is not text":
            return whole.replace("caf\u00e9.py".encode(), b"caf\xe9\xe9.py")
        case _:  # of a later version of the format
            return whole.replace(b"PK\x01\x02\x14\x03\x14", b"PK\x01\x02\x14\x03\xf0")


DAMAGES = (
    "empty",
    "no archive",
    "copied in part",
    "without its list",
    "with a name that is not text",
    "of a later version",
)


def listed(folder: Path) -> Listing:
    return Discovery(folder, FileSelection()).list(now_ns=2**62)


@pytest.mark.parametrize("how", DAMAGES)
@pytest.mark.parametrize("name", ["pack.zip", "PACK.ZIP"])
def test_a_damaged_archive_is_a_problem_and_hides_its_files(tmp_path: Path, name: str, how: str) -> None:
    write(tmp_path, name, damaged(an_archive(tmp_path, "zd"), how))
    write(tmp_path, "a.py", dag_source("a"))

    listing = listed(tmp_path)

    assert list(listing.files) == ["a.py"]
    assert listing.hides(f"{name}/zd.py")
    (problem,) = listing.problems.values()
    assert problem.name == name
    for words in (f"{name} cannot be read", "Copy it again", ".aioschedignore"):
        assert words in problem.message


def test_files_that_are_no_archives_of_dags_are_no_problem(tmp_path: Path) -> None:
    whole = an_archive(tmp_path, "zd")
    write(tmp_path, "numbers.npz", whole[:200])
    write(tmp_path, "notes.txt", "no archive")
    write_zip(tmp_path / "data.zip", {"data.csv": "1,2", "inner/module.py": "x = 1"})
    write(tmp_path, "mine.zip", "garbage")
    write(tmp_path, ".airflowignore", "mine.zip")

    listing = listed(tmp_path)

    assert (listing.files, listing.modules, listing.problems) == ({}, {}, {})


async def test_dags_check_names_a_damaged_archive(tmp_path: Path) -> None:
    path = write(tmp_path, "pack.zip", an_archive(tmp_path, "zd")[:200])

    for paths in ([], [path]):
        (outcome,) = await check_paths(paths, settings_for(tmp_path))

        assert (outcome.name, outcome.dags) == ("pack.zip", ())
        assert outcome.error is not None
        assert "pack.zip cannot be read" in outcome.error.message


async def until_error(bench: Bench, parser: Parser, name: str, words: str) -> None:
    """List the folder until the file `name` has an error with these words."""
    parser.refresh()
    await bench.until(parser, None)
    assert words in ((await bench.errors())[name] or "")


@pytest.mark.slow
@pytest.mark.parametrize("pinned", [False, True])
async def test_dags_of_a_damaged_archive_stay_until_it_is_whole_or_gone(
    bench: Bench, tmp_path: Path, pinned: bool
) -> None:
    settings = bench.settings
    settings.core.home = tmp_path / "home"
    settings.dags.pin_code = pinned
    pack, whole = bench.folder / "pack.zip", an_archive(tmp_path, "zd")
    pack.write_bytes(whole)
    async with bench.running(settings=settings) as parser:
        assert await bench.heard.next() == ["zd"]

        pack.write_bytes(whole[:200])
        await until_error(bench, parser, "pack.zip", "cannot be read")
        assert (await bench.dags())["zd"] == ("pack.zip/zd.py", False, False, 1)

    async with bench.running(settings=settings) as parser:  # a restart forgets nothing of it
        await until_error(bench, parser, "pack.zip", "cannot be read")
        assert (await bench.dags())["zd"] == ("pack.zip/zd.py", False, False, 1)

        pack.write_bytes(whole)
        parser.refresh()
        await bench.until(parser, None)
        assert {error for error in (await bench.errors()).values() if error} == set()
        assert (await bench.dags())["zd"] == ("pack.zip/zd.py", False, False, 1)

        pack.write_bytes(whole[:200])
        await until_error(bench, parser, "pack.zip", "cannot be read")
        write(tmp_path, "next", an_archive(tmp_path, "zd", "more")).rename(pack)
        assert "more" in await bench.heard.next()
        assert {error for error in (await bench.errors()).values() if error} == set()

        pack.write_bytes(b"garbage")
        await until_error(bench, parser, "pack.zip", "cannot be read")
        pack.unlink()
        assert await bench.heard.next() == ["more", "zd"]
        assert (await bench.dags())["zd"] == ("pack.zip/zd.py", True, False, 1)
        assert await bench.errors() == {}
