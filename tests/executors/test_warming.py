"""DAG files that workers import before their tasks are due: the first attempt finds them, and runs the code of now."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from attempt_builders import FakeServices, Reports, StartLocal, attempt, running, until, write_dag

from aiosched.core.creation.upcoming import NO_RUN
from aiosched.core.values.messages import Attempt, Outcome, Report, RunInfo, Upcoming
from aiosched.errors import Refused
from aiosched.executors.attempt.dag_cache import FileDags
from aiosched.executors.inline.executor import InlineExecutor
from aiosched.executors.local import warming
from aiosched.executors.local.executor import LocalExecutor

COUNTS = """
with open({imports!r}, "a") as seen: seen.write(f"{{os.getpid()}} d\\n")
{more}
def plain(): return [os.getpid(), VALUE]
async def later(): return [os.getpid(), VALUE]
task(plain), task(later)
"""


class Files:
    """Writes DAG files that note each import, with the process."""

    def __init__(self, folder: Path, notes: Path) -> None:
        self.folder, self.notes = folder, notes

    def write(self, value: str = "1", *, name: str = "d", more: str = "") -> None:
        body = COUNTS.format(imports=str(self.notes), more=f"{more}\nVALUE = {value}").replace(" d\\n", f" {name}\\n")
        write_dag(self.folder, body, name=name)

    def imports(self, name: str = "d") -> list[int]:
        """The processes that imported a file, in order."""
        lines = [line.split() for line in self.notes.read_text().splitlines()] if self.notes.exists() else []
        return [int(pid) for pid, file in lines if file == name]


@pytest.fixture
def files(dags_folder: Path, tmp_path: Path) -> Files:
    return Files(dags_folder, tmp_path / "imports")


def expected(name: str = "d", *, is_async: bool = False, source_hash: str = "h", **facts: object) -> Upcoming:
    run = RunInfo(
        key=NO_RUN, dag_id=name, run_id="", run_type="", run_after=datetime(2026, 1, 1, tzinfo=UTC),
        file=f"{name}.py", source_hash=source_hash, **facts,
    )  # type: ignore[arg-type]  # fmt: skip
    return Upcoming(run=run, is_async=is_async)


async def warm(executor: LocalExecutor, *upcoming: Upcoming) -> None:
    """Have the files imported, and wait for it."""
    executor.prepare(upcoming)
    await idle(executor)


async def idle(executor: LocalExecutor) -> None:
    await until(lambda: not executor._queue.warming and not any(link.warming for link in executor._links.values()))


def of(name: str = "d", task: str = "plain", *, number: int = 1, source_hash: str = "h", **run: object) -> Attempt:
    return attempt(
        task, file=f"{name}.py", dag_id=name, number=number, is_async=task == "later", source_hash=source_hash, **run
    )  # type: ignore[arg-type]


def value(report: Report) -> list[int]:
    assert report.outcome is Outcome.SUCCESS, f"{report.reason} {report.details}"
    return list(json.loads(report.xcoms[0].value))


@pytest.mark.parametrize("task", ["plain", "later"])
async def test_the_first_attempt_does_not_import(
    start_local: StartLocal, reports: Reports, files: Files, task: str
) -> None:
    files.write()
    executor = await start_local()
    await warm(executor, expected(is_async=task == "later"))
    (importer,) = files.imports()

    executor.submit([of(task=task)])

    assert value(await reports.of(of(task=task))) == [importer, 1]
    assert files.imports() == [importer]


async def test_files_are_spread_over_workers_and_each_attempt_goes_to_that_of_its_file(
    start_local: StartLocal, reports: Reports, files: Files
) -> None:
    names = [f"d{n}" for n in range(6)]
    for name in names:
        files.write(name=name)
    executor = await start_local(slots=3)
    await warm(executor, *(expected(name) for name in names))
    importers = {name: files.imports(name) for name in names}
    assert len({pid for (pid,) in importers.values()}) > 1

    executor.submit([of(name, number=n) for n, name in enumerate(names)])
    await reports.count(6)

    assert {name: files.imports(name) for name in names} == importers


async def test_what_a_worker_has_is_not_imported_again(start_local: StartLocal, reports: Reports, files: Files) -> None:
    files.write()
    executor = await start_local()
    executor.submit([of()])
    await reports.of(of())

    await warm(executor, expected(), expected())
    await warm(executor, expected())

    assert len(files.imports()) == 1


@pytest.mark.parametrize("known", ["h", "new"], ids=["before the parser knows", "after it knows"])
@pytest.mark.parametrize("task", ["plain", "later"])
async def test_a_file_that_was_edited_meanwhile_runs_its_new_code(
    start_local: StartLocal, reports: Reports, files: Files, task: str, known: str
) -> None:
    files.write("1")
    executor = await start_local()
    await warm(executor, expected(is_async=task == "later"))

    files.write("2")  # of the same size, and perhaps within the same tick of the file system
    executor.submit([of(task=task, source_hash=known)])

    assert value(await reports.of(of(task=task)))[1] == 2


@pytest.mark.parametrize("task", ["plain", "later"])
async def test_an_edit_that_leaves_all_times_of_the_file_as_they_were_runs_too(
    start_local: StartLocal, reports: Reports, files: Files, task: str
) -> None:
    files.write("1")
    path = files.folder / "d.py"
    executor = await start_local()
    await warm(executor, expected(is_async=task == "later"))
    before = path.stat()

    path.write_text(path.read_text().replace("VALUE = 1", "VALUE = 2"))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    executor.submit([of(task=task)])

    assert value(await reports.of(of(task=task)))[1] == 2


@pytest.mark.parametrize("task", ["plain", "later"])
async def test_a_helper_module_that_was_edited_meanwhile_runs_its_new_code(
    start_local: StartLocal, reports: Reports, files: Files, task: str
) -> None:
    files.write("helper.VALUE", more="import helper")
    helper = files.folder / "helper.py"
    helper.write_text("VALUE = 1\n")
    executor = await start_local()
    await warm(executor, expected(is_async=task == "later", modules=("helper.py",)))

    helper.write_text("VALUE = 2\n")
    executor.submit([of(task=task, modules=("helper.py",))])

    assert value(await reports.of(of(task=task)))[1] == 2


async def test_a_new_source_is_imported_again_before_it_is_due(
    start_local: StartLocal, reports: Reports, files: Files
) -> None:
    files.write("1")
    executor = await start_local()
    await warm(executor, expected())
    files.write("2")

    await warm(executor, expected(source_hash="new"))
    imports = files.imports()
    executor.submit([of(source_hash="new")])

    assert value(await reports.of(of()))[1] == 2
    assert files.imports() == imports
    assert len(imports) == 2


def hanging(tmp_path: Path, begin: str = "while not os.path.exists({go!r}): time.sleep(0.01)") -> str:
    return begin.format(go=str(tmp_path / "go"))


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


async def test_a_worker_that_cannot_be_interrupted_in_an_import_is_ended(
    start_local: StartLocal, reports: Reports, files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(warming, "_GRACE", 2)
    files.write(name="bad", more="signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM]); time.sleep(1000)")
    files.write()
    executor = await start_local(import_timeout=0.2)
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

    async with asyncio.timeout(10):
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


READS = "from aiosched import Variable\ntry: VALUE = Variable.get('region')\nexcept BaseException: VALUE = 'wrong'\n"


@pytest.fixture
def values(files: Files, services: FakeServices) -> list[str]:
    """A file whose helper reads a variable at its top; the value, which is to be changed in place; who asked."""
    stored = ["7"]

    async def call(run: int, name: str, args: str) -> str:
        asked.append((run, name, json.loads(args)))
        if refused and run == NO_RUN:
            raise Refused("not now")
        return json.dumps({"value": stored[0]})

    asked, refused = list[tuple[int, str, dict[str, str]]](), list[bool]()
    files.folder.mkdir(parents=True, exist_ok=True)
    (files.folder / "helper.py").write_text(READS)
    files.write("helper.VALUE", more="import helper")
    services.call = call  # type: ignore[method-assign]
    services.asked, services.refused = asked, refused  # type: ignore[attr-defined]
    return stored


@pytest.mark.parametrize("task", ["plain", "later"])
async def test_a_file_that_reads_a_variable_asks_in_its_own_name_and_its_first_attempt_compares(
    start_local: StartLocal, reports: Reports, files: Files, services: Any, values: list[str], task: str
) -> None:
    executor = await start_local()

    await warm(executor, expected(is_async=task == "later"))
    assert services.asked == [(NO_RUN, "variable", {"get": "region", "file": "d.py", "bundle": ""})]
    executor.submit([of(task=task, number=1)])
    assert value(await reports.of(of(number=1)))[1] == "7"
    assert len(files.imports()) == 1

    assert [run for run, *_ in services.asked] == [NO_RUN, 1]


@pytest.mark.parametrize("task", ["plain", "later"])
async def test_a_value_that_was_changed_meanwhile_is_read_again(
    start_local: StartLocal, reports: Reports, files: Files, values: list[str], task: str
) -> None:
    executor = await start_local()
    await warm(executor, expected(is_async=task == "later"))

    values[0] = "8"
    executor.submit([of(task=task)])

    assert value(await reports.of(of()))[1] == "8"


@pytest.mark.parametrize("task", ["plain", "later"])
async def test_a_file_that_gets_no_answer_is_left_to_its_attempts_whatever_it_made_of_that(
    start_local: StartLocal, reports: Reports, files: Files, services: Any, values: list[str], task: str
) -> None:
    services.refused.append(True)
    executor = await start_local()

    await warm(executor, expected(is_async=task == "later"))
    executor.submit([of(task=task)])

    assert value(await reports.of(of()))[1] == "7"
    assert not executor._queue.warming.suits(expected().run)


async def test_a_file_that_is_imported_beforehand_may_only_read(
    start_local: StartLocal, reports: Reports, files: Files, services: Any, values: list[str]
) -> None:
    (files.folder / "helper.py").write_text(
        "from aiosched import Variable\ntry: Variable.set('region', 'x')\nexcept BaseException: pass\nVALUE = 'x'\n"
    )
    executor = await start_local()

    await warm(executor, expected())

    assert services.asked == []


async def test_a_new_process_for_each_attempt_imports_nothing_beforehand(start_local: StartLocal, files: Files) -> None:
    files.write()
    executor = await start_local(isolation="fresh")

    executor.prepare([expected(), expected(is_async=True)])

    assert not executor._links


@pytest.mark.parametrize("task", ["plain", "later"])
async def test_the_inline_executor_imports_in_a_thread_before_the_first_attempt(
    files: Files, dags_folder: Path, services: FakeServices, reports: Reports, task: str
) -> None:
    files.write(name="bad", more="raise ValueError")
    files.write()
    executor = InlineExecutor(FileDags(dags_folder))
    await executor.start(reports, services)
    try:
        executor.prepare([expected("bad"), expected(), expected("bad")])
        await until(lambda: len(files.imports()) == 1 and executor._early_imports._work is None)
        executor.submit([of(task=task, number=1)])
        await reports.of(of(number=1))
        files.write("2")
        executor.submit([of(task=task, number=2)])

        assert len(files.imports("bad")) == 1
        assert value(await reports.of(of(number=1)))[1] == 1
        assert len(files.imports()) <= 2
    finally:
        await executor.stop(0)
