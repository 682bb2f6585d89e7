"""Commands that look at what they touch before they change it: a look is a read, and needs no scheduler."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from aiosched.core.graph.spec import DagSpec
from aiosched.core.timetables.parse import parse_schedule
from aiosched.db.server.engine import Database
from aiosched.parsing.store import register_specs
from tests.cli.conftest import Cli
from tests.cli.records import NOON, SALES, add_dag, add_run, add_task

CLEARS = [("tasks", "clear", "sales"), ("runs", "clear", "sales", "r1")]


async def seed(db: Database) -> None:
    run = await add_run(db, "sales", await add_dag(db, "sales"), "r1", state="success", end_date=NOON)
    await add_task(db, run, 0, "success", try_number=1)


async def add_daily(db: Database) -> None:
    start = datetime(2025, 1, 1, tzinfo=UTC)
    spec = DagSpec(dag_id="daily", tasks=SALES, timetable=parse_schedule("@daily"), start_date=start)
    async with db.transaction() as conn:
        await register_specs(conn, [spec], now=NOON)


@pytest.fixture
def seeded(on_db: Cli) -> Cli:
    on_db.work(seed)
    return on_db


def requests(cli: Cli) -> list[str]:
    """The verbs of all requests, previews included."""

    async def read(db: Database) -> list[str]:
        return [row["verb"] for row in await db.fetch("SELECT verb FROM request ORDER BY id")]

    return cli.work(read)


@pytest.mark.parametrize("words", CLEARS, ids=" ".join)
def test_a_dry_run_without_a_scheduler_shows_what_it_would_clear(seeded: Cli, words: tuple[str, ...]) -> None:
    result = seeded(*words, "--dry-run")

    assert "would clear 1 task instance in 1 run (1 success)" in result.stderr
    assert requests(seeded) == []


def test_a_dry_run_of_a_mark_without_a_scheduler_shows_what_it_would_mark(seeded: Cli) -> None:
    result = seeded("tasks", "mark", "sales", "r1", SALES[0].task_id, "failed", "--dry-run")

    assert "would mark 1 task instance in 1 run (1 success)" in result.stderr
    assert requests(seeded) == []


def test_a_dry_run_of_a_backfill_without_a_scheduler_is_answered_as_its_owner_would(seeded: Cli) -> None:
    days = ("--from", "2025-01-01", "--to", "2025-01-02")

    result = seeded("backfill", "create", "sales", *days, "--dry-run", code=4)
    assert "which has no dates to backfill" in result.stderr

    seeded.work(add_daily)
    dates = seeded.json("backfill", "create", "daily", *days, "--dry-run")["dates"]
    assert [(date["logical_date"], date["fate"]) for date in dates] == [
        ("2025-01-01T00:00:00+00:00", "create"),
        ("2025-01-02T00:00:00+00:00", "create"),
    ]
    one_day = ("--from", "2025-01-02", "--to", "2025-01-02")
    said = seeded("backfill", "create", "daily", *one_day, "--dry-run").stderr
    assert "of logical dates from 2025-01-02 00:00:00 to 2025-01-02 23:59:59 in UTC" in said
    assert requests(seeded) == []


def test_many_dates_of_a_backfill_are_shortened_unless_asked_for(on_db: Cli) -> None:
    on_db.work(add_daily)
    year = ("backfill", "create", "daily", "--from", "2025-01-01", "--to", "2025-08-31", "--dry-run")

    short, every = on_db(*year), on_db(*year, "--wide")

    assert [line[:10] for line in short.stdout.splitlines()] == [
        *(f"2025-01-0{day}" for day in range(1, 6)), *(f"2025-08-{day}" for day in range(27, 32))
    ]  # fmt: skip
    assert "the first and last of 243 dates; all with --wide" in short.stderr
    assert "would be: 243 create" in short.stderr
    assert len(every.stdout.splitlines()) == len(on_db.json(*year)["dates"]) == 243


@pytest.mark.parametrize(
    ("words", "number"),
    [
        (("--task", "l"), 0),
        (("--task", "load"), 1),
        (("--task", "lo|extract"), 1),
        (("--pattern", "a"), 2),
        (("--task-regex", "a"), 2),
        (("--task-id", "load"), 1),
    ],
)
def test_a_task_is_matched_as_a_whole_unless_a_part_is_asked(on_db: Cli, words: tuple[str, str], number: int) -> None:
    async def both(db: Database) -> None:
        run = await add_run(db, "sales", await add_dag(db, "sales"), "r1", state="failed")
        await add_task(db, run, 0, "success")
        await add_task(db, run, 1, "success")

    on_db.work(both)

    result = on_db("tasks", "clear", "sales", "--run", "r1", *words, "--dry-run")

    assert len(result.stdout.splitlines()) == number
    assert number or "nothing matches; --pattern matches parts of ids" in result.stderr


def test_where_nobody_can_be_asked_a_clear_changes_nothing(seeded: Cli) -> None:
    result = seeded("tasks", "clear", "sales", code=2)

    assert "Clear 1 task instance in 1 run (1 success) of sales? Add --yes" in result.stderr
    assert requests(seeded) == []


def test_on_a_terminal_it_shows_what_it_would_clear_and_waits_for_a_scheduler(
    tmp_path: Path, seeded: Cli, dsn: str
) -> None:
    ours, theirs = pty.openpty()
    os.write(ours, b"y\n")

    done = subprocess.run(
        [sys.executable, "-m", "aiosched", "tasks", "clear", "sales", "--dsn", dsn],
        cwd=tmp_path, stdin=theirs, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    os.close(ours)
    os.close(theirs)

    assert done.returncode == 0, done.stderr
    assert "Clear 1 task instance in 1 run (1 success) of sales?" in done.stderr
    assert "The request waits" in done.stderr
    assert requests(seeded) == ["clear"]


@pytest.mark.parametrize("words", CLEARS, ids=" ".join)
def test_with_yes_the_request_is_stored_for_the_scheduler_that_comes(seeded: Cli, words: tuple[str, ...]) -> None:
    result = seeded(*words, "--yes")

    assert "The request waits" in result.stderr
    assert requests(seeded) == ["clear"]
