"""Loads plugins: those of the plugins folder and of entry points, once in each process that imports DAG files.

A plugin that cannot be imported, and what has no effect, are `problems`: `aiosched doctor` shows them, the former are
errors in the log, and everything else goes on.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import logging
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, Final

from aiosched.authoring.plugins.base import WITHOUT_EFFECT, Plugin
from aiosched.authoring.plugins.listeners import HOOKS, REFUSED, Hook, marked_functions
from aiosched.authoring.plugins.policies import Policies

logger: logging.Logger = logging.getLogger(__name__)

GROUPS: Final = ("aiosched.plugins", "airflow.plugins")  # of entry points
_POLICIES: Final = "airflow.policy"


@dataclass(frozen=True, slots=True)
class PluginProblem:
    """What is wrong with a plugin. `is_error`: it cannot be loaded; else a part of it has no effect."""

    where: str
    text: str
    is_error: bool = False

    def __str__(self) -> str:
        return f"{self.where}: {self.text}"


@dataclass(slots=True)
class LoadedPlugins:
    """The plugins of a process and what they add."""

    plugins: dict[str, type[Plugin]] = field(default_factory=dict)  # by name; of two with one name the first
    macros: dict[str, SimpleNamespace] = field(default_factory=dict)  # by plugin
    hooks: dict[str, list[Hook]] = field(default_factory=dict)  # functions of listeners by hook
    problems: list[PluginProblem] = field(default_factory=list)
    policies: Policies = field(default_factory=Policies)

    def add(self, plugin: type[Plugin], where: str) -> None:
        """Take a plugin in. Raises what its `validate` and `on_load` raise."""
        if plugin in self.plugins.values():
            return
        plugin.validate()
        name = str(plugin.name)
        if name in self.plugins:
            self.problems.append(PluginProblem(where, f"there is another plugin {name!r}, so this one is left out"))
            return
        plugin.on_load()
        self.plugins[name] = plugin
        if plugin.macros:
            self.macros[name] = SimpleNamespace(**{macro.__name__: macro for macro in plugin.macros})
        for listener in plugin.listeners:
            self._listen(listener, f"{where}, plugin {name!r}")
        for attribute, reason in WITHOUT_EFFECT.items():
            if getattr(plugin, attribute, None):
                self.problems.append(PluginProblem(where, f"{attribute} of plugin {name!r} has no effect: {reason}"))

    def _listen(self, listener: object, where: str) -> None:
        for hook, function in marked_functions(listener):
            if hook in HOOKS:
                self.hooks.setdefault(hook, []).append(function)
            else:
                reason = REFUSED.get(hook, "there is no such hook")
                self.problems.append(PluginProblem(where, f"the listener's {hook} is never called: {reason}"))


_policies: dict[str | None, Policies] = {}  # by folder
_loaded: dict[str | None, LoadedPlugins] = {}
_current = LoadedPlugins()


def loaded_plugins() -> LoadedPlugins:
    """The plugins of this process; none before `load_plugins`."""
    return _current


def load_plugins(folder: str | None) -> LoadedPlugins:
    """Load policies and the plugins of the folder (None: there is none) and of entry points, unless they are loaded."""
    global _current
    if folder not in _loaded:
        _loaded[folder] = _current = LoadedPlugins(policies=load_policies(folder))
        _load(_current, folder)
        for problem in _current.problems:
            logger.log(logging.ERROR if problem.is_error else logging.DEBUG, "plugin %s", problem)
    _current = _loaded[folder]
    return _current


def load_policies(folder: str | None) -> Policies:
    """Load the cluster policies, unless they are loaded, and put the folder on the path; no plugin is imported."""
    if folder is not None and folder not in sys.path and Path(folder).is_dir():
        sys.path.append(folder)
    if folder not in _policies:
        _policies[folder] = found = Policies()
        found.load(one for one in plugin_entry_points() if one.group == _POLICIES)
    return _policies[folder]


@functools.cache
def plugin_entry_points() -> tuple[EntryPoint, ...]:
    """The entry points that name plugins or policies, of all installed packages. Reads metadata, imports nothing."""
    found = entry_points()
    return tuple(one for group in (*GROUPS, _POLICIES) for one in found.select(group=group))


def _load(loaded: LoadedPlugins, folder: str | None) -> None:
    for entry_point in (one for one in plugin_entry_points() if one.group in GROUPS):
        where = f"entry point {entry_point.name!r} ({entry_point.value})"
        try:
            named: Any = entry_point.load()
            plugins = _plugins_in(named) if isinstance(named, ModuleType) else [named] if _is_plugin(named) else []
            for plugin in plugins:
                loaded.add(plugin, where)
        except (Exception, SystemExit) as error:
            loaded.problems.append(_broken(where, error))
    if folder is not None and (root := Path(folder)).is_dir():
        for file in sorted(root.rglob("*.py")):
            if not any(part.startswith((".", "__pycache__")) for part in file.relative_to(root).parts):
                _load_file(loaded, root, file)
    loaded.problems += [PluginProblem(where, text, is_error=True) for where, text in loaded.policies.broken]
    loaded.problems += [PluginProblem(where, text) for where, text in loaded.policies.without_effect]


def _load_file(loaded: LoadedPlugins, root: Path, file: Path) -> None:
    where = str(file)
    try:
        for plugin in _plugins_in(_imported(root, file)):
            loaded.add(plugin, where)
    except (Exception, SystemExit) as error:
        loaded.problems.append(_broken(where, error))


def _imported(root: Path, file: Path) -> ModuleType:
    """The module of a plugin file, under the name that DAG files import it by."""
    parts = file.relative_to(root).with_suffix("").parts
    name = ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)
    module = importlib.import_module(name)
    if (found := getattr(module, "__file__", None)) is None or Path(found).resolve() != file.resolve():
        raise ImportError(f"the module {name!r} is {found or 'built in'}: give this file another name")
    return module


def _plugins_in(module: ModuleType) -> Iterator[type[Plugin]]:
    """The plugin classes that are defined in a module, or in those that it imports, in the order of their names."""
    for value in list(vars(module).values()):
        if _is_plugin(value):
            yield value


def _is_plugin(value: object) -> bool:
    return inspect.isclass(value) and issubclass(value, Plugin) and value is not Plugin


def _broken(where: str, error: BaseException) -> PluginProblem:
    return PluginProblem(where, f"cannot be loaded: {type(error).__name__}: {error}", is_error=True)


def macros_of_plugins() -> Mapping[str, SimpleNamespace]:
    """What templates find under `macros` beside the macros of aiosched: a namespace for each plugin."""
    return _current.macros
