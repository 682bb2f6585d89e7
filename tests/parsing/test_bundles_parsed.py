"""The parser with bundles: names, duplicates, versions, and bundles that cannot be read. Real repositories."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from aiosched.config import BundleSettings, Settings
from aiosched.db.upkeep.bundle_versions import forget_snapshots
from aiosched.parsing import bundle_keeper, bundle_sources, service
from aiosched.parsing.bundle_keeper import BundleKeeper
from tests.parsing.bench import Bench
from tests.parsing.builders import dag_source
from tests.patience import PATIENCE
from tests.repositories import Repository


@pytest.fixture
def settings(bench: Bench, tmp_path: Path) -> Settings:
    found = bench.settings.model_copy(deep=True)
    found.core.home = tmp_path / "home"
    return found


def git(repository: Repository, name: str = "team", **more: Any) -> BundleSettings:
    return BundleSettings(name=name, kind="git", url=repository.url, ref="main", **more)


def folder(path: Path, name: str) -> BundleSettings:
    path.mkdir(exist_ok=True)
    return BundleSettings(name=name, kind="folder", path=path)


async def stored(bench: Bench) -> list[tuple[Any, ...]]:
    """DAG, number, file, bundle and version of all versions."""
    rows = await bench.db.fetch("SELECT dag_id, number, file, bundle, bundle_version FROM dag_version ORDER BY id")
    return [tuple(row) for row in rows]


async def errors(bench: Bench) -> dict[str, str]:
    """The import errors by file."""
    return {file: error for file, error in (await bench.errors()).items() if error is not None}


async def until(what: Any) -> Any:
    """The first answer of the coroutine function `what` that is not empty."""
    async with asyncio.timeout(PATIENCE):
        while not (found := await what()):  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    return found


async def test_files_have_the_name_of_their_bundle_and_a_commit_is_a_version_of_all_its_dags(
    bench: Bench, settings: Settings, tmp_path: Path
) -> None:
    repository = Repository(tmp_path / "repo")
    one = repository.commit({"a.py": dag_source("a"), "b.py": dag_source("b"), "query.sql": "1"})
    settings.dags.bundles = [git(repository, interval=1)]
    async with bench.running(settings=settings):
        await until(lambda: stored(bench))
        async with bench.db.acquire() as conn:
            await _run_of(conn, "a")
        two = repository.commit({"query.sql": "2"})

        found = await until(lambda: _at(bench, two, 2))

    assert found == [
        ("a", 1, "team:a.py", "team", one),
        ("a", 2, "team:a.py", "team", two),
        ("b", 1, "team:b.py", "team", two),  # no run had the one before
    ]


async def _at(bench: Bench, version: str, count: int) -> list[tuple[Any, ...]] | None:
    rows = sorted(await stored(bench))
    return rows if sum(row[4] == version for row in rows) == count else None


async def _run_of(conn: Any, dag_id: str) -> None:
    """A finished run of the newest version."""
    await conn.execute(
        "INSERT INTO dag_run (dag_id, run_id, partition, version_id, run_type, triggered_by, state, run_after,"
        " end_date) SELECT dag_id, 'r', partition, version_id, 'manual', 'test', 'success', now(), now() FROM dag"
        " WHERE dag_id = $1",
        dag_id,
    )


async def test_a_dag_in_two_bundles_is_an_error_that_names_both_files(
    bench: Bench, settings: Settings, tmp_path: Path
) -> None:
    settings.dags.bundles = [folder(tmp_path / "x", "one"), folder(tmp_path / "y", "two")]
    (tmp_path / "x" / "same.py").write_text(dag_source("a"))
    async with bench.running(settings=settings):
        (tmp_path / "y" / "same.py").write_text(dag_source("a"))
        found = await until(lambda: errors(bench))

    assert found == {
        "two:same.py": "DAG 'a' is already defined in one:same.py. Give one of them another dag_id, or remove it."
    }


@pytest.mark.slow
async def test_a_bundle_that_cannot_be_read_is_an_import_error_and_keeps_its_dags_over_a_restart(
    bench: Bench,
    settings: Settings,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(bundle_sources, "AGAIN_AFTER_FAILURE", 0.05)
    monkeypatch.setattr(service, "LIST_EVERY", 0.05)
    monkeypatch.setattr(service, "LISTING_SHARE", 1.0)
    repository = Repository(tmp_path / "repo")
    commit = repository.commit({"a.py": dag_source("a")})
    settings.dags.bundles = [git(repository, interval=1), folder(tmp_path / "x", "other")]
    (tmp_path / "x" / "b.py").write_text(dag_source("b"))
    async with bench.running(settings=settings):
        pass
    repository.folder.rename(tmp_path / "away")

    async with bench.running(settings=settings):
        error = (await until(lambda: errors(bench)))["team"]
        (tmp_path / "x" / "c.py").write_text(dag_source("c"))
        await until(lambda: _known(bench, "c"))
        dags = await bench.dags()
        (tmp_path / "away").rename(repository.folder)
        await until(lambda: _no_errors(bench))

    assert caplog.text.count("cannot be fetched") == 1
    assert "cannot be fetched" in error
    assert f"It stays at version {commit[:12]}" in error
    assert {dag_id: row[:3] for dag_id, row in dags.items()} == {
        "a": ("team:a.py", False, False),
        "b": ("other:b.py", False, False),
        "c": ("other:c.py", False, False),
    }


async def _known(bench: Bench, dag_id: str) -> bool:
    return dag_id in await bench.dags()


async def _no_errors(bench: Bench) -> bool:
    return not await errors(bench)


async def test_a_bundle_whose_first_fetch_fails_removes_none_of_its_dags(
    bench: Bench, settings: Settings, tmp_path: Path
) -> None:
    repository = Repository(tmp_path / "repo")
    repository.commit({"a.py": dag_source("a")})
    settings.dags.bundles = [git(repository)]
    async with bench.running(settings=settings):
        pass
    settings.core.home = tmp_path / "another-machine"
    repository.folder.rename(tmp_path / "away")

    async with bench.running(settings=settings):
        await until(lambda: errors(bench))

    assert (await bench.dags())["a"][:3] == ("team:a.py", False, False)


async def test_a_folder_becomes_a_bundle_and_its_dags_keep_their_history(
    bench: Bench, settings: Settings, tmp_path: Path
) -> None:
    bench.write("a.py", dag_source("a"))
    async with bench.running():
        pass
    settings.dags.bundles = [folder(bench.folder, "main")]

    async with bench.running(settings=settings):
        pass

    assert [row[:3] for row in await stored(bench)] == [("a", 1, "main:a.py")]
    assert (await bench.dags())["a"][:3] == ("main:a.py", False, False)


async def test_versions_that_no_run_needs_are_removed_from_the_cache_and_copies_from_the_database(
    bench: Bench, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bundle_keeper, "UNUSED_FOR", 0.0)
    settings.dags.pin_code = True
    settings.dags.keep_days = 0.0
    keeper = BundleKeeper(settings, bench.db, clock=bench.clock)
    cache = keeper.caches[None]
    bench.write("a.py", dag_source("a"))
    async with bench.running(settings=settings):
        (one,) = cache.versions()
        async with bench.db.acquire() as conn:
            await _run_of(conn, "a")
            await conn.execute("UPDATE dag_run SET state = 'running', end_date = NULL")
        for text in ("b", "c"):
            bench.write("a.py", dag_source("a", text))
            await until(lambda text=text: _known(bench, text))
        three = (await stored(bench))[-1][4]

        await keeper.sweep()
        with_a_run = set(cache.versions())
        await bench.db.execute("UPDATE dag_run SET state = 'success', end_date = '2000-01-01'")
        await keeper.sweep()

    assert with_a_run == {one, three}
    assert cache.versions() == [three]
    async with bench.db.acquire() as conn:
        await conn.execute("INSERT INTO bundle_snapshot (version, archive) VALUES ('unnamed', '')")
        await forget_snapshots(conn, before=await conn.fetchval("SELECT now() + interval '1 day'"))
        left = {row["version"] for row in await conn.fetch("SELECT version FROM bundle_snapshot")}
    assert left == {row[4] for row in await stored(bench)}  # what the history of some DAG names


@pytest.mark.parametrize(("bundle", "name"), [("one", "one"), (None, ".")])
async def test_a_copy_that_is_too_large_is_an_error_of_the_folder(
    bench: Bench, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bundle: str | None, name: str
) -> None:
    from aiosched.bundles import snapshots

    monkeypatch.setattr(snapshots, "MOST_BYTES", 1000)
    settings.dags.pin_code = True
    if bundle is not None:
        settings.dags.bundles = [folder(bench.folder, bundle)]
    bench.write("large.txt", "x" * 2000)
    bench.write("small.txt", "x" * 200)
    async with bench.running(settings=settings):
        found = await until(lambda: errors(bench))
        (bench.folder / "large.txt").unlink()
        await until(lambda: _no_errors(bench))

    why = "the folder has 2,200 bytes, and 1,000 are the limit of a snapshot: large.txt has 2,000 bytes"
    assert why in found[name]


async def test_a_copy_that_the_database_does_not_take_is_an_error_until_it_does(
    bench: Bench, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "LIST_EVERY", 0.05)
    monkeypatch.setattr(service, "LISTING_SHARE", 1.0)
    settings.dags.pin_code = True
    settings.dags.bundles = [folder(tmp_path / "x", "one")]
    (tmp_path / "x" / "a.py").write_text(dag_source("a"))
    await bench.execute("ALTER TABLE bundle_snapshot RENAME TO away")
    async with bench.running(settings=settings):
        found = await until(lambda: errors(bench))
        await bench.execute("ALTER TABLE away RENAME TO bundle_snapshot")
        await until(lambda: _no_errors(bench))
        await until(lambda: _known(bench, "a"))

    assert "its copy cannot be stored" in found["one"]
