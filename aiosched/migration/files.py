"""Which DAG files run here as they are, which need something first, and which do not run: verdicts on parse results.

Source: docs/migration.md, "What does not run".
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from aiosched.airflow.hints import PACKAGES, provider_package
from aiosched.airflow.tables import providers
from aiosched.migration.missing import ProjectModules, Where, public_package
from aiosched.parsing.result import FileError, ParsedFile

_NO_MODULE: Final = re.compile(r"No module named '(?P<module>[\w.]+)'")
_NOT_IN_NAMESPACE: Final = re.compile(r"cannot import name '(\w+)' from '([\w.]+)' \(([^)]*)\)")
_IMPORT: Final = r"^[ >\d|]*(?:from|import) +({}(?:\.\w+)+)(?: +import +(\w+))?"  # a line of a code frame
_LOOKED_UP: Final = re.compile(r"There is no ((?:variable|connection) '[^']+')")
_PROVIDER: Final = re.compile(r"airflow\.providers\.[\w.]+")
_PACKAGE: Final = re.compile(rf"{PACKAGES}(?P<name>[a-z0-9-]+)")


class Readiness(StrEnum):
    """What becomes of a DAG file."""

    RUNS = "runs"
    WARNING = "runs with a warning"
    PROVIDER = "needs a provider"
    PACKAGE = "needs a package"
    MODULE = "needs a module"  # of the project, or of whom is to be decided
    VALUE = "needs a variable or connection"
    PYTHON = "needs a newer Python"
    FAILS = "cannot run"


@dataclass(frozen=True, slots=True)
class FileVerdict:
    """The verdict on one file. `remedy` is a command to run first; `details`: warnings, or the error and its cause."""

    file: str
    verdict: Readiness
    dags: tuple[str, ...] = ()
    details: tuple[str, ...] = ()
    remedy: str | None = None


def judge_files(parsed: Iterable[ParsedFile], modules: ProjectModules) -> list[FileVerdict]:
    """The verdict on each file, in the given order. `modules`: where those may be that a file did not find."""
    return [judge_file(one, modules) for one in parsed]


def judge_file(parsed: ParsedFile, modules: ProjectModules) -> FileVerdict:
    """The verdict on a parse result."""
    dags = tuple(dag.dag_id for dag in parsed.dags)
    if parsed.error is not None:
        verdict, remedy, *causes = _of_error(parsed.error, modules)
        line = f"line {parsed.error.line}: " if parsed.error.line else ""
        return FileVerdict(parsed.name, verdict, dags, (f"{line}{parsed.error.message}", *causes), remedy)
    return FileVerdict(parsed.name, Readiness.WARNING if parsed.warnings else Readiness.RUNS, dags, parsed.warnings)


_OF_MODULE: Final = {
    Where.PROJECT: Readiness.MODULE,
    Where.PUBLIC: Readiness.PACKAGE,
    Where.OLDER_PYTHON: Readiness.FAILS,
    Where.NEWER_PYTHON: Readiness.PYTHON,
    Where.UNKNOWN: Readiness.MODULE,
}


def _of_error(error: FileError, modules: ProjectModules) -> tuple[Readiness, str | None, *tuple[str, ...]]:
    """What becomes of a file with this error, the command to run first, and what is to be said besides the error."""
    if looked_up := _LOOKED_UP.match(error.message):
        text = f"There is no {looked_up[1]} here: --database reads it from Airflow, if it is there; or store it."
        return Readiness.VALUE, None, text
    if package := provider_of(error.message):
        return Readiness.PROVIDER, f"aiosched providers install {package}"
    module = _missing_module(error)
    if module is None or module.partition(".")[0] == "airflow":
        return Readiness.FAILS, None
    found = modules.explain(module)
    return _OF_MODULE[found.where], found.command, found.text


def _missing_module(error: FileError) -> str | None:
    """The module that was not found, by the whole name of the import: Python names only its first missing part."""
    if (within := _NOT_IN_NAMESPACE.search(error.message)) and (
        within[3] == "unknown location" or within[2].partition(".")[0] in sys.stdlib_module_names
    ):
        return f"{within[2]}.{within[1]}"
    if (missing := _NO_MODULE.search(error.message)) is None:
        return None
    code = f"{error.code_frame or ''}\n{error.traceback or ''}"
    if (line := re.search(_IMPORT.format(re.escape(missing["module"])), code, re.MULTILINE)) is None:
        return missing["module"]
    whole = f"{line[1]}.{line[2]}"
    return whole if public_package(whole) else line[1]


def provider_of(message: str) -> str | None:
    """The package of Airflow's project that an import error is about, None if it is about something else."""
    if (named := _PACKAGE.search(message)) and named["name"] in providers():
        return named[0]
    found = _PROVIDER.search(message)
    return None if found is None else provider_package(found[0])
