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

from benchmarks.peers.driver import Place, main
from benchmarks.processes import temporary_folders
from benchmarks.run import run_on
from benchmarks.shapes import CallableKind, Shape
from benchmarks.stage import staged

_LEAD = 4.0  # seconds for reading DAGs, and more for many


class Ours:
    packages = ("aiosched", "asyncpg")

    def __init__(self, executor: str, kind: CallableKind) -> None:
        self.executor, self.kind = executor, kind
        callables = "plain functions in worker processes" if kind == "sync" else "coroutines"
        self.settings = f"`{executor}`, {callables}, cold DAG files, default durability"

    @asynccontextmanager
    async def prepare(self, place: Place) -> AsyncIterator[None]:
        self._place, self._runs = place, 0
        yield

    async def run(self, shape: Shape, records: Path) -> float:
        self._runs += 1
        server = await asyncpg.connect(self._place.dsn)
        name = f"run_{self.executor}_{self._runs}"
        await server.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
        await server.execute(f"CREATE DATABASE {name}")
        try:
            with temporary_folders() as folders:
                folders.records.rmdir()
                folders.records.symlink_to(records)
                async with staged(folders, _named(self._place.dsn, name)) as at:
                    lead = _LEAD + shape.dags / 100
                    result = await run_on(at, shape, executor=self.executor, kind=self.kind, lead=lead)
        finally:
            await server.execute(f"DROP DATABASE {name} WITH (FORCE)")
            await server.close()
        if result.problems:
            raise RuntimeError("; ".join(result.problems))
        return datetime.fromisoformat(result.at).timestamp() - (time.time() - time.monotonic())


def _named(dsn: str, database: str) -> str:
    """The same server with another database."""
    head, _, rest = dsn.partition("?")
    return f"{head.rpartition('/')[0]}/{database}?{rest}"


if __name__ == "__main__":
    main(Ours("inline", "async") if sys.argv[1:] == ["inline"] else Ours("local", "sync"))
