"""Benchmarks of a tiny size happen in databases of the session's server, which is not durable."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from benchmarks import (
    api,
    chain_steps,
    endurance,
    fleet,
    footprint,
    idle,
    many,
    mapped,
    materialise,
    parsing,
    retention,
    run,
    scaling,
    sustained,
    takeover,
    unfinished,
    warm,
)
from benchmarks.processes import temporary_folders
from benchmarks.stage import Stage, staged
from tests.databases import Server

STAGED = (
    *(api, chain_steps, endurance, fleet, footprint, idle, many, mapped, materialise),
    *(parsing, retention, run, scaling, sustained, takeover, unfinished, warm),
)


@pytest.fixture
def on_test_server(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every `stage()` is a fresh database of the session's server: no server of its own has to start."""

    @asynccontextmanager
    async def stage() -> AsyncIterator[Stage]:
        dsn = await server.create("template0")
        with temporary_folders() as folders:
            async with staged(folders, dsn) as made:
                yield made
        await server.drop(dsn)

    for module in STAGED:
        monkeypatch.setattr(module, "stage", stage)
