"""`aiosched simulate`: from DAG files and from the database, and what it says of wrong words."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pytest

from aiosched.db.queries.run_queries import average_durations
from aiosched.db.server.engine import Database
from tests.cli.conftest import Cli
from tests.cli.records import NOON, add_dag, add_run, add_task

DAG_FILE = """
from datetime import datetime, timezone
from aiosched import DAG, EmptyOperator, BashOperator

with DAG("sales", schedule="@hourly", start_date=datetime(2026, 1, 1, tzinfo=timezone.utc)):
    [BashOperator(task_id=f"t{n}", bash_command="true", pool="etl") for n in range(3)]
with DAG("other", schedule="@daily", start_date=datetime(2026, 1, 1, tzinfo=timezone.utc)):
    BashOperator(task_id="a", bash_command="true")
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "sales.py").write_text(DAG_FILE)
    return tmp_path


def test_the_command_shows_dags_pools_and_the_bottleneck(cli: Cli, folder: Path) -> None:
    done = cli(
        "simulate", "--dags", str(folder), "--from", "2026-02-01", "--to", "2026-02-02", "--pool", "etl=1",
        "--task-duration", "5m", "-o", "plain",
    )  # fmt: skip

    lines = [line.split("\t") for line in done.stdout.splitlines()]
    assert [line[:3] for line in lines] == [
        ["other", "2", "2"], ["sales", "25", "73"], ["etl", "1", "1"], ["default_pool", "128", "1"],
    ]  # fmt: skip
    assert done.stderr.splitlines()[-1].startswith("bottleneck: pool 'etl' (waiting ")


def test_the_command_lists_runs_and_speaks_json(cli: Cli, folder: Path) -> None:
    times = ("--from", "2026-02-01", "--to", "2026-02-01T02:30:00")
    runs = cli("simulate", "sales", "--dags", str(folder), *times, "--runs", "-o", "plain")
    data = cli("simulate", "sales", "--dags", str(folder), *times, "-o", "json")

    assert [line.split("\t")[1] for line in runs.stdout.splitlines()] == ["sales"] * 3
    document = json.loads(data.stdout)
    assert (document["bottleneck"], [d["dag_id"] for d in document["dags"]]) == (None, ["sales"])
    assert document["runs"][0]["run_after"] == "2026-02-01T00:00:00Z"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--from", "2026-02-02", "--to", "2026-02-01"), "is not later than"),
        (("--from", "soon", "--to", "2026-02-01"), "--from soon: write a date"),
        (("--from", "2026-02-01", "--to", "2026-02-02", "--task-duration", "long"), "write a duration as 30s"),
        (("--from", "2026-02-01", "--to", "2026-02-02", "--pool", "etl"), "write it as etl=4"),
        (("sails", "--from", "2026-02-01", "--to", "2026-02-02"), "Did you mean sales?"),
    ],
)
def test_wrong_words_are_explained(cli: Cli, folder: Path, words: tuple[str, ...], said: str) -> None:
    done = cli("simulate", "--dags", str(folder), *words, code=None)

    assert done.exit_code != 0
    assert said in done.stderr


# ---- from the database ----


async def history(db: Database) -> None:
    version = await add_dag(db, "sales")
    for number, minutes in enumerate((60, 4, 8)):
        run = await add_run(db, "sales", version, f"r{number}", state="success", end_date=NOON)
        await add_task(db, run, 0, "success", start_date=NOON, end_date=NOON + timedelta(minutes=minutes))
        await add_task(db, run, 1, "failed", start_date=NOON, end_date=NOON + timedelta(minutes=1))


async def test_durations_are_averages_of_the_latest_successes(db: Database) -> None:
    await history(db)

    async with db.acquire() as conn:
        found = await average_durations(conn, ["sales", "unknown"], runs=2)

    assert found == {("sales", "extract"): timedelta(minutes=6)}


def test_without_a_folder_the_dags_of_the_database_are_simulated(on_db: Cli) -> None:
    on_db.work(history)

    document = on_db.json("simulate", "--from", "2026-02-01", "--to", "2026-02-02")

    assert [dag["dag_id"] for dag in document["dags"]] == ["sales"]
