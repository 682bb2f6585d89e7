"""A parser of one scheduler with a folder, a database and what it tells its scheduler."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path

from aiosched.clock import FakeClock
from aiosched.config import Settings
from aiosched.db.server.engine import Database
from aiosched.parsing.service import Parser
from tests.parsing.builders import settings_for, write
from tests.patience import PATIENCE


@dataclass
class Heard:
    """Collects what `on_change` says and lets a test wait for it."""

    dag_ids: list[str] = field(default_factory=list)
    news: asyncio.Event = field(default_factory=asyncio.Event)

    def __call__(self, dag_ids: frozenset[str]) -> None:
        self.dag_ids += sorted(dag_ids)
        self.news.set()

    async def next(self) -> list[str]:
        """What was said since the last call; waits for something."""
        async with asyncio.timeout(PATIENCE):
            await self.news.wait()
        self.news.clear()
        said, self.dag_ids = self.dag_ids, []
        return said


@dataclass
class Bench:
    """A DAGs folder, a database, and parsers on them."""

    folder: Path
    db: Database
    clock: FakeClock
    heard: Heard = field(default_factory=Heard)

    @property
    def settings(self) -> Settings:
        settings = settings_for(self.folder)
        settings.parsing.processes = 1
        return settings

    def write(self, name: str, text: str) -> None:
        """Replace a file at once, as careful editors do."""
        path = write(self.folder, f"{name}.new", text)
        path.rename(self.folder / name)

    @contextlib.asynccontextmanager
    async def running(
        self, *, owns: Callable[[int], bool] = lambda _: True, settings: Settings | None = None
    ) -> AsyncIterator[Parser]:
        """A parser that has done its first pass."""
        parser = Parser(settings or self.settings, self.db, clock=self.clock, owns=owns, on_change=self.heard)
        task = asyncio.create_task(parser.run())
        try:
            async with asyncio.timeout(PATIENCE):
                await parser.first_pass
            yield parser
        finally:
            parser.stop()
            await task

    async def dags(self) -> dict[str, tuple[str | None, bool, bool, int]]:
        """By id: file, stale, broken, number of the newest version."""
        rows = await self.db.fetch(
            "SELECT d.dag_id, d.file, d.is_stale, d.has_import_errors, v.number "
            "FROM dag AS d JOIN dag_version AS v ON v.id = d.version_id"
        )
        return {row[0]: tuple(row)[1:] for row in rows}

    async def errors(self) -> dict[str, str | None]:
        return {row["file"]: row["error"] for row in await self.db.fetch("SELECT file, error FROM dag_file")}

    async def unread(self, parser: Parser) -> str | None:
        async with self.db.acquire() as conn:
            return await parser.unread(conn)

    async def until(self, parser: Parser, unread: str | None) -> None:
        """Wait until that of the folder is not read."""
        async with asyncio.timeout(PATIENCE):
            while await self.unread(parser) != unread:  # noqa: ASYNC110
                await asyncio.sleep(0.01)

    async def execute(self, statement: str) -> None:
        await self.db.execute(statement)
