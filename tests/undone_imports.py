"""Undoing what loading files of authors adds to this process."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_OURS = Path(__file__).parents[1]
_INSTALLED = tuple(f"{folder}/" for folder in {sys.prefix, sys.base_prefix, str(_OURS)})


@contextmanager
def undone_imports() -> Iterator[None]:
    """Restore `sys.path`, and forget modules that the block imported.

    Libraries and aiosched stay: of a second copy nothing is the same object, while others hold the first.
    """
    path, modules = list(sys.path), set(sys.modules)
    yield
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        origin = getattr(getattr(sys.modules[name], "__spec__", None), "origin", None) or ""
        is_kept = name.partition(".")[0] in sys.stdlib_module_names or origin.startswith(_INSTALLED)
        if not is_kept or name.partition(".")[0] == "airflow":
            del sys.modules[name]
