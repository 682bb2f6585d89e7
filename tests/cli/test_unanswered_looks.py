"""Commands that look at what they touch before they change it, when nobody answers that look: nothing is changed."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from aiosched.cli.base import session
from aiosched.db.server.engine import Database
from tests.cli.conftest import Cli
from tests.cli.records import NOON, add_dag, add_run, add_scheduler, add_task

CLEARS = [("tasks", "clear", "sales"), ("runs", "clear", "sales", "r1")]
BACKFILL = ("backfill", "create", "sales", "--from", "2026-01-01", "--to", "2026-01-02")


async def seed(db: Database) -> None:
    run = await add_run(db, "sales", await add_dag(db, "sales"), "r1", state="success", end_date=NOON)
    await add_task(db, run, 0, "success", try_number=1)


@pytest.fixture
def seeded(on_db: Cli) -> Cli:
    on_db.work(seed)
    return on_db


@pytest.fixture
async def silent(seeded: Cli, dsn: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Cli]:
    """Beside a scheduler that is alive and answers nothing."""
    monkeypatch.setattr(session, "ANSWER_SECONDS", 0.05)
    async with await Database.open(dsn) as db:
        living = await db.connect()
        await add_scheduler(db, "busy", lease=600, locked=living)
        yield seeded
        await living.close()


def changes_asked_for(cli: Cli) -> list[str]:
    """The requests that a scheduler would apply and that change something."""

    async def read(db: Database) -> list[str]:
        async with db.acquire() as conn:
            rows = await conn.fetch("SELECT verb FROM command WHERE coalesce(args ->> 'dry_run', 'false') <> 'true'")
        return [row["verb"] for row in rows]

    return cli.work(read)


@pytest.mark.parametrize("words", CLEARS, ids=" ".join)
def test_without_a_scheduler_a_clear_changes_nothing_and_says_why(seeded: Cli, words: tuple[str, ...]) -> None:
    result = seeded(*words, code=4)

    assert "No scheduler runs that could tell what would be touched, so nothing was changed" in result.stderr
    assert "or add --yes" in result.stderr
    assert changes_asked_for(seeded) == []


@pytest.mark.parametrize("words", CLEARS, ids=" ".join)
def test_beside_a_scheduler_that_does_not_answer_a_clear_changes_nothing(silent: Cli, words: tuple[str, ...]) -> None:
    result = silent(*words, code=124)

    assert "No scheduler has told within 0.05 s what would be touched, so nothing was changed" in result.stderr
    assert changes_asked_for(silent) == []


def test_on_a_terminal_it_changes_nothing_either(tmp_path: Path, seeded: Cli, dsn: str) -> None:
    ours, theirs = pty.openpty()
    os.write(ours, b"y\n")

    done = subprocess.run(
        [sys.executable, "-m", "aiosched", "tasks", "clear", "sales", "--dsn", dsn],
        cwd=tmp_path, stdin=theirs, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    os.close(ours)
    os.close(theirs)

    assert (done.returncode, done.stdout) == (4, "")
    assert "nothing was changed" in done.stderr
    assert changes_asked_for(seeded) == []


@pytest.mark.parametrize("words", [*CLEARS, ("tasks", "mark", "sales", "r1", "load", "failed"), BACKFILL], ids=" ".join)
def test_a_dry_run_that_nobody_answers_is_an_error(seeded: Cli, words: tuple[str, ...]) -> None:
    result = seeded(*words, "--dry-run", code=4)

    assert "No scheduler runs that could tell what would be touched" in result.stderr
    assert "--yes" not in result.stderr


@pytest.mark.parametrize("words", CLEARS, ids=" ".join)
def test_with_yes_the_request_is_stored_for_the_scheduler_that_comes(seeded: Cli, words: tuple[str, ...]) -> None:
    result = seeded(*words, "--yes")

    assert "The request waits" in result.stderr
    assert changes_asked_for(seeded) == ["clear"]
