"""Finds modules of the project around the DAGs folder that nothing else finds.

A folder counts as a package only if it has Python files: many projects have folders named `docker`, `dbt` or `spark`
for other things, and a library that is missing must not look as if it were there.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from importlib.machinery import ModuleSpec
from itertools import islice
from types import ModuleType
from typing import Final

from aiosched.authoring.base.settings import defaults
from aiosched.authoring.dag.sources import finder

_MOST_FOLDERS: Final = 200  # that are looked into for a Python file


class ProjectFinder:
    """The last finder of the process; where it looks, the defaults say."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec of a module at the top of a folder of the project; those in packages are found by others."""
        if path is not None or not (folders := defaults().module_folders):
            return None
        spec = finder.find_spec(name, folders)
        if spec is None or spec.origin is not None or _has_python(spec.submodule_search_locations or ()):
            return spec
        return None


def use_project() -> None:
    """Let the modules of the project be imported in this process, behind everything else."""
    if _finder not in sys.meta_path:
        sys.meta_path.append(_finder)


def _has_python(folders: Iterable[str]) -> bool:
    walked = (files for folder in folders for _, _, files in islice(os.walk(folder), _MOST_FOLDERS))
    return any(file.endswith(".py") for files in walked for file in files)


_finder: Final = ProjectFinder()
