"""The texts of modules that DAG files import: what is kept is what was imported.

Source: docs/architecture.md, "From a file to a version".
"""

from __future__ import annotations

import asyncio
import zipfile
from pathlib import Path

import pytest

from aiosched.authoring.dag.sources import digest_of
from aiosched.db.server.engine import Database
from aiosched.db.statements import module_sources
from aiosched.parsing import module_texts
from aiosched.parsing.module_texts import MOST_IN_FILE, read_texts
from tests.parsing.bench import Bench
from tests.parsing.builders import dag_source, write, write_zip
from tests.parsing.test_parsing_store import WAIT_FOR_A_WAITER

HELPER = "WORD = 'one'\n"


async def kept(bench: Bench) -> dict[str, str]:
    """The texts that the newest version of each DAG names and that are stored, by path."""
    rows = await bench.db.fetch(
        "SELECT s.key, m.source FROM dag AS d JOIN dag_version AS v ON v.id = d.version_id,"
        " json_each_text(v.sources) AS s JOIN module_source AS m ON m.digest = s.value"
    )
    return {row["key"]: row["source"] for row in rows}


# ---- from files to rows ----


async def test_the_modules_of_a_version_are_stored_once_with_what_was_imported(bench: Bench) -> None:
    write(bench.folder, "helper.py", HELPER)
    write(bench.folder, "pkg/__init__.py", "")
    write(bench.folder, "pkg/deep.py", "DEEP = 1\n")
    (bench.folder / "linked.py").symlink_to(bench.folder / "pkg" / "deep.py")
    write(bench.folder, "latin.py", "# -*- coding: latin-1 -*-\nNAME = 'é'\n".encode("latin-1"))
    write_zip(bench.folder / "packed.zip", {"inside.py": "INSIDE = 1\n", "data.txt": "no module"})
    imports = "import helper, pkg.deep, linked, latin, sys, os\n"
    for name in ("a", "b"):
        bench.write(f"{name}.py", dag_source(name, before=imports))
    packed = (
        "import sys, os; sys.path.insert(0, os.path.join(os.path.dirname(__file__), 'packed.zip')); import inside\n"
    )
    bench.write("c.py", dag_source("c", before=packed))

    async with bench.running():
        found = await kept(bench)

    assert found == {
        "helper.py": HELPER,
        "pkg/__init__.py": "",
        "pkg/deep.py": "DEEP = 1\n",
        "linked.py": "DEEP = 1\n",
        "latin.py": "# -*- coding: latin-1 -*-\nNAME = 'é'\n",
        "packed.zip": "# inside.py\nINSIDE = 1\n",
    }
    assert await bench.db.fetchval("SELECT count(*) FROM module_source") == 5  # two have the same content


async def test_a_module_that_changes_is_stored_with_its_version_and_what_was_before_stays(bench: Bench) -> None:
    write(bench.folder, "helper.py", HELPER)
    bench.write("a.py", dag_source("a", before="import helper"))
    async with bench.running():
        await bench.heard.next()
        bench.write("helper.py", "WORD = 'two'\n")
        await bench.heard.next()

        assert await kept(bench) == {"helper.py": "WORD = 'two'\n"}
    stored = {row["source"] for row in await bench.db.fetch("SELECT source FROM module_source")}
    assert stored == {HELPER, "WORD = 'two'\n"}


async def test_modules_of_bundles_are_stored_under_their_folder(bench: Bench) -> None:
    settings, folder = bench.settings, bench.folder.parent / "team"
    settings.dags.bundles = [{"name": "team", "kind": "folder", "path": folder}]  # type: ignore[list-item]
    write(folder, "helper.py", HELPER)
    write(folder, "a.py", dag_source("a", before="import helper"))
    async with bench.running(settings=type(settings).model_validate(settings.model_dump())):
        assert await kept(bench) == {"team:helper.py": HELPER}


async def test_versions_of_before_get_the_texts_that_are_imported_still(bench: Bench) -> None:
    """As those that an older aiosched has stored."""
    write(bench.folder, "helper.py", HELPER)
    bench.write("a.py", dag_source("a", before="import helper"))
    async with bench.running():
        pass
    await bench.execute("DELETE FROM module_source")

    async with bench.running():
        assert await kept(bench) == {"helper.py": HELPER}
        assert (await bench.dags())["a"][3] == 1


@pytest.mark.parametrize(
    "poison",
    [
        "import helper, os; os.unlink(helper.__file__)",
        "import helper; open(helper.__file__, 'w').write('WORD = 3')",
        "import helper, os; os.unlink(helper.__file__); os.mkfifo(helper.__file__)",
        "import helper; open(helper.__file__, 'ab').truncate(50 * 2**20)",
    ],
    ids=["deleted", "changed", "a pipe", "grown to 50 MiB"],
)
async def test_what_is_no_longer_what_was_imported_is_not_kept_and_holds_nothing_up(bench: Bench, poison: str) -> None:
    write(bench.folder, "helper.py", HELPER)
    bench.write("a.py", dag_source("a", before=poison))
    async with bench.running():
        stored = await kept(bench)
        assert (await bench.dags())["a"][:3] == ("a.py", False, False)
    assert stored.get("helper.py", HELPER) == HELPER


async def test_texts_that_cannot_be_stored_hold_up_no_version(bench: Bench) -> None:
    """As for the role of a scheduler before `aiosched db roles` has granted the new table."""
    write(bench.folder, "helper.py", HELPER)
    bench.write("a.py", dag_source("a", before="import helper"))
    await bench.execute("ALTER TABLE module_source RENAME TO away")
    async with bench.running():
        assert (await bench.dags())["a"] == ("a.py", False, False, 1)
    await bench.execute("ALTER TABLE away RENAME TO module_source")


# ---- reading ----


def test_too_large_too_many_and_odd_files_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, "large.py", b"#" * (MOST_IN_FILE + 1))
    write(tmp_path, "just.py", b"#" * MOST_IN_FILE)
    write(tmp_path, "not_utf8.py", b"# \xff\x00\n")
    write(tmp_path, "odd_coding.py", b"# coding: nothing\n")
    bomb = write_zip(tmp_path / "bomb.zip", {"a.py": "#" * (MOST_IN_FILE + 1)})
    assert bomb.stat().st_size > MOST_IN_FILE  # stored, so too large; a packed one below
    with zipfile.ZipFile(tmp_path / "packed.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.py", "#" * (MOST_IN_FILE + 1))
    names = {path.name: digest_of(path.read_bytes()) for path in tmp_path.iterdir()}

    found = read_texts(tmp_path, names)

    by_name = {name: found[digest] for name, digest in names.items() if digest in found}
    assert by_name.keys() == {"just.py", "not_utf8.py", "odd_coding.py"}
    assert by_name["not_utf8.py"] == "# \\xff\\x00\n"

    for number in range(500):
        write(tmp_path, f"many/m{number}.py", f"X = {number}\n" + "#" * 1000)
    many = {f"many/m{n}.py": digest_of((tmp_path / f"many/m{n}.py").read_bytes()) for n in range(500)}
    assert len(read_texts(tmp_path, many)) == 500
    monkeypatch.setattr(module_texts, "MOST_AT_ONCE", 100_000)
    assert 90 <= len(read_texts(tmp_path, many)) < 100


@pytest.mark.parametrize(
    "name", ["/etc/hostname", "../secret.py", "a/../../secret.py", "a\0b", "x" * 5000, "", "loop.py"]
)
def test_names_that_lead_elsewhere_are_not_read(tmp_path: Path, name: str) -> None:
    (tmp_path / "dags" / "a").mkdir(parents=True)
    (tmp_path / "dags" / "loop.py").symlink_to(tmp_path / "dags" / "loop.py")
    write(tmp_path, "secret.py", "S = 1\n")
    known = digest_of(Path("/etc/hostname").read_bytes()) if name.startswith("/") else digest_of(b"S = 1\n")

    assert read_texts(tmp_path / "dags", {name: known}) == {}


def test_a_link_out_of_the_folder_is_followed(tmp_path: Path) -> None:
    """As far as the reader has the rights: tests/security/test_sources_of_authors.py."""
    write(tmp_path, "shared/helper.py", HELPER)
    write(tmp_path, "real/own.py", "OWN = 1\n")
    (tmp_path / "dags").symlink_to(tmp_path / "real")  # as git-sync does
    (tmp_path / "real" / "helper.py").symlink_to(tmp_path / "shared" / "helper.py")

    found = read_texts(tmp_path / "dags", {"helper.py": digest_of(HELPER.encode()), "own.py": digest_of(b"OWN = 1\n")})

    assert set(found.values()) == {HELPER, "OWN = 1\n"}


# ---- rows that no version names ----


async def test_texts_that_no_version_names_go_after_a_day(bench: Bench) -> None:
    write(bench.folder, "helper.py", HELPER)
    bench.write("a.py", dag_source("a", before="import helper"))
    async with bench.running():
        pass
    async with bench.db.acquire() as conn:
        await module_sources.store(conn, {"0" * 64: "old", "1" * 64: "new"})
        await conn.execute(
            "UPDATE module_source SET needed_at = now() - interval '2 days' WHERE digest <> $1", "1" * 64
        )
        await conn.execute("""
            INSERT INTO dag_version (dag_id, number, content_hash, spec, sources) VALUES ('x', 1, '', '{}', '["odd"]')
        """)

        await module_sources.forget_unnamed(conn)

        left = {row["source"] for row in await conn.fetch("SELECT source FROM module_source")}
    assert left == {HELPER, "new"}


async def test_a_text_that_parsing_needs_again_is_not_removed_under_it(db: Database) -> None:
    digest = "0" * 64
    async with db.acquire() as parsing, db.acquire() as cleaning:
        await module_sources.store(parsing, {digest: "text"})
        await parsing.execute("UPDATE module_source SET needed_at = now() - interval '2 days'")
        async with parsing.transaction():
            assert await module_sources.need(parsing, [digest]) == {digest}
            removal = asyncio.create_task(module_sources.forget_unnamed(cleaning))
            await parsing.execute(WAIT_FOR_A_WAITER)
        await removal

        assert await module_sources.read(parsing, [digest]) == {digest: "text"}


async def test_a_text_that_is_being_removed_is_not_taken_for_stored(db: Database) -> None:
    digest = "0" * 64
    async with db.acquire() as parsing, db.acquire() as cleaning:
        await module_sources.store(parsing, {digest: "text"})
        await parsing.execute("UPDATE module_source SET needed_at = now() - interval '2 days'")
        async with cleaning.transaction():
            await module_sources.forget_unnamed(cleaning)
            needed = asyncio.create_task(module_sources.need(parsing, [digest]))
            await cleaning.execute(WAIT_FOR_A_WAITER)
        assert await needed == frozenset()
