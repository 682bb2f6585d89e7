"""The pool of supervisors: parses files off the event loop and survives the loss of its processes.

Source: docs/architecture.md, "From a file to a version".
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.context import SpawnContext, SpawnProcess
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

import msgspec

from aiosched.authoring.base.settings import AuthoringDefaults
from aiosched.bundles.names import path_in, prefix_of
from aiosched.config.secret_environment import secret_variables
from aiosched.core.values.masking import secrets
from aiosched.other_user import OtherUser, check_rights, other_user
from aiosched.parsing.discovery import DagFile
from aiosched.parsing.limits import Limits
from aiosched.parsing.result import FileError, ParsedFile, one_line
from aiosched.parsing.supervisor import ParseRequest, prepare, supervise
from aiosched.parsing.values import ValueServer

if TYPE_CHECKING:
    from aiosched.config import Settings

log: Final = logging.getLogger(__name__)

_AT_MOST: Final = 4  # supervisors, if not configured


def supervisors_for(settings: Settings) -> int:
    """The number of files parsed at a time."""
    return settings.parsing.processes or min(_AT_MOST, os.cpu_count() or 1)


class ParsingPool:
    """Supervisors that parse files.

    They start with the first files and end with `close`. Submit at most `size` files at a time: if a supervisor is
    killed from outside, all submitted files fail with it and are parsed once more. `values` answers look-ups of
    variables and connections (None: files read only the environment); the pool closes it. Files are imported as `user`.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        root: str = "",
        values: ValueServer | None = None,
        user: OtherUser | None = None,
    ) -> None:
        self.size = supervisors_for(settings)
        self._prepared_with = (Limits.of(settings), AuthoringDefaults.of(settings), user, secret_variables())
        self._root = root
        self._values = values
        self._closed = False
        self._context = _CleanContext()
        self._executor = self._new_executor()

    async def parse(self, file: DagFile) -> ParsedFile:
        """The outcome of importing `file` in a child; never raises for errors of the file."""
        result = await self._parse(file)
        prefix = prefix_of(file.bundle)
        sources = result.sources and {prefix + name: digest for name, digest in result.sources.items()}
        data = {prefix + name: digest for name, digest in result.data.items()}
        place = {"data": data, "name": file.name, "bundle": file.bundle, "bundle_version": file.version}
        return msgspec.structs.replace(_masked(result), sources=sources, **place)

    async def _parse(self, file: DagFile) -> ParsedFile:
        name, root = path_in(file.bundle, file.name), self._root if file.root is None else str(file.root)
        request = ParseRequest(name, str(file.path), root, file.member)
        if self._values is None:
            return await self._supervised(file, request)
        async with self._values.answering(file.name) as address:
            return await self._supervised(file, request._replace(values=address))

    async def _supervised(self, file: DagFile, request: ParseRequest) -> ParsedFile:
        for _ in range(2):
            executor = self._executor
            try:
                return await asyncio.wrap_future(executor.submit(supervise, request))
            except BrokenProcessPool:
                if self._closed:
                    raise
                if executor is self._executor:
                    executor.shutdown(wait=False)
                    self._executor = self._new_executor()
            except Exception as error:  # the supervisor could not fork, or has no memory left
                log.warning("%s could not be parsed: %r", file.name, error)
                wrong = FileError(type=type(error).__name__, message=one_line(f"Could not be parsed: {error}"))
                return ParsedFile(name=file.name, digest=file.digest, seconds=0.0, error=wrong)
        return ParsedFile(name=file.name, digest=file.digest, seconds=0.0, error=_BROKEN_TWICE)

    @property
    def pids(self) -> list[int]:
        """The live supervisors."""
        return [p.pid for p in self._context.started if p.pid is not None and p.is_alive()]

    async def release(self) -> None:
        """End the supervisors, which must be idle, to free their memory; the next file starts new ones."""
        executor, self._executor = self._executor, self._new_executor()
        await asyncio.to_thread(executor.shutdown, wait=True)

    async def close(self) -> None:
        """End all supervisors and their children. Pending `parse` calls raise BrokenProcessPool."""
        self._closed = True
        self._context.terminate()
        if self._values is not None:
            await self._values.close()
        await asyncio.to_thread(self._executor.shutdown, wait=True, cancel_futures=True)

    def _new_executor(self) -> ProcessPoolExecutor:
        return ProcessPoolExecutor(
            self.size, mp_context=self._context, initializer=prepare, initargs=self._prepared_with
        )


def user_of(settings: Settings) -> OtherUser | None:
    """As whom files are imported. Raises ConfigError if that is not possible."""
    if (name := settings.executor.run_as) is None:
        return None
    user = other_user(name, "executor.run_as")
    check_rights("executor.run_as")
    return user


def _masked(result: ParsedFile) -> ParsedFile:
    """The outcome without the secrets that its file was told, in messages and in what it printed."""
    may_know_some = result.reads_values or result.sources is None  # None: it ended without an answer
    if not may_know_some or not secrets:
        return result
    error, warnings = result.error, tuple(map(secrets.redact, result.warnings))
    if error is not None:
        texts = {name: getattr(error, name) for name in ("message", "traceback", "code_frame")}
        hidden = {name: secrets.redact(text) for name, text in texts.items() if text is not None}
        error = msgspec.structs.replace(error, **hidden)
    return msgspec.structs.replace(result, error=error, warnings=warnings)


class _CleanContext(SpawnContext):
    """Starts processes that inherit nothing: no sockets, no threads, and not the application's main module.

    Fresh interpreters (spawn) otherwise import the `__main__` of the process that starts
    them. That is user code, which supervisors never run, and without an
    `if __name__ == "__main__"` it would start the application once more.
    """

    def __init__(self) -> None:
        self.started: list[SpawnProcess] = []

    def Process(self, *args: Any, **kwargs: Any) -> SpawnProcess:  # type: ignore[override]
        process = _CleanProcess(*args, **kwargs)
        self.started = [p for p in self.started if p.pid is None or p.is_alive()]
        self.started.append(process)
        return process

    def terminate(self) -> None:
        """Send SIGTERM to every started process; each kills its running child."""
        for process in self.started:
            if process.pid is not None and process.is_alive():
                process.terminate()


class _CleanProcess(SpawnProcess):
    def start(self) -> None:
        with _main_module_hidden():
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


@contextlib.contextmanager
def _main_module_hidden() -> Iterator[None]:
    main = sys.modules["__main__"]
    sys.modules["__main__"] = _WithoutFile(main)
    try:
        yield
    finally:
        sys.modules["__main__"] = main


_BROKEN_TWICE: Final = FileError(
    type="Killed",
    message="The process that parses this file was killed from outside, twice. Perhaps the machine or the container "
    "ran out of memory: give it more, or lower parsing.max_memory_bytes or parsing.processes.",
)
