"""A real pgbouncer in transaction mode, for tests of what works through one."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from aiosched.db.server.embedded_host import Account, claim_folder
from tests.conftest import short_folder

PROGRAM = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
WHY_NOT = "pgbouncer is not installed (apt-get install pgbouncer)"

_SETTINGS = """
[databases]
* = host={host} port={port} user=postgres
[pgbouncer]
listen_addr =
unix_socket_dir = {folder}
listen_port = {number}
auth_type = any
pool_mode = transaction
default_pool_size = {servers}
max_client_conn = 200
server_lifetime = 3600
"""


@contextlib.contextmanager
def pgbouncer(dsn: str, *, servers: int = 3) -> Iterator[str]:
    """The DSN of a pgbouncer in front of the server at `dsn` (a socket folder), with so many connections to it."""
    assert PROGRAM is not None, WHY_NOT
    parts = urlsplit(dsn)
    query = parse_qs(parts.query)
    folder = short_folder()
    account = Account.for_data(folder / "none")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        number = probe.getsockname()[1]
    settings = folder / "pgbouncer.ini"
    host, port = query["host"][0], query.get("port", ["5432"])[0]
    settings.write_text(_SETTINGS.format(host=host, port=port, folder=folder, number=number, servers=servers))
    settings.chmod(0o644)
    claim_folder(folder, account)
    become = {"user": account.uid, "group": account.gid, "extra_groups": []} if account.switch else {}
    process = subprocess.Popen([PROGRAM, "-q", str(settings)], stderr=subprocess.PIPE, text=True, **become)  # type: ignore[call-overload]
    try:
        _wait_for(folder / f".s.PGSQL.{number}", process)
        yield f"postgresql://postgres@{parts.path}?host={folder}&port={number}"
    finally:
        process.terminate()
        process.communicate()
        shutil.rmtree(folder)


def _wait_for(path: Path, process: subprocess.Popen[str]) -> None:
    """Return when it listens. Its log goes to stderr line by line; the socket is there before the first of them."""
    with socket.socket(socket.AF_UNIX) as knock:
        while True:
            if process.poll() is not None:
                raise AssertionError(f"pgbouncer ended: {process.communicate()[1]}")
            with contextlib.suppress(OSError):
                knock.connect(str(path))
                return
