"""Loads the DAGs of a file: a `.py` file, or the modules at the root of a zip archive.

Source: the semantics reference, section 30.3 and section 34, decision 15.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import linecache
import os
import sys
import threading
import warnings
import zipfile
import zipimport
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import module_from_spec
from pathlib import Path, PurePosixPath
from types import CodeType, ModuleType
from typing import Final, Protocol

from aiosched.authoring.base import building
from aiosched.authoring.base.checks import warn
from aiosched.authoring.base.file_stamps import read_whole
from aiosched.authoring.base.settings import defaults
from aiosched.authoring.dag.dag import DAG
from aiosched.authoring.dag.project_finder import use_project
from aiosched.authoring.dag.serialize import advise
from aiosched.authoring.dag.sources import digest_of, finder, may_define_dags, names_in_functions, put_on_path
from aiosched.authoring.plugins.loading import load_plugins, load_policies
from aiosched.authoring.runtime.xcom_values import DAG_MODULES
from aiosched.errors import DagError, DuplicateTaskError

_OF_ANOTHER: Final = (
    "No DAG of aiosched is in this file: `import airflow` was answered by the Airflow in {}, and DAGs of its classes "
    'run only there. To run them here, set core.airflow to "compat".'
)


@dataclass(frozen=True, slots=True)
class LoadedFile:
    """The DAGs of a file, in order of definition, and its warnings, one line each with file and line.

    `digest` is the content hash of the file or archive; `used_later` are names that its functions may import.
    """

    dags: list[DAG]
    warnings: list[str] = field(default_factory=list)
    digest: str = ""
    used_later: frozenset[str] = frozenset()


class _Loader(Protocol):
    used_later: frozenset[str]

    def exec_module(self, module: ModuleType) -> None: ...


def load_file(
    path: Path, *, root: Path, member: str | None = None, content: bytes | None = None, runs_tasks: bool = True
) -> LoadedFile:
    """Import the DAG file `path` below the DAGs folder `root`; its DAGs and warnings. `content`: if it was read before.

    From a zip archive all modules at its root that may define DAGs are imported, or only `member`. Each module is
    imported again under its own name; `root` and the archive stay on `sys.path`. Exceptions of the file are not
    caught; raises DagError when two of its DAGs have the same id, or a cluster policy refuses one. Warnings are
    collected only in the main thread, because that affects the whole process. Unless it `runs_tasks`, this process
    needs no plugins: macros and listeners are for running tasks, and some plugins take seconds to import.
    """
    finder.watch(root)
    _make_importable(root)
    use_project()
    folder = defaults().plugins_folder
    policies = load_plugins(folder).policies if runs_tasks else load_policies(folder)
    finder.refresh()
    finder.begin()
    try:
        if content is None:
            content, _ = read_whole(path)
        with _warnings() as caught:
            if zipfile.is_zipfile(io.BytesIO(content)):
                _make_importable(path)
                modules = _load_archive(path, member, content)
            else:
                linecache.cache.pop(str(path), None)  # it would compare time and size only
                modules = [_execute(module_name(path), path, _FreshSource(module_name(path), str(path), content))]
            dags = policies.applied(_collect(modules))
            for dag in dags:
                advise(dag)
    finally:
        finder.end()
    lines = [_line(warning) for warning in caught]
    if not dags and (airflow := _other_airflow()) is not None:  # which catches what is warned
        lines.append(f"{path}:1: {_OF_ANOTHER.format(airflow)}")
    return LoadedFile(dags, lines, digest_of(content), frozenset().union(*(module.used_later for module in modules)))


def _other_airflow() -> Path | None:
    """The folder of an Airflow that is not aiosched and has been imported in this process."""
    file: str | None = getattr(sys.modules.get("airflow"), "__file__", None)  # modules of aiosched's have none
    return None if file is None else Path(file).parent


def drop_files(root: Path) -> None:
    """Forget the modules of the DAG files below `root`."""
    prefix = f"{root}{os.sep}"
    for name, module in list(sys.modules.items()):
        if name.startswith(DAG_MODULES) and str(getattr(module, "__file__", None)).startswith(prefix):
            del sys.modules[name]


def module_name(path: Path, member: str = "") -> str:
    """The module name of a DAG file: the same for every load, different for every file."""
    digest = hashlib.sha256(f"{path.absolute()}!{member}".encode()).hexdigest()[:12]
    stem = PurePosixPath(member).stem if member else path.stem
    readable = "".join(letter if letter.isalnum() else "_" for letter in stem)
    return f"{DAG_MODULES}{digest}_{readable}"


@contextlib.contextmanager
def _warnings() -> Iterator[list[warnings.WarningMessage]]:
    if threading.current_thread() is not threading.main_thread():
        yield []
        return
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        yield caught


class _FreshSource(SourceFileLoader):
    """Compiles this content of the file, without cached bytecode."""

    def __init__(self, name: str, path: str, content: bytes) -> None:
        super().__init__(name, path)
        self._content = content
        self.used_later = frozenset[str]()

    def get_code(self, fullname: str) -> CodeType:
        code: CodeType = compile(self._content, self.path, "exec", dont_inherit=True)
        self.used_later = names_in_functions(code)
        return code


class _ZipMember:
    """Executes one module of an archive."""

    def __init__(self, archive: Path, member: str, source: bytes) -> None:
        self._file = str(archive / member)
        self.used_later = frozenset[str]()
        self._source = source

    def create_module(self, spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        lines = self._source.decode("utf-8", errors="replace").splitlines(keepends=True)
        linecache.cache[self._file] = (len(self._source), None, lines, self._file)  # for tracebacks
        code = compile(self._source, self._file, "exec", dont_inherit=True)
        self.used_later = names_in_functions(code)
        exec(code, module.__dict__)  # noqa: S102 an import


@dataclass(frozen=True, slots=True)
class _Module:
    module: ModuleType
    opened: list[DAG]  # by `with DAG(...)` or a call of a @dag function
    used_later: frozenset[str]


def _load_archive(path: Path, member: str | None, content: bytes) -> list[_Module]:
    """The modules of an archive: `member`, or all that may define DAGs."""
    zipimport.zipimporter(str(path)).invalidate_caches()
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        at_root = [name for name in archive.namelist() if "/" not in name and name.endswith(".py")]
        names = [member] if member else at_root
        sources = {name: archive.read(name) for name in names}
    return [
        _execute(module_name(path, name), path / name, _ZipMember(path, name, source))
        for name, source in sources.items()
        if member or may_define_dags(source)
    ]


def _execute(name: str, file: Path, loader: _Loader) -> _Module:
    spec = ModuleSpec(name, loader, origin=str(file))  # type: ignore[arg-type] # has the methods that are needed
    spec.has_location = True
    module = module_from_spec(spec)
    before = sys.modules.get(name)
    sys.modules[name] = module
    collector = building.Collector(name)
    token = building.collector.set(collector)
    try:
        loader.exec_module(module)
    except BaseException:
        if before is None:
            del sys.modules[name]
        else:
            sys.modules[name] = before
        raise
    finally:
        building.collector.reset(token)
    for function, (called, where) in collector.uncalled.items():
        if getattr(module, called, None) is function:
            warn(f"The function {called} is never called, so there is no DAG of it. Add `{called}()` below it.", where)
    for task in collector.loose:
        if task.dag is None:
            warn(f"Task {task.task_id!r} belongs to no DAG, so it never runs. Make it inside `with DAG(…)` or a "
                 "function with @dag, or give it dag=.", task._origin)  # fmt: skip
    return _Module(module, [dag for dag in collector.dags if isinstance(dag, DAG)], loader.used_later)


def _collect(modules: Iterable[_Module]) -> list[DAG]:
    found: dict[str, DAG] = {}
    for loaded in modules:
        globals_ = [value for value in list(vars(loaded.module).values()) if isinstance(value, DAG)]
        for dag in sorted([*globals_, *loaded.opened], key=lambda dag: dag.number):
            if dag.is_part:
                continue
            known = found.setdefault(dag.dag_id, dag)
            if known is not dag:
                raise _duplicate(known, dag)
    return list(found.values())


def _duplicate(known: DAG, dag: DAG) -> DagError:
    first = f", first at line {known._origin.line}" if known._origin else ""
    return DuplicateTaskError(
        f"This file defines two DAGs with the id {dag.dag_id!r}{first}. Give one of them another dag_id.",
        file=dag._origin.file if dag._origin else None,
        line=dag._origin.line if dag._origin else None,
    )


def _make_importable(folder: Path) -> None:
    entry = str(folder.absolute())
    if entry not in sys.path:
        put_on_path([entry])


def _line(warning: warnings.WarningMessage) -> str:
    return f"{warning.filename}:{warning.lineno}: {warning.category.__name__}: {warning.message}"
