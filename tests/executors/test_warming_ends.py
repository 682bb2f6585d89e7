"""Imports before tasks are due that wait, fail, hang or die: no attempt is harmed."""

from __future__ import annotations

import asyncio
import os
import signal
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from aiosched.core.values.messages import Outcome
from aiosched.executors.local import warming
from tests.executors.attempt_builders import Reports, StartLocal, running
from tests.executors.warm_files import Files, expected, hanging, idle, of, value, warm
from tests.patience import PATIENCE, until


async def test_no_other_file_waits_for_an_import(
    start_local: StartLocal, reports: Reports, files: Files, tmp_path: Path
) -> None:
    files.write(name="slow", more=hanging(tmp_path))
    files.write()
    executor = await start_local(slots=1)
    executor.prepare([expected("slow")])
    await until(lambda: bool(files.imports("slow")))

    executor.submit([of()])

    assert value(await reports.of(of()))[0] != files.imports("slow")[0]
    (tmp_path / "go").touch()
    await idle(executor)


async def test_a_worker_whose_file_is_due_imports_no_other_one(
    start_local: StartLocal, reports: Reports, files: Files, tmp_path: Path
) -> None:
    files.write(name="slow", more=hanging(tmp_path))
    files.write()
    executor = await start_local(slots=1)
    soon = expected()
    run = msgspec.structs.replace(soon.run, run_after=datetime.now(UTC))
    await warm(executor, msgspec.structs.replace(soon, run=run))
    executor.prepare([expected("slow")])
    await until(lambda: bool(files.imports("slow")))

    executor.submit([of()])

    assert value(await reports.of(of()))[0] == files.imports()[0] != files.imports("slow")[0]
    assert len(files.imports()) == 1
    (tmp_path / "go").touch()
    await idle(executor)


async def test_attempts_of_the_file_wait_for_its_import_instead_of_another_one(
    start_local: StartLocal, reports: Reports, files: Files, tmp_path: Path
) -> None:
    files.write(more=hanging(tmp_path))
    executor = await start_local(slots=2)
    executor.prepare([expected()])
    await until(lambda: bool(files.imports()))
    executor.submit([of(number=1), of(number=2)])
    assert executor._queue.warming.held == 2

    (tmp_path / "go").touch()

    assert value(await reports.of(of(number=1)))[0] == files.imports()[0]
    await reports.of(of(number=2))


async def test_an_attempt_that_waits_for_an_import_can_be_cancelled(
    start_local: StartLocal, reports: Reports, files: Files, tmp_path: Path
) -> None:
    files.write(more=hanging(tmp_path))
    executor = await start_local()
    executor.prepare([expected()])
    await until(lambda: bool(files.imports()))
    executor.submit([of()])

    await executor.cancel(of().key, 1)

    assert (await reports.of(of())).reason == "was stopped on request, before it began"
    (tmp_path / "go").touch()
    await idle(executor)


async def test_an_import_that_hangs_holds_up_its_attempts_for_a_while_and_ends_with_the_time_limit(
    start_local: StartLocal, reports: Reports, files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first import hangs, as on a lock of a file: that of the attempt does not."""
    monkeypatch.setattr(warming, "PATIENCE", 0.05)
    files.write(more=f"if len(open({str(files.notes)!r}).readlines()) == 1: time.sleep(1000)")
    executor = await start_local(import_timeout=0.5)
    executor.prepare([expected()])
    await until(lambda: bool(files.imports()))

    executor.submit([of()])

    assert value(await reports.of(of()))[1] == 1
    await idle(executor)
    assert not executor._queue.warming.suits(expected().run)


@pytest.mark.slow
async def test_a_worker_that_cannot_be_interrupted_in_an_import_is_ended(
    start_local: StartLocal, reports: Reports, files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(warming, "GRACE", 0.1)
    files.write(name="bad", more="signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM]); time.sleep(1000)")
    files.write()
    executor = await start_local(import_timeout=2)  # a busy machine needs a while until the import begins
    executor.prepare([expected("bad")])
    await idle(executor)

    await until(lambda: not running(files.imports("bad")[0]))
    executor.submit([of()])
    await reports.of(of())


@pytest.mark.parametrize(
    "mistake",
    ["raise ValueError", "sys.exit(1)", "os._exit(3)", "os.kill(os.getpid(), 9)", "import no_such_module"],
)
async def test_an_import_that_fails_harms_nobody_and_the_attempt_says_why(
    start_local: StartLocal, reports: Reports, files: Files, mistake: str
) -> None:
    files.write(name="bad", more=mistake)
    files.write()
    executor = await start_local()
    await warm(executor, expected("bad"), expected())
    await warm(executor, expected("bad"))
    assert len(files.imports("bad")) == 1, "it is not tried again"

    executor.submit([of("bad", number=1), of(number=2)])

    assert (await reports.of(of("bad", number=1))).outcome is Outcome.FAILED
    assert value(await reports.of(of(number=2)))[1] == 1
    assert len(files.imports("bad")) == 2
    assert len(files.imports()) == 1


async def test_a_file_that_failed_is_imported_again_when_it_was_changed(
    start_local: StartLocal, reports: Reports, files: Files
) -> None:
    files.write(more="raise ValueError")
    executor = await start_local()
    await warm(executor, expected())
    files.write()

    await warm(executor, expected(source_hash="new"))
    executor.submit([of(source_hash="new")])

    await reports.of(of())
    assert len(files.imports()) == 2


async def test_a_worker_whose_memory_has_grown_too_much_ends_and_the_file_is_left_to_its_attempts(
    start_local: StartLocal, reports: Reports, files: Files
) -> None:
    files.write(more="BIG = bytearray(64_000_000)")
    executor = await start_local(max_growth_bytes=32_000_000)
    await warm(executor, expected())
    (importer,) = files.imports()
    await until(lambda: not running(importer))

    await warm(executor, expected())
    executor.submit([of()])

    assert value(await reports.of(of()))[0] != importer
    assert len(files.imports()) == 2


@pytest.mark.parametrize("task", ["plain", "later"])
async def test_when_the_warm_worker_is_killed_the_attempt_runs_elsewhere(
    start_local: StartLocal, reports: Reports, files: Files, task: str
) -> None:
    files.write()
    executor = await start_local()
    await warm(executor, expected(is_async=task == "later"))
    (importer,) = files.imports()

    os.kill(importer, signal.SIGKILL)
    await until(lambda: not running(importer))
    await until(lambda: all(link.pid != importer for link in executor._links.values()))
    executor.submit([of(task=task)])

    assert value(await reports.of(of(task=task)))[0] != importer


async def test_when_a_worker_is_killed_while_it_imports_its_attempts_run_elsewhere(
    start_local: StartLocal, reports: Reports, files: Files, tmp_path: Path
) -> None:
    files.write(more=hanging(tmp_path))
    executor = await start_local()
    executor.prepare([expected()])
    await until(lambda: bool(files.imports()))
    executor.submit([of()])

    (tmp_path / "go").touch()
    os.kill(files.imports()[0], signal.SIGKILL)

    assert value(await reports.of(of()))[1] == 1


@pytest.mark.parametrize("is_async", [False, True])
async def test_a_stop_does_not_wait_for_an_import(
    start_local: StartLocal, reports: Reports, files: Files, is_async: bool
) -> None:
    files.write(more="time.sleep(1000)")
    executor = await start_local(import_timeout=60)
    executor.prepare([expected(is_async=is_async)])
    await until(lambda: bool(files.imports()))
    if not is_async:
        executor.submit([of()])

    async with asyncio.timeout(PATIENCE):
        await executor.stop(60)

    assert [report.outcome for report in reports.final] == ([] if is_async else [Outcome.LOST])
    executor.prepare([expected("other")])
    assert not running(files.imports()[0])


async def test_what_an_import_leaves_behind_ends_with_it(
    start_local: StartLocal, reports: Reports, files: Files, tmp_path: Path
) -> None:
    child = tmp_path / "child"
    more = f"open({str(child)!r}, 'w').write(str(subprocess.Popen(['sleep', '1000']).pid)); print('hello')"
    files.write(more=more)
    executor = await start_local()

    await warm(executor, expected())

    await until(lambda: not running(int(child.read_text())))
    executor.submit([of()])
    await reports.of(of())
