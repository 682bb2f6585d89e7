"""A process that is one scheduler, to be killed: `python -m tests.faults.service_process DSN FOLDER NAME [LEASE]`.

Its tasks write a line to FOLDER/ran when they begin, and wait while FOLDER/hold exists.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from aiosched import DAG, Scheduler, task
from aiosched.authoring.runtime.context import get_current_context
from aiosched.config import Settings

RUNS, TASKS = 40, 5


def numbered_dag(folder: Path) -> DAG:
    """`d`: TASKS tasks in a row, each of which says which it is."""

    @task
    async def note() -> None:
        context = get_current_context()
        ti = context["ti"]
        with (folder / "ran").open("a") as file:
            file.write(f"{context['dag_run'].run_id} {ti.task_id} {ti.try_number}\n")
        while True:
            if not (folder / "hold").exists():
                return
            await asyncio.sleep(0.01)

    with DAG("d", schedule=None, catchup=False, max_active_runs=1000, max_active_tasks=1000) as dag:
        previous = None
        for number in range(TASKS):
            step = note.override(task_id=f"t{number}")()
            if previous is not None:
                previous >> step
            previous = step
    return dag


async def main(dsn: str, folder: Path, name: str, lease: float = 15.0) -> None:
    settings = Settings()
    settings.scheduler.lease = lease
    settings.core.parallelism = 20
    settings.core.home = folder
    async with Scheduler(dsn=dsn, dags=[numbered_dag(folder)], settings=settings, name=name) as scheduler:
        await scheduler.failed


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2]), sys.argv[3], *map(float, sys.argv[4:])))
