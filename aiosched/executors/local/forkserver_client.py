"""The scheduler's side of the forkserver: starts it, requests workers, receives their exits."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from pathlib import Path
from typing import Final, Protocol

from aiosched.executors.local.guarded_process import GuardedProcess
from aiosched.executors.worker.lease_deadline import LeaseDeadline
from aiosched.executors.worker.protocol import Exited, Fork, Forked, FrameReader, Setup, Signal, WorkerConfig, frame
from aiosched.other_user import OtherUser

FORKSERVER: Final = "aiosched.executors.worker.forkserver"  # the program
_READ = 65_536


class ForkserverListener(Protocol):
    """Receives events of the forkserver. All calls are made on the event loop."""

    def worker_forked(self, worker: int, pid: int) -> None: ...
    def worker_exited(self, exited: Exited) -> None: ...
    def forkserver_lost(self, ended: asyncio.Task[str]) -> None:
        """The forkserver has ended. `ended` resolves to how it ended, once no process of it or its workers is left."""


class ForkserverClient:
    """One forkserver process, below a guard (guard.py).

    With a `user` they run as that one, who can neither signal nor read this process.
    """

    def __init__(
        self,
        config: WorkerConfig,
        listener: ForkserverListener,
        lease_deadline: LeaseDeadline,
        user: OtherUser | None = None,
    ) -> None:
        self._listener = listener
        self._loop = asyncio.get_running_loop()
        self._reader = FrameReader()
        lease = lease_deadline.reader()
        try:
            self._process = GuardedProcess(FORKSERVER, [lease], output="aiosched.workers", user=user)
        finally:
            os.close(lease)
        self._control = self._process.control
        self._open = True
        self._loop.add_reader(self._control, self._read)
        self._send(Setup(config, [str(Path(entry).absolute()) for entry in sys.path]))

    @property
    def pid(self) -> int:
        """The pid of the guard, the forkserver's parent."""
        return self._process.pid

    def fork(self, worker: int, shared: int, *, is_async: bool, logs: socket.socket | None = None) -> socket.socket:
        """Request a worker; returns our end of its socket at once. Its process is announced later.

        `shared` is a second descriptor for the worker, `logs` its socket for logs (see Fork).
        """
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        try:
            if self._open:
                descriptors = [theirs.fileno(), shared, *(() if logs is None else (logs.fileno(),))]
                socket.send_fds(self._control, [frame(Fork(worker, is_async, logs is not None))], descriptors)
        except OSError:
            pass  # the forkserver is gone: the next read detects it
        finally:
            theirs.close()
        return ours

    def signal(self, worker: int, signum: int) -> None:
        """Send a signal to a worker's process group."""
        self._send(Signal(worker, signum))

    async def close(self) -> None:
        """End the forkserver; it kills the remaining workers and all their processes."""
        if self._open:
            self._shut()
            await asyncio.to_thread(self._process.await_end)

    def _send(self, message: Setup | Signal) -> None:
        if self._open:
            try:
                self._control.sendall(frame(message))
            except OSError:
                pass  # as above

    def _read(self) -> None:
        """Read all available data: uvloop reports a broken socket that still holds data only once."""
        while self._open:
            try:
                data = self._control.recv(_READ, socket.MSG_DONTWAIT)
            except (BlockingIOError, InterruptedError):
                return
            except OSError:
                data = b""
            if not data:
                self._lose()
            for message in self._reader.feed(data):
                match message:
                    case Forked(worker, pid):
                        self._listener.worker_forked(worker, pid)
                    case Exited():
                        self._listener.worker_exited(message)

    def _lose(self) -> None:
        self._shut()
        self._listener.forkserver_lost(self._loop.create_task(asyncio.to_thread(self._process.await_end)))

    def _shut(self) -> None:
        self._open = False
        self._loop.remove_reader(self._control)
        self._control.close()
