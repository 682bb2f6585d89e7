"""A PostgreSQL for a peer that needs an extension which the embedded server of the comparison does not have."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import asyncpg

from aiosched.db.server.embedded_host import Account, claim_folder, programs, run_as
from benchmarks.processes import free_port

INSTALLED: Final = Path("/usr/lib/postgresql")  # where Debian's packages have each version


class NoServer(Exception):
    """No PostgreSQL of this machine has the extension."""


async def has(dsn: str, extension: str) -> bool:
    """Whether the extension can be created on this server."""
    conn = await asyncpg.connect(dsn)
    try:
        return bool(await conn.fetchval("SELECT 1 FROM pg_available_extensions WHERE name = $1", extension))
    finally:
        await conn.close()


@contextmanager
def installed_server(extension: str, folder: Path) -> Iterator[str]:
    """The DSN of a new cluster of the newest installed version that has it, with the defaults. Raises NoServer."""
    newest = _newest(extension)
    account = Account.for_data(folder / "pg")
    folder.mkdir()
    claim_folder(folder, account)
    runnable = programs(account, newest)
    run_as(account, [str(runnable / "initdb"), "-D", str(folder / "pg"), "--username=postgres", "--encoding=UTF8"])
    command = [str(runnable / "pg_ctl"), "-D", str(folder / "pg"), "-w", "-l", str(folder / "log")]
    port = free_port()
    options = f"-h '' -p {port} -k {folder} -c max_connections=200"
    run_as(account, [*command, "-o", options, "start"], new_session=True)
    try:
        yield f"postgresql://postgres@/postgres?host={folder}&port={port}"
    finally:
        run_as(account, [*command, "-m", "fast", "stop"])


def _newest(extension: str) -> Path:
    """The folder with the programs."""
    versions = sorted((folder for folder in INSTALLED.glob("[0-9]*")), key=lambda folder: int(folder.name))
    for version in reversed(versions):
        shared = subprocess.run(
            [version / "bin" / "pg_config", "--sharedir"], capture_output=True, text=True, check=False
        )
        if (Path(shared.stdout.strip()) / "extension" / f"{extension}.control").exists():
            return version / "bin"
    raise NoServer(
        f"It needs PostgreSQL's extension {extension}, which the embedded server does not have. "
        "Install Debian's package postgresql (which also starts a server that is not used)."
    )
