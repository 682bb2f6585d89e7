"""The README's first command: the examples run through the real service, on a real database."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import asyncpg
import pytest

from tests.examples.example_facts import DAG_IDS, FOLDER, MANUAL, NOT_SUCCESS

ON_SCHEDULE = set(DAG_IDS) - MANUAL


async def serve(dsn: str, folder: Path, *arguments: str) -> asyncio.subprocess.Process:
    (folder / "tmp").mkdir()  # where the examples have their files: other sessions may run them at the same time
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AIOSCHED")}
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "aiosched", "serve", "--no-web", "--dags", str(FOLDER), "--dsn", dsn, *arguments),
        cwd=folder,
        env=environment | {"TMPDIR": str(folder / "tmp")},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )


async def fetch(dsn: str, query: str) -> list[asyncpg.Record]:
    conn = await asyncpg.connect(dsn)
    try:
        rows: list[asyncpg.Record] = await conn.fetch(query)
        return rows
    finally:
        await conn.close()


@pytest.mark.slow  # a real serve, for seconds; the quick tier reads all examples and runs some
async def test_every_example_with_a_schedule_runs_and_succeeds(dsn: str, tmp_path: Path) -> None:
    service = await serve(dsn, tmp_path, "--until-idle")
    out, _ = await service.communicate()

    assert service.returncode == 0, out.decode()
    runs = await fetch(dsn, "SELECT DISTINCT dag_id, state FROM dag_run")
    assert {(row["dag_id"], row["state"]) for row in runs} == {(dag_id, "success") for dag_id in ON_SCHEDULE}
    skipped = await fetch(
        dsn,
        "SELECT dag_id, count(*) FROM task_instance t JOIN dag_run r ON r.id = t.run_id "
        "WHERE t.state = 'skipped' GROUP BY dag_id",
    )
    assert dict(map(tuple, skipped)) == {dag_id: len(tasks) for dag_id, tasks in NOT_SUCCESS.items()}


@pytest.mark.slow
async def test_the_service_shows_each_run_that_finishes_goes_on_serving_and_stops_in_order(
    dsn: str, tmp_path: Path
) -> None:
    service = await serve(dsn, tmp_path)
    assert service.stdout is not None
    waiting, shown = set(ON_SCHEDULE), []

    while waiting and (line := (await service.stdout.readline()).decode()):
        shown.append(line)
        said = json.loads(line)
        assert said.get("state") != "failed", line
        waiting -= {said["dag_id"]} if said.get("state") == "success" else set()
    assert waiting == set(), "".join(shown)
    assert service.returncode is None

    service.send_signal(signal.SIGTERM)
    rest, _ = await service.communicate()
    assert service.returncode == 0, rest.decode()
