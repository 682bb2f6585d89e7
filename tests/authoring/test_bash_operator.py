"""Shell commands as tasks."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import subprocess
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
import uvloop

from aiosched import DAG, BashOperator
from aiosched.authoring.operators import subprocesses
from aiosched.errors import CommandFailed, SkipTask
from aiosched.leftovers import read_process
from tests.authoring.authoring_builders import context_of, run_task


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


async def test_a_command_whose_exit_code_somebody_else_took_has_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    def too_late(process: subprocess.Popen[bytes]) -> int:
        os.waitpid(process.pid, 0)
        return exit_code(process)

    exit_code = subprocesses._exit_code
    monkeypatch.setattr(subprocesses, "_exit_code", too_late)

    with pytest.raises(ChildProcessError, match=r"exit code of process \d+ is not known"):
        await output("exit 3")


async def test_a_command_runs_in_its_own_temporary_folder_or_where_it_is_told(tmp_path: Path) -> None:
    own = await output("touch here; pwd")

    assert not os.path.exists(own)  # noqa: ASYNC240, PTH110 - a look at the disk
    assert await output("pwd", cwd=str(tmp_path)) == os.path.realpath(tmp_path)  # noqa: ASYNC240


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


class Started:
    """A command whose child writes a line into a named pipe and then holds it open for long."""

    def __init__(self, folder: Path) -> None:
        self.pipe = folder / "pipe"
        os.mkfifo(self.pipe)
        self.operator = bash(f"(echo $BASHPID; exec sleep 1000) > {self.pipe} & wait")

    async def __aenter__(self) -> Started:
        self.running = asyncio.create_task(self._execute())
        self.end = await asyncio.to_thread(self.pipe.open)
        self.child = int(await asyncio.to_thread(self.end.readline))
        return self

    async def _execute(self) -> Any:
        return await self.operator.execute(context_of(self.operator))

    async def child_is_gone(self) -> bool:
        """Waits for the end of the pipe, which comes when the last process that holds it ends."""
        return await asyncio.to_thread(self.end.read) == ""

    async def __aexit__(self, *_: object) -> None:
        self.end.close()


async def test_a_cancelled_command_is_stopped_with_all_it_started(tmp_path: Path) -> None:
    async with Started(tmp_path) as command:
        command.running.cancel()

        with pytest.raises(asyncio.CancelledError):
            await command.running
        assert await command.child_is_gone()


async def test_on_kill_stops_the_group_of_the_command(tmp_path: Path) -> None:
    async with Started(tmp_path) as command:
        assert os.getpgid(command.child) != os.getpgid(0)
        command.operator.on_kill()

        with pytest.raises(CommandFailed, match=signal.SIGTERM.name):
            await command.running
        assert await command.child_is_gone()


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def test_a_command_ends_when_nobody_holds_its_output_and_what_is_left_then_ends_with_it(
    tmp_path: Path, run: Callable[[Coroutine[Any, Any, Any]], Any]
) -> None:
    pid = tmp_path / "pid"
    silent = f"(setsid bash -c 'echo $$ > {pid}; exec sleep 1000' > /dev/null 2>&1 &)"
    holding = "(setsid bash -c 'sleep 0.2; echo late' &)"

    assert run(output(f"{silent}; {holding}; until [ -s {pid} ]; do sleep 0.01; done; echo early")) == "late"
    left = read_process(int(pid.read_text()))
    assert left is None or left.has_ended


async def test_a_task_that_waits_for_the_output_of_an_ended_command_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def let_it_end(record: logging.LogRecord) -> bool:
        if "still hold its output" in record.getMessage():
            (tmp_path / "end").touch()
        return True

    monkeypatch.setattr(subprocesses, "EXPLAINED_AFTER", 0.01)
    caplog.handler.addFilter(let_it_end)
    holding = f"(until [ -e {tmp_path}/end ]; do sleep 0.01; done; echo late) &"

    assert await output(f"{holding} echo early") == "late"


@pytest.mark.parametrize("env", [None, {"PATH": os.environ["PATH"]}], ids=["inherited", "own"])
@pytest.mark.parametrize("end", ["exit 0", "exit 3"])
async def test_what_a_command_left_behind_ends_with_it_and_is_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, end: str, env: dict[str, str] | None
) -> None:
    pid = tmp_path / "pid"
    escape = f"(setsid bash -c 'echo $$ > {pid}; exec sleep 1000' > /dev/null 2>&1 &)"
    command = f"{escape}; until [ -s {pid} ] && grep -qs sleep /proc/$(cat {pid})/comm; do sleep 0.01; done; {end}"

    if end == "exit 0":
        await output(command, env=env)
    else:
        with pytest.raises(CommandFailed):
            await output(command, env=env)

    left = read_process(int(pid.read_text()))
    assert left is None or left.has_ended
    assert f"ended processes that the command left behind: sleep (pid {pid.read_text().strip()})" in caplog.text


def test_a_command_holds_no_process_of_a_worker_while_it_runs() -> None:
    assert bash("true").is_async
