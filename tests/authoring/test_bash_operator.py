"""Shell commands as tasks."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from authoring_builders import context_of, run_task

from aiosched import DAG, BashOperator
from aiosched.errors import CommandFailed, SkipTask


def bash(command: str, **options: Any) -> BashOperator:
    return BashOperator(task_id="t", bash_command=command, dag=DAG("d"), **options)


async def output(command: str, **options: Any) -> Any:
    return (await run_task(bash(command, **options)))[0]


@pytest.mark.parametrize(
    ("command", "options", "value"),
    [
        ("echo one; echo two", {}, "two"),
        ("echo {{ ds }}", {}, "2026-01-02"),
        ("printf 'no end'", {}, "no end"),
        ("echo error >&2", {}, "error"),
        ("true", {}, ""),
        ("echo $X", {"env": {"X": "{{ ds }}"}}, "2026-01-02"),
        ("echo [$HOME]", {"env": {"X": "1"}}, "[]"),
        ("echo [$AUTHOR$X]", {"env": {"X": "1"}, "append_env": True}, "[ann1]"),
        ("echo [$AUTHOR]", {}, "[ann]"),
        ("echo $AIRFLOW_CTX_DAG_ID $AIRFLOW_CTX_TASK_ID $AIRFLOW_CTX_TRY_NUMBER", {}, "d t 2"),
        ("echo 5", {"output_processor": int}, 5),
        ("printf 'a\\n'; head -c 300000 /dev/zero | tr '\\0' x", {"output_processor": len}, 300000),
        ("printf '\\xff'", {}, "\\xff"),
        ("cat; echo no input", {}, "no input"),
    ],
)
async def test_the_last_line_of_output_is_the_value(
    command: str, options: dict[str, Any], value: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AUTHOR", "ann")

    assert await output(command, **options) == value


async def test_a_command_runs_in_its_own_temporary_folder_or_where_it_is_told(tmp_path: Path) -> None:
    folder = await output("touch here; pwd")

    assert not Path(folder).exists()
    assert await output("pwd", cwd=str(tmp_path)) == str(tmp_path.resolve())


async def test_a_script_is_a_template(tmp_path: Path) -> None:
    (tmp_path / "job.sh").write_text("echo {{ ds }}\n")
    task = BashOperator(task_id="t", bash_command="job.sh", dag=DAG("d", template_searchpath=str(tmp_path)))

    assert (await run_task(task))[0] == "2026-01-02"


@pytest.mark.parametrize(
    ("command", "options", "error", "words"),
    [
        ("echo why; exit 3", {}, CommandFailed, "exit code 3. Its last line: 'why'"),
        ("exit 99", {}, SkipTask, "99"),
        ("exit 5", {"skip_on_exit_code": [4, 5]}, SkipTask, "5"),
        ("exit 99", {"skip_on_exit_code": None}, CommandFailed, "99"),
        ("kill -KILL $$", {}, CommandFailed, "killed by SIGKILL"),
    ],
)
async def test_the_exit_code_says_how_the_task_ends(
    command: str, options: dict[str, Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        await output(command, **options)


async def started(tmp_path: Path, task: BashOperator) -> tuple[asyncio.Task[Any], int]:
    """Run `task`, which writes the id of a child into `pid`; return when it has."""
    running = asyncio.create_task(_coroutine(task))
    while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text().strip():
        await asyncio.sleep(0.01)
    return running, int((tmp_path / "pid").read_text())


async def _coroutine(task: BashOperator) -> Any:
    return await task.execute(context_of(task))


async def gone(pid: int) -> bool:
    """Whether the process ends; a dead child that nobody waited for counts as ended."""
    for _ in range(500):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return True
        if state == "Z":
            return True
        await asyncio.sleep(0.01)
    return False


async def test_a_cancelled_command_is_stopped_with_all_it_started(tmp_path: Path) -> None:
    task = bash(f"sleep 1000 & echo $! > {tmp_path}/pid; wait")
    running, child = await started(tmp_path, task)
    running.cancel()

    with pytest.raises(asyncio.CancelledError):
        await running
    assert await gone(child)


async def test_on_kill_stops_the_group_of_the_command(tmp_path: Path) -> None:
    task = bash(f"sleep 1000 & echo $! > {tmp_path}/pid; wait")
    running, child = await started(tmp_path, task)
    assert os.getpgid(child) != os.getpgid(0)
    task.on_kill()

    with pytest.raises(CommandFailed, match=signal.SIGTERM.name):
        await running
    assert await gone(child)


def test_a_command_holds_no_process_of_a_worker_while_it_runs() -> None:
    assert bash("true").is_async
