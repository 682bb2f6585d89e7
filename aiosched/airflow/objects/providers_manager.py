"""`ProvidersManager`: what the installed providers have, for code of Airflow's that asks for it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from pkgutil import resolve_name
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from aiosched.authoring.runtime.provider_hooks import hook_class
from aiosched.errors import ConfigError
from aiosched.providers import connection_types, installed_providers, task_decorators


class HookInfo(NamedTuple):
    """A hook: its class by path, and how it is made of a connection."""

    hook_class: Any
    connection_id_attribute_name: str
    package_name: str
    hook_name: str
    connection_type: str | None
    connection_testable: bool
    hook_class_name: str | None = None


class ProviderInfo(NamedTuple):
    """An installed provider: its version, and what it declares."""

    version: str
    data: Any


class DialectInfo(NamedTuple):
    """How a provider speaks to one kind of database."""

    name: str
    dialect_class_name: str
    provider_name: str


class PluginInfo(NamedTuple):
    """A plugin that a provider brings."""

    name: str
    plugin_class: str
    provider_name: str


_PATHS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "auth_backend_module_names": "auth-backends",
        "auth_managers": "auth-managers",
        "db_managers": "db-managers",
        "executor_class_names": "executors",
        "extra_links_class_names": "extra-links",
        "filesystem_module_names": "filesystems",
        "logging_class_names": "logging",
        "notification": "notifications",
        "queue_class_names": "queues",
        "secrets_backend_class_names": "secrets-backends",
    }
)
"""Attributes that list paths of classes or modules: under which word providers declare them."""

_log = logging.getLogger(__name__)


class ProvidersManager:
    """The installed providers by package, and what they declare: hooks by type of connection, paths of classes."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("initialize_providers_"):
            return _nothing  # everything is read when it is asked for
        if (word := _PATHS.get(name)) is None:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return sorted({path for _, path in _declared(word) if _can_be_imported(path)})

    @cached_property
    def hooks(self) -> Mapping[str, HookInfo | None]:
        """The hook of each connection type, imported when it is read; None for one that cannot be imported."""
        return _Hooks()

    @property
    def providers(self) -> dict[str, ProviderInfo]:
        """The installed providers by the name of their package."""
        return {name: ProviderInfo(one.version, dict(one.declared)) for name, one in installed_providers().items()}

    @property
    def taskflow_decorators(self) -> dict[str, str]:
        """The paths of the decorators `@task.NAME`."""
        return dict(task_decorators())

    @property
    def dialects(self) -> dict[str, DialectInfo]:
        """The dialects of SQL by name."""
        found = [
            DialectInfo(one["dialect-type"], one["dialect-class-name"], package)
            for package, one in _declared("dialects")
        ]
        return {one.name: one for one in found if _can_be_imported(one.dialect_class_name)}

    @property
    def plugins(self) -> list[PluginInfo]:
        """The plugins that providers bring."""
        found = [PluginInfo(one["name"], one["plugin-class"], package) for package, one in _declared("plugins")]
        return sorted(one for one in found if _can_be_imported(one.plugin_class))

    @property
    def provider_configs(self) -> list[tuple[str, dict[str, Any]]]:
        """The settings that providers declare, by package."""
        found = installed_providers().items()
        return [(name, one.declared["config"]) for name, one in found if one.declared.get("config")]

    @property
    def asset_uri_handlers(self) -> dict[str, Callable[..., Any]]:
        """The functions that put the URIs of assets into a standard form, by scheme."""
        return _of_schemes("handler")

    @property
    def asset_factories(self) -> dict[str, Callable[..., Any]]:
        """The functions that make assets, by scheme."""
        return _of_schemes("factory")


def _nothing() -> None:
    pass


def _declared(word: str) -> Iterator[tuple[str, Any]]:
    """What the providers list under a word, with the package that does."""
    for name, one in installed_providers().items():
        for entry in one.declared.get(word) or ():
            yield name, entry


def _can_be_imported(path: str) -> bool:
    """Whether a module or class is there: a library that it needs may not be installed."""
    try:
        resolve_name(path)
    except Exception as error:
        _log.warning("%s of a provider package cannot be imported: %r", path, error)
        return False
    return True


def _of_schemes(word: str) -> dict[str, Callable[..., Any]]:
    return {
        scheme: resolve_name(one[word])
        for _, one in _declared("asset-uris")
        if one.get(word) and _can_be_imported(one[word])
        for scheme in one["schemes"]
    }


class _Hooks(Mapping[str, "HookInfo | None"]):
    def __getitem__(self, conn_type: str) -> HookInfo | None:
        found = connection_types()[conn_type]
        try:
            kind = hook_class(found)
        except ConfigError:
            return None
        return HookInfo(
            hook_class=kind,
            connection_id_attribute_name=str(kind.conn_name_attr),
            package_name=found.package,
            hook_name=found.title,
            connection_type=found.name,
            connection_testable=hasattr(kind, "test_connection"),
            hook_class_name=found.hook,
        )

    def __iter__(self) -> Iterator[str]:
        return iter(connection_types())

    def __len__(self) -> int:
        return len(connection_types())
