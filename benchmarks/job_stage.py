"""Where the ten jobs are done: the real service with 1,000 DAGs, a history, and the six DAGs of `job_dags`.

The six have a past of thirty nights, a run that failed last night, one that fills a pool, and one that makes the next
one late; the others have so many finished task instances as are wanted, some of them failed.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import asyncpg
import httpx2

from aiosched.clock import SystemClock
from aiosched.core.graph.spec import DagSpec, TaskSpec
from aiosched.core.timetables.parse import parse_schedule
from aiosched.parsing.store import register_specs
from benchmarks.api import FAILED
from benchmarks.history import INSTANCES_OF_A_RUN, fill
from benchmarks.stage import Stage, start_serve

DAG_FILE: Final = Path(__file__).parent / "job_dags" / "jobs.py"
NIGHTLY: Final = "sales_nightly"
NIGHTS: Final = 30
_OTHERS: Final = 994  # DAGs that only have a history; with the six they are 1,000
_PATIENCE: Final = 240.0  # seconds for what the service has to do by itself
_SETTINGS: Final = {
    "AIOSCHED__WEB__LOOPBACK_LOGIN": "none",
    "AIOSCHED__LOGS__LEVEL": "INFO",
}

# Each night took a little longer than the one before.
_NIGHTS: Final = """
    INSERT INTO dag_run (dag_id, run_id, partition, version_id, run_type, triggered_by, state, logical_date,
                         data_interval_start, data_interval_end, run_after, queued_at, start_date, end_date)
    SELECT dag_id, 'scheduled__' || to_char(day, 'YYYY-MM-DD"T00:00:00+00:00"'), partition, version_id, 'scheduled',
           'timetable', 'success', day, day, due, due, due, due, due + (40 - n) * interval '10 s'
      FROM dag, generate_series(2, $2 + 1) AS n,
           LATERAL (SELECT $3::timestamptz - n * interval '1 day' AS day,
                           $3::timestamptz - (n - 1) * interval '1 day' AS due) AS d
     WHERE dag_id = $1 ORDER BY day
"""
_TASKS_OF_NIGHTS: Final = """
    INSERT INTO task_instance (run_id, task_index, map_index, state, try_number, scheduled_at, queued_at, start_date,
                               end_date)
    SELECT id, i, -1, 'success', 1, start_date, start_date, start_date, end_date
      FROM dag_run, generate_series(0, 2) AS i WHERE dag_id = $1 AND state = 'success'
"""


@dataclass(frozen=True)
class JobStage:
    """A service with something to find."""

    url: str
    dags: Path
    last_night: str  # id of the run that failed

    def say(self, line: str) -> None:
        """Have all that runs write a line into its log."""
        with (self.dags / "said").open("a") as file:
            file.write(f"{line}\n")

    async def api(self, method: str, path: str, **options: Any) -> Any:
        """Ask the REST API; the JSON of its answer."""
        async with httpx2.AsyncClient(base_url=f"{self.url}/api/v1/", timeout=_PATIENCE, trust_env=False) as client:
            answer = await client.request(method, path, **options)
            answer.raise_for_status()
            return answer.json() if answer.content else None

    async def reached(self, path: str, wanted: str, number: int = 1) -> None:
        """Wait until a list of the API has so many entries of the state."""
        async with asyncio.timeout(_PATIENCE):
            while True:
                items = (await self.api("GET", path))["items"]
                if sum(item["state"] == wanted for item in items) >= number:
                    return
                await asyncio.sleep(0.1)


@asynccontextmanager
async def job_stage(at: Stage, size: int) -> AsyncIterator[JobStage]:
    """The service on that database, after `size` task instances have been stored."""
    await _past_of_others(at.conn, size)
    shutil.copy(DAG_FILE, at.folders.dags)
    (at.folders.dags / "said").touch()
    serve = await start_serve(at.folders, dsn=at.dsn, web=True, settings=_SETTINGS)
    try:
        await serve.wait_ready(_PATIENCE)
        made = JobStage(str(serve.facts["web"]["url"]), at.folders.dags, _last_night())
        await _begin(made, at.conn)
        yield made
    finally:
        (at.folders.dags / "end").touch()
        await serve.stop()


def _midnight() -> datetime:
    return datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)


def _last_night() -> str:
    return f"scheduled__{(_midnight() - timedelta(days=1)).isoformat()}"


async def _past_of_others(conn: asyncpg.Connection, size: int) -> None:
    tasks = tuple(TaskSpec(task_id=f"t{number}", operator="Old") for number in range(INSTANCES_OF_A_RUN))
    dag_ids = [f"dag.{number:04d}" for number in range(_OTHERS)]
    begin, never = datetime(2020, 1, 1, tzinfo=UTC), parse_schedule(None)
    specs = [
        DagSpec(dag_id=dag_id, timetable=never, start_date=begin, tasks=tasks, owner=f"team.{place % 20}")
        for place, dag_id in enumerate(dag_ids)
    ]
    async with conn.transaction():
        await register_specs(conn, specs, now=SystemClock().now(), paused_at_creation=False)
    await fill(conn, dag_ids, size)
    for statement in FAILED:
        await conn.execute(statement)


async def _begin(made: JobStage, conn: asyncpg.Connection) -> None:
    """Store the past of the nightly DAG, and have the six run."""
    async with asyncio.timeout(_PATIENCE):
        while await conn.fetchval("SELECT count(*) FROM dag WHERE dag_id = $1", NIGHTLY) == 0:  # noqa: ASYNC110
            await asyncio.sleep(0.1)
    await conn.execute(_NIGHTS, NIGHTLY, NIGHTS, _midnight())
    await conn.execute(_TASKS_OF_NIGHTS, NIGHTLY)
    await conn.execute("ANALYZE")
    await made.api("PUT", "pools/warehouse", json={"slots": 4})
    await made.api("PATCH", f"dags/{NIGHTLY}", json={"is_paused": False})
    await made.api("POST", "dags/warehouse_sync/runs", json={"run_id": "by-hand"})
    await made.reached(f"runs?dag_id={NIGHTLY}", "failed")
    await made.reached("dags/warehouse_sync/runs/by-hand/tasks", "running", 4)
    await made.reached("runs?dag_id=lagging", "running")
