"""The pool of supervisors: what it inherits, and what happens when its processes are killed."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from multiprocessing.context import SpawnContext
from pathlib import Path

import pytest

from aiosched.config import Settings
from aiosched.errors import ConfigError
from aiosched.parsing.clean_processes import CleanContext
from aiosched.parsing.discovery import DagFile
from aiosched.parsing.killable import become_supervisor
from aiosched.parsing.pool import ParsingPool, supervisors_for
from aiosched.scheduler.service import Scheduler
from tests.parsing.builders import dag_source, settings_for, write
from tests.patience import PATIENCE


@pytest.fixture
async def pool(tmp_path: Path) -> AsyncIterator[ParsingPool]:
    pool = ParsingPool(settings_for(tmp_path), root=str(tmp_path))
    yield pool
    await pool.close()


def file_at(path: Path) -> DagFile:
    return DagFile(path.name, path, "digest", path.stat().st_mtime_ns)


async def text_of(fifo: Path) -> str:
    """What is written into a named pipe; waits for it."""
    return await asyncio.to_thread(fifo.read_text)


async def test_a_killed_supervisor_is_replaced_and_its_file_parsed_again(pool: ParsingPool, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    fifo = str(tmp_path / "fifo")
    waits = f"import os\nif os.path.exists({fifo!r}):\n    open({fifo!r}, 'w').write('here')\n    while True: pass\n"
    file = file_at(write(tmp_path, "a.py", waits + dag_source("a")))
    parsing = asyncio.create_task(pool.parse(file))
    await text_of(tmp_path / "fifo")  # the import runs

    (tmp_path / "fifo").unlink()  # it runs through the next time
    for pid in pool.pids:
        os.kill(pid, signal.SIGKILL)

    assert [d.dag_id for d in (await parsing).dags] == ["a"]


def test_ctrl_c_while_a_supervisor_starts_ends_neither_it_nor_says_anything(capfd: pytest.CaptureFixture[str]) -> None:
    process = CleanContext().Process(target=become_supervisor)
    process.start()
    assert process.pid is not None
    os.kill(process.pid, signal.SIGINT)  # its interpreter is just starting
    process.join()

    assert (process.exitcode, capfd.readouterr().err) == (0, "")
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())


def test_what_a_supervisor_starts_can_be_interrupted(capfd: pytest.CaptureFixture[str]) -> None:
    process = CleanContext().Process(target=print_blocked)
    process.start()
    process.join()

    assert capfd.readouterr().out == "set()\n"


def print_blocked() -> None:
    become_supervisor()
    print(signal.pthread_sigmask(signal.SIG_BLOCK, ()), flush=True)


@pytest.mark.parametrize(
    "error",
    [OSError(errno.EROFS, "read-only"), PermissionError(errno.EACCES, "denied"), OSError(errno.ENOSYS, "unknown"),
     ImportError("no sem_open")],
    ids=["read-only", "closed", "unknown", "not-built"],
)  # fmt: skip
async def test_without_semaphores_one_sentence_says_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def refuse(_: object) -> None:
        raise error

    monkeypatch.setattr(SpawnContext, "Lock", refuse)

    with pytest.raises(ConfigError, match=r"semaphores.*/dev/shm: let this user write there"):
        ParsingPool(settings_for(tmp_path), root=str(tmp_path))
    with pytest.raises(ConfigError, match="semaphores"):
        await Scheduler(dsn="postgresql://nobody@127.0.0.1:1/none", dags_folder=tmp_path).start()


@pytest.mark.slow
async def test_a_supervisor_that_is_killed_twice_is_an_error_of_the_file(pool: ParsingPool, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    waits = f"import os\nopen({str(tmp_path / 'fifo')!r}, 'w').write(str(os.getppid()))\nwhile True: pass\n"
    parsing = asyncio.create_task(pool.parse(file_at(write(tmp_path, "a.py", waits))))

    for _ in range(2):
        os.kill(int(await text_of(tmp_path / "fifo")), signal.SIGKILL)

    error = (await parsing).error
    assert error is not None
    assert "was killed from outside, twice" in error.message


async def test_a_child_dies_with_its_killed_supervisor(pool: ParsingPool, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    fifo = str(tmp_path / "fifo")
    text = f"import os\nopen({fifo!r}, 'w').write(f'{{os.getppid()}} {{os.getpid()}}')\nwhile True: pass\n"
    parsing = asyncio.create_task(pool.parse(file_at(write(tmp_path, "a.py", text))))
    supervisor, child = map(int, (await text_of(tmp_path / "fifo")).split())
    death = os.pidfd_open(child)

    os.kill(supervisor, signal.SIGKILL)

    await readable(death)
    parsing.cancel()
    await asyncio.gather(parsing, return_exceptions=True)


async def test_closing_the_pool_ends_what_it_runs(tmp_path: Path) -> None:
    pool = ParsingPool(settings_for(tmp_path, import_timeout=60, file_timeout=60), root=str(tmp_path))
    os.mkfifo(tmp_path / "fifo")
    text = f"import os\nopen({str(tmp_path / 'fifo')!r}, 'w').write(str(os.getpid()))\nwhile True: pass\n"
    parsing = asyncio.create_task(pool.parse(file_at(write(tmp_path, "a.py", text))))
    death = os.pidfd_open(int(await text_of(tmp_path / "fifo")))

    parsing.cancel()
    await asyncio.gather(parsing, return_exceptions=True)
    await pool.close()

    await readable(death)
    assert pool.pids == ()


def test_a_process_whose_end_somebody_else_collected_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    context = CleanContext()
    pool, process = context.pool(1, become_supervisor), context.Process(target=become_supervisor)
    process.start()
    assert process.pid is not None
    os.waitpid(process.pid, 0)
    signals: list[int] = []
    monkeypatch.setattr(os, "kill", lambda pid, signum: signals.append(pid))

    assert context.pids == ()
    context.end_blocking(pool)
    assert signals == []  # the number may be that of a stranger by now


async def test_files_are_parsed_in_an_application_that_ignores_the_ends_of_processes(
    pool: ParsingPool, tmp_path: Path
) -> None:
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        outcome = await pool.parse(file_at(write(tmp_path, "a.py", dag_source("a"))))
        assert outcome.error is None
        await pool.close()
        assert pool.pids == ()
    finally:
        signal.signal(signal.SIGCHLD, before)


@pytest.mark.slow
async def test_a_released_pool_starts_again_with_the_next_file(pool: ParsingPool, tmp_path: Path) -> None:
    file = file_at(write(tmp_path, "a.py", dag_source("a")))
    await pool.parse(file)

    await pool.release()
    assert pool.pids == ()

    assert (await pool.parse(file)).error is None
    assert len(pool.pids) == 1


async def test_a_file_that_vanished_is_an_error(pool: ParsingPool, tmp_path: Path) -> None:
    outcome = await pool.parse(DagFile("gone.py", tmp_path / "gone.py", "digest", 0))

    assert outcome.error is not None
    assert "gone.py cannot be read" in outcome.error.message


def test_supervisors_do_not_run_the_main_module_of_the_application(tmp_path: Path) -> None:
    write(tmp_path, "dags/a.py", dag_source("a"))
    main = write(
        tmp_path,
        "app.py",
        f"""
        import asyncio
        from aiosched.config import Settings
        from aiosched.parsing.check import check_paths
        print("started", __name__)
        (outcome,) = asyncio.run(check_paths([{str(tmp_path / "dags")!r}], Settings()))
        print([dag.dag_id for dag in outcome.dags], outcome.error)
        """,
    )

    done = subprocess.run([sys.executable, main], capture_output=True, text=True, timeout=60, check=False)

    assert done.stdout.splitlines() == ["started __main__", "['a'] None"]
    assert done.stderr == ""


async def test_supervisors_and_children_die_with_a_killed_scheduler(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    fifo = str(tmp_path / "fifo")
    text = f"import os\nopen({fifo!r}, 'w').write(f'{{os.getppid()}} {{os.getpid()}}')\nwhile True: pass\n"
    file = write(tmp_path, "a.py", text)
    main = "import asyncio; from aiosched.parsing.check import check_paths; from aiosched.config import Settings; "
    main += f"asyncio.run(check_paths([{str(file)!r}], Settings()))"
    scheduler = await asyncio.create_subprocess_exec(sys.executable, "-c", main)
    deaths = [os.pidfd_open(int(pid)) for pid in (await text_of(tmp_path / "fifo")).split()]

    scheduler.kill()

    for death in deaths:
        await readable(death)
    await scheduler.wait()


async def readable(fd: int) -> None:
    """Wait until `fd` is; closes it."""
    ready = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_reader(fd, ready.set)
    try:
        async with asyncio.timeout(PATIENCE):
            await ready.wait()
    finally:
        loop.remove_reader(fd)
        os.close(fd)


def test_without_a_setting_files_are_parsed_one_for_each_core_up_to_four(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings()
    for cores, expected in ((1, 1), (3, 3), (64, 4), (None, 1)):
        monkeypatch.setattr("os.cpu_count", lambda cores=cores: cores)
        assert supervisors_for(settings) == expected
    settings.parsing.processes = 7
    assert supervisors_for(settings) == 7
