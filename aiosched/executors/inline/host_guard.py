"""The host's side of its guard process, which ends the commands of its tasks when the host is killed."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from typing import Final

from aiosched import leftovers
from aiosched.config.secret_environment import without_secrets
from aiosched.executors.worker.lease_deadline import LeaseDeadline

_PATIENCE: Final = 5.0  # seconds for the guard to end


class HostGuard:
    """A guard process for the commands that this process starts itself.

    It is started with the first command. Implements CommandGuard. `lease_deadline`: until when the host is considered
    alive. Thread-safe.
    """

    def __init__(self, lease_deadline: LeaseDeadline) -> None:
        self.mark: str = leftovers.new_mark()
        self._lease_deadline = lease_deadline
        self._groups: set[int] = set()
        self._changing = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._line: socket.socket | None = None

    def stand(self) -> None:
        """Start the guard if there is none. Raises OSError if no process can be started."""
        with self._changing:
            if self._process is None or self._process.poll() is not None:
                self._start()

    def begun(self, group: int) -> None:
        """Register a running command, which has its own process group."""
        with self._changing:
            self._groups.add(group)
            self._send(f"+{group}\n")

    def ended(self, group: int) -> None:
        """Unregister a command that has ended."""
        with self._changing:
            self._groups.discard(group)
            self._send(f"-{group}\n")

    def close(self) -> None:
        """Make the guard end the remaining commands and exit. Blocks."""
        with self._changing:
            process, self._process = self._process, None
            if self._line is not None:
                self._line.close()
                self._line = None
        if process is not None:
            try:
                process.wait(_PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _start(self) -> None:
        if self._line is not None:
            self._line.close()
        self._line, theirs = socket.socketpair()
        self._line.settimeout(None)  # a library may have set a default timeout
        passed = (theirs.fileno(), self._lease_deadline.descriptor)
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "aiosched.executors.worker.guard", *map(str, passed), self.mark],
                env=without_secrets(os.environ),
                stdin=subprocess.DEVNULL,
                pass_fds=passed,
                start_new_session=True,
            )
        finally:
            theirs.close()
        self._send("".join(f"+{group}\n" for group in self._groups))

    def _send(self, text: str) -> None:
        if self._line is not None:
            try:
                self._line.sendall(text.encode())
            except OSError:
                return  # it was killed: the next command starts another guard, which gets all groups
