"""Servers beside the session's embedded one: older PostgreSQL versions, and one that listens on TCP."""

from __future__ import annotations

import itertools
import shutil
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import asyncpg
import pytest

from aiosched.db.server.embedded_host import Account, claim_folder, programs, run_as
from aiosched.db.server.engine import Database
from aiosched.db.server.installations import binaries
from aiosched.db.server.migrate import migrate
from tests.conftest import OLDER_SERVERS, short_folder
from tests.ports import free_port

_numbers = itertools.count()


@dataclass(frozen=True)
class ExternalServer:
    """A server that aiosched did not start: on TCP (127.0.0.1) with a password, and on a socket."""

    folder: Path
    port: int
    password: str = "s3cret/%"

    def dsn(self, database: str = "postgres", *, password: str = "s3cret%2F%25", user: str = "postgres") -> str:
        return f"postgresql://{user}:{password}@127.0.0.1:{self.port}/{database}"


def start_external(installed: Path, *options: str) -> tuple[ExternalServer, Callable[[], None]]:
    """Make and start a server from the programs in `installed`; it and the function that removes it."""
    folder = short_folder()
    account = Account.for_data(folder / "pg")
    claim_folder(folder, account)
    runnable = programs(account, installed)
    server = ExternalServer(folder, free_port())
    data, secret = folder / "pg", folder / "secret"
    secret.write_text(server.password)
    secret.chmod(0o644)
    login = ["--username=postgres", "--auth-host=scram-sha-256", "--auth-local=trust", f"--pwfile={secret}"]
    run_as(account, [str(runnable / "initdb"), "-D", str(data), *login, "--no-sync", "--encoding=UTF8", "--locale=C"])
    # the answer of pg_ctl must not wait for the server's output, so that goes to a file
    listening = ["-h", "127.0.0.1", "-p", str(server.port), "-k", str(folder), "-F", *options]
    command = [str(runnable / "pg_ctl"), "-D", str(data), "-w", "-l", str(folder / "log")]
    run_as(account, [*command, "-o", " ".join(listening), "start"], new_session=True)

    def remove() -> None:
        try:
            run_as(account, [*command, "-m", "immediate", "stop"])
        except subprocess.CalledProcessError as error:
            error.add_note(f"{error.stdout}{error.stderr}\nThe server's log:\n{(folder / 'log').read_text()[-2000:]}")
            raise
        shutil.rmtree(folder)

    return server, remove


@pytest.fixture(scope="session", params=[pytest.param(version, marks=pytest.mark.slow) for version in OLDER_SERVERS])
def older_server(request: pytest.FixtureRequest) -> Iterator[ExternalServer]:
    """A server of each older version that this machine has."""
    server, remove = start_external(OLDER_SERVERS[request.param])
    yield server
    remove()


@pytest.fixture
async def older_dsn(older_server: ExternalServer) -> AsyncIterator[str]:
    """An empty database on each older server."""
    name = f"test_{next(_numbers)}"
    conn = await asyncpg.connect(older_server.dsn())
    await conn.execute(f"CREATE DATABASE {name}")
    yield older_server.dsn(name)
    await conn.execute(f"DROP DATABASE {name} WITH (FORCE)")
    await conn.close()


@pytest.fixture
async def older_db(older_dsn: str) -> AsyncIterator[Database]:
    """A migrated database on each older server: what the test does works there too."""
    await migrate(older_dsn)
    async with await Database.open(older_dsn, application_name="test") as database:
        yield database


@pytest.fixture(scope="session")
def tcp_server() -> Iterator[ExternalServer]:
    """PostgreSQL 18 on TCP with a password and very few connections."""
    server, remove = start_external(
        binaries(), "-c max_connections=4", "-c superuser_reserved_connections=1", "-c reserved_connections=0",
        "-c max_wal_senders=0",
    )  # fmt: skip
    yield server
    remove()
