"""The installed provider packages of Airflow: what their entry points declare. Imports none of their classes.

A provider names a function that returns a dict, `get_provider_info`, in the entry point group
`apache_airflow_provider`. It is read once a process.
"""

from __future__ import annotations

import importlib.util
import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

_GROUP: Final = "apache_airflow_provider"
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ConnectionType:
    """A type of connections: the path of its hook's class, its name for people, and who has it.

    `hidden`, `labels` and `placeholders` describe the fields of its form; `fields` are extras, by name with a label.
    """

    name: str
    hook: str
    package: str
    title: str
    hidden: tuple[str, ...]
    labels: Mapping[str, str]
    placeholders: Mapping[str, str]
    fields: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ProviderPackage:
    """An installed provider package, and its modules and classes by kind, as it declares them."""

    package: str
    version: str
    title: str
    operators: tuple[str, ...]  # modules
    sensors: tuple[str, ...]
    hooks: tuple[str, ...]
    triggers: tuple[str, ...]
    transfers: tuple[str, ...]
    notifications: tuple[str, ...]  # classes
    connection_types: tuple[ConnectionType, ...]
    decorators: Mapping[str, str]  # name of the decorator -> path of the function that makes it
    setting_defaults: Mapping[tuple[str, str], str]  # (section, option) of Airflow's settings, in lower case
    declared: Mapping[str, Any]  # all of it, as the package says it


@cache
def installed_providers() -> Mapping[str, ProviderPackage]:
    """The installed providers by package, sorted. One that cannot be read is left out, with a warning in the log."""
    found: dict[str, ProviderPackage] = {}
    for entry in entry_points(group=_GROUP):
        package = entry.dist.name if entry.dist is not None else entry.value.partition(":")[0]
        try:
            found[package] = _provider(package, entry.dist.version if entry.dist else "", _info(entry))
        except Exception:
            _log.warning("the provider package %s cannot be read: install it again", package, exc_info=True)
    return MappingProxyType(dict(sorted(found.items())))


@cache
def connection_types() -> Mapping[str, ConnectionType]:
    """All types of connections that installed providers have hooks for, by name, sorted."""
    found = {one.name: one for provider in installed_providers().values() for one in provider.connection_types}
    return MappingProxyType(dict(sorted(found.items())))


@cache
def task_decorators() -> Mapping[str, str]:
    """The decorators `@task.NAME` of installed providers: the path of the function that makes each."""
    found: dict[str, str] = {}
    for provider in installed_providers().values():
        found.update(provider.decorators)
    return MappingProxyType(found)


@cache
def setting_defaults() -> Mapping[tuple[str, str], str]:
    """The defaults of Airflow settings that installed providers declare, by section and option."""
    found: dict[tuple[str, str], str] = {}
    for provider in installed_providers().values():
        found.update(provider.setting_defaults)
    return MappingProxyType(found)


def forget_providers() -> None:
    """Read the entry points again on the next use, after a package was installed."""
    for reader in (installed_providers, connection_types, task_decorators, setting_defaults):
        reader.cache_clear()


def _info(entry: EntryPoint) -> Mapping[str, Any]:
    """What the entry point's function returns; from its file alone where that is possible, since it imports nothing."""
    module, _, function = entry.value.partition(":")
    if entry.dist is not None:
        path = Path(str(entry.dist.locate_file(f"{module.replace('.', '/')}.py")))
        if path.is_file():
            spec = importlib.util.spec_from_file_location(f"aiosched_provider_{module.replace('.', '_')}", path)
            assert spec is not None
            assert spec.loader is not None
            loaded = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(loaded)
            info: Mapping[str, Any] = getattr(loaded, function)()
            return info
    named: Mapping[str, Any] = entry.load()()
    return named


def _provider(package: str, version: str, info: Mapping[str, Any]) -> ProviderPackage:
    return ProviderPackage(
        package=package,
        version=version,
        title=str(info.get("name") or package),
        operators=tuple(_modules(info.get("operators"))),
        sensors=tuple(_modules(info.get("sensors"))),
        hooks=tuple(_modules(info.get("hooks"))),
        triggers=tuple(_modules(info.get("triggers"))),
        transfers=tuple(str(one["python-module"]) for one in info.get("transfers") or ()),
        notifications=tuple(map(str, info.get("notifications") or ())),
        connection_types=tuple(_connection_type(package, one) for one in info.get("connection-types") or ()),
        decorators={str(one["name"]): str(one["class-name"]) for one in info.get("task-decorators") or ()},
        setting_defaults=dict(_setting_defaults(info.get("config") or {})),
        declared=MappingProxyType(dict(info)),
    )


def _modules(declared: Any) -> Iterator[str]:
    for one in declared or ():
        yield from map(str, one.get("python-modules") or ())


def _setting_defaults(sections: Mapping[str, Any]) -> Iterator[tuple[tuple[str, str], str]]:
    for section, declared in sections.items():
        for option, what in ((declared or {}).get("options") or {}).items():
            if (default := (what or {}).get("default")) is not None:
                yield (section.lower(), option.lower()), str(default)


def _connection_type(package: str, declared: Mapping[str, Any]) -> ConnectionType:
    name, behaviour = str(declared["connection-type"]), declared.get("ui-field-behaviour") or {}
    return ConnectionType(
        name=name,
        hook=str(declared["hook-class-name"]),
        package=package,
        title=str(declared.get("hook-name") or name),
        hidden=tuple(map(str, behaviour.get("hidden-fields") or ())),
        labels={str(field): str(label) for field, label in (behaviour.get("relabeling") or {}).items()},
        placeholders={str(field): str(text) for field, text in (behaviour.get("placeholders") or {}).items()},
        fields={
            str(field): str((what or {}).get("label") or field)
            for field, what in (declared.get("conn-fields") or {}).items()
        },
    )
