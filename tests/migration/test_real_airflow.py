"""From the database of a real Airflow: its schedules go on without a gap or a repetition. docs/migration.md.

Runs only if AIOSCHED_TEST_AIRFLOW names virtual environments with Airflow, separated by colons: tools/airflow_oracle.py
says how to make one; add asyncpg and psycopg2-binary. Each of them works on a PostgreSQL database of the test.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import asyncpg
import pytest
from cryptography.fernet import Fernet

from aiosched.clock import FakeClock
from aiosched.config import load_settings
from aiosched.db.crypto.keyring import Keyring, new_key
from aiosched.db.people.secrets import SecretStore
from aiosched.db.server.engine import Database
from aiosched.migration.applying import Migration
from aiosched.migration.planning import MigrationStep, StepOutcome, plan_migration
from aiosched.migration.reading import read_airflow
from aiosched.migration.values import AirflowKeys
from aiosched.parsing.check import check_paths
from tests.scheduler.harness import Running, running

AIRFLOWS: Final = [Path(path) for path in os.environ.get("AIOSCHED_TEST_AIRFLOW", "").split(":") if path]
GUARD: Final = 600.0  # seconds for each thing that Airflow does
TODAY: Final = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
START: Final = TODAY - timedelta(days=60)
DAG_FILE: Final = f"""
try:
    from aiosched import DAG, EmptyOperator
except ImportError:
    from airflow import DAG
    try:
        from airflow.providers.standard.operators.empty import EmptyOperator
    except ImportError:
        from airflow.operators.empty import EmptyOperator
from datetime import datetime, timezone

start = datetime({START.year}, {START.month}, {START.day}, tzinfo=timezone.utc)
for name, catchup in (("all_dates", True), ("latest_only", False)):
    with DAG(name, schedule="0 0 * * *", start_date=start, catchup=catchup, max_active_runs=1):
        EmptyOperator(task_id="a", depends_on_past=True)
"""

pytestmark = pytest.mark.skipif(not AIRFLOWS, reason="AIOSCHED_TEST_AIRFLOW names no environment with Airflow")


class RealAirflow:
    """An Airflow in an environment of its own, on a database of its own."""

    def __init__(self, environment: Path, home: Path, dsn: str, key: str) -> None:
        self._bin, self._home, self.dsn = environment / "bin", home, dsn
        self._env = {
            "PATH": f"{self._bin}:{os.environ['PATH']}", "HOME": str(home), "AIRFLOW_HOME": str(home),
            "AIRFLOW__CORE__DAGS_FOLDER": str(home / "dags"), "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__CORE__FERNET_KEY": key, "AIRFLOW__CORE__EXECUTOR": "LocalExecutor",
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": dsn.replace("postgresql://", "postgresql+psycopg2://"),
            "AIRFLOW__SCHEDULER__MIN_FILE_PROCESS_INTERVAL": "3600",
        }  # fmt: skip

    async def run(self, *words: str) -> None:
        """Run one `airflow` command."""
        command = [str(self._bin / "airflow"), *words]
        done = await asyncio.to_thread(
            subprocess.run, command, env=self._env, capture_output=True, text=True, timeout=GUARD, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr

    @asynccontextmanager
    async def scheduling(self) -> AsyncIterator[None]:
        """Its scheduler runs inside."""
        with (self._home / "scheduler.log").open("wb") as log:
            process = subprocess.Popen(  # noqa: ASYNC220  it only starts
                [str(self._bin / "airflow"), "scheduler"], env=self._env, stdout=log, stderr=log
            )
            try:
                yield
            finally:
                process.terminate()
                await asyncio.to_thread(process.wait, 60)

    async def runs(self, dag_id: str, *states: str) -> list[Mapping[str, Any]]:
        """Its runs of a DAG, by the end of their interval."""
        conn = await asyncpg.connect(self.dsn)
        try:
            found: list[Mapping[str, Any]] = await conn.fetch(
                "SELECT state, data_interval_end AS due FROM dag_run WHERE dag_id = $1 AND state = ANY($2::text[]) "
                "ORDER BY data_interval_end",
                dag_id,
                list(states),
            )
            return found
        finally:
            await conn.close()

    async def until(self, condition: Callable[[], Awaitable[bool]]) -> None:
        """Wait until `condition` holds."""
        async with asyncio.timeout(GUARD):
            while not await condition():  # noqa: ASYNC110  another program does it
                await asyncio.sleep(0.5)

    async def has_succeeded(self, dag_id: str, number: int) -> bool:
        """Whether a DAG has at least so many successful runs."""
        return len(await self.runs(dag_id, "success")) >= number

    async def is_idle(self) -> bool:
        """Whether no run is unfinished."""
        return not any([await self.runs(name, "queued", "running") for name in ("all_dates", "latest_only")])


async def work_in_airflow(airflow: RealAirflow) -> None:
    """Some runs of each DAG, and one of everything else."""
    await airflow.run("db", "migrate")
    await airflow.run("dags", "reserialize")
    await airflow.run("variables", "set", "region", "eu-west-1")
    await airflow.run("connections", "add", "shop", "--conn-uri", "postgres://me:hunter2@db:5432/shop?a=b")
    await airflow.run("pools", "set", "etl", "3", "for loading")
    await airflow.run("dags", "unpause", "all_dates")
    await airflow.run("dags", "unpause", "latest_only")
    async with airflow.scheduling():
        await airflow.until(lambda: airflow.has_succeeded("all_dates", 3))
        await airflow.until(lambda: airflow.has_succeeded("latest_only", 1))
        await airflow.run("dags", "pause", "all_dates")
        await airflow.run("dags", "pause", "latest_only")
        await airflow.until(airflow.is_idle)


async def take_over(it: Running, dsn: str, folder: Path, key: str, keyring: Keyring) -> list[MigrationStep]:
    """Apply everything, unpausing the DAGs here."""
    settings = load_settings({"core.dags_folder": folder}, environ={}, folder=folder).settings
    parsed = await check_paths([folder], settings)
    here = {dag.dag_id for file in parsed for dag in file.dags}
    plan = plan_migration(await read_airflow(dsn), AirflowKeys([key]), here=here, unpause=True)
    return await Migration(it.db, keyring, "test").apply(plan, parsed, now=it.clock.now())


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("environment", AIRFLOWS, ids=lambda path: path.name)
async def test_schedules_of_a_real_airflow_go_on(
    dsn: str, empty_dsn: str, tmp_path: Path, environment: Path, clock: FakeClock
) -> None:
    key = Fernet.generate_key().decode()
    (tmp_path / "dags").mkdir()
    (tmp_path / "dags" / "both.py").write_text(DAG_FILE)
    airflow = RealAirflow(environment, tmp_path, empty_dsn, key)
    await work_in_airflow(airflow)
    clock.at = datetime.now(UTC)
    keyring = Keyring(new_key())
    there = {name: [run["due"] for run in await airflow.runs(name, "success")] for name in ("all_dates", "latest_only")}
    assert len(there["all_dates"]) >= 3, there

    async with running(dsn, clock) as it:
        first = await take_over(it, empty_dsn, tmp_path / "dags", key, keyring)
        await it.finish_all()
        again = await take_over(it, empty_dsn, tmp_path / "dags", key, keyring)
        rows = await it.fetch("SELECT dag_id, run_after AS due, note FROM dag_run ORDER BY run_after")

    assert not [step for step in first if step.outcome is StepOutcome.LEFT]
    assert {step.outcome for step in again} == {StepOutcome.UNCHANGED}
    here = {name: [row["due"] for row in rows if row["dag_id"] == name and row["note"] is None] for name in there}
    days = [START + timedelta(days=number) for number in range((TODAY - START).days + 1)]
    together = [*there["all_dates"], *here["all_dates"]]
    assert together == days[-len(together) :], "each day once"
    assert len(together) >= len(days) - 1, "from the first day on: a data interval ends a day later"
    assert here["latest_only"] == [], "its latest period was done in Airflow"
    async with await Database.open(dsn) as db:
        store = SecretStore(db, keyring)
        assert (await store.get_variable("region")).value == "eu-west-1"
        assert (await store.get_connection("shop")).password == "hunter2"
