"""Opening the logs of attempts for workers that run as another user, who must not write to any other log.

The scheduler opens the file and passes its descriptor, over a socket of its own for each worker; of a worker that asks
for the log of an attempt that it does not run, it says no. What is done to files beside the log (remote/pending.py),
the scheduler does as well. Calls are one datagram, answered one at a time; the answer is an error's text, or empty.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Final

import msgspec

from aiosched.core.values.allowance import Allowance
from aiosched.core.values.messages import Attempt, AttemptKey
from aiosched.remote import pending
from aiosched.remote.log_files import log_path

_LARGEST: Final = 65_536


class LogOperation(StrEnum):
    """What a worker asks for: the open log, or what AttemptLog does to the files beside it."""

    OPEN = "open"
    HOLD = "hold"
    RELEASE = "release"
    AGAIN = "again"  # release, and the log has changed


class LogCall(msgspec.Struct, frozen=True, array_like=True):
    """What, and of which attempt."""

    deed: LogOperation
    key: AttemptKey


class RemoteLogFiles:
    """The worker's side. Blocks; safe to use from several threads."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._socket.setblocking(True)
        self._asking = threading.Lock()

    def open(self, attempt: Attempt) -> int:
        """The descriptor of the attempt's log, to append to, and to read. Raises OSError."""
        descriptors = self._ask(LogOperation.OPEN, attempt)
        if len(descriptors) != 1:
            raise OSError("the scheduler has passed no log")
        os.set_inheritable(descriptors[0], False)
        return descriptors[0]

    def tell(self, deed: LogOperation, attempt: Attempt) -> None:
        """Have something done to the files beside the log. Raises OSError."""
        self._ask(deed, attempt)

    def _ask(self, deed: LogOperation, attempt: Attempt) -> list[int]:
        with self._asking:
            self._socket.send(msgspec.msgpack.encode(LogCall(deed, attempt.key)))
            said, descriptors, _, _ = socket.recv_fds(self._socket, _LARGEST, 1)
        if said[:1] != b"+":
            raise OSError(said[1:].decode(errors="replace") or "the scheduler does not answer")
        return descriptors


class LogFileServer:
    """The scheduler's side, with a thread for each worker, which rests if that asks without end.

    `open_log` opens the log at a path below `folder`.
    """

    def __init__(
        self, folder: Path, open_log: Callable[[Path], int], *, rest: Callable[[float], None] = time.sleep
    ) -> None:
        self._folder, self._open_log, self._rest = folder, open_log, rest

    def serve(self, find: Callable[[AttemptKey], Attempt | None]) -> socket.socket:
        """The worker's end of a new socket, served until it is closed. `find`: the attempts that the worker runs."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        threading.Thread(target=self._serve, args=(ours, find), name="logs of a worker", daemon=True).start()
        return theirs

    def _serve(self, sock: socket.socket, find: Callable[[AttemptKey], Attempt | None]) -> None:
        allowance = Allowance(time.monotonic())
        with sock:
            while True:
                try:
                    if not (data := sock.recv(_LARGEST)):
                        return
                    while pause := allowance.take(time.monotonic(), 1):
                        self._rest(pause)
                    self._answer(sock, data, find)
                except OSError:  # the worker is gone
                    return

    def _answer(self, sock: socket.socket, data: bytes, find: Callable[[AttemptKey], Attempt | None]) -> None:
        try:
            call = msgspec.msgpack.decode(data, type=LogCall)
            attempt = find(call.key)
            if attempt is None:
                raise PermissionError("it is not the log of an attempt of this worker")
            descriptor = self._do(call.deed, log_path(self._folder, attempt))
        except Exception as error:  # whatever it is, the worker waits
            sock.send(b"-" + str(error).encode(errors="replace")[: _LARGEST - 1])
            return
        if descriptor is None:
            sock.send(b"+")
            return
        try:
            socket.send_fds(sock, [b"+"], [descriptor])
        finally:
            os.close(descriptor)

    def _do(self, deed: LogOperation, path: Path) -> int | None:
        if deed is LogOperation.OPEN:
            return self._open_log(path)
        if deed is LogOperation.HOLD:
            pending.hold(self._folder, path, path.stat().st_size)
        else:
            pending.release(self._folder, path, changed=deed is LogOperation.AGAIN)
        return None
