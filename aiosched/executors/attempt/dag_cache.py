"""The DAGs in a worker: a file is imported once for each version of its source, not for each attempt.

With each attempt the scheduler sends the newest source that it knows (`RunInfo.source_hash`, `RunInfo.modules`). If a
file was imported with a different source, it is checked: if it, or a module of the DAGs folder, has changed since, the
cached modules are dropped and imported again. If nothing has changed, as when the folder of this machine lags behind,
the cached DAG runs. The DAG records its source.
"""

from __future__ import annotations

import asyncio
import threading
import time
import zipfile
from collections.abc import Callable, Collection
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from aiosched.authoring.base.settings import AuthoringDefaults, use_defaults
from aiosched.authoring.dag.loader import LoadedFile, load_file
from aiosched.authoring.dag.sources import digest_of, finder, read_whole, source_hash
from aiosched.config import Settings
from aiosched.core.values.messages import RunInfo
from aiosched.errors import AttemptStopped
from aiosched.executors.attempt.failures import details_of, reason_of
from aiosched.executors.attempt.runner import DagSource, DagUnavailable, TimeLimit, drive

if TYPE_CHECKING:
    from aiosched.authoring.dag.dag import DAG

CHECK_AGAIN: Final = 1.0  # seconds between checks of a file that differs from the scheduler's source


@dataclass(slots=True)
class _Imported:
    """The state of a file when it was imported."""

    dags: dict[str, DAG]
    source: str  # the name of the file that was read; for a member, of its archive
    digest: str  # of its content
    asked: str | None = None  # the source hash requested by the last attempt
    ran: str | None = None  # the source hash of the DAG that it got
    checked_at: float = 0.0  # monotonic second

    def serves(self, run: RunInfo, now: float) -> bool:
        """Whether it matches the request of `run`, as far as known without reading files."""
        return self.asked == run.source_hash and (self.ran == self.asked or now - self.checked_at < CHECK_AGAIN)

    def answer(self, run: RunInfo, root: Path) -> None:
        """Record the source that `run` requested, and the one it gets."""
        self.asked, self.checked_at = run.source_hash, time.monotonic()
        self.ran = source_hash({self.source: self.digest, **finder.digests(root, run.modules)})
        for dag in self.dags.values():
            dag._source_hash = self.ran


class FileDags:
    """The current DAGs of files below `root`; loads in the calling thread.

    `time_limit` bounds an import (see runner.TimeLimit). `defaults` of DAGs and tasks become the defaults of this
    process.
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
        self.seconds = 0.0  # total time of all imports
        self.after_import: Callable[[], None] = lambda: None
        self._locks: dict[str | None, threading.Lock] = {}  # one import at a time for each file
        self._files: dict[str, _Imported] = {}

    @classmethod
    def of(cls, settings: Settings) -> FileDags:
        """Create it from the settings."""
        core = settings.core
        defaults = AuthoringDefaults.of(settings)
        return cls(core.dags_folder.absolute(), import_timeout=core.dagbag_import_timeout, defaults=defaults)

    def cached(self, run: RunInfo) -> DAG | None:
        """The DAG of `run`, if its file was imported with the source that the run requests."""
        imported = self._files.get(run.file or "")
        if imported is None or not imported.serves(run, time.monotonic()) or finder.has_late_changes():
            return None
        return imported.dags.get(run.dag_id)

    async def load(self, run: RunInfo) -> DAG:
        """Import the file of `run`, unless its current content is already imported.

        Raises DagUnavailable with the import error as details.
        """
        if run.file is None:
            raise DagUnavailable(
                f"The DAG {run.dag_id!r} was registered in the scheduler's own process and has no file, "
                "so a worker process cannot load it: use the inline executor, or put it into the DAGs folder."
            )
        with self._locks.setdefault(run.file, threading.Lock()):
            return self.cached(run) or self._load(run, run.file)

    def _load(self, run: RunInfo, file: str) -> DAG:
        path, member = _place(self._root, file)
        if finder.has_changed():
            self._forget_all()
        imported = self._files.get(file)
        if imported is None or _has_changed(path, imported.digest) or not _has_all(self._root, run.modules):
            imported = self._import(file, path, member)
            if not _has_all(self._root, run.modules):  # a module replaced another one, or a package
                self._forget_all()
                imported = self._import(file, path, member)
        imported.answer(run, self._root)
        if run.dag_id not in imported.dags:
            found = ", ".join(sorted(imported.dags)) or "no DAG"
            self.forget(run)
            reason = f"{file} no longer defines the DAG {run.dag_id!r}, it defines {found}"
            raise DagUnavailable(reason, passing=True)
        return imported.dags[run.dag_id]

    def _import(self, file: str, path: Path, member: str | None) -> _Imported:
        message = f"the import took longer than {self._timeout:g} s (core.dagbag_import_timeout)"
        limit: AbstractContextManager[None] = nullcontext()
        if self._time_limit is not None:
            limit = self._time_limit(self._timeout, message)
        began = time.monotonic()
        try:
            with limit:
                loaded = _load_as_it_is(path, self._root, member)
        except AttemptStopped:
            raise
        except BaseException as error:  # sys.exit() at import time is an import error too
            reason = f"{file} cannot be imported: {reason_of(error)}"
            raise DagUnavailable(reason, details_of(error), passing=True) from None
        finally:
            self.seconds += time.monotonic() - began
            self.after_import()
        source = file if member is None else file.removesuffix(f"/{member}")
        imported = _Imported({dag.dag_id: dag for dag in loaded.dags}, source, loaded.digest)
        self._files[file] = imported
        return imported

    def _forget_all(self) -> None:
        """Drop all imports: files share the modules of the DAGs folder, and some have changed."""
        finder.forget()
        self._files.clear()

    def forget(self, run: RunInfo) -> None:
        """Import the file of `run` again on the next use."""
        self._files.pop(run.file or "", None)


def _load_as_it_is(path: Path, root: Path, member: str | None) -> LoadedFile:
    """Import a file with its current modules, even if another thread detects changes meanwhile."""
    while True:
        known = finder.forgotten
        loaded = load_file(path, root=root, member=member)
        if finder.forgotten == known:
            return loaded


def _place(root: Path, file: str) -> tuple[Path, str | None]:
    """The path of a DAG file, and the module name if it is in an archive."""
    path = root / file
    if not path.exists() and zipfile.is_zipfile(path.parent):
        return path.parent, path.name
    return path, None


def _has_changed(path: Path, digest: str) -> bool:
    """Whether a DAG file's content has changed. An unreadable one counts as changed: its import reports the error."""
    try:
        return digest_of(read_whole(path)[0]) != digest
    except OSError:
        return True


def _has_all(root: Path, modules: Collection[str]) -> bool:
    """Whether this process has imported all these modules."""
    return all(finder.digests(root, modules).values())


class InBackground:
    """Wraps a source with blocking loads for attempts on a loop: loads in a thread, once for all waiters.

    `timeout` in seconds; the thread of an import that takes longer is abandoned.
    """

    def __init__(self, source: DagSource, *, timeout: float | None = None) -> None:
        self._source, self._timeout = source, timeout
        self._loading: dict[tuple[str | None, str | None], asyncio.Lock] = {}

    def cached(self, run: RunInfo) -> DAG | None:
        """The DAG of `run`, if it is already loaded."""
        return self._source.cached(run)

    async def load(self, run: RunInfo) -> DAG:
        """Like the source's; other attempts run meanwhile."""
        place = (run.file, run.source_hash)
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
        """Like the source's."""
        self._source.forget(run)
