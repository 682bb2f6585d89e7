"""Which DAG files run here as they are, which need something first, and which do not run: verdicts on parse results.

Source: docs/migration.md, "What does not run".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from aiosched.parsing.result import FileError, ParsedFile

_NO_MODULE: Final = re.compile(r"No module named '(?P<module>[\w.]+)'")
_PROVIDER: Final = re.compile(r"airflow\.providers\.(?P<path>[\w.]+)")
_PACKAGE: Final = re.compile(r"apache-airflow-providers-[a-z0-9-]+")
_GROUPS: Final = frozenset({"apache", "atlassian", "cncf", "common", "dbt", "facebook", "microsoft"})  # of two words


class Readiness(StrEnum):
    """What becomes of a DAG file."""

    RUNS = "runs"
    WARNING = "runs with a warning"
    PROVIDER = "needs a provider"
    PACKAGE = "needs a package"
    FAILS = "cannot run"


@dataclass(frozen=True, slots=True)
class FileVerdict:
    """The verdict on one file. `remedy` is a command to run first; `details` are warnings, or the error."""

    file: str
    verdict: Readiness
    dags: tuple[str, ...] = ()
    details: tuple[str, ...] = ()
    remedy: str | None = None


def judge_files(parsed: Iterable[ParsedFile]) -> list[FileVerdict]:
    """The verdict on each file, in the given order."""
    return [judge_file(one) for one in parsed]


def judge_file(parsed: ParsedFile) -> FileVerdict:
    """The verdict on a parse result."""
    dags = tuple(dag.dag_id for dag in parsed.dags)
    if parsed.error is not None:
        verdict, remedy = _of_error(parsed.error)
        line = f"line {parsed.error.line}: " if parsed.error.line else ""
        return FileVerdict(parsed.name, verdict, dags, (f"{line}{parsed.error.message}",), remedy)
    return FileVerdict(parsed.name, Readiness.WARNING if parsed.warnings else Readiness.RUNS, dags, parsed.warnings)


def _of_error(error: FileError) -> tuple[Readiness, str | None]:
    if package := provider_of(error.message):
        return Readiness.PROVIDER, f"aiosched providers install {package}"
    missing = _NO_MODULE.search(error.message)
    if missing is not None and missing["module"].split(".")[0] != "airflow":
        return Readiness.PACKAGE, f"pip install {missing['module'].split('.')[0]}"
    return Readiness.FAILS, None


def provider_of(message: str) -> str | None:
    """The package of the provider that an import error is about, None if it is about something else."""
    if named := _PACKAGE.search(message):
        return named[0]
    found = _PROVIDER.search(message)
    if found is None:
        return None
    words = found["path"].split(".")
    name = words[:2] if words[0] in _GROUPS and len(words) > 1 else words[:1]
    return f"apache-airflow-providers-{'-'.join(name)}".replace("_", "-")


def installs(verdicts: Sequence[FileVerdict]) -> list[str]:
    """The commands to run first, each once."""
    return sorted({one.remedy for one in verdicts if one.remedy is not None})
