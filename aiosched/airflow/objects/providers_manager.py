"""`ProvidersManager`: what the installed providers have, for code of Airflow's that asks for it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any, NamedTuple

from aiosched.authoring.runtime.provider_hooks import hook_class
from aiosched.errors import ConfigError
from aiosched.providers import connection_types, installed_providers


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


class ProvidersManager:
    """The installed providers by package, and their hooks by type of connection."""

    @cached_property
    def hooks(self) -> Mapping[str, HookInfo | None]:
        """The hook of each connection type, imported when it is read; None for one that cannot be imported."""
        return _Hooks()

    @property
    def providers(self) -> dict[str, ProviderInfo]:
        """The installed providers by the name of their package."""
        return {name: ProviderInfo(one.version, one) for name, one in installed_providers().items()}

    @property
    def taskflow_decorators(self) -> dict[str, str]:
        """The paths of the decorators `@task.NAME`."""
        return {name: path for one in installed_providers().values() for name, path in one.decorators.items()}

    @property
    def extra_links_class_names(self) -> list[str]:
        """The paths of the classes of links."""
        return sorted(path for one in installed_providers().values() for path in one.extra_links)


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
