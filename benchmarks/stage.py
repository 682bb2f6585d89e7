"""Where a benchmark happens: a durable database of its own, the settings, processes of `serve`."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import asyncpg

from aiosched.config import Settings
from aiosched.db.server.embedded import EmbeddedPostgres
from aiosched.db.server.migrate import migrate
from benchmarks.processes import Folders, temporary_folders

NO_LIMIT: Final = 1_000_000


class TooSlow(Exception):
    """What was to be measured was not over in the time allowed."""


@dataclass(frozen=True)
class Stage:
    """A migrated database with default durability, empty folders, and a connection to look at it with."""

    folders: Folders
    dsn: str
    conn: asyncpg.Connection


@asynccontextmanager
async def stage() -> AsyncIterator[Stage]:
    """A stage; what it left is removed afterwards."""
    with temporary_folders() as folders:
        async with EmbeddedPostgres(folders.home / "pg") as dsn, staged(folders, dsn) as made:
            yield made


@asynccontextmanager
async def staged(folders: Folders, dsn: str) -> AsyncIterator[Stage]:
    """A stage on an empty database. Its default pool limits nothing: the pool would be measured, not the scheduler."""
    await migrate(dsn, default_pool_slots=NO_LIMIT)
    conn = await asyncpg.connect(dsn)
    try:
        yield Stage(folders, dsn, conn)
    finally:
        await conn.close()


def unlimited(folders: Folders) -> Settings:
    """Settings with every limit raised, so that the machine is the limit."""
    settings = Settings()
    settings.core.home = folders.home
    settings.core.dags_folder = folders.dags
    settings.core.parallelism = NO_LIMIT
    settings.core.default_pool_task_slot_count = NO_LIMIT
    settings.executor.async_slots = NO_LIMIT
    return settings


_UNLIMITED: Final = {
    "AIOSCHED__CORE__PARALLELISM": str(NO_LIMIT),
    "AIOSCHED__CORE__DEFAULT_POOL_TASK_SLOT_COUNT": str(NO_LIMIT),
    "AIOSCHED__EXECUTOR__ASYNC_SLOTS": str(NO_LIMIT),
    "AIOSCHED__LOGS__LEVEL": "WARNING",
}


@dataclass
class Serve:
    """One `aiosched serve` as people start it, in a process of its own. Its events are lines of JSON on stdout."""

    process: asyncio.subprocess.Process
    errors: Path
    started: float  # monotonic
    ready_seconds: float = 0.0  # from the start of the process to its `ready`
    facts: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    _reader: asyncio.Task[None] | None = None

    @property
    def pid(self) -> int:
        return self.process.pid

    async def wait_ready(self, timeout: float = 60.0) -> None:
        """Read the banner up to `ready`. Raises TooSlow with what it wrote to stderr."""
        assert self.process.stdout is not None
        try:
            async with asyncio.timeout(timeout):
                while line := await self.process.stdout.readline():
                    event = json.loads(line)
                    self.facts[event["event"]] = event
                    if event["event"] == "ready":
                        self.ready_seconds = time.monotonic() - self.started
                        self._reader = asyncio.create_task(self._read_on())
                        return
        except TimeoutError:
            pass
        raise TooSlow(f"`aiosched serve` did not get ready in {timeout:g} s: {self.errors.read_text()[-2000:]}")

    async def _read_on(self) -> None:
        assert self.process.stdout is not None
        while await self.process.stdout.read(65_536):
            pass

    async def kill(self) -> None:
        """SIGKILL, and wait until the process is gone."""
        await self._end(signal.SIGKILL)

    async def stop(self) -> None:
        """SIGTERM, and SIGKILL for one that takes more than 20 s."""
        try:
            async with asyncio.timeout(20.0):
                await self._end(signal.SIGTERM)
        except TimeoutError:
            await self._end(signal.SIGKILL)

    async def _end(self, number: signal.Signals) -> None:
        if self.process.returncode is None:
            self.process.send_signal(number)
        await self.process.wait()
        if self._reader is not None:
            await self._reader


async def start_serve(
    folders: Folders,
    *,
    dsn: str | None,
    name: str = "one",
    executor: str = "inline",
    grace: float = 0.0,
    web: bool = False,
    settings: Mapping[str, str] = MappingProxyType({}),
) -> Serve:
    """Start `aiosched serve` with every limit raised; without a DSN on an embedded database in the home folder.

    With `web` it serves pages on a free port, see `facts["web"]`. `settings` are further ones, as variables of its
    environment.
    """
    command = ["serve", "--dags", str(folders.dags), "--home", str(folders.home), "--executor", executor]
    command += ["--name", name, "--grace", str(grace), "-o", "json"]
    command += ["--port", "0"] if web else ["--no-web"]
    if dsn is not None:
        command += ["--dsn", dsn]
    errors = folders.root / f"{name}.stderr"
    environment = {k: v for k, v in os.environ.items() if not k.startswith("AIOSCHED_")} | _UNLIMITED | dict(settings)
    with errors.open("ab") as stream:
        started = time.monotonic()
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "aiosched", *command),
            stdout=asyncio.subprocess.PIPE,
            stderr=stream,
            stdin=asyncio.subprocess.DEVNULL,
            cwd=folders.root,
            env=environment,
        )
    return Serve(process, errors, started)
