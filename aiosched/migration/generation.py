"""Of which Airflow a project is, 2 (also for 1.10) or 3, by what only one of them has.

The metadata database knows best; then come `airflow.cfg`, the versions that requirements, Dockerfiles and compose files
name, and DAG files that import `airflow.sdk`. What says nothing, or contradicts itself, is left to the next.
Source: docs/migration.md, "Of which Airflow".
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final, Literal

from aiosched.airflow.dialect import imports_of
from aiosched.config.project import folders_above
from aiosched.migration.cfg import CfgLine, SettingFate
from aiosched.migration.missing import text_of, told_by

Number = Literal[2, 3]

_SECTIONS_OF_3: Final = frozenset({"dag_processor", "execution_api", "api_auth", "workers"})
_OPTIONS_OF_3: Final = frozenset(
    {("api", name) for name in ("base_url", "host", "port", "workers", "secret_key", "expose_config")}
    | {("core", name) for name in ("execution_api_server_url", "simple_auth_manager_users")}
)
_OPTIONS_OF_2: Final = frozenset(
    {("webserver", name) for name in ("web_server_host", "web_server_port", "rbac", "authenticate", "workers")}
    | {("scheduler", name) for name in ("dag_dir_list_interval", "parsing_processes", "max_threads")}
    | {("core", name) for name in ("sql_alchemy_conn", "dag_concurrency", "non_pooled_task_slot_count")}
)
_FILES: Final = (
    "requirements*.txt", "requirements/*.txt", "constraints*.txt", "pyproject.toml", "setup.py", "setup.cfg", "Pipfile",
    "Dockerfile*", "docker-compose*.y*ml", "compose*.y*ml", ".env",
)  # fmt: skip
_EXTRAS: Final = r"apache-airflow(?:\[[^\]]*\])?[\"']?\s*"
_VERSIONS: Final = re.compile(
    rf"{_EXTRAS}(?:==|~=|===)\s*(\d)\."
    rf"|{_EXTRAS}=\s*(?:\{{[^}}]*version\s*=\s*)?[\"'][~^=]*(\d)\."
    rf"|{_EXTRAS}>=?\s*(3)\b"
    rf"|{_EXTRAS}(?:>=?[^<\n]*)?(<)\s*3\b"
    r"|apache/airflow:(?:slim-)?(\d)\."
    r"|constraints-(\d)\.\d+\.\d+/"
    r"|/runtime:(\d)\.\d+-\d+"
    r"|(?:astro-runtime|ap-airflow):\d+(\.)"
    r"|AIRFLOW_VERSION[=:\s\"'-]+(\d)\."
)
_MOST_FILES: Final = 5_000


@dataclass(frozen=True, slots=True)
class Generation:
    """The generation of a project, and what tells it."""

    number: Number
    why: str

    @property
    def ignore_syntax(self) -> str:
        """How it reads `.airflowignore` if nothing says so."""
        return "glob" if self.number == 3 else "regexp"

    def settings(self, cfg: Mapping[tuple[str, str], str]) -> Iterator[CfgLine]:
        """The settings that follow from it."""
        yield CfgLine("core", "", SettingFate.SET, "core.airflow_defaults", str(self.number), self.why)
        if not cfg.get(("core", "dag_ignore_file_syntax"), "").strip():
            note = f"the default of Airflow {self.number}"
            yield CfgLine("core", "", SettingFate.SET, "core.dag_ignore_file_syntax", self.ignore_syntax, note)
        if not cfg.get(("core", "dags_are_paused_at_creation"), "").strip():
            note = "the default of Airflow"
            yield CfgLine("core", "", SettingFate.SET, "core.dags_are_paused_at_creation", True, note)


def generation_of(
    cfg: Mapping[tuple[str, str], str], dags_folder: Path, *, database: Number | None = None
) -> Generation | None:
    """The generation of a project by its configuration, its files and that of its database; None: nothing tells."""
    if database is not None:
        return Generation(database, "its metadata database")
    return _of_cfg(cfg) or _of_versions(dags_folder) or _of_imports(dags_folder)


def _of_cfg(cfg: Mapping[tuple[str, str], str]) -> Generation | None:
    for (section, option), value in sorted(cfg.items()):
        is_of_3 = section in _SECTIONS_OF_3 or (section, option) in _OPTIONS_OF_3
        if is_of_3 or (option == "auth_manager" and ".api_fastapi." in value):
            return Generation(3, f"[{section}] {option} of its configuration")
    for section, option in sorted(_OPTIONS_OF_2 & cfg.keys()):
        return Generation(2, f"[{section}] {option} of its configuration")
    if "auth_manager" in {option for _, option in cfg}:
        value = cfg.get(("core", "auth_manager"), "")
        return Generation(2 if value.startswith("airflow.auth.") else 3, "[core] auth_manager of its configuration")
    return None


def _of_versions(dags_folder: Path) -> Generation | None:
    found: dict[Number, str] = {}
    for folder in (dags_folder.absolute(), *folders_above(dags_folder)):
        for file in (file for pattern in _FILES for file in sorted(folder.glob(pattern)) if file.is_file()):
            for match in _VERSIONS.finditer(told_by(file)):
                word = next(filter(None, match.groups()))
                found.setdefault(3 if word == "3" else 2, f"{match[0].strip(' .')} in {file.name}")
    if len(found) != 1:
        return None
    ((number, why),) = found.items()
    return Generation(number, why)


def _of_imports(dags_folder: Path) -> Generation | None:
    """A file that imports `airflow.sdk` runs in Airflow 3 only; one that imports what that does not have, before it."""
    older: str | None = None
    for file in islice(_python_files(dags_folder), _MOST_FILES):
        text = text_of(file)
        if "airflow.sdk" in text and imports_of(text).generation == 3:
            return Generation(3, f"{file.name} imports airflow.sdk")
        if older is None and "airflow." in text and imports_of(text).gone:
            older = file.name
    return None if older is None else Generation(2, f"{older} imports modules that Airflow 3 does not have")


def _python_files(folder: Path) -> Iterable[Path]:
    for here, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        yield from (Path(here, name) for name in sorted(files) if name.endswith(".py"))
