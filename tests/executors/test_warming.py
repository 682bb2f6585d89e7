"""DAG files that workers import before their tasks are due: the first attempt finds them, and runs the code of now."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from aiosched.core.creation.upcoming import NO_RUN
from aiosched.errors import Refused
from aiosched.executors.attempt.dag_cache import FileDags
from aiosched.executors.inline.executor import InlineExecutor
from tests.executors.attempt_builders import FakeServices, Reports, StartLocal
from tests.executors.warm_files import Files, expected, of, value, warm
from tests.patience import until


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


@pytest.mark.parametrize("task", ["plain", "later"])
async def test_a_value_that_was_changed_meanwhile_is_read_again(
    start_local: StartLocal, reports: Reports, files: Files, values: list[str], task: str
) -> None:
    executor = await start_local()
    await warm(executor, expected(is_async=task == "later"))

    values[0] = "8"
    executor.submit([of(task=task)])

    assert value(await reports.of(of()))[1] == "8"
