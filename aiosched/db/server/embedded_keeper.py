"""Ends an embedded server whose users were all killed: `python -I -S embedded_keeper.py DATA_DIRECTORY PID`.

The server is nobody's child, so that it outlives the process that started it, and others share it. So a process of its
own stands beside each server. Once a second it tries to lock `<data directory>.users` as the last user does; when
nobody has used the server for `ABANDONED_LOOKS` looks in a row it shuts it down: that long a host that was killed, and
is started again, finds its server running. The keeper ends with its server, however that ends.

It is a program of the standard library alone: it needs a fourth of the memory of a process that imports aiosched.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Iterator
from typing import Final

ABANDONED_LOOKS: Final = 5
_PAUSE: Final = 1.0  # seconds between two looks
_ENDINGS: Final = (
    (signal.SIGINT, 60.0),
    (signal.SIGQUIT, 10.0),
)  # as EmbeddedPostgres.stop: the signal, seconds for it


class Server:
    """The process of a server. Where the system has descriptors of processes, no reused number is taken for it."""

    def __init__(self, data_dir: str, pid: int) -> None:
        self._pid_file, self.pid = os.path.join(data_dir, "postmaster.pid"), pid  # noqa: PTH118
        self._descriptor: int | None = None
        with contextlib.suppress(AttributeError, PermissionError, NotImplementedError):
            self._descriptor = os.pidfd_open(pid)

    def ends_within(self, seconds: float) -> bool:
        """Wait for its end; whether it has ended."""
        if self._descriptor is not None:
            poll = select.poll()
            poll.register(self._descriptor, select.POLLIN)
            return bool(poll.poll(seconds * 1000))
        time.sleep(seconds)
        try:
            os.kill(self.pid, 0)
        except PermissionError:
            return False
        except OSError:
            return True
        return False

    def send(self, signum: signal.Signals) -> None:
        """Send it a signal, if the pid file says that it is the server of the data directory still."""
        with contextlib.suppress(OSError), open(self._pid_file, "rb") as file:  # noqa: PTH123
            if file.readline().strip() != b"%d" % self.pid:
                return
            if self._descriptor is not None:
                signal.pidfd_send_signal(self._descriptor, signum)
            else:
                os.kill(self.pid, signum)


def keep(data_dir: str, server: Server, ends_within: Callable[[float], bool]) -> None:
    """Return when the server has ended, or was shut down because nobody used it any more."""
    unused = 0
    while not ends_within(_PAUSE):
        with _locked(f"{data_dir}.lock") as nobody_starts_or_stops:
            if not nobody_starts_or_stops:
                continue
            with _locked(f"{data_dir}.users") as nobody_uses:
                unused = unused + 1 if nobody_uses else 0
            if unused >= ABANDONED_LOOKS:
                for signum, patience in _ENDINGS:
                    server.send(signum)
                    if ends_within(patience):
                        break
                return


@contextlib.contextmanager
def _locked(path: str) -> Iterator[bool]:
    """Hold the exclusive lock of a file if that is possible at once; whether it is held. A missing file is not made."""
    try:
        file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        yield False
        return
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield False
        else:
            yield True
    finally:
        os.close(file)


def main(data_dir: str, pid: int) -> None:
    """Stand beside the server with this process until it has ended."""
    try:
        server = Server(data_dir, pid)
    except ProcessLookupError:
        return
    keep(data_dir, server, server.ends_within)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
