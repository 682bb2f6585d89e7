"""Triggers over HTTP: how many a second one web server takes, one by one and in batches, beside one scheduler.

`python -m benchmarks.triggers URL COUNT` is the client, in a process of its own: so many one by one by `_CLIENTS` at
once, then four times as many in batches of `_BATCH`. It prints a line of JSON with the seconds of both.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from datetime import UTC, datetime
from typing import Final

import httpx2

from aiosched import DAG, Scheduler, task
from benchmarks import measure
from benchmarks.api import web_server
from benchmarks.figures import Figure, Finding
from benchmarks.run import postgres
from benchmarks.stage import stage, unlimited

_CLIENTS: Final = 20
_BATCH: Final = 100
_WARM: Final = 200


async def triggers(size: int, _: float) -> Finding:
    """`size` triggers one by one, and four times as many in batches; their runs, of one empty task each, run beside."""
    with DAG("job", schedule=None, start_date=datetime(2024, 1, 1, tzinfo=UTC), params={"a": 1}) as dag:

        @task
        async def work() -> None: ...

        work()
    async with stage() as at:
        async with (
            Scheduler(dsn=at.dsn, dags=[dag], executor="inline", settings=unlimited(at.folders)) as scheduler,
            web_server(at.dsn) as url,
        ):
            await scheduler.unpause("job")
            await _client(url, _WARM)
            found = await _client(url, size)
        server = await postgres(at.conn)
        runs = await at.conn.fetchval("SELECT count(*) FROM dag_run")
    figures = [
        Figure("triggers one by one", size / found["single"], "/s", least=400),
        Figure("triggers in batches", 4 * size / found["batches"], "/s", least=1000),
    ]
    problems = [] if runs == 5 * (size + _WARM) else [f"{runs} runs for {5 * (size + _WARM)} triggers"]
    about = f"{size} by {_CLIENTS} clients, {4 * size} in batches of {_BATCH}, one web process, {server}"
    return Finding("triggers", about, measure.machine(), figures, tuple(problems))


async def _client(url: str, count: int) -> dict[str, float]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "benchmarks.triggers", url, str(count), stdout=asyncio.subprocess.PIPE
    )
    answer, _ = await process.communicate()
    found: dict[str, float] = json.loads(answer)
    return found


async def _trigger(url: str, count: int) -> dict[str, float]:
    async with httpx2.AsyncClient(base_url=f"{url}/api/v1/dags/job/", timeout=60, trust_env=False) as client:
        left = iter(range(count))

        async def one_by_one() -> None:
            for _ in left:
                (await client.post("runs", json={})).raise_for_status()

        began = time.perf_counter()
        await asyncio.gather(*(one_by_one() for _ in range(_CLIENTS)))
        middle = time.perf_counter()
        for _ in range(4 * count // _BATCH):
            answer = await client.post("runs/batch", json={"runs": [{}] * _BATCH})
            if not all(run["run_id"] for run in answer.raise_for_status().json()["runs"]):
                raise SystemExit(answer.text)
        return {"single": middle - began, "batches": time.perf_counter() - middle}


if __name__ == "__main__":
    print(json.dumps(asyncio.run(_trigger(sys.argv[1], int(sys.argv[2])))), flush=True)
