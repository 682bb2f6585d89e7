"""Completion of ids in a shell, as the shell asks for it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from aiosched.db.server.engine import Database
from tests.cli.conftest import Cli
from tests.cli.records import add_dag, add_run


def completed(line: str, **environment: str) -> list[str]:
    """What bash is offered for the last word of `line`; nothing may be said on stderr."""
    program = "import sys; from aiosched.cli import main; sys.argv[0] = 'aiosched'; main()"
    words = line.split(" ")
    asked = {"_AIOSCHED_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False,
        env={**os.environ, **asked, **environment},
    )  # fmt: skip
    assert done.stderr == ""
    return done.stdout.split()


def test_ids_of_dags_runs_and_tasks_are_completed(on_db: Cli) -> None:
    async def seed(db: Database) -> None:
        version = await add_dag(db, "sales")
        await add_dag(db, "salaries")
        for number in (1, 2):
            await add_run(db, "sales", version, f"manual__{number}")

    on_db.work(seed)
    dsn = {"AIOSCHED_DSN": str(on_db.dsn)}

    assert completed("aiosched dags show sal", **dsn) == ["salaries", "sales"]
    assert completed("aiosched runs show sales m", **dsn) == ["manual__2", "manual__1"]
    assert completed("aiosched tasks logs sales latest lo", **dsn) == ["load"]
    assert completed("aiosched why sales l", **dsn) == ["latest", "latest-failed", "latest-backfill"]


@pytest.mark.slow(but_first=True)
@pytest.mark.parametrize("dsn", [None, "postgresql://nobody@127.0.0.1:1/none", "nonsense"])
def test_without_a_database_nothing_is_offered_and_nothing_said(tmp_path: Path, dsn: str | None) -> None:
    environment = {"AIOSCHED_HOME": str(tmp_path / "home")} | ({} if dsn is None else {"AIOSCHED_DSN": dsn})

    assert completed("aiosched dags show sal", **environment) == []
    assert not (tmp_path / "home").exists()
