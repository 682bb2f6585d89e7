"""Found from outside: what an early import does to coroutines of other files, and where its output goes."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

from attempt_builders import Reports, StartLocal, until
from warm_files import Files, expected, hanging, idle, of, value, warm

from aiosched.bundles.places import CodePlaces


def as_serve_has_them(dags_folder: Path, tmp_path: Path) -> CodePlaces:
    """As bundles.kinds.places_of makes them from default settings: one folder, and a cache for pinned code."""
    return CodePlaces({"": str(dags_folder)}, {"": str(tmp_path / "cache")}, str(tmp_path / "received"))


async def test_no_coroutine_of_another_file_waits_for_an_early_import(
    start_local: StartLocal, reports: Reports, files: Files, dags_folder: Path, tmp_path: Path
) -> None:
    files.write(name="slow", more=hanging(tmp_path))
    files.write()
    executor = await start_local(places=as_serve_has_them(dags_folder, tmp_path))
    executor.prepare([expected("slow", is_async=True)])
    await until(lambda: bool(files.imports("slow")))

    executor.submit([of(task="later")])
    try:
        async with asyncio.timeout(5):
            value(await reports.of(of(task="later")))
    finally:
        (tmp_path / "go").touch()
    await idle(executor)


async def test_after_an_import_that_hangs_coroutines_of_other_files_run(
    start_local: StartLocal, reports: Reports, files: Files, dags_folder: Path, tmp_path: Path
) -> None:
    files.write(name="slow", more=hanging(tmp_path))
    for n in range(12):
        files.write(name=f"d{n}")
    executor = await start_local(places=as_serve_has_them(dags_folder, tmp_path), import_timeout=1.0)
    executor.prepare([expected("slow", is_async=True)])
    await until(lambda: bool(files.imports("slow")))
    await asyncio.sleep(1.5)  # it has been given up

    attempts = [of(f"d{n}", "later", number=n) for n in range(12)]
    executor.submit(attempts)
    try:
        async with asyncio.timeout(10):
            for each in attempts:
                value(await reports.of(each))
    finally:
        (tmp_path / "go").touch()


async def test_what_a_file_prints_in_an_early_import_is_dropped_for_coroutines_too(
    start_local: StartLocal, files: Files, capfd
) -> None:
    files.write(more="print('SAID TOO EARLY'); sys.stderr.write('SAID TOO EARLY\\n')")
    executor = await start_local()
    await warm(executor, expected(is_async=True))
    assert len(files.imports()) == 1
    await executor.stop(0)
    out, err = capfd.readouterr()
    assert "SAID TOO EARLY" not in out + err
