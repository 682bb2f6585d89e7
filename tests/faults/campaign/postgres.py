"""PostgreSQL under test: it can be restarted, crashed and starved. It survives all but a crash of the machine."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Literal

import asyncpg

from aiosched.db.server.dsn import address_of
from aiosched.db.server.embedded import EmbeddedPostgres
from tests.patience import PATIENCE

NOT_SYNCED = {"fsync": "off"}  # commits are written before they are answered, not forced to the disk


class Postgres:
    """An embedded server in `folder`, used by DSN from everywhere."""

    def __init__(self, folder: Path, **options: str) -> None:
        self._server = EmbeddedPostgres(folder / "pg", options={**NOT_SYNCED, **options})
        self._watcher: Any = None
        self._one_at_a_time = asyncio.Lock()
        self.dsn = ""

    async def start(self) -> None:
        """Start it; `dsn` is known then."""
        self.dsn = await self._server.start()

    async def stop(self) -> None:
        """End it and the connection of `ask`."""
        self._forget()
        await self._server.stop()

    @property
    def socket(self) -> str:
        """The path of its Unix socket."""
        address = address_of(self.dsn)
        return f"{address.host}/.s.PGSQL.{address.port}"

    def tcp_dsn(self, port: int) -> str:
        """The DSN of a proxy of ours on `port`."""
        return f"postgresql://postgres@127.0.0.1:{port}/{address_of(self.dsn).database}?sslmode=disable"

    async def restart(self, how: Literal["fast", "immediate"]) -> None:
        """Stop the whole server and start it again. `immediate` is a crash: the next start recovers."""
        pid = int((self._server.data_dir / "postmaster.pid").read_text().split()[0])
        os.kill(pid, signal.SIGINT if how == "fast" else signal.SIGQUIT)
        async with asyncio.timeout(PATIENCE):
            while _state(pid) not in "ZX":  # noqa: ASYNC110  # it is not our child
                await asyncio.sleep(0.01)
        self._forget()
        await self._server.start()

    async def ask(self, query: str, *args: Any) -> list[Any]:
        """The rows of a statement that may be sent twice, from a connection that is made anew when it is lost."""
        async with self._one_at_a_time, asyncio.timeout(PATIENCE):
            while True:
                try:
                    if self._watcher is None or self._watcher.is_closed():
                        self._watcher = await asyncpg.connect(
                            self.dsn, server_settings={"application_name": "faults"}, timeout=10
                        )
                    return list(await self._watcher.fetch(query, *args))
                except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError) as error:
                    if isinstance(error, asyncpg.SyntaxOrAccessError):
                        raise
                    self._forget()
                    await asyncio.sleep(0.05)

    async def value(self, query: str, *args: Any) -> Any:
        """The first column of the first row of `ask`."""
        return (await self.ask(query, *args))[0][0]

    async def backends(self) -> list[int]:
        """The server processes of schedulers."""
        query = "SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'aiosched%'"
        return [row[0] for row in await self.ask(query)]

    @contextlib.asynccontextmanager
    async def crowd(self) -> AsyncIterator[int]:
        """Take every connection that is left; how many that were."""
        taken: list[Any] = []
        try:
            with contextlib.suppress(asyncpg.TooManyConnectionsError, OSError):
                while True:
                    taken.append(await asyncpg.connect(self.dsn, server_settings={"application_name": "crowd"}))
            yield len(taken)
        finally:
            for conn in taken:
                conn.terminate()

    def _forget(self) -> None:
        if self._watcher is not None:
            self._watcher.terminate()
            self._watcher = None


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "X"
