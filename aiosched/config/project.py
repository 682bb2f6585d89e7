"""The project around a DAGs folder, from wherever a command is started.

Folders above the DAGs folder belong to it, up to the first with something that marks a project. The search ends where
everybody can add files (`/tmp`), so that whoever can write to one of the folders can replace the DAGs folder as well.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Final

MARKS: Final = (
    "plugins", "include", "airflow.cfg", "aiosched.toml", "pyproject.toml", "setup.py", "requirements.txt",
    "Dockerfile", ".git",
)  # fmt: skip
_MOST_LEVELS: Final = 4
_INSIDE: Final = ("config", "include")  # folders of a project that are searched for modules, too


def folders_above(dags_folder: Path) -> list[Path]:
    """The folders of the project of `dags_folder`, nearest first; the one above it, if nothing marks a project."""
    found: list[Path] = []
    for folder in Path(os.path.abspath(dags_folder)).parents[:_MOST_LEVELS]:  # noqa: PTH100 `..` is no folder above
        if not folder.name or not _is_of_few(folder):
            break
        found.append(folder)
        if any(os.path.lexists(folder / mark) for mark in MARKS):
            return found
    return found[:1]


def module_folders(projects: Iterable[Path]) -> list[Path]:
    """Where modules of these projects are, besides DAGs folder and plugins: in them, their `config` and `include`."""
    return [place for one in projects for place in (one, *(one / name for name in _INSIDE))]


def is_folder(path: Path) -> bool:
    """Whether it is a folder, as far as this process may know."""
    return os.path.isdir(path)  # noqa: PTH112 the method raises PermissionError


def _is_of_few(folder: Path) -> bool:
    try:
        return not folder.stat().st_mode & stat.S_ISVTX
    except OSError:
        return False
