"""Tracks which modules this process has imported from DAGs folders, and the content hashes of their files.

Every module below a DAGs folder is imported through `SourceFinder`: it is compiled from the current content of its
file, and the content hash is recorded. Cached bytecode is used only if it was compiled from exactly that content,
whatever the modification times are. So a process knows what an import has loaded, detects later changes of the files,
and can unload the modules, so that the next import runs the new code. Packages installed inside a DAGs folder are
ignored. The data files that imports have read (reads.py) are compared in the same way.
"""

from __future__ import annotations

import dis
import hashlib
import linecache
import marshal
import os
import stat
import sys
import sysconfig
import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.machinery import ExtensionFileLoader, ModuleSpec, PathFinder, SourceFileLoader
from importlib.util import MAGIC_NUMBER, cache_from_source
from importlib.util import source_hash as bytecode_key
from pathlib import Path
from types import CodeType, ModuleType
from typing import Final
from zipimport import zipimporter

from aiosched.authoring.base.file_stamps import Stamp, read_whole
from aiosched.authoring.base.settings import defaults
from aiosched.authoring.runtime.xcom_values import DAG_MODULES

OWN: Final = str(Path(__file__).parents[2]) + os.sep
_INSTALLED: Final = frozenset({"site-packages", "dist-packages"})
_SYSTEM: Final = tuple(
    {place + os.sep for name, place in sysconfig.get_paths().items() if name in ("stdlib", "platstdlib")}
    | {"/proc/", "/dev/", "/sys/", "/usr/share/", OWN}
)
_MOST_HASHED: Final = 2**24  # bytes; of larger data files only the stamp counts
_HASH_BASED: Final = (0b11).to_bytes(4, "little")  # flags of hash-based bytecode (PEP 552)
_HEADER: Final = 16  # bytes before the code
_IMPORTS: Final = dis.opmap["IMPORT_NAME"]
_SYSTEM_WORDS: Final = (b"aiosched", b"airflow")
_DAG_WORDS: Final = (b"dag", b"asset")
_NO_NAMES: Final = frozenset[str]()


def digest_of(content: bytes) -> str:
    """The content hash of a file."""
    return hashlib.sha256(content).hexdigest()


def source_hash(sources: Mapping[str, str]) -> str:
    """The hash of the source of a DAG file: of the content hashes of the file and its modules, by relative path."""
    text = "".join(f"{name}\0{digest}\n" for name, digest in sorted(sources.items()))
    return digest_of(text.encode("utf-8", "surrogateescape"))[:16]


def is_of_users(path: str) -> bool:
    """Whether a file belongs neither to Python, nor to the system, nor to an installed package, nor to a plugin."""
    plugins = defaults().plugins_folder
    if path.startswith(_SYSTEM) or (plugins is not None and path.startswith(f"{plugins}{os.sep}")):
        return False
    if not _INSTALLED.isdisjoint(Path(path).parts):
        return False
    return not any(_has_packages(entry) for entry in sys.path if entry and path.startswith(f"{entry}{os.sep}"))


@cache
def _has_packages(folder: str) -> bool:
    """Whether packages were installed into this folder, as by `pip install --target`."""
    try:
        return any(name.endswith(".dist-info") for name in os.listdir(folder))  # noqa: PTH208
    except OSError:
        return False


def names_in_functions(code: CodeType) -> frozenset[str]:
    """The names in functions that import something when they are called: what they import is among them."""
    found = set[str]()
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            found |= names_in_functions(inner)
            if _IMPORTS in inner.co_code[::2]:
                found.update(part for name in inner.co_names for part in name.split("."))
    return frozenset(found)


def may_define_dags(content: bytes) -> bool:
    """Whether the content has the words that every DAG file has (safe mode)."""
    lowered = content.lower()
    return any(word in lowered for word in _SYSTEM_WORDS) and any(word in lowered for word in _DAG_WORDS)


def content_of(path: str | Path) -> tuple[bytes, Stamp]:
    """The content of a file or the names in a folder, and the stamp. Raises OSError."""
    status = os.stat(path)  # noqa: PTH116
    if not stat.S_ISDIR(status.st_mode):
        return read_whole(path)
    names = sorted(name for name in os.listdir(path) if name != "__pycache__")  # noqa: PTH208
    return os.fsencode("\0".join(names)), Stamp.of(status)


@dataclass(slots=True)
class _File:
    """A file that modules were imported from, a source file or an archive; or data that an import read, or missed."""

    digest: str
    stamp: Stamp | None  # None: there is no file
    settled: bool  # every later change will give another stamp
    used_later: frozenset[str] = _NO_NAMES  # see names_in_functions

    def has_changed(self, path: str) -> bool:
        """Whether its content has changed, or it was removed. A file that cannot be read counts as unchanged."""
        try:
            if self.settled and Stamp.of(os.stat(path)) == self.stamp:  # noqa: PTH116
                return False
            content, stamp = content_of(path)
        except (FileNotFoundError, NotADirectoryError):
            return self.stamp is not None
        except OSError:
            return False
        if digest_of(content) != self.digest:
            return True
        self.stamp, self.settled = stamp, stamp.is_settled()
        return False


@dataclass(frozen=True, slots=True)
class ParkedModules:
    """The modules of a folder that is not in use at the moment."""

    path: list[str]  # entries of `sys.path`
    files: dict[str, _File]
    specs: dict[str, ModuleSpec]
    unlisted: dict[str, None]
    data: dict[str, _File]
    modules: dict[str, ModuleType]


class SourceFinder:
    """Finds modules in DAGs folders, before Python's own finder. A process has one.

    With `tracks_others` also the modules of people that are outside of these folders: in a process that only runs
    tasks, since those of an application belong to the application.
    """

    def __init__(self) -> None:
        self.tracks_others = False
        self._roots: tuple[str, ...] = ()
        self._path_before: list[str] = []  # `sys.path` before DAG files were imported
        self._files: dict[str, _File] = {}  # by absolute path
        self._modules: dict[str, ModuleSpec] = {}  # by name, of these files; and namespace packages
        self._unlisted: dict[str, None] = {}  # files that are on no list of a DAG file: see `record`
        self._data: dict[str, _File] = {}  # files and folders that imports have read
        self._outdated: dict[str, ModuleSpec] = {}  # by name, modules that `forget` met while they were imported
        self._loading = threading.local()
        self._lock = threading.Lock()
        self._forgotten = 0

    @property
    def forgotten(self) -> int:
        """How often modules were unloaded, so that an import knows whether that happened meanwhile."""
        with self._lock:
            return self._forgotten

    def watch(self, root: Path) -> None:
        """Track the modules below `root` that are imported from now on. Call it before they can be found."""
        prefix = str(root.absolute()) + os.sep
        if not self._roots:
            self._path_before = list(sys.path)
        if prefix not in self._roots:
            self._roots = (*self._roots, prefix)
        self.install()

    def install(self) -> None:
        """Be asked for modules. Before threads import: a search that has begun without it may find one untracked."""
        if self not in sys.meta_path:
            places = [i for i, finder in enumerate(sys.meta_path) if finder is PathFinder]
            sys.meta_path.insert(places[0] if places else len(sys.meta_path), self)

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """As Python's finder; modules in DAGs folders are recorded."""
        spec = PathFinder.find_spec(name, path, target)
        if spec is None:
            return None
        if spec.origin is None:
            folders = [str(place) for place in spec.submodule_search_locations or ()]
            if any(self.tracks(folder + os.sep) for folder in folders):
                self._record_module(spec)
        elif self.tracks(spec.origin):
            if isinstance(spec.loader, ExtensionFileLoader):
                return spec  # a process cannot import it twice
            if type(spec.loader) is SourceFileLoader:
                spec.loader = _FolderModule(name, spec.origin, self)
            else:  # of an archive, bytecode without its source, or of a library that changes what it compiles
                path = spec.loader.archive if isinstance(spec.loader, zipimporter) else spec.origin
                content, stamp = read_whole(path)
                self.record(path, content, stamp)
            self._record_module(spec)
        return spec

    def invalidate_caches(self) -> None:
        """Nothing to do: there is no cache here."""

    def record(self, path: str, content: bytes, stamp: Stamp) -> None:
        """Record that a module was imported from this content of the file at `path`.

        Parsing does not know it if a running task imports it, or if it is outside of the DAGs folders.
        """
        self._files[path] = _File(digest_of(content), stamp, stamp.is_settled())
        if not getattr(self._loading, "depth", 0) or not path.startswith(self._roots):
            self._unlisted[path] = None

    def record_data(self, stamps: Mapping[str, Stamp | None], *, but: Path) -> None:
        """Record the files and folders that an import has read, with these stamps, besides the DAG file `but`.

        Those without a stamp it wanted to read, and there were none.
        """
        for path, stamp in stamps.items():
            if path not in self._files and path != str(but) and (data := _data(path, stamp)) is not None:
                self._data[path] = data

    def record_loaded(self, paths: Collection[str]) -> None:
        """Record the modules that something else than this finder has loaded from these files.

        As `spec_from_file_location` does, and import hooks that come before.
        """
        if any(path.endswith(".py") for path in paths):
            loaded = ((name, _spec_of(module)) for name, module in list(sys.modules.items()))
            found = {name: spec for name, spec in loaded if isinstance(spec, ModuleSpec) and spec.origin in paths}
            with self._lock:
                self._modules |= {name: spec for name, spec in found.items() if not name.startswith(DAG_MODULES)}

    def begin(self) -> None:
        """Called before this thread imports a DAG file: until `end`, its imports belong to that file."""
        self._loading.depth = getattr(self._loading, "depth", 0) + 1

    def end(self) -> None:
        """Called after the import of a DAG file."""
        self._loading.depth -= 1

    def loaded(self, root: Path) -> dict[str, str]:
        """The content hashes of all files below `root` that modules were imported from, by relative path."""
        prefix = str(root.absolute()) + os.sep
        return {
            path.removeprefix(prefix).replace(os.sep, "/"): file.digest
            for path, file in list(self._files.items())
            if path.startswith(prefix)
        }

    def data_below(self, root: Path) -> dict[str, str]:
        """The content hashes of the files and folders in `root` that imports have read, by relative path; '' for one
        that was not there.
        """
        folder = str(root.absolute())
        return {
            os.path.relpath(path, folder).replace(os.sep, "/"): file.digest
            for path, file in self._data.items()
            if (file.digest or file.stamp is None) and f"{path}{os.sep}".startswith(f"{folder}{os.sep}")
        }

    def digests(self, root: Path, names: Collection[str]) -> dict[str, str]:
        """The content hashes with which the files `names` below `root` were imported; empty for others."""
        paths = {name: str(root.absolute() / name) for name in names}
        return {name: file.digest if (file := self._files.get(path)) else "" for name, path in paths.items()}

    def knows(self, module: str) -> bool:
        """Whether the module of this name was imported from a DAGs folder."""
        return module in self._modules

    def has_changed(self) -> bool:
        """Whether any of the imported files, or what they read, has changed, or had when its import ended."""
        outdated = any(not _is_being_imported(spec) for spec in list(self._outdated.values()))
        files = (*self._files.items(), *self._data.items())
        return outdated or any(file.has_changed(path) for path, file in files)

    def has_unlisted_changes(self) -> bool:
        """Whether a file has changed that is no part of the source of a DAG file, as parsing knows it."""
        unlisted = ((path, file) for path in list(self._unlisted) if (file := self._files.get(path)) is not None)
        return any(file.has_changed(path) for path, file in (*unlisted, *self._data.items()))

    def record_names(self, path: str, names: frozenset[str]) -> None:
        """Record what functions of the module at `path` may import; see `names_in_functions`."""
        if (file := self._files.get(path)) is not None:
            file.used_later = names

    def names_used_later(self, root: Path, modules: Collection[str]) -> frozenset[str]:
        """What functions of these modules below `root` may import."""
        files = (self._files.get(str(root.absolute() / name)) for name in modules)
        return _NO_NAMES.union(*(file.used_later for file in files if file is not None))

    def has_changed_for(self, names: frozenset[str]) -> bool:
        """Whether a file has changed, if a module that was imported already has one of these names."""
        if any(not names.isdisjoint(name.split(".")) for name in list(self._modules)):
            return self.has_changed()
        return False

    def forget(self) -> None:
        """Unload all modules of the DAGs folders, so that the next import of each runs its current code.

        Those that other threads are importing right now are unloaded later: Python's import needs them until it ends.
        """
        with self._lock:
            self._forgotten += 1
            for path in list(self._files):  # running tasks may import something meanwhile
                linecache.cache.pop(path, None)  # it would compare time and size only
            self._files.clear()
            self._unlisted.clear()
            self._data.clear()
            self._modules, self._outdated = _unload(self._outdated | self._modules)

    def _record_module(self, spec: ModuleSpec) -> None:
        with self._lock:
            self._modules[spec.name] = spec

    def park(self, root: Path) -> ParkedModules:
        """Take the modules of all DAGs folders, and the entries of `root` in `sys.path`, out of this process.

        Also the entries that its files have added, unless these may be those of an application.
        """
        modules = _take_out(self._modules)
        inside = str(root.absolute()) + os.sep
        path = [entry for entry in sys.path if (entry + os.sep).startswith(inside) or self._was_added(entry)]
        sys.path[:] = [entry for entry in sys.path if entry not in path]
        parked = ParkedModules(path, self._files, self._modules, self._unlisted, self._data, modules)
        self._files, self._modules, self._unlisted, self._data = {}, {}, {}, {}
        return parked

    def restore(self, parked: ParkedModules) -> None:
        """Put parked modules back; call `park` for the others before."""
        self._files, self._modules = parked.files, parked.specs
        self._unlisted, self._data = parked.unlisted, parked.data
        sys.modules.update(parked.modules)
        put_on_path(parked.path)

    def follow(self, before: str, now: str) -> None:
        """The real path of a DAGs folder was `before`: let entries of `sys.path` beside it be those of `now`.

        DAG files that resolve their own path have put them there. Those of an application are left alone.
        """
        old, new = _differing(Path(before), Path(now))
        if self.tracks_others:
            sys.path[:] = [
                new + entry[len(old) :] if f"{entry}{os.sep}".startswith(old + os.sep) and is_of_users(entry) else entry
                for entry in sys.path
            ]

    def _was_added(self, entry: str) -> bool:
        """Whether DAG files have added this entry of `sys.path`."""
        return self.tracks_others and entry not in self._path_before and is_of_users(f"{entry}{os.sep}")

    def refresh(self) -> None:
        """Make Python's finder list the folders and archives again, whatever their modification times are."""
        for place, importer in list(sys.path_importer_cache.items()):
            if (place + os.sep).startswith(self._roots) or (type(importer) is zipimporter and self.tracks(place)):
                invalidate = getattr(importer, "invalidate_caches", None)
                if invalidate is not None:
                    invalidate()

    def tracks(self, path: str) -> bool:
        """Whether modules that are imported from this file are tracked."""
        for root in self._roots:
            if path.startswith(root) and not path.startswith(OWN):
                folders = Path(path[len(root) :]).parts[:-1]
                return not any(folder.startswith(".") or folder in _INSTALLED for folder in folders)
        return self.tracks_others and is_of_users(path)


def _differing(before: Path, now: Path) -> tuple[str, str]:
    """Two paths without the end that they have in common: `/one/dags` and `/two/dags` are `/one` and `/two`."""
    while before.name == now.name and len(before.parts) > 2 and len(now.parts) > 2:
        before, now = before.parent, now.parent
    return str(before), str(now)


def put_on_path(entries: Sequence[str]) -> None:
    """Let modules of these folders be imported: before installed packages, and behind the standard library.

    So a DAG file named `queue.py` hides nothing from a library that imports `queue`.
    """
    installed = (place for place, entry in enumerate(sys.path) if Path(entry).name in _INSTALLED)
    place = next(installed, len(sys.path))
    sys.path[place:place] = entries


class _FolderModule(SourceFileLoader):
    """Imports a module of a DAGs folder from the current content of its file, and records it."""

    def __init__(self, name: str, path: str, finder: SourceFinder) -> None:
        super().__init__(name, path)
        self._finder = finder

    def get_code(self, fullname: str) -> CodeType:
        content, stamp = read_whole(self.path)
        self._finder.record(self.path, content, stamp)
        try:
            kept: str | None = cache_from_source(self.path)
        except NotImplementedError:
            kept = None
        key = bytecode_key(content)
        if kept is not None and (code := _kept_code(kept, key, self.path)) is not None:
            self._finder.record_names(self.path, names_in_functions(code))
            return code
        made: CodeType = compile(content, self.path, "exec", dont_inherit=True)
        self._finder.record_names(self.path, names_in_functions(made))
        if kept is not None and not sys.dont_write_bytecode:
            self.set_data(kept, MAGIC_NUMBER + _HASH_BASED + key + marshal.dumps(made))
        return made


def _kept_code(path: str, key: bytes, source: str) -> CodeType | None:
    """The bytecode in the file at `path`, if it was compiled from the content with this key."""
    try:
        with open(path, "rb") as stream:  # noqa: PTH123
            data = stream.read()
        if data[:_HEADER] != MAGIC_NUMBER + _HASH_BASED + key:
            return None
        code = marshal.loads(data[_HEADER:])  # noqa: S302 bytecode, as Python's own import reads it
    except (OSError, EOFError, ValueError, TypeError):
        return None
    return code if isinstance(code, CodeType) and code.co_filename == source else None


def _spec_of(module: object) -> object:
    """Its `__spec__`, without running code of the module: one that is lazy would be imported."""
    try:
        return object.__getattribute__(module, "__spec__")
    except Exception:  # of an object that is no module
        return None


def _is_of(module: object, spec: ModuleSpec) -> bool:
    """Whether it is the module of this spec, or what that has put in its place: any object, or a module of another
    name.
    """
    found = _spec_of(module)
    return found is spec or not isinstance(found, ModuleSpec) or found.name != spec.name


def _take_out(specs: Mapping[str, ModuleSpec], *, but: Collection[str] = ()) -> dict[str, ModuleType]:
    """Take the modules of these specs out of this process, by each name that they have `but` these; returns them."""
    found = ((name, sys.modules.get(name), spec) for name, spec in specs.items())
    taken = {name: module for name, module, spec in found if module is not None and _is_of(module, spec)}
    own = {id(module) for name, module in taken.items() if _spec_of(module) is specs[name]}
    taken |= {name: module for name, module in list(sys.modules.items()) if id(module) in own and name not in but}
    for name in taken:
        sys.modules.pop(name, None)
    return taken


def _is_being_imported(spec: ModuleSpec) -> bool:
    return bool(getattr(spec, "_initializing", False))  # as Python's import asks before it waits for another thread


def _unload(modules: Mapping[str, ModuleSpec]) -> tuple[dict[str, ModuleSpec], dict[str, ModuleSpec]]:
    """Unload these modules; returns those that stay known, and those of them that are outdated once imported."""
    known, outdated = dict[str, ModuleSpec](), dict[str, ModuleSpec]()
    for name, spec in modules.items():
        module = sys.modules.get(name)
        if module is None:
            known[name] = spec  # found, and about to be imported; or that failed
        elif _is_of(module, spec) and _is_being_imported(spec):
            known[name] = outdated[name] = spec
    _take_out({name: spec for name, spec in modules.items() if name not in known}, but=known)
    return known, outdated


def _data(path: str, stamp: Stamp | None) -> _File | None:
    """Data that was read when it had this stamp; None if it is gone. With another stamp by now it counts as changed."""
    if stamp is None:
        return _File("", None, settled=False)
    if stamp.size > _MOST_HASHED:
        return _File("", stamp, settled=True)
    try:
        content, now = content_of(path)
    except OSError:
        return None
    return _File(digest_of(content) if now == stamp else "", stamp, stamp.is_settled())


finder: Final = SourceFinder()
