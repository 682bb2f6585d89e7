"""Output that nobody takes: a reader that stands still or goes away, a disk without room."""

from __future__ import annotations

import fcntl
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from aiosched.cli.serve.line_writer import LineWriter
from aiosched.config import Settings
from aiosched.config.sections import CoreSettings, ExecutorSettings
from tests.cli.conftest import Cli
from tests.cli.serving import serve

_DAGS = 40  # their events do not fit into a pipe of 4 KiB
_CODE = f"""
from datetime import UTC, datetime
from aiosched import DAG, task

for number in range({_DAGS}):
    with DAG(f"dag_{{number}}", schedule="@once", start_date=datetime(2026, 1, 1, tzinfo=UTC)):
        @task
        async def work():
            return 1
        work()
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "dags").mkdir()
    (tmp_path / "dags" / "all.py").write_text(_CODE)
    return tmp_path


def wait_for_runs(dsn: str, process: subprocess.Popen[Any]) -> None:
    """Wait until every DAG has had its run."""
    while len(Cli(dsn).json("runs", "list", "--state", "success", "-n", "100")) < _DAGS:
        assert process.poll() is None


def finished(lines: list[dict[str, Any]], key: str) -> set[str]:
    return {told["dag_id"] for told in lines if told[key] == "run_finished"}


def say(count: int) -> str:
    return f"dropped {count}"


def test_a_reader_that_stands_still_costs_lines_that_may_be_dropped_and_is_told_how_many() -> None:
    reading, writing = os.pipe()
    os.write(writing, b"-" * (fcntl.fcntl(writing, fcntl.F_GETPIPE_SZ) - 1) + b"\n")  # it is full
    lines = LineWriter(writing, say, most=10_000)
    for number in range(1_000):
        lines.write(f"run {number:<995}", droppable=True)
    lines.write("kept")
    lines.flush(0.0)  # nobody reads: it does not wait

    with os.fdopen(reading) as pipe:
        pipe.readline()
        seen = [pipe.readline().strip() for _ in range(12)]
        lines.write("run next", droppable=True)
        lines.flush()
        os.close(writing)
        rest = pipe.read()

    assert seen == [*(f"run {number}" for number in range(10)), "kept", "dropped 990"]
    assert rest == "run next\n"


def test_everything_is_written_in_order_to_whoever_reads(tmp_path: Path) -> None:
    with (tmp_path / "out").open("w") as file:
        lines = LineWriter(file.fileno(), say)
        for number in range(20_000):
            lines.write(f"é {number}", droppable=True)
        lines.write("x" * 100_000)
        lines.flush()

    wanted = [*(f"é {number}" for number in range(20_000)), "x" * 100_000]
    assert (tmp_path / "out").read_text(encoding="utf-8").splitlines() == wanted


def test_a_pipe_that_does_not_block_is_waited_for() -> None:
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    lines = LineWriter(writing, say)
    for number in range(200):
        lines.write(f"{number:<1000}")

    with os.fdopen(reading) as pipe:
        assert [int(pipe.readline()) for _ in range(200)] == list(range(200))
    os.close(writing)


def test_a_disk_without_room_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    with Path("/dev/full").open("wb", buffering=0) as full:
        lines = LineWriter(full.fileno(), say)
        for number in range(3):
            lines.write(str(number))
            lines.flush()

    (warning,) = caplog.messages
    assert re.fullmatch(r"lines of output are lost, it cannot be written: .*No space left on device", warning)


def test_after_a_closed_reader_lines_go_nowhere(caplog: pytest.LogCaptureFixture) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    lines = LineWriter(writing, say)
    for number in range(3):
        lines.write(str(number))
        lines.flush()

    assert os.path.samestat(os.fstat(writing), Path(os.devnull).stat())
    assert not caplog.messages
    os.close(writing)


@pytest.mark.slow
def test_serve_goes_on_while_nobody_reads_its_output(folder: Path, dsn: str, on_db: Cli) -> None:
    with serve(folder, dsn) as process:
        assert process.stdout is not None
        fcntl.fcntl(process.stdout, fcntl.F_SETPIPE_SZ, 4096)
        wait_for_runs(dsn, process)

        process.send_signal(signal.SIGTERM)
        said, log = process.communicate(timeout=60)

    assert process.returncode == 0, log
    events = [json.loads(line) for line in said.splitlines()]
    assert [event["event"] for event in events[:4]] == ["database", "dags", "executor", "logs"]
    assert len(finished(events, "event")) == _DAGS


@pytest.mark.slow
def test_serve_without_room_for_its_output_warns_once(folder: Path, dsn: str, on_db: Cli) -> None:
    command = [sys.executable, "-m", "aiosched", "serve", "--no-web", "--until-idle", "--dsn", dsn, "--slots", "2"]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(command, cwd=folder, stdout=full, stderr=subprocess.PIPE, text=True, timeout=100)

    assert done.returncode == 0, done.stderr
    assert done.stderr.count("No space left on device") == 1
    assert "Traceback" not in done.stderr
    assert len(Cli(dsn).json("runs", "list", "--state", "success", "-n", "100")) == _DAGS


@pytest.mark.slow
def test_a_scheduler_beside_serve_goes_on_while_its_parent_stands_still(folder: Path, dsn: str) -> None:
    with serve(folder, dsn, "--role", "parser", "--until-idle") as parser:
        parser.communicate(timeout=60)
    settings = Settings(core=CoreSettings(home=folder / "home"), executor=ExecutorSettings(slots=2))
    reading, writing = os.pipe()
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 4096)
    command = [sys.executable, "-m", "aiosched.cli.serve.peer_process", str(writing)]
    with subprocess.Popen(command, cwd=folder, stdin=subprocess.PIPE, pass_fds=(writing,)) as peer:
        os.close(writing)
        assert peer.stdin is not None
        order = {"settings": settings.model_dump(mode="json"), "dsn": dsn, "name": "n-2"}
        peer.stdin.write(json.dumps(order).encode() + b"\n")
        peer.stdin.flush()
        try:
            wait_for_runs(dsn, peer)
            peer.stdin.close()
            with os.fdopen(reading) as pipe:
                told = [json.loads(line) for line in pipe]
            assert peer.wait(timeout=60) == 0
        finally:
            peer.kill()

    assert len(told[0]["partitions"]) == 64
    assert len(finished([line["event"] for line in told if "event" in line], "kind")) == _DAGS
