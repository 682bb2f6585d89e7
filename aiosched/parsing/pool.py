"""The pool of supervisors: parses files off the event loop and survives the loss of its processes.

Source: docs/architecture.md, "From a file to a version".
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from aiosched.authoring.base.settings import AuthoringDefaults
from aiosched.bundles.names import path_in, prefix_of
from aiosched.config.secret_environment import secret_variables
from aiosched.core.values.masking import secrets
from aiosched.logs import writes_json
from aiosched.other_user import OtherUser, check_rights, other_user
from aiosched.parsing.clean_processes import CleanContext
from aiosched.parsing.discovery import DagFile
from aiosched.parsing.limits import Limits
from aiosched.parsing.result import FileError, ParsedFile, one_line
from aiosched.parsing.supervisor import ParseRequest, prepare, supervise
from aiosched.parsing.values import ValueServer

if TYPE_CHECKING:
    from concurrent.futures import ProcessPoolExecutor

    from aiosched.config import Settings

log: Final = logging.getLogger(__name__)

_AT_MOST: Final = 4  # supervisors, if not configured
IDLE: Final = 60.0  # seconds without a file, after which the supervisors end


def supervisors_for(settings: Settings) -> int:
    """The number of files parsed at a time."""
    return settings.parsing.processes or min(_AT_MOST, os.cpu_count() or 1)


class ParsingPool:
    """Supervisors that parse files.

    They start with the first files and end with `close`. Submit at most `size` files at a time: if a supervisor is
    killed from outside, all submitted files fail with it and are parsed once more. `root` is the DAGs folder of files
    that name none. `values` answers look-ups of
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
        self.size: int = supervisors_for(settings)
        self._prepared_with = (
            Limits.of(settings),
            AuthoringDefaults.of(settings, Path(root) if root else None),
            user,
            secret_variables(),
            writes_json(),
        )
        self._root = root
        self._values = values
        self.busy_seconds: float = 0.0  # how long all parses took
        self._busy = 0  # files that are being parsed
        self._idle_since = time.monotonic()
        self._closed = False
        self._context = CleanContext()
        self._executor = self._new_executor()

    async def parse(self, file: DagFile) -> ParsedFile:
        """The outcome of importing `file` in a child; never raises for errors of the file."""
        self._busy += 1
        try:
            result = await self._parse(file)
        finally:
            self._busy -= 1
            self._idle_since = time.monotonic()
        self.busy_seconds += result.seconds
        prefix = prefix_of(file.bundle)
        sources = result.sources and {prefix + name: digest for name, digest in result.sources.items()}
        data = {prefix + name: digest for name, digest in result.data.items()}
        place = {"data": data, "name": file.name, "bundle": file.bundle, "bundle_version": file.version}
        place["root"] = self._root_of(file)
        return msgspec.structs.replace(_masked(result), sources=sources, **place)

    async def _parse(self, file: DagFile) -> ParsedFile:
        request = ParseRequest(path_in(file.bundle, file.name), str(file.path), self._root_of(file), file.member)
        if self._values is None:
            return await self._supervised(file, request)
        async with self._values.answering(file.name) as address:
            return await self._supervised(file, request._replace(values=address))

    def _root_of(self, file: DagFile) -> str:
        return self._root if file.root is None else str(file.root)

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
    def pids(self) -> tuple[int, ...]:
        """The live supervisors."""
        return self._context.pids

    async def release_when_idle(self) -> None:
        """End supervisors that have nothing to do for long, for ever."""
        while True:
            await asyncio.sleep(IDLE)
            if self._busy == 0 and time.monotonic() - self._idle_since >= IDLE and self.pids:
                await self.release()

    async def release(self) -> None:
        """End the supervisors, which must be idle, to free their memory; the next file starts new ones."""
        executor, self._executor = self._executor, self._new_executor()
        await asyncio.to_thread(executor.shutdown, wait=True)

    async def close(self) -> None:
        """End all supervisors and their children. Pending `parse` calls raise BrokenProcessPool."""
        self._closed = True
        await self._context.end(self._executor)
        if self._values is not None:
            await self._values.close()

    def _new_executor(self) -> ProcessPoolExecutor:
        return self._context.pool(self.size, prepare, *self._prepared_with)


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


_BROKEN_TWICE: Final = FileError(
    type="Killed",
    message="The process that parses this file was killed from outside, twice. Perhaps the machine or the container "
    "ran out of memory: give it more, or lower parsing.max_memory_bytes or parsing.processes.",
)
