"""A real sshd on a port of its own, which lets the user of the tests in with a key that is made for it."""

from __future__ import annotations

import contextlib
import getpass
import shutil
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.providers.processes import started

SSHD = shutil.which("sshd", path="/usr/sbin:/usr/local/sbin:/usr/bin")
WHY_NO_SSHD = "sshd is not installed (apt-get install openssh-server)"
_SEPARATION = Path("/run/sshd")  # sshd wants this folder when it is started by root

CONFIG = """\
ListenAddress 127.0.0.1
Port {port}
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/key.pub
PidFile none
StrictModes no
UsePAM no
PasswordAuthentication no
AcceptEnv WORD
Subsystem sftp internal-sftp
"""


@dataclass(frozen=True)
class SshServer:
    """Where it listens, and the key to it."""

    port: int
    key: str

    @property
    def fields(self) -> dict[str, Any]:
        """Those of a connection to it: the key is part of it, so that no worker needs a file."""
        extra = {"private_key": self.key, "no_host_key_check": True}
        return {"host": "127.0.0.1", "port": self.port, "login": getpass.getuser(), "extra": extra}


@contextlib.contextmanager
def ssh_server(folder: Path) -> Iterator[SshServer]:
    """Start it in `folder`; it ends with all its sessions."""
    assert SSHD is not None, WHY_NO_SSHD
    for name in ("host_key", "key"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)], check=True)
    with contextlib.suppress(PermissionError):
        _SEPARATION.mkdir(exist_ok=True)
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port = sock.getsockname()[1]
    (folder / "config").write_text(CONFIG.format(port=port, folder=folder))
    command = [SSHD, "-D", "-e", "-f", str(folder / "config")]
    with started(command, "listening on"):
        yield SshServer(port, (folder / "key").read_text())
