"""The scheduler's side of the forkserver: starts it, asks it for workers, hears of their ends."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Protocol

from aiosched.core.masking import KEY_VARIABLES
from aiosched.executors.processes import describe_exit
from aiosched.executors.protocol import Exited, Fork, Forked, FrameReader, Setup, Signal, WorkerConfig, frame
from aiosched.executors.trust import TrustWindow
from aiosched.timeouts import clean_up_timeout

_READ = 65_536


class ForkserverListener(Protocol):
    """Who is told what happens. All calls come from the event loop."""

    def worker_forked(self, worker: int, pid: int) -> None: ...
    def worker_exited(self, worker: int, code: int | None, reason: str | None) -> None: ...
    def forkserver_lost(self, reason: str) -> None: ...


class ForkserverClient:
    """One forkserver process. It is started by exec, so the host process never forks itself, and
    its end is seen on its socket, so no signal handler is needed in the host."""

    def __init__(self, config: WorkerConfig, listener: ForkserverListener, trust: TrustWindow) -> None:
        self._listener = listener
        self._loop = asyncio.get_running_loop()
        self._reader = FrameReader()
        self._control, theirs = socket.socketpair()
        passed = (theirs.fileno(), trust.descriptor)
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "aiosched.executors.forkserver", *map(str, passed)],
                env={name: value for name, value in os.environ.items() if name not in KEY_VARIABLES},
                stdin=subprocess.DEVNULL,
                pass_fds=passed,
                start_new_session=True,
            )
        except BaseException:
            self._control.close()
            raise
        finally:
            theirs.close()
        self._open = True
        self._loop.add_reader(self._control, self._read)
        self._send(Setup(config, [str(Path(entry).absolute()) for entry in sys.path]))

    @property
    def pid(self) -> int:
        """The forkserver's process id."""
        return self._process.pid

    def fork(self, worker: int, *, is_async: bool, tickets: int | None = None) -> socket.socket:
        """Ask for a worker; returns our end of its socket at once. Its process is announced later.

        A worker for plain functions gets the descriptor `tickets` as well.
        """
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        try:
            if self._open:
                passed = [theirs.fileno()] if tickets is None else [theirs.fileno(), tickets]
                socket.send_fds(self._control, [frame(Fork(worker, is_async))], passed)
        except OSError:
            pass  # it is gone: the next read says so
        finally:
            theirs.close()
        return ours

    def signal(self, worker: int, signum: int, *, group: bool = True) -> None:
        """Send a signal to a worker's process group (or to the worker alone)."""
        self._send(Signal(worker, signum, group))

    async def close(self) -> None:
        """End it; it kills what workers are left with their groups."""
        if self._open:
            self._shut()
        try:
            async with clean_up_timeout(5):
                await asyncio.to_thread(self._process.wait)
        except TimeoutError:
            self._process.send_signal(signal.SIGKILL)
            await asyncio.to_thread(self._process.wait)

    def _send(self, message: Setup | Signal) -> None:
        if self._open:
            try:
                self._control.sendall(frame(message))
            except OSError:
                pass  # as above

    def _read(self) -> None:
        """Read all there is: of a socket that is broken and still holds something, uvloop tells only once."""
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
                    case Exited(worker, code, reason):
                        self._listener.worker_exited(worker, code, reason)

    def _lose(self) -> None:
        self._shut()
        try:
            status = self._process.wait(1)
        except subprocess.TimeoutExpired:
            self._process.kill()
            status = self._process.wait()
        self._listener.forkserver_lost(describe_exit(status))

    def _shut(self) -> None:
        self._open = False
        self._loop.remove_reader(self._control)
        self._control.close()
