"""A primary of PostgreSQL and its standby, both on this machine: the standby may be behind, and takes over."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import subprocess
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import asyncpg

from aiosched.core.fleet.replicas import needed_position, shown_position
from aiosched.db.server.embedded_host import Account, claim_folder, programs, run_as
from aiosched.db.server.replica import begun_position
from tests.conftest import short_folder
from tests.db.conftest import ExternalServer, start_external
from tests.ports import free_port

_IN_STEP: Final = "SELECT count(*) = 1 FROM pg_stat_replication WHERE sync_state = 'sync' AND state = 'streaming'"


@dataclass(frozen=True)
class Pair:
    """A primary and its standby; `dsn` leads to whichever can be written."""

    primary: ExternalServer
    standby: ExternalServer
    installed: Path

    @property
    def dsn(self) -> str:
        """The address of both."""
        hosts = f"127.0.0.1:{self.primary.port},127.0.0.1:{self.standby.port}"
        return f"postgresql://postgres:s3cret%2F%25@{hosts}/postgres?target_session_attrs=read-write"

    async def start_standby(self) -> None:
        """Start the standby, also after it was stopped."""
        server = self.standby
        await self._control(server, "-o", f"-h 127.0.0.1 -p {server.port} -k {server.folder} -F", "start")

    async def stop_standby(self) -> None:
        """What is stored from now on is on the primary only."""
        await self._control(self.standby, "-m", "fast", "stop")

    async def keep_in_step(self) -> None:
        """From now on a commit is confirmed when the standby has it."""
        conn = await asyncpg.connect(self.primary.dsn())
        await conn.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
        await conn.execute("SELECT pg_reload_conf()")
        while not await conn.fetchval(_IN_STEP):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        await conn.close()

    async def let_go(self) -> None:
        """From now on a commit does not wait for the standby."""
        conn = await asyncpg.connect(self.primary.dsn())
        await conn.execute("ALTER SYSTEM RESET synchronous_standby_names")
        await conn.execute("SELECT pg_reload_conf()")
        while await conn.fetchval("SHOW synchronous_standby_names"):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        await conn.close()

    async def catch_up(self) -> str:
        """Until the standby has replayed what is stored now; the position of that."""
        async with self._connected(self.primary) as primary, self._connected(self.standby) as standby:
            position = shown_position(needed_position(await begun_position(primary)))
            has_it = "SELECT pg_last_wal_replay_lsn() >= $1::text::pg_lsn"
            while not await standby.fetchval(has_it, position):  # noqa: ASYNC110
                await asyncio.sleep(0.002)
        return position

    async def hold_replay(self) -> None:
        """What is stored from now on the standby receives, and does not replay."""
        await self.catch_up()
        async with self._connected(self.standby) as standby:
            await standby.execute("SELECT pg_wal_replay_pause()")
            while await standby.fetchval("SELECT pg_get_wal_replay_pause_state()") != "paused":  # noqa: ASYNC110
                await asyncio.sleep(0.002)

    async def replay(self) -> None:
        """The standby goes on."""
        async with self._connected(self.standby) as standby:
            await standby.execute("SELECT pg_wal_replay_resume()")

    @contextlib.asynccontextmanager
    async def _connected(self, server: ExternalServer) -> AsyncIterator[Any]:
        conn = await asyncpg.connect(server.dsn())
        try:
            yield conn
        finally:
            await conn.close()

    async def fail_over(self, *, behind: bool = False, how: str = "immediate") -> None:
        """The primary dies, and its standby takes over; `behind`: it does not run, and lacks what was stored since.

        With `how` "fast" the primary is stopped by somebody, and sends everything before it ends.
        """
        await self._control(self.primary, "-m", how, "stop")
        if behind:
            await self.start_standby()
        await self._control(self.standby, "promote")

    async def _control(self, server: ExternalServer, *words: str) -> None:
        await asyncio.to_thread(_control, self.installed, server, *words)


def _control(installed: Path, server: ExternalServer, *words: str) -> None:
    account = Account.for_data(server.folder / "pg")
    program = str(programs(account, installed) / "pg_ctl")
    command = [program, "-D", str(server.folder / "pg"), "-w", "-l", str(server.folder / "log"), *words]
    run_as(account, command, new_session=True)


@contextlib.contextmanager
def a_pair(installed: Path) -> Iterator[Pair]:
    """A primary and its standby, which does not run yet; both are removed afterwards."""
    primary, _ = start_external(installed)
    pair = Pair(primary, ExternalServer(short_folder(), free_port()), installed)
    folders = [primary.folder, pair.standby.folder]
    try:
        account = Account.for_data(primary.folder / "pg")
        claim_folder(pair.standby.folder, account)
        program = str(programs(account, installed) / "pg_basebackup")
        source = ["-h", str(primary.folder), "-p", str(primary.port), "-U", "postgres"]
        target = ["-D", str(pair.standby.folder / "pg"), "-R", "-c", "fast", "--no-sync"]
        run_as(account, [program, *source, *target])
        yield pair
    finally:
        for server in (primary, pair.standby):
            with contextlib.suppress(subprocess.CalledProcessError):  # it does not run
                _control(installed, server, "-m", "immediate", "stop")
        for folder in folders:
            shutil.rmtree(folder)
