"""Where a module may come from that a DAG file did not find: the project, a public package, or nobody knows.

Only packages of `public_packages.tsv` are named for installing. Anybody can publish a package with the name of a
company's private module, and wait for somebody to install it.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from dataclasses import dataclass
from enum import StrEnum
from functools import cache, cached_property
from itertools import islice
from pathlib import Path
from typing import Final

from aiosched.config.project import folders_above, module_folders

_TABLE: Final = Path(__file__).parent / "public_packages.tsv"
_MOST_FOLDERS: Final = 20_000  # of a project that are searched
_BEFORE: Final = "${PYTHONPATH:+:$PYTHONPATH}"  # what the variable had
_MOST_READ: Final = 2**20  # characters of a file
_COMMENT: Final = re.compile(r"^[ \t]*#.*$", re.MULTILINE)
_NOT_SEARCHED: Final = frozenset({"__pycache__", "node_modules", "site-packages", "dist-packages", "venv"})
_REQUIREMENTS: Final = ("requirements*.txt", "requirements/*.txt", "pyproject.toml", "setup.py", "setup.cfg", "Pipfile")
_PYTHON: Final = f"Python {sys.version_info.major}.{sys.version_info.minor}"
_ON_AIRFLOW: Final = {"astronomer-cosmos", "dag-factory"}  # pip would install Airflow with them
_OF_NEWER_PYTHON: Final = {"annotationlib", "compression"}
_OF_OLDER_PYTHON: Final = {
    "ConfigParser", "HTMLParser", "Queue", "StringIO", "asynchat", "asyncore", "cPickle", "cgi", "commands",
    "distutils", "httplib", "imp", "pipes", "smtpd", "telnetlib", "urllib2", "urlparse",
}  # fmt: skip


class Where(StrEnum):
    """Where a module is."""

    PROJECT = "project"
    PUBLIC = "public package"
    OLDER_PYTHON = "older Python"
    NEWER_PYTHON = "newer Python"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class MissingModule:
    """What to do about a module; `command`: what to run first, if that is all."""

    where: Where
    text: str
    command: str | None = None


class ProjectModules:
    """What the project around a DAGs folder has: modules anywhere in it, and its lists of requirements."""

    def __init__(self, dags_folder: Path) -> None:
        above = folders_above(dags_folder)
        self._root: Path = above[-1] if above else dags_folder.absolute()
        self._on_path = {dags_folder.absolute(), *(folder / "plugins" for folder in above), *module_folders(above)}

    def explain(self, module: str) -> MissingModule:
        """Where the module of this dotted name may be found, and what to do."""
        top = module.partition(".")[0]
        file = module.replace(".", os.sep)
        places = self._places.get(top, [])
        exact = [place for place in places if (place / file).is_dir() or (place / f"{file}.py").is_file()]
        package = public_package(module)
        named_in = self._requirement(package or top)
        if package is not None and (named_in or not exact):
            needs_airflow = package in _ON_AIRFLOW or package.startswith("airflow-")
            command = "aiosched providers install" if needs_airflow else "pip install"
            return MissingModule(Where.PUBLIC, f"{module} is in the package {package}.", f"{command} {package}")
        if exact:
            return self._in_project(module, exact[0])
        if places:
            where = ", ".join(self._shown(place / top) for place in places)
            return MissingModule(Where.UNKNOWN, f"{top} of this project ({where}) has no {module}.")
        if top in _OF_OLDER_PYTHON:
            text = f"{_PYTHON} has no {top} any more: change the file."
            return MissingModule(Where.OLDER_PYTHON, text)
        if top in sys.stdlib_module_names or top in _OF_NEWER_PYTHON:
            text = f"{_PYTHON} has no {module}: run aiosched with the newer Python that the file is written for."
            return MissingModule(Where.NEWER_PYTHON, text)
        known = f"{named_in} names it: install it from where you get it for Airflow" if named_in else (
            "it is neither in this project nor a public package that aiosched knows: if it is yours, put its folder on "
            "PYTHONPATH, or install it from where you keep it"
        )  # fmt: skip
        return MissingModule(
            Where.UNKNOWN,
            f"Decide where {top} comes from: {known}. A package of that name in a public index may be somebody else's.",
        )

    def _in_project(self, module: str, place: Path) -> MissingModule:
        where = self._shown(place / module.replace(".", os.sep))
        if place in self._on_path:
            top = module.partition(".")[0]
            return MissingModule(Where.UNKNOWN, f"{module} is in {where}, but another {top} is found before it.")
        text = f"{module} is in {where} of this project, which is not on the path."
        return MissingModule(Where.PROJECT, text, f"export PYTHONPATH={shlex.quote(str(place))}{_BEFORE}")

    def _shown(self, path: Path) -> str:
        return str(path.relative_to(self._root))

    @cached_property
    def _places(self) -> dict[str, list[Path]]:
        """The folders that have a module, or a folder with modules, by its name."""
        found: dict[str, list[Path]] = {}
        packages = set[Path]()
        for here, folders, files in islice(os.walk(self._root), _MOST_FOLDERS):
            folders[:] = sorted(name for name in folders if not name.startswith(".") and name not in _NOT_SEARCHED)
            if names := sorted(name.removesuffix(".py") for name in files if name.endswith(".py")):
                folder = Path(here)
                for name in names:
                    found.setdefault(name, []).append(folder)
                packages.update(one for one in (folder, *folder.parents) if self._root in one.parents)
        for package in sorted(packages):
            found.setdefault(package.name, []).append(package.parent)
        return found

    def _requirement(self, package: str) -> str | None:
        """The file of the project that names this package as a requirement."""
        words = re.escape(package.replace("_", "-")).replace(r"\-", "[-_.]")
        line = re.compile(rf"^[\s\"'\[]*{words}\b(?![-.\w])", re.MULTILINE | re.IGNORECASE)
        return next((name for name, text in self._requirements.items() if line.search(text)), None)

    @cached_property
    def _requirements(self) -> dict[str, str]:
        files = [file for pattern in _REQUIREMENTS for file in sorted(self._root.glob(pattern)) if file.is_file()]
        return {self._shown(file): text_of(file) for file in files}


def text_of(file: Path) -> str:
    """The beginning of a text file; empty if it cannot be read."""
    try:
        with file.open(encoding="utf-8", errors="replace") as stream:
            return stream.read(_MOST_READ)
    except OSError:
        return ""


def told_by(file: Path) -> str:
    """The beginning of a configuration file, without lines that are comments."""
    return _COMMENT.sub("", text_of(file))


@cache
def _public() -> dict[str, str]:
    rows = (line.partition("\t") for line in _TABLE.read_text(encoding="utf-8").splitlines()[1:])
    return {module: package for module, _, package in rows}


def public_package(module: str) -> str | None:
    """The package that has a module of this dotted name, if it is known."""
    while module:
        if package := _public().get(module):
            return package
        module = module.rpartition(".")[0]
    return None
