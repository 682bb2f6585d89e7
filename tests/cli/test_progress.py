"""What takes long says how far it is; a stream of `serve` has one format."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from aiosched.cli.base.progress import Progress, said_if_slow
from tests.cli.conftest import Cli
from tests.cli.test_serve import put_dag


def test_a_line_comes_after_two_seconds_and_then_now_and_then(capsys: pytest.CaptureFixture[str]) -> None:
    times = iter(range(31))
    progress = Progress(seconds=lambda: float(next(times)))

    for _ in range(30):
        progress.show(lambda: "at work")
    progress.end()

    assert capsys.readouterr().err.splitlines() == ["at work"] * 3  # after 2, 12 and 22 seconds


def test_a_simulation_says_how_far_it_is(cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    put_dag(tmp_path)
    text = (tmp_path / "dags" / "once.py").read_text()
    (tmp_path / "dags" / "once.py").write_text(text.replace("@once", "@hourly"))
    monkeypatch.setattr("aiosched.cli.base.progress.FIRST", timedelta(0).total_seconds())

    said = cli("simulate", "--dags", "dags", "--from", "2026-02-01", "--to", "2026-02-02").stderr.splitlines()

    assert next(line for line in said if line.startswith("simulated up to 2026-02-0")).endswith("%)")


@pytest.mark.slow  # two starts
def test_serve_writes_one_format_where_its_streams_are_one(tmp_path: Path, dsn: str) -> None:
    put_dag(tmp_path)
    command = [sys.executable, "-m", "aiosched", "serve", "--no-web", "--until-idle"]
    env = {**os.environ, "AIOSCHED_DSN": dsn, "AIOSCHED_HOME": str(tmp_path / "home")}

    def lines(stderr: int) -> list[str]:
        done = subprocess.run(
            command, cwd=tmp_path, env=env, text=True, stdout=subprocess.PIPE, stderr=stderr, timeout=60, check=True
        )
        return done.stdout.splitlines()

    together, apart = lines(subprocess.STDOUT), lines(subprocess.PIPE)

    events = [json.loads(line)["event"] for line in together]
    assert {"database", "ready", "run_started", "run_finished"} <= {*events}
    assert apart[0].startswith("aiosched ")
    assert any(line.startswith("ready in ") for line in apart)


async def test_what_takes_long_says_what_it_has_done_so_far(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("aiosched.cli.base.progress.FIRST", 0.0)
    asked = asyncio.Event()

    def so_far() -> str:
        asked.set()
        return "12 MiB"

    async with said_if_slow("writing a.dump", so_far):
        await asked.wait()

    assert re.fullmatch(r"still writing a\.dump \(\d s, 12 MiB\)\n", capsys.readouterr().err)
