"""The scheduler's side of the forkserver: starts it, requests workers, receives their exits."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Protocol

from aiosched import leftovers
from aiosched.config.secret_environment import without_secrets
from aiosched.executors.worker.lease_deadline import LeaseDeadline
from aiosched.executors.worker.processes import describe_exit
from aiosched.executors.worker.protocol import Exited, Fork, Forked, FrameReader, Setup, Signal, WorkerConfig, frame
from aiosched.other_user import OtherUser, command_as, environment_of
from aiosched.scratch import remove_scratch_folders

_READ = 65_536
_PATIENCE = 5.0  # seconds for all processes to end


class ForkserverListener(Protocol):
    """Receives events of the forkserver. All calls are made on the event loop."""

    def worker_forked(self, worker: int, pid: int) -> None: ...
    def worker_exited(self, exited: Exited) -> None: ...
    def forkserver_lost(self, ended: asyncio.Task[str]) -> None:
        """The forkserver has ended. `ended` resolves to how it ended, once no process of it or its workers is left."""


class ForkserverClient:
    """One forkserver process, below a guard (guard.py).

    With a `user` they run as that one, who can neither signal nor read this process.

    They are started by exec, so the host process never forks itself, and their end is seen on a socket, so no signal
    handler is needed in the host.
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
        self._mark = leftovers.new_mark()
        self._control, theirs = socket.socketpair()
        self._control.settimeout(None)  # a library may have set a default timeout
        try:
            self._lifeline, end = socket.socketpair()
        except BaseException:
            self._control.close()
            theirs.close()
            raise
        lease = lease_deadline.reader()
        passed = (theirs.fileno(), lease, end.fileno())
        command = [sys.executable, "-P", "-m", "aiosched.executors.worker.forkserver", *map(str, passed)]
        environment = {**without_secrets(os.environ), leftovers.MARK: self._mark}
        try:
            self._guard = subprocess.Popen(
                command if user is None else command_as(user, command),
                env=environment if user is None else environment_of(user, environment),
                stdin=subprocess.DEVNULL,
                pass_fds=passed,
                start_new_session=True,
            )
        except BaseException:
            self._control.close()
            self._lifeline.close()
            raise
        finally:
            theirs.close()
            end.close()
            os.close(lease)
        self._open = True
        self._loop.add_reader(self._control, self._read)
        self._send(Setup(config, [str(Path(entry).absolute()) for entry in sys.path]))

    @property
    def pid(self) -> int:
        """The pid of the guard, the forkserver's parent."""
        return self._guard.pid

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

    def signal(self, worker: int, signum: int, *, group: bool = True) -> None:
        """Send a signal to a worker's process group (or to the worker alone)."""
        self._send(Signal(worker, signum, group))

    async def close(self) -> None:
        """End the forkserver; it kills the remaining workers and all their processes."""
        if self._open:
            self._shut()
            await asyncio.to_thread(self._await_end)

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
        self._listener.forkserver_lost(self._loop.create_task(asyncio.to_thread(self._await_end)))

    def _await_end(self) -> str:
        """Wait for the guard, which ends last; returns how the forkserver ended.

        Blocks. The guard is killed if that takes too long. Processes that it then could not end are found by their
        mark.
        """
        try:
            status = self._guard.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            self._guard.kill()
            status = self._guard.wait()
        self._lifeline.close()
        leftovers.end(lambda: leftovers.carrying(leftovers.MARK, lambda mark: mark == self._mark))
        remove_scratch_folders(lambda mark, _: mark == self._mark)
        return describe_exit(status)

    def _shut(self) -> None:
        self._open = False
        self._loop.remove_reader(self._control)
        self._control.close()
