"""Processes of a pool that inherit nothing of the application that starts them."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing.connection import wait
from multiprocessing.context import SpawnContext, SpawnProcess
from types import ModuleType
from typing import Any, Final

from aiosched.errors import ConfigError

GRACE: Final = 5.0  # seconds after SIGTERM, before SIGKILL
_REAPED_WITHIN: Final = 2.0  # seconds after SIGKILL, unless the kernel holds the process


class CleanContext(SpawnContext):
    """Starts processes that inherit nothing: no sockets, no threads, and not the application's main module.

    Fresh interpreters (spawn) otherwise import the `__main__` of the process that starts
    them. That is user code, which supervisors never run, and without an
    `if __name__ == "__main__"` it would start the application once more.
    """

    def __init__(self) -> None:
        self.started: list[SpawnProcess] = []

    def Process(self, *args: Any, **kwargs: Any) -> SpawnProcess:  # type: ignore[override]
        process = _CleanProcess(*args, **kwargs)
        self.started = [p for p in self.started if p.pid is None or _lives(p)]
        self.started.append(process)
        return process

    def pool(self, size: int, prepare: Callable[..., None], *words: Any) -> ProcessPoolExecutor:
        """A pool of such processes, each of which calls `prepare` first. Raises ConfigError: see `check_semaphores`."""
        check_semaphores()
        return ProcessPoolExecutor(size, mp_context=self, initializer=prepare, initargs=words)

    @property
    def pids(self) -> tuple[int, ...]:
        """The live processes."""
        return tuple(p.pid for p in self.started if p.pid is not None and _lives(p))

    async def end(self, pool: ProcessPoolExecutor) -> None:
        """End all started processes, and close their pool. One that the kernel holds is left behind after seconds.

        SIGTERM makes each kill its running child; who does not end by it, because it is stopped or hangs, is killed.
        """
        await asyncio.to_thread(self.end_blocking, pool)

    def end_blocking(self, pool: ProcessPoolExecutor) -> None:
        """The same, on no event loop."""
        alive = _left(self.started, 0.0)
        for process in alive:
            process.terminate()
        alive = _left(alive, GRACE)
        for process in alive:
            process.kill()
        pool.shutdown(wait=not _left(alive, _REAPED_WITHIN), cancel_futures=True)


def check_semaphores() -> None:
    """Raise ConfigError if this machine gives no semaphores, which pools of processes need."""
    try:
        SpawnContext().Lock()
    except (OSError, ImportError) as error:
        raise ConfigError(
            f"The processes that read DAG files need semaphores, and the system gives none: {error}. "
            "They are files in /dev/shm: let this user write there, for example with a tmpfs "
            "(`docker run --tmpfs /dev/shm`, in Kubernetes an emptyDir with `medium: Memory`)."
        ) from error


def _left(processes: list[SpawnProcess], seconds: float) -> list[SpawnProcess]:
    """Those that live after so many seconds."""
    deadline = time.monotonic() + seconds
    return [process for process in processes if _lives(process, max(deadline - time.monotonic(), 0.0))]


def _lives(process: SpawnProcess, seconds: float = 0.0) -> bool:
    """Whether it has begun and lives after so many seconds, by the descriptor that its end closes.

    `is_alive` takes a process for a live one whose end somebody else has collected: the thread of its pool that is
    about to note it, or an application that ignores or handles SIGCHLD.
    """
    try:
        return not wait([process.sentinel], seconds)
    except ValueError:  # has not begun, or is closed
        return False


class _CleanProcess(SpawnProcess):
    def start(self) -> None:
        with _main_module_hidden(), _interrupts_blocked():
            super().start()


class _WithoutFile(ModuleType):
    """A substitute for a main module: has all its names, but neither a file nor a spec to import it from."""

    def __init__(self, main: ModuleType) -> None:
        super().__init__(main.__name__)
        self._main = main

    def __getattr__(self, name: str) -> Any:
        if name == "__file__":
            raise AttributeError(name)
        return getattr(self._main, name)


def ignore_interrupts() -> None:
    """In a started process: let Ctrl-C in the terminal pass, also one that came before this call."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


@contextlib.contextmanager
def _interrupts_blocked() -> Iterator[None]:
    """A process that starts inherits it: until it ignores Ctrl-C, that would end it with a traceback."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextlib.contextmanager
def _main_module_hidden() -> Iterator[None]:
    main = sys.modules["__main__"]
    sys.modules["__main__"] = _WithoutFile(main)
    try:
        yield
    finally:
        sys.modules["__main__"] = main
