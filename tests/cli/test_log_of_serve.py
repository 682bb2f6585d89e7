"""The log of `serve` in a pipe: each line has one schema, whoever wrote it, and none has a secret."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from aiosched.cli.base.page import WebPage
from aiosched.cli.serve.screen import Screen
from tests.patience import PATIENCE

DAG = """
import asyncio, os, subprocess, sys, threading
from datetime import datetime
from aiosched import dag, task

@dag(schedule="@once", start_date=datetime(2026, 1, 1))
def odd():
    @task
    async def raw():
        DIRECTLY
        asyncio.get_running_loop().call_exception_handler({"message": "nobody awaited it"})

    @task
    def printed():
        print("into the log of the task")

    @task
    def bad():
        raise LookupError("gone")

    [raw(), printed()] >> bad()

odd()
"""
DIRECTLY = """
        os.write(2, b"written to the descriptor\\n")
        subprocess.run(["echo", "of a child process"])
"""
SCHEMA = {"timestamp": str, "level": str, "event": str, "logger": str}


def command_of_serve(folder: Path, dsn: str, *words: str, **settings: str) -> dict[str, Any]:
    """`serve` of one DAG, with one pipe for all that it and its children write."""
    (folder / "dags").mkdir()
    of_the_host = "inline" in words  # which task and children share it: what it writes to descriptors is its own
    directly = 'print("printed in the process of serve")' if of_the_host else DIRECTLY.strip()
    (folder / "dags" / "odd.py").write_text(DAG.replace("DIRECTLY", directly))
    command = [sys.executable, "-m", "aiosched", "serve", "--slots", "2", "--port", "0", *words]
    env = {**os.environ, "AIOSCHED_DSN": dsn, "AIOSCHED_HOME": str(folder / "home"), **settings}
    return {"args": command, "cwd": folder, "env": env, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}


def lines_of_serve(folder: Path, dsn: str, *words: str, **settings: str) -> list[dict[str, Any]]:
    """What `serve` writes until nothing is left to do."""
    command = command_of_serve(folder, dsn, "--until-idle", *words, **settings)
    done = subprocess.run(**command, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stdout
    return [line_of(line) for line in done.stdout.splitlines()]


def line_of(text: str) -> dict[str, Any]:
    line: dict[str, Any] = json.loads(text)
    assert {name: type(line.get(name)) for name in SCHEMA} == SCHEMA, text
    assert "token=" not in text
    return line


def check(lines: list[dict[str, Any]]) -> None:
    times, run = [line["timestamp"] for line in lines], {"dag_id": "odd"}
    (failed,) = (line for line in lines if line["event"] == "task_failed")
    (ended,) = (line for line in lines if line["event"] == "run_finished")
    run["run_id"] = ended["run_id"]

    assert times == sorted(times)
    assert failed.items() >= {**run, "task_id": "bad", "try": 1, "reason": "LookupError: gone"}.items()
    assert (ended["dag_id"], ended["state"]) == ("odd", "failed")
    assert not any("queued" in line["event"] or "reported" in line["event"] for line in lines)  # counters of commits
    assert all("at" not in line for line in lines)


def test_each_line_in_a_pipe_has_the_schema_of_the_log(tmp_path: Path, dsn: str) -> None:
    lines = lines_of_serve(tmp_path, dsn)

    check(lines)
    said = {line["event"]: line["logger"] for line in lines}
    assert said["written to the descriptor"] == said["of a child process"] == "aiosched.workers"
    assert "into the log of the task" not in said
    (web,) = (line for line in lines if line["event"] == "web")
    assert web["login"] == "log in by the address of: aiosched web address"


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        pytest.param(("--executor", "inline"), id="tasks in the process", marks=pytest.mark.slow),
        pytest.param(("--schedulers", "2"), id="several schedulers", marks=pytest.mark.slow),
        pytest.param(("-o", "json"), id="asked for", marks=pytest.mark.slow),
        pytest.param(("--executor", "inline", "-o", "yaml"), id="inline and asked for", marks=pytest.mark.slow),
    ],
)
def test_in_each_form_of_serve(tmp_path: Path, dsn: str, words: tuple[str, ...]) -> None:
    check(lines_of_serve(tmp_path, dsn, *words))


@pytest.mark.slow
def test_counters_of_commits_and_ends_of_tasks_are_for_debugging(tmp_path: Path, dsn: str) -> None:
    lines = lines_of_serve(tmp_path, dsn, "--log-level", "DEBUG")

    assert any("tasks queued" in line["event"] for line in lines if line["level"] == "debug")
    done = {line["task_id"] for line in lines if line["event"] == "task_success"}
    assert done == {"raw", "printed"}


@pytest.mark.slow
def test_the_first_password_is_not_in_a_pipe_either(tmp_path: Path, dsn: str) -> None:
    with subprocess.Popen(**command_of_serve(tmp_path, dsn, AIOSCHED__WEB__AUTH="password"), text=True) as serve:
        assert serve.stdout is not None
        told = next(line["event"] for line in map(line_of, serve.stdout) if "the first user" in line["event"])
        serve.terminate()
        serve.communicate(timeout=PATIENCE)

    assert told == "the first user is admin; give it a password that you know: aiosched users password admin"


@pytest.mark.slow
def test_an_error_that_ends_serve_is_a_line_too(tmp_path: Path) -> None:
    (tmp_path / "dags").mkdir()
    command = [sys.executable, "-m", "aiosched", "serve", "--no-web", "--dsn", "postgresql://nobody@127.0.0.1:1/x"]
    env = {**os.environ, "AIOSCHED_HOME": str(tmp_path / "home")}
    done = subprocess.run(
        [*command, "--run-duration", "1"], cwd=tmp_path, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, timeout=100,
    )  # fmt: skip

    last = [json.loads(line) for line in done.stdout.splitlines()][-1]
    assert (done.returncode, last["level"]) == (5, "critical")
    assert "127.0.0.1:1" in last["event"]


@pytest.mark.parametrize("terminal", [True, False])
def test_a_token_is_for_a_terminal_only(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, terminal: bool
) -> None:
    page = WebPage("http://127.0.0.1:1/x?a=b&token=aios_1", "logs in once", tmp_path, "aios_1")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: terminal)

    Screen(None).page(page, "http://127.0.0.1:1", "AIOSCHED_HOME=/x aiosched web address")

    said = capsys.readouterr().out
    assert ("aios_1" in said) is terminal
    assert ("http://127.0.0.1:1/x?a=b " in said and "AIOSCHED_HOME=/x aiosched web address" in said) is not terminal
