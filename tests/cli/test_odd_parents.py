"""What a command does with what it has from an odd parent: closed streams, ignored SIGCHLD, a full disk, no UTF-8."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

DAG = """
from aiosched import dag, task
@dag(dag_id="größe_Привет_日本語", schedule=None)
def d():
    @task
    def t():
        print("said")
    t()
d()
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "größe.py"
    path.write_text(DAG, encoding="utf-8")
    return path


def aiosched(
    *words: str,
    given: Callable[[], Any] | None = None,
    stdout: Any = subprocess.PIPE,
    encoding: str = "utf-8",
    **environment: str,
) -> subprocess.CompletedProcess[str]:
    """The real thing, in a process of its own that `given` prepares."""
    return subprocess.run(
        [sys.executable, "-m", "aiosched", *words],
        stdin=subprocess.DEVNULL, stdout=stdout, stderr=subprocess.PIPE, encoding=encoding, check=False,
        preexec_fn=given, env={**os.environ, **environment},
    )  # fmt: skip


def close(*numbers: int) -> Callable[[], None]:
    def given() -> None:
        for number in numbers:
            os.close(number)

    return given


@pytest.mark.parametrize("closed", [(1,), (0, 1), (0, 1, 2)])
def test_closed_streams_are_the_null_device(closed: tuple[int, ...]) -> None:
    done = aiosched("version", given=close(*closed))

    assert (done.returncode, done.stderr) == (0, "")


def test_who_closed_stdin_has_no_terminal_to_confirm_on() -> None:
    done = aiosched(
        "users", "create", "ann", "--role", "admin", "--dsn", "postgresql://x@127.0.0.1:1/y", given=close(0)
    )

    assert "Traceback" not in done.stderr
    assert done.stderr.startswith("error: "), done.stderr


def test_what_a_task_prints_does_not_go_into_a_file_that_is_open(file: Path) -> None:
    """The first file that is opened would have the number of a closed stream."""
    done = aiosched("dags", "test", "größe_Привет_日本語", "--dags", str(file.parent), given=close(1))

    assert done.returncode == 0, done.stderr


def test_children_are_waited_for_though_the_parent_ignored_them(file: Path) -> None:
    def given() -> None:
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)

    done = aiosched("dags", "check", str(file), given=given)

    assert done.returncode == 0, done.stderr
    assert "ok" in done.stdout


@pytest.mark.parametrize("format_", ["plain", "json", "yaml", "table"])
def test_a_full_disk_is_one_line(format_: str) -> None:
    with Path("/dev/full").open("w") as full:
        done = aiosched("version", "-o", format_, stdout=full)

    assert (done.returncode, done.stderr) == (1, "error: The output cannot be written: No space left on device.\n")


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_letters_that_an_encoding_lacks_are_written_as_in_json(file: Path, encoding: str) -> None:
    words = ("dags", "check", str(file))

    plain = aiosched(*words, encoding=encoding, PYTHONIOENCODING=encoding)
    data = aiosched(*words, "-o", "json", encoding=encoding, PYTHONIOENCODING=encoding)

    assert "\\u041f\\u0440" in plain.stdout, plain.stderr
    assert "größe_Привет_日本語" in json.dumps(json.loads(data.stdout), ensure_ascii=False)
