"""A peer without any system behind it; test_peers.py puts its name in."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from benchmarks.bare_engines import body
from benchmarks.peers.driver import Place, main
from benchmarks.shapes import Shape

DOES: str = "NAME"


class Fake:
    settings = "a fake"
    packages = ("pip",)

    @asynccontextmanager
    async def prepare(self, place: Place) -> AsyncIterator[None]:
        print(f"what a system prints must not disturb the answers: {place.url('psycopg')}")
        yield

    async def run(self, shape: Shape, records: Path) -> float:
        if DOES == "dies":
            raise RuntimeError("it has died")
        began = time.monotonic()
        for dag_id in shape.dag_ids():
            for task_id in shape.task_ids()[DOES == "skips" :]:
                body(str(records), dag_id, task_id)
        return began


if __name__ == "__main__":
    main(Fake())
