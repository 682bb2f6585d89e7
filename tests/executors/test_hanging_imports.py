"""A DAG file whose import does not end, or takes long: coroutines of other files do not notice."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from aiosched.bundles.places import CodePlaces
from aiosched.core.values.messages import Outcome
from aiosched.executors.attempt.dag_cache import FileDags
from aiosched.executors.inline.executor import InlineExecutor
from tests.executors.attempt_builders import FakeServices, Reports, StartLocal, running, write_dag
from tests.executors.warm_files import Files, expected, hanging, idle, of, value, warm
from tests.patience import PATIENCE, until


@pytest.fixture
def places(dags_folder: Path, tmp_path: Path) -> CodePlaces:
    """As `serve` has them: one folder, and caches for pinned code."""
    return CodePlaces({"": str(dags_folder)}, {"": str(tmp_path / "cache")}, str(tmp_path / "received"))


async def test_no_coroutine_of_another_file_waits_for_an_early_import(
    start_local: StartLocal, reports: Reports, files: Files, places: CodePlaces, tmp_path: Path
) -> None:
    files.write(name="slow", more=hanging(tmp_path))
    files.write()
    executor = await start_local(places=places)
    executor.prepare([expected("slow", is_async=True)])
    await until(lambda: bool(files.imports("slow")))

    executor.submit([of(task="later")])
    value(await reports.of(of(task="later")))

    (tmp_path / "go").touch()
    await idle(executor)


async def test_after_an_import_that_hangs_many_coroutines_of_other_files_run_and_the_worker_is_replaced(
    start_local: StartLocal, reports: Reports, files: Files, places: CodePlaces, tmp_path: Path
) -> None:
    files.write(name="slow", more=hanging(tmp_path))
    for number in range(12):
        files.write(name=f"d{number}")
    executor = await start_local(places=places, import_timeout=0.5)
    executor.prepare([expected("slow", is_async=True)])
    await idle(executor)
    attempts = [of(f"d{number}", "later", number=number) for number in range(12)]

    executor.submit(attempts)

    workers = {value(await reports.of(each))[0] for each in attempts}
    assert workers.isdisjoint(files.imports("slow"))
    (tmp_path / "go").touch()


async def test_attempts_of_a_file_that_hangs_fail_together_and_say_why(
    start_local: StartLocal, reports: Reports, files: Files, places: CodePlaces, tmp_path: Path
) -> None:
    files.write(name="slow", more=hanging(tmp_path))
    files.write()
    executor = await start_local(places=places, import_timeout=0.5)
    attempts = [of("slow", "later", number=number) for number in range(1, 9)]

    executor.submit([*attempts, of(task="later", number=9)])

    value(await reports.of(of(task="later", number=9)))
    for each in attempts:
        report = await reports.of(each)
        assert report.outcome is Outcome.FAILED
        assert report.reason == "slow.py cannot be imported: it took longer than 0.5 s (core.dagbag_import_timeout)"
    assert len(files.imports("slow")) == 1

    (tmp_path / "go").touch()
    executor.submit([of("slow", "later", number=10)])
    value(await reports.of(of("slow", "later", number=10)))


async def test_a_worker_with_an_import_that_hangs_ends_after_its_other_attempts(
    start_local: StartLocal, reports: Reports, files: Files, tmp_path: Path
) -> None:
    files.write(name="slow", more=hanging(tmp_path, "while not os.path.exists({go!r} + '-never'): time.sleep(0.01)"))
    waits = f"""
    async def later():
        while not os.path.exists({str(tmp_path / "go")!r}):
            await asyncio.sleep(0.01)
        return [os.getpid(), 1]
    task(later)
    """
    write_dag(files.folder, waits, name="waits")
    executor = await start_local(import_timeout=0.5)
    executor.submit([of("waits", "later")])
    await until(lambda: any(link.attempts and link.ready for link in executor._links.values()))

    executor.prepare([expected("slow", is_async=True)])
    await idle(executor)
    (worker,) = files.imports("slow")
    assert [link.pid for link in executor._links.values() if link.is_async and link.retiring] == [worker]
    (tmp_path / "go").touch()

    assert value(await reports.of(of("waits", "later"))) == [worker, 1]
    await until(lambda: not running(worker))


async def test_inline_coroutines_of_other_files_run_beside_an_import_that_hangs(
    reports: Reports, files: Files, places: CodePlaces, tmp_path: Path
) -> None:
    files.write(name="slow", more=hanging(tmp_path))
    for number in range(12):
        files.write(name=f"d{number}")
    executor = InlineExecutor(FileDags(places=places, import_timeout=0.5), slots=2)
    await executor.start(reports, FakeServices())
    slow = [of("slow", "later", number=number) for number in range(1, 13)]
    others = [of(f"d{number}", "later", number=100 + number) for number in range(12)]

    executor.submit([*slow, *others])

    for each in others:
        value(await reports.of(each))
    for each in slow:
        assert (await reports.of(each)).outcome is Outcome.FAILED
    assert sum(thread.name == "aiosched-import" for thread in threading.enumerate()) == 1
    async with asyncio.timeout(PATIENCE):
        await executor.stop(1.0)
    (tmp_path / "go").touch()
    await until(lambda: not any(thread.name == "aiosched-import" for thread in threading.enumerate()))


async def test_what_a_file_prints_in_an_early_import_is_dropped_for_coroutines_too(
    start_local: StartLocal, files: Files, capfd: pytest.CaptureFixture[str]
) -> None:
    files.write(more="print('SAID TOO EARLY'); sys.stderr.write('SAID TOO EARLY\\n'); logging.error('SAID TOO EARLY')")
    executor = await start_local()

    await warm(executor, expected(is_async=True))

    assert len(files.imports()) == 1
    await executor.stop(0)
    out, err = capfd.readouterr()
    assert "SAID TOO EARLY" not in out + err
