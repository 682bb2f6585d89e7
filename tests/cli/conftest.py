"""A command line to call in this process: in an empty folder, without settings from outside."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pytest
from typer.testing import CliRunner, Result

from aiosched.cli.app import app
from aiosched.db.server.engine import Database

T = TypeVar("T")


@dataclass(frozen=True)
class Cli:
    """Calls `aiosched`; on the test's database, if it has one."""

    dsn: str | None = None
    home: Path | None = None

    def __call__(self, *words: str, code: int | None = 0, input: str | None = None) -> Result:
        """Run the command; it must end with `code` (None: whatever)."""
        env = {"AIOSCHED_DSN": self.dsn, "AIOSCHED_HOME": str(self.home or "") if self.home else None}
        result = CliRunner().invoke(app, list(words), env=env, input=input, prog_name="aiosched")
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        assert code is None or result.exit_code == code, result.output
        return result

    def json(self, *words: str, code: int = 0) -> Any:
        """The data that the command writes with `-o json`."""
        return json.loads(self(*words, "-o", "json", code=code).stdout)

    def lines(self, *words: str, code: int = 0) -> list[list[str]]:
        """The cells of each plain line."""
        return [line.split("\t") for line in self(*words, code=code).stdout.splitlines()]

    def work(self, do: Callable[[Database], Awaitable[T]]) -> T:
        """Do something with the database."""

        async def run() -> T:
            assert self.dsn is not None
            async with await Database.open(self.dsn) as db:
                return await do(db)

        return asyncio.run(run())


@pytest.fixture(autouse=True)
def _alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in [name for name in os.environ if name.startswith("AIOSCHED_") and "TEST" not in name]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    yield
    os.environ.pop("AIOSCHED_DEBUG", None)


@pytest.fixture
def cli() -> Cli:
    """The command line without a database."""
    return Cli()


@pytest.fixture
def on_db(dsn: str) -> Cli:
    """The command line on a migrated database."""
    return Cli(dsn)
