"""DBOS runs each DAG of a shape as one workflow whose tasks are steps; it stores each step in PostgreSQL, as we do.

Workflows whose tasks follow one another are plain functions in DBOS's threads. Where tasks stand side by side, the
workflow is a coroutine that gathers its steps, level by level, as its documentation does.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from benchmarks.bare_engines import body
from benchmarks.peers.driver import Place, main
from benchmarks.shapes import Shape, levels


class Dbos:
    settings = (
        "a workflow a DAG, a step a task (gathered where they stand side by side), the default pool of 20 connections"
    )
    packages = ("dbos", "psycopg")

    @asynccontextmanager
    async def prepare(self, place: Place) -> AsyncIterator[None]:
        from dbos import DBOS, DBOSConfig

        config = DBOSConfig(
            name="benchmark",
            system_database_url=place.url("psycopg"),
            log_level="WARNING",
            enable_otlp=False,
        )
        made: Any = DBOS
        made(config=config)
        self._dbos = made
        step, step_async = made.step()(body), made.step()(_body_async)

        def line(records: str, dag_id: str, tasks: list[str]) -> None:
            for task_id in tasks:
                step(records, dag_id, task_id)

        async def wide(records: str, dag_id: str, tasks: list[list[str]]) -> None:
            for level in tasks:
                await asyncio.gather(*(step_async(records, dag_id, task_id) for task_id in level))

        self._line, self._wide = made.workflow()(line), made.workflow()(wide)
        made.launch()
        try:
            yield
        finally:
            made.destroy()

    async def run(self, shape: Shape, records: Path) -> float:
        tasks = levels(shape)
        if all(len(level) == 1 for level in tasks):
            return await asyncio.to_thread(self._lines, shape, str(records), [level[0] for level in tasks])
        began = time.monotonic()
        start = self._dbos.start_workflow_async
        handles = [await start(self._wide, str(records), dag_id, tasks) for dag_id in shape.dag_ids()]
        await asyncio.gather(*(handle.get_result() for handle in handles))
        return began

    def _lines(self, shape: Shape, records: str, tasks: list[str]) -> float:
        began = time.monotonic()
        start = self._dbos.start_workflow
        for handle in [start(self._line, records, dag_id, tasks) for dag_id in shape.dag_ids()]:
            handle.get_result()
        return began


async def _body_async(records: str, dag_id: str, task_id: str) -> None:
    body(records, dag_id, task_id)


if __name__ == "__main__":
    main(Dbos())
