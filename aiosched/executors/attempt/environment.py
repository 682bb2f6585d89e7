"""What all attempts in a process share: where logs and large XComs go, limits, and the names of the process."""

from __future__ import annotations

import asyncio
import json
import os
import socket
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Any

from aiosched.core.values.messages import Attempt, StoredXCom, TaskServices, XComPlace, XComValue
from aiosched.errors import RemoteStorageError
from aiosched.executors.attempt.log_opening import RemoteLogFiles
from aiosched.executors.attempt.logs import AttemptLog
from aiosched.executors.attempt.results import XComLimits
from aiosched.remote.log_files import log_folder
from aiosched.remote.values import XComStore, remote_xcoms

if TYPE_CHECKING:
    from aiosched.authoring.runtime.context import Context
    from aiosched.config import Settings


@dataclass(frozen=True)
class GivenObjects:
    """What an application gives to the tasks that run in its process.

    context    values by name or type, in the context of each task
    around     makes the async context manager that is entered around each task, of its context; None: nothing
    loop       the application's, on which that is entered
    """

    context: Mapping[Any, Any]
    around: Callable[[Context], AbstractAsyncContextManager[Any]] | None
    loop: asyncio.AbstractEventLoop

    async def within(self, context: Context, work: Callable[[], Awaitable[Any]]) -> Any:
        """The result of `work`, inside the context manager."""
        if self.around is None:
            return await work()
        async with self.around(context):
            return await work()

    def within_in_thread(self, context: Context, work: Callable[[], Any]) -> Any:
        """The same for a plain function, in the thread that calls this: it enters and leaves on the loop."""
        if self.around is None:
            return work()
        manager = self.around(context)
        self._on_loop(manager.__aenter__())
        try:
            result = work()
        except BaseException as error:
            if not self._on_loop(manager.__aexit__(type(error), error, error.__traceback__)):
                raise
            return None
        self._on_loop(manager.__aexit__(None, None, None))
        return result

    def _on_loop(self, step: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(step, self.loop).result()


@dataclass(frozen=True)
class AttemptEnvironment:
    """The environment shared by all attempts in a process. Sizes in bytes; `logs_folder` None: no log files.

    `uploads_logs`: another part of the process tree writes the logs to remote storage while they grow.
    """

    logs_folder: Path | None = None
    max_xcom_bytes: int = 1_048_576
    max_log_bytes: int = 104_857_600
    max_field_length: int = 4096  # characters of a rendered template field that are stored
    max_map_length: int | None = None  # None: the default of AuthoringDefaults
    hostname: str = field(default_factory=socket.gethostname)
    pid: int = field(default_factory=os.getpid)
    uploads_logs: bool = False
    log_files: RemoteLogFiles | None = None  # None: this process may write to the logs folder itself
    xcoms: XComStore | None = None  # for large values; None: all go into the database
    given: GivenObjects | None = None  # by the application whose process this is

    @classmethod
    def of(cls, settings: Settings) -> AttemptEnvironment:
        """Those of a process that runs attempts on the machine of its scheduler."""
        xcoms = remote_xcoms(settings.xcom)
        return cls(
            logs_folder=settings.logs_folder,
            max_xcom_bytes=settings.core.max_xcom_bytes,
            max_log_bytes=settings.core.max_log_bytes,
            max_field_length=settings.core.max_templated_field_length,
            max_map_length=settings.core.max_map_length,
            uploads_logs=settings.logs.remote is not None,
            xcoms=None if xcoms is None else XComStore(xcoms),
        )

    def new_log(self, attempt: Attempt) -> AttemptLog:
        """The log of an attempt; its file is created with its first line."""
        limit, files = self.max_log_bytes, self.log_files
        return AttemptLog(self.logs_folder, attempt, limit, uploaded=self.uploads_logs, files=files)

    @property
    def xcom_limits(self) -> XComLimits:
        """The sizes that XComs may have."""
        remote = None if self.xcoms is None else self.xcoms.remote
        if remote is None:
            return XComLimits(self.max_xcom_bytes)
        return XComLimits(self.max_xcom_bytes, remote.remote_from, remote.most)

    async def store_xcoms(
        self, attempt: Attempt, values: Sequence[XComValue], services: TaskServices
    ) -> tuple[tuple[XComValue, ...], tuple[StoredXCom, ...]]:
        """Write the large ones of the values of an attempt to remote storage; returns the others, and those.

        Their files are entered in the database before: if the attempt does not get to report them, they are removed.
        Raises RemoteStorageError.
        """
        store, limits = self.xcoms, self.xcom_limits
        large = [] if store is None else [value for value in values if limits.is_remote(value.value)]
        if store is None or not large:
            return tuple(values), ()
        paths = [_path_of(attempt) for _ in large]
        key = attempt.key
        where = {"task_index": key.task_index, "map_index": key.map_index, "try_number": abs(key.try_number)}
        await services.call(key.run, "reserve_xcoms", json.dumps({"paths": paths, **where}))
        stored = []
        for value, path in zip(large, paths, strict=True):
            if attempt.is_async:
                stored.append(await asyncio.to_thread(store.write, path, value))
            else:
                stored.append(store.write(path, value))
        return tuple(value for value in values if value not in large), tuple(stored)

    async def read_xcom(self, place: XComPlace, *, on_loop: bool) -> str:
        """The JSON of a value in remote storage; in a thread if this runs on a loop. Raises RemoteStorageError."""
        if self.xcoms is None:
            raise RemoteStorageError(
                f"An XCom is in remote storage, as {place.path}, but xcom.remote is not set here: set it as it was "
                "when the XCom was pushed, or clear the task that pushed it."
            )
        return await asyncio.to_thread(self.xcoms.read, place) if on_loop else self.xcoms.read(place)


def _path_of(attempt: Attempt) -> str:
    """A new name for a value of an attempt."""
    run, key = attempt.run, attempt.key
    folder = log_folder(Path(), dag_id=run.dag_id, run_id=run.run_id, task_id=attempt.task_id, map_index=key.map_index)
    return f"{folder.as_posix()}/attempt={abs(key.try_number)}.{token_hex(12)}.json"
