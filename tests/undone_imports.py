"""Undoing what loading files and plugins of authors adds to this process."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from aiosched.authoring.plugins import loading
from aiosched.authoring.plugins.loading import LoadedPlugins

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


@contextmanager
def without_plugins(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No plugins before and after the block, none of this machine, and `undone_imports`."""
    monkeypatch.setattr(loading, "_loaded", {})
    monkeypatch.setattr(loading, "_policies", {})
    monkeypatch.setattr(loading, "_current", LoadedPlugins())
    monkeypatch.setattr(loading, "plugin_entry_points", lambda: ())
    with undone_imports():
        yield
