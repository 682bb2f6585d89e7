"""The DAGs in a worker: a file is imported once for each version of its source, not for each attempt.

With each attempt the scheduler sends the newest source that it knows (`RunInfo.source_hash`, `RunInfo.modules`). If a
file was imported with a different source, it is checked: if it, or a module of the DAGs folder, has changed since, the
cached modules are dropped and imported again. If nothing has changed, as when the folder of this machine lags behind,
the cached DAG runs. The DAG records its source. At most once a second a file is checked although the scheduler has
nothing new: parsing may take long to begin, as after hours without an edit on a busy machine. If such an edit cannot be
imported, what the scheduler knows goes on. What an import has read besides (data files, modules outside of the folder)
is on no list of the scheduler, and is checked before each attempt. If the scheduler knows a newer version of a DAG with
the same source, its file has read something else, and is imported again, too.

The code of a version of a bundle is in a folder of its own (`RunInfo.bundle_version`). It never changes, so nothing of
the above happens there.

A file that is imported asks the scheduler for variables and connections in the name of the attempt. The values are
compared now and then, and if one has changed, the files of its folder are imported again.
"""

from __future__ import annotations

import json
import os
import threading
import time
import zipfile
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from aiosched.airflow.finder import install
from aiosched.authoring.base.file_stamps import read_whole
from aiosched.authoring.base.settings import AuthoringDefaults, use_defaults
from aiosched.authoring.base.settings import defaults as defaults_in_use
from aiosched.authoring.dag.import_turns import AnotherInUse, ImportTurns
from aiosched.authoring.dag.loader import drop_files, load_file
from aiosched.authoring.dag.reads import noting_reads
from aiosched.authoring.dag.sources import ParkedModules, digest_of, finder, source_hash
from aiosched.authoring.runtime.lookups import answering
from aiosched.bundles.names import path_in
from aiosched.bundles.places import CodeKey, CodePlaces, places_of
from aiosched.core.creation.upcoming import NO_RUN
from aiosched.core.values.messages import RunInfo
from aiosched.errors import AioschedError, AttemptStopped
from aiosched.executors.attempt.failures import details_of, reason_of
from aiosched.executors.attempt.plans import plan_tasks
from aiosched.executors.attempt.runner import DagUnavailable, TimeLimit

if TYPE_CHECKING:
    from aiosched.authoring.dag.dag import DAG
    from aiosched.config import Settings

MOST_CODES: Final = 8  # folders whose imports a process keeps
CHECK_AGAIN: Final = 1.0  # seconds between checks of a file, if the scheduler has no newer source
VALUES_LAST: Final = 30.0  # seconds until values that files have read are compared with those of now
NEVER_ASKED: Final = "-"  # no source hash: a file that was imported, but has not run yet
TOO_EARLY: Final = "asked for a variable or a connection that could not be read: it is imported with its first task"
ANSWERED_WITHIN: Final = 10.0  # seconds that an import waits for a loop, which may wait for its modules

Ask = Callable[[RunInfo, str, str], Mapping[str, Any]]  # run, kind and key -> the answer of the service of that kind


@dataclass(slots=True)
class _Imported:
    """The state of a file when it was imported."""

    dags: dict[str, DAG]
    source: str  # the name of the file that was read; for a member, of its archive
    digest: str  # of its content
    used_later: frozenset[str]  # names that functions of it, and of its modules, may import
    versions: dict[str, int] = field(default_factory=dict)  # of its DAGs: the newest for which it was imported
    asked: str | None = None  # the source hash requested by the last attempt
    ran: str | None = None  # the source hash of the DAG that it got
    checked_at: float = 0.0  # monotonic second

    def serves(self, run: RunInfo, now: float) -> bool:
        """Whether it matches the request of `run`, and need not be compared with the files again."""
        return self.was_asked(run) and now - self.checked_at < CHECK_AGAIN

    def was_asked(self, run: RunInfo) -> bool:
        """Whether it was imported for what `run` requests: the scheduler knows nothing newer."""
        return self.asked == run.source_hash and not self.precedes(run)

    def reads_changes(self) -> bool:
        """Whether a file has changed that the scheduler does not know, or that functions may have imported."""
        used_later = self.used_later
        return finder.has_unlisted_changes() or (bool(used_later) and finder.has_changed_for(used_later))

    def precedes(self, run: RunInfo) -> bool:
        """Whether there is a newer version of the DAG than at the import."""
        number = run.code_version or run.version
        return self.versions.get(run.dag_id, number) < number

    def answer(self, run: RunInfo, modules: Mapping[str, str], checked_at: float) -> None:
        """Record the source that `run` requested, and the one it gets, with the hashes of its modules."""
        self.asked, self.checked_at = run.source_hash, checked_at
        self.versions.setdefault(run.dag_id, run.code_version or run.version)
        self.ran = source_hash({self.source: self.digest, **modules})
        for dag in self.dags.values():
            dag._source_hash = self.ran


@dataclass(slots=True)
class _Code:
    """One folder of DAG files: that of a version, which never changes, or one that is read as it is."""

    key: CodeKey
    root: Path
    files: dict[str, _Imported] = field(default_factory=dict)
    real: str = ""  # path of the root when its files were imported: links lead elsewhere with the next release
    parked: ParkedModules | None = None  # its modules, while others are in use
    values: dict[tuple[str, str], Mapping[str, Any]] = field(default_factory=dict)  # what its files have read
    compared_at: float = float("-inf")  # when the modules of all files were compared last; monotonic second
    asks_too_early: bool = False  # a file that was imported for a run that does not exist yet got no answer
    values_at: float = 0.0  # when these were compared with the scheduler's; monotonic second
    early: dict[str, dict[tuple[str, str], Mapping[str, Any]]] = field(
        default_factory=dict
    )  # read before a run, by file

    def __post_init__(self) -> None:
        self.real = os.path.realpath(self.root)

    @property
    def is_fixed(self) -> bool:
        return self.key[1] is not None

    def has_moved(self) -> bool:
        """Whether its root is another folder than it was."""
        return os.path.realpath(self.root) != self.real

    def follow(self) -> None:
        """Go on with the folder that its root is now."""
        before, self.real = self.real, os.path.realpath(self.root)
        if before != self.real:
            finder.follow(before, self.real)

    def may_be_outdated(self, file: str | None, now: float) -> bool:
        """Whether values that its files have read are to be compared with those of now, before `file` runs."""
        return bool(self.values) and (now >= self.values_at + VALUES_LAST or file in self.early)

    def place(self, file: str) -> tuple[Path, str | None]:
        """The path of a DAG file, and the module name if it is in an archive."""
        path = self.root / path_in(self.key[0], file)
        if not path.exists() and zipfile.is_zipfile(path.parent):
            return path.parent, path.name
        return path, None

    def digests(self, modules: Collection[str]) -> dict[str, str]:
        """The hashes with which these modules were imported; empty for others."""
        paths = {path_in(self.key[0], name): name for name in modules}
        return {paths[path]: digest for path, digest in finder.digests(self.root, paths).items()}


class FileDags:
    """The DAGs of files below `root`, or of bundles; loads in the calling thread.

    A file of a version is imported once, and never checked, but for values that it has read. The modules of only one
    folder are in use at a time: those of the attempt that was loaded last. `places` has the folders of bundles (None:
    there are none). `time_limit` bounds an import (see runner.TimeLimit). `defaults` of DAGs and tasks become the
    defaults of this process. With `owns_process` modules outside of the folders are unloaded, too, if they change.
    """

    def __init__(
        self,
        root: Path | None = None,
        *,
        places: CodePlaces | None = None,
        import_timeout: float = 30.0,
        time_limit: TimeLimit | None = None,
        defaults: AuthoringDefaults | None = None,
        owns_process: bool = False,
    ) -> None:
        finder.tracks_others |= owns_process
        finder.install()
        if defaults is not None:
            use_defaults(defaults)
        install(defaults_in_use().airflow)
        self._places = places or CodePlaces({"": str((root or Path()).absolute())})
        self.import_timeout: float = import_timeout
        self._time_limit = time_limit
        self.seconds: float = 0.0  # total time of all imports
        self.after_import: Callable[[], None] = lambda: None
        self.fetch: Callable[[RunInfo], None] | None = None  # puts a version onto this machine; raises AioschedError
        self.ask: Ask | None = None  # answers what files look up while they are imported; raises AioschedError
        self._locks: dict[tuple[CodeKey, str], threading.Lock] = {}  # one import at a time for each file
        self._turns = ImportTurns[_Code]()
        self._used: OrderedDict[CodeKey, _Code] = OrderedDict()  # the last one is in use

    @classmethod
    def of(cls, settings: Settings) -> FileDags:
        """Create it from the settings."""
        defaults = AuthoringDefaults.of(settings)
        return cls(places=places_of(settings), import_timeout=settings.core.dagbag_import_timeout, defaults=defaults)

    def cached(self, run: RunInfo) -> DAG | None:
        """The DAG of `run`, if its file was imported with the source that the run requests."""
        code = self._in_use
        imported = None if code is None or code.key != run.code else code.files.get(run.file or "")
        if code is None or imported is None or code.may_be_outdated(run.file, time.monotonic()):
            return None
        if code.is_fixed:
            return imported.dags.get(run.dag_id) if code.root.is_dir() else None  # somebody may have removed it
        if not imported.serves(run, time.monotonic()) or imported.reads_changes():
            return None
        return imported.dags.get(run.dag_id)

    @property
    def _in_use(self) -> _Code | None:
        return next(reversed(self._used.values()), None)

    def prepare(self, run: RunInfo) -> None:
        """Put the version that `run` needs onto this machine, if it is missing. Raises DagUnavailable."""
        path = self._places.path(run.code)
        if path is None:
            name = f"bundle {run.bundle!r}" if run.bundle else "DAGs folder"
            reason = f"there is no {name} in the settings of this machine, so its code cannot be loaded"
            raise DagUnavailable(f"{reason}: see dags.bundles", passing=True)
        if run.bundle_version is None or path.is_dir():
            return
        if self.fetch is None:
            reason = f"version {run.bundle_version[:12]} of {run.bundle or 'the DAGs folder'} is not on this machine"
            raise DagUnavailable(reason, passing=True)
        try:
            self.fetch(run)
        except AttemptStopped:
            raise
        except AioschedError as error:
            raise DagUnavailable(str(error), passing=True) from None

    async def load(self, run: RunInfo) -> DAG:
        """Import the file of `run`, unless its current content is already imported.

        Raises DagUnavailable with the import error as details.
        """
        if run.file is None:
            raise DagUnavailable(
                f"The DAG {run.dag_id!r} was registered in the scheduler's own process and has no file, "
                "so a worker process cannot load it: use the inline executor, or put it into the DAGs folder."
            )
        self.prepare(run)
        with self._locks.setdefault((run.code, run.file), threading.Lock()):
            if (found := self.cached(run)) is not None:
                return found
            code = self._used.get(run.code)
            files = {} if code is None or code.is_fixed else dict(code.files)
            try:
                return self._load(run, run.file)
            except DagUnavailable:
                before = files.get(run.file)
                if code is None or before is None or not before.was_asked(run) or run.dag_id not in before.dags:
                    raise
                # An edit that cannot be used, and that nobody has asked for: what was imported goes on.
                before.checked_at = time.monotonic()
                for name, imported in files.items():
                    code.files.setdefault(name, imported)
                return before.dags[run.dag_id]

    async def warm(self, run: RunInfo) -> None:
        """Import the file of a run that is expected, and compute what first attempts of its tasks need.

        Raises DagUnavailable. The next attempt still compares the file, its modules and the values that were read.
        """
        try:
            dag = await self.load(run)
        finally:
            self._forget_wrong_values(run)
        plan_tasks(dag)
        if (imported := self._used[run.code].files.get(run.file or "")) is not None:
            imported.asked = NEVER_ASKED

    def _forget_wrong_values(self, run: RunInfo) -> None:
        """If an import asked too early, it or a module may have gone on with something else than the answer."""
        code = self._used.get(run.code)
        if code is not None and code.asks_too_early:
            code.asks_too_early = False
            self._turns.unload(partial(self._forget_all, code, finder.forgotten))
            self.after_import()
            raise DagUnavailable(f"{run.file} {TOO_EARLY}", passing=True)

    def _use(self, run: RunInfo) -> _Code:
        """Make the folder of `run` the one whose modules are in use."""
        before, code = self._in_use, self._used.get(run.code)
        if before is not None and before is code:
            return code
        if code is None:
            path = self._places.path(run.code)
            assert path is not None  # see `prepare`
            code = _Code(run.code, path)
        if before is not None:
            before.parked = finder.park(before.root)
        self._used[run.code] = code
        self._used.move_to_end(run.code)
        if code.parked is not None:
            finder.restore(code.parked)
            code.parked = None
        while len(self._used) > MOST_CODES:
            _, oldest = self._used.popitem(last=False)
            drop_files(oldest.root)
        self.after_import()
        return code

    def _load(self, run: RunInfo, file: str) -> DAG:
        """The DAG of the current file. If a file or a value has changed, all is unloaded first: files share modules."""
        is_second = False
        while True:
            try:
                with self._turns.importing(run.code, file, partial(self._use, run), limit=self.import_timeout) as code:
                    known = finder.forgotten
                    if not self._is_outdated(code, run):
                        imported = self._current(code, run, file)
                        if self._keep(code, run, file, imported, known, is_second=is_second):
                            return self._dag_in(imported, run, file)
                        is_second = True
            except AnotherInUse as error:
                reason = f"{file} waited {self.import_timeout:g} s for {error}, which is of another version or bundle"
                raise DagUnavailable(f"{reason}, to be imported (core.dagbag_import_timeout)", passing=True) from None
            self._turns.unload(partial(self._forget_all, code, known))

    def _is_outdated(self, code: _Code, run: RunInfo) -> bool:
        """Whether modules, data or values have changed with which files were imported."""
        imported = code.files.get(run.file or "")
        is_older = imported is not None and imported.precedes(run)
        has_changed = not code.is_fixed and (is_older or self._turns.is_mixed or self._modules_have_changed(code, run))
        return has_changed or self._values_have_changed(code, run)

    def _modules_have_changed(self, code: _Code, run: RunInfo) -> bool:
        """Compare them, unless that was just done and the scheduler knows nothing newer."""
        imported, now = code.files.get(run.file or ""), time.monotonic()
        is_compared = now - code.compared_at < CHECK_AGAIN
        if is_compared and imported is not None and imported.was_asked(run) and not imported.reads_changes():
            return False
        code.compared_at = now
        return code.has_moved() or finder.has_changed()

    def _current(self, code: _Code, run: RunInfo, file: str) -> _Imported:
        """The file as it is now, imported if it was not."""
        path, member = code.place(file)
        imported = code.files.get(file)
        if imported is None or not (code.is_fixed or _is_current(code, path, imported, run)):
            imported = self._import(code, run, file, path, member)
        return imported

    def _keep(self, code: _Code, run: RunInfo, file: str, imported: _Imported, known: int, *, is_second: bool) -> bool:
        """Record an import with the hashes of its modules; false if it has to be repeated after all are unloaded.

        That is so if it was overtaken by a change, or if a module replaced another one, or a package.
        """
        with self._turns.staying():
            digests = code.digests(run.modules)
            if finder.forgotten != known or not (code.is_fixed or is_second or all(digests.values())):
                return False
            code.files[file] = imported
            imported.answer(run, digests, time.monotonic() if code.is_fixed else code.compared_at)
        return True

    def _dag_in(self, imported: _Imported, run: RunInfo, file: str) -> DAG:
        if run.dag_id not in imported.dags:
            found = ", ".join(sorted(imported.dags)) or "no DAG"
            self.forget(run)
            reason = f"{file} no longer defines the DAG {run.dag_id!r}, it defines {found}"
            raise DagUnavailable(reason, passing=True)
        return imported.dags[run.dag_id]

    def _values_have_changed(self, code: _Code, run: RunInfo) -> bool:
        """Ask again for what the files of a folder have read, if that was some time ago; or this one before its run."""
        now = time.monotonic()
        if self.ask is None or run.key == NO_RUN or not code.may_be_outdated(run.file, now):
            return False
        values = code.early.pop(run.file or "", {})
        if now >= code.values_at + VALUES_LAST:
            values, code.values_at = code.values, now
        try:
            return any(self.ask(run, *what) != known for what, known in list(values.items()))
        except AioschedError:  # what is imported goes on until there is an answer
            return False

    def _answering(self, code: _Code, run: RunInfo) -> AbstractContextManager[None]:
        if (ask := self.ask) is None:
            return nullcontext()

        def answer(kind: str, key: str) -> Mapping[str, Any]:
            try:
                found = ask(run, kind, key)
            except AioschedError:
                code.asks_too_early |= run.key == NO_RUN
                raise
            if not code.values:
                code.values_at = time.monotonic()
            code.values[kind, key] = found
            if run.key == NO_RUN:
                code.early.setdefault(run.file or "", {})[kind, key] = found
            return found

        return answering(answer)

    def _import(self, code: _Code, run: RunInfo, file: str, path: Path, member: str | None) -> _Imported:
        message = f"the import took longer than {self.import_timeout:g} s (core.dagbag_import_timeout)"
        limit: AbstractContextManager[None] = nullcontext()
        if self._time_limit is not None:
            limit = self._time_limit(self.import_timeout, message)
        began = time.monotonic()
        try:
            with limit, self._answering(code, run), noting_reads() as reads:
                try:
                    loaded = load_file(path, root=code.root, member=member)
                finally:
                    finder.record_loaded(reads.stamps)
                    if not code.is_fixed:
                        finder.record_data(reads.stamps, but=path)
        except AttemptStopped:
            raise
        except BaseException as error:  # sys.exit() at import time is an import error too
            reason = f"{file} cannot be imported: {reason_of(error)}"
            raise DagUnavailable(reason, details_of(error), passing=True) from None
        finally:
            self.seconds += time.monotonic() - began
            self.after_import()
        source = file if member is None else file.removesuffix(f"/{member}")
        used_later = loaded.used_later | finder.names_used_later(code.root, run.modules)
        return _Imported({dag.dag_id: dag for dag in loaded.dags}, source, loaded.digest, used_later)

    def _forget_all(self, code: _Code, known: int) -> None:
        """Drop all imports, unless somebody has done so since it was done `known` times."""
        if finder.forgotten != known and not self._turns.is_mixed:
            return
        finder.forget()
        code.follow()
        code.files.clear()
        code.values.clear()
        code.early.clear()

    def forget(self, run: RunInfo) -> None:
        """Import the file of `run` again on the next use."""
        if (code := self._used.get(run.code)) is not None:
            code.files.pop(run.file or "", None)
            code.values_at = float("-inf")


def fetching(call: Callable[[int, str, str], object]) -> Callable[[RunInfo], None]:
    """Asks the scheduler for a version, by `call` of a service (the run's key, its name, its arguments), and waits."""

    def fetch(run: RunInfo) -> None:
        arguments = {"bundle": run.bundle, "version": run.bundle_version}
        call(run.key, "bundle", msgspec.json.encode(arguments).decode())

    return fetch


def asking(call: Callable[[int, str, str], str]) -> Ask:
    """Asks the scheduler for variables and connections, by `call` of a service, and waits."""

    def ask(run: RunInfo, kind: str, key: str) -> Mapping[str, Any]:
        found: Mapping[str, Any] = json.loads(call(run.key, kind, json.dumps({"get": key})))
        return found

    return ask


def _has_changed(path: Path, digest: str) -> bool:
    """Whether a DAG file's content has changed. An unreadable one counts as changed: its import reports the error."""
    try:
        return digest_of(read_whole(path)[0]) != digest
    except OSError:
        return True


def _is_current(code: _Code, path: Path, imported: _Imported, run: RunInfo) -> bool:
    """Whether a file is as it was imported, with the DAG of `run`, and so are all modules, which this process has."""
    is_same = run.dag_id in imported.dags and not _has_changed(path, imported.digest)
    return is_same and all(code.digests(run.modules).values())
