"""What type checkers say of DAG files: functions with `@task` keep their signatures, outputs know their types."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow  # mypy reads all of aiosched

FILE = """\
from typing import assert_type

from aiosched import DAG, XComArg, dag, task


@task
def count(name: str, times: int = 1) -> int:
    return len(name) * times


@task(retries=3)
async def fetch(url: str) -> dict[str, int]:
    return {url: 1}


@task.branch
def choose(rows: int) -> str:
    return "many" if rows else "none"


@task
def total(counts: list[int], ti: object = None) -> int:
    return sum(counts)


@dag(schedule=None)
def typed() -> None:
    rows = count("a")
    assert_type(rows, XComArg[int])
    assert_type(fetch("u"), XComArg[dict[str, int]])
    assert_type(count.expand(name=["a", "b"]), XComArg[list[int]])
    count("a", times=2)
    choose(rows)
    total(count.expand(name=["a"]))
    fetch.override(task_id="other")("u") >> choose(rows)
    count(3)  # error: arg-type
    count("a", "b")  # error: arg-type
    count(rows, 3, 4)  # error: call-arg
    count()  # error: call-arg
    count(nam="a")  # error: call-arg
    fetch(rows, 3)  # error: call-arg
    fetch(1)  # error: arg-type
    fetch.override(retries=1)(1)  # error: arg-type
    choose("many")  # error: arg-type
    total("abc")  # error: arg-type


assert_type(typed(), DAG)
"""


def test_mypy_finds_calls_that_do_not_fit_and_no_others(tmp_path: Path) -> None:
    (tmp_path / "typed.py").write_text(FILE)
    lines = enumerate(FILE.splitlines(), 1)
    wanted = {(number, line.rpartition("# error: ")[2]) for number, line in lines if "# error: " in line}

    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--no-incremental", "--config-file=", "typed.py"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip

    found = re.findall(r"^typed\.py:(\d+): error: .*\[([\w-]+)\]$", done.stdout, re.MULTILINE)
    assert {(int(number), code) for number, code in found} == wanted, done.stdout + done.stderr
