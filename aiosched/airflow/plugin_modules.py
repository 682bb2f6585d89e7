"""`airflow.operators.NAME` and the like: the classes that the plugin NAME lists, as Airflow 1.10 gave them.

Source: Airflow 1.10, plugins_manager.py; `airflow.macros.NAME` is that of Airflow 2, too.
"""

from __future__ import annotations

from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, Final

from aiosched.airflow.installed import ROOT
from aiosched.authoring.base.settings import defaults
from aiosched.authoring.plugins.loading import LoadedPlugins, load_plugins

_KINDS: Final = ("hooks", "macros", "operators", "sensors")


class _Listed:
    """Loads the module of what a plugin lists."""

    def __init__(self, listed: list[Any]) -> None:
        self._listed = listed

    def create_module(self, spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        for each in self._listed:
            if not isinstance(name := getattr(each, "__name__", None), str):
                raise ImportError(f"{module.__name__}: the plugin lists {each!r}, which is neither class nor function")
            setattr(module, name, each)


def find(fullname: str) -> ModuleSpec | None:
    """The spec of such a module; None if no plugin of that name lists anything of that kind."""
    if (plugins := _plugins_for(fullname)) is None:
        return None
    _, kind, name = fullname.split(".")
    listed = list(getattr(plugins.plugins.get(name), kind, None) or ())
    return ModuleSpec(fullname, _Listed(listed)) if listed else None  # type: ignore[arg-type] # has what is needed


def broken_for(fullname: str) -> str:
    """A sentence about plugins that cannot be loaded, one of which may be that of such a module; or nothing."""
    plugins = _plugins_for(fullname)
    broken = [str(problem) for problem in plugins.problems if problem.is_error] if plugins is not None else []
    return f" A plugin cannot be loaded: {'; '.join(broken)}." if broken else ""


def _plugins_for(fullname: str) -> LoadedPlugins | None:
    root, *inner = fullname.split(".")
    return load_plugins(defaults().plugins_folder) if root == ROOT and len(inner) == 2 and inner[0] in _KINDS else None
