"""DAGs in a worker: a file is imported once for each content it had, not once an attempt."""

from __future__ import annotations

import asyncio
import threading
import time
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Final

from aiosched.authoring.loader import load_file
from aiosched.authoring.settings import AuthoringDefaults, use_defaults
from aiosched.config import Settings
from aiosched.core.messages import RunInfo
from aiosched.errors import AttemptStopped
from aiosched.executors.failures import details_of, reason_of
from aiosched.executors.runner import DagSource, DagUnavailable, TimeLimit, drive

if TYPE_CHECKING:
    from aiosched.authoring.dag import DAG

_KEPT: Final = 2  # contents of one file that are kept: live runs may be pinned to the one before the newest


class FileDags:
    """The DAGs of files below `root`, by file and content hash; loads in the calling thread.

    `time_limit` bounds an import (see runner.TimeLimit). Where a run is pinned to a content
    that the file no longer has, and this worker has not loaded it, the file is taken as it is now.
    `defaults` of DAGs and tasks become those of this process.
    """

    def __init__(
        self,
        root: Path,
        *,
        import_timeout: float = 30.0,
        time_limit: TimeLimit | None = None,
        defaults: AuthoringDefaults | None = None,
    ) -> None:
        if defaults is not None:
            use_defaults(defaults)
        self._root, self._timeout, self._time_limit = root, import_timeout, time_limit
        self.seconds = 0.0  # that all imports have taken
        self._locks: dict[str | None, threading.Lock] = {}  # an import at a time, of each file
        self._files: dict[str, dict[str | None, dict[str, DAG]]] = {}

    @classmethod
    def of(cls, settings: Settings) -> FileDags:
        """As the settings say."""
        core = settings.core
        defaults = AuthoringDefaults.of(settings)
        return cls(core.dags_folder.absolute(), import_timeout=core.dagbag_import_timeout, defaults=defaults)

    def cached(self, run: RunInfo) -> DAG | None:
        """The DAG of `run`, if its file was loaded already."""
        contents = self._files.get(run.file or "")
        dags = contents.get(run.file_hash) if contents else None
        return dags.get(run.dag_id) if dags else None

    async def load(self, run: RunInfo) -> DAG:
        """Import the file of `run`; raises DagUnavailable with the import error as its details."""
        with self._locks.setdefault(run.file, threading.Lock()):
            return self.cached(run) or self._import(run)

    def _import(self, run: RunInfo) -> DAG:
        if run.file is None:
            raise DagUnavailable(
                f"The DAG {run.dag_id!r} was registered in the scheduler's own process and has no file, "
                "so a worker process cannot load it: use the inline executor, or put it into the DAGs folder."
            )
        message = f"the import took longer than {self._timeout:g} s (core.dagbag_import_timeout)"
        limit: AbstractContextManager[None] = nullcontext()
        if self._time_limit is not None:
            limit = self._time_limit(self._timeout, message)
        began = time.monotonic()
        try:
            with limit:
                loaded = load_file(self._root / run.file, root=self._root)
        except AttemptStopped:
            raise
        except BaseException as error:  # sys.exit() at import time is an import error too
            reason = f"{run.file} cannot be imported: {reason_of(error)}"
            raise DagUnavailable(reason, details_of(error), passing=True) from None
        finally:
            self.seconds += time.monotonic() - began
        contents = self._files.setdefault(run.file, {})
        contents[run.file_hash] = dags = {dag.dag_id: dag for dag in loaded.dags}
        while len(contents) > _KEPT:
            del contents[next(iter(contents))]
        if run.dag_id not in dags:
            found = ", ".join(sorted(dags)) or "no DAG"
            self.forget(run)
            reason = f"{run.file} does not define the DAG {run.dag_id!r} any more, it defines {found}"
            raise DagUnavailable(reason, passing=True)
        return dags[run.dag_id]

    def forget(self, run: RunInfo) -> None:
        """Import the file of `run` anew the next time."""
        self._files.get(run.file or "", {}).pop(run.file_hash, None)


class InBackground:
    """A source whose loading blocks, for attempts on a loop: it loads in a thread, once for all who wait for it.

    `timeout` in seconds; the thread of an import that takes longer is left alone.
    """

    def __init__(self, source: DagSource, *, timeout: float | None = None) -> None:
        self._source, self._timeout = source, timeout
        self._loading: dict[tuple[str | None, str | None], asyncio.Lock] = {}

    def cached(self, run: RunInfo) -> DAG | None:
        """The DAG of `run`, if it is at hand already."""
        return self._source.cached(run)

    async def load(self, run: RunInfo) -> DAG:
        """As the source's; other attempts go on meanwhile."""
        place = (run.file, run.file_hash)
        lock = self._loading.setdefault(place, asyncio.Lock())
        try:
            async with lock:
                dag = self.cached(run)
                if dag is None:
                    async with asyncio.timeout(self._timeout):
                        dag = await asyncio.to_thread(lambda: drive(self._source.load(run)))
                return dag
        except TimeoutError:
            reason = f"{run.file} cannot be imported: it took longer than {self._timeout:g} s"
            raise DagUnavailable(f"{reason} (core.dagbag_import_timeout)", passing=True) from None
        finally:
            if not lock.locked():
                self._loading.pop(place, None)

    def forget(self, run: RunInfo) -> None:
        """As the source's."""
        self._source.forget(run)
