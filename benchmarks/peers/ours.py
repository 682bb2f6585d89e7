"""aiosched runs a shape from cold DAG files, durably: `local` with plain functions, `inline` with coroutines.

Each run has an empty database and a service that has just started, so importing the DAG files in the workers is part
of it. The files are read before, and all DAGs are due at one instant, from which the work counts.
"""

from __future__ import annotations

import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path

import asyncpg
import uvloop

from benchmarks.peers.driver import Place, main
from benchmarks.processes import temporary_folders
from benchmarks.record import forget
from benchmarks.report import Result
from benchmarks.run import run_on
from benchmarks.shapes import CallableKind, Shape
from benchmarks.stage import staged


class Ours:
    packages = ("aiosched", "asyncpg")

    def __init__(self, executor: str, kind: CallableKind) -> None:
        self.executor, self.kind = executor, kind
        callables = "plain functions in worker processes" if kind == "sync" else "coroutines"
        self.settings = f"`{executor}`, {callables}, cold DAG files, default durability"

    @asynccontextmanager
    async def prepare(self, place: Place) -> AsyncIterator[None]:
        self._place = place
        yield

    async def run(self, shape: Shape, records: Path) -> float:
        for lead in (4.0 + shape.dags / 100, 20.0 + shape.dags / 20, 60.0 + shape.dags / 5):
            result = await self._run(shape, records, lead)
            late = [problem for problem in result.problems if "--lead" in problem]
            if not late:
                break
            forget(records)
        if result.problems:
            raise RuntimeError("; ".join(result.problems))
        return datetime.fromisoformat(result.at).timestamp() - (time.time() - time.monotonic())

    async def _run(self, shape: Shape, records: Path, lead: float) -> Result:
        """Once, on an empty database; `lead` is for reading the DAGs, which a busy machine does slowly."""
        name = f"run_{self.executor}"
        server = await asyncpg.connect(self._place.dsn)
        await server.execute(f"CREATE DATABASE {name} TEMPLATE template0")
        try:
            with temporary_folders() as folders:
                folders.records.rmdir()
                folders.records.symlink_to(records)
                async with staged(folders, _named(self._place.dsn, name)) as at:
                    return await run_on(at, shape, executor=self.executor, kind=self.kind, lead=lead)
        finally:
            await server.execute(f"DROP DATABASE {name} WITH (FORCE)")
            await server.close()


def _named(dsn: str, database: str) -> str:
    """The same server with another database."""
    head, _, rest = dsn.partition("?")
    return f"{head.rpartition('/')[0]}/{database}?{rest}"


if __name__ == "__main__":
    main(Ours("inline", "async") if sys.argv[1:] == ["inline"] else Ours("local", "sync"), uvloop.run)  # as `serve`
