"""A forkserver that the executors of a file's tests have one after the other: its imports take 0.3 s of a processor.

It forks workers with the configuration that it was told last, and knows nothing else of the executor before.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from pathlib import Path
from typing import Any

from aiosched import leftovers
from aiosched.executors.local.forkserver_client import ForkserverClient, ForkserverListener
from aiosched.executors.worker.lease_deadline import LeaseDeadline
from aiosched.executors.worker.protocol import Exited, Setup, WorkerConfig
from aiosched.other_user import OtherUser
from tests.patience import PATIENCE


def surroundings() -> tuple[object, ...]:
    """What a forkserver inherits from this process."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"}
    return environment, sys.path[:], Path.cwd(), [os.fstat(output).st_ino for output in (1, 2)]


class KeptForkserver(ForkserverClient):
    """Between `close` and `use` it has no workers and is nobody's."""

    def __init__(self, config: WorkerConfig, listener: ForkserverListener, lease_deadline: LeaseDeadline) -> None:
        self._host: ForkserverListener | None = listener
        self._workers, self._none_left = set[int](), asyncio.Event()
        self.is_used, self._surroundings = True, surroundings()
        self._page, self._lent = LeaseDeadline(), lease_deadline
        self._lent.memory = self._page.memory
        super().__init__(config, self, self._page)

    def suits(self) -> bool:
        """Whether it may become that of another executor."""
        return self._open and not self.is_used and self._surroundings == surroundings()

    def use(self, config: WorkerConfig, listener: ForkserverListener, lease_deadline: LeaseDeadline) -> None:
        """Become that of another executor, whose lease it heeds from now on."""
        self._host, self._loop, self.is_used = listener, asyncio.get_running_loop(), True
        self._lent, lease_deadline.memory = lease_deadline, self._page.memory
        self._loop.add_reader(self._control, self._read)
        self._send(Setup(config, []))

    def fork(self, worker: int, shared: int, **options: Any) -> socket.socket:
        self._workers.add(worker)
        return super().fork(worker, shared, **options)

    async def close(self) -> None:
        """End the workers with all their processes, and keep the forkserver."""
        self._none_left = asyncio.Event()
        self._host = None
        for worker in self._workers:
            self.signal(worker, signal.SIGKILL)
        if self._workers and self._open:
            async with asyncio.timeout(PATIENCE):
                await self._none_left.wait()
        if self._open:
            self._loop.remove_reader(self._control)
            self._lent.memory, self._page.until = LeaseDeadline().memory, 0.0
            self.is_used = False
            assert len(leftovers.descendants_of([self.pid])) <= 1, "only the forkserver, below its guard"

    def end(self) -> None:
        """End the forkserver, too."""
        if self._open:
            self._open = False
            self._control.close()
            self._process.await_end()

    # what it hears

    def worker_forked(self, worker: int, pid: int) -> None:
        if self._host is not None:
            self._host.worker_forked(worker, pid)

    def worker_exited(self, exited: Exited) -> None:
        self._workers.discard(exited.worker)
        if self._host is not None:
            self._host.worker_exited(exited)
        elif not self._workers:
            self._none_left.set()

    def forkserver_lost(self, ended: asyncio.Task[str]) -> None:
        self._none_left.set()
        if self._host is not None:
            self._host.forkserver_lost(ended)


class LentForkserver:
    """One that is kept, as long as an executor has it, which may close it twice."""

    def __init__(self, kept: KeptForkserver) -> None:
        self._kept, self.pid, self._is_closed = kept, kept.pid, False

    def fork(self, worker: int, shared: int, **options: Any) -> socket.socket:
        if self._is_closed:
            raise OSError("the executor has stopped")
        return self._kept.fork(worker, shared, **options)

    def signal(self, worker: int, signum: int) -> None:
        if not self._is_closed:
            self._kept.signal(worker, signum)

    async def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            await self._kept.close()


class KeptForkservers:
    """In the place of ForkserverClient: gives one that is kept and that nobody has, or a new one."""

    def __init__(self) -> None:
        self._all: list[KeptForkserver] = []

    def __call__(
        self,
        config: WorkerConfig,
        listener: ForkserverListener,
        lease_deadline: LeaseDeadline,
        user: OtherUser | None = None,
    ) -> ForkserverClient | LentForkserver:
        if user is not None:
            return ForkserverClient(config, listener, lease_deadline, user)
        for kept in self._all:
            if kept.suits():
                kept.use(config, listener, lease_deadline)
                return LentForkserver(kept)
        self._all.append(KeptForkserver(config, listener, lease_deadline))
        return LentForkserver(self._all[-1])

    def end(self) -> None:
        for kept in self._all:
            kept.end()
