"""The hooks of connection types, as the installed provider packages declare them.

Source: the entry points `apache_airflow_provider` of installed distributions; see aiosched/providers.py.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from aiosched.errors import ConfigError, did_you_mean
from aiosched.providers import ConnectionType, connection_types


def hook_for(conn_type: str, conn_id: str, hook_params: Mapping[str, Any]) -> Any:
    """A new hook for a connection of this type; `hook_params` are more arguments of its class.

    Raises ConfigError when no installed provider has a hook for the type, or when its class cannot be imported.
    """
    known = connection_types()
    if (found := known.get(conn_type)) is None:
        raise ConfigError(
            f"Connection {conn_id!r} has the type {conn_type!r}, for which no installed provider has a hook."
            f"{did_you_mean(conn_type, known)} `aiosched providers list` shows the types that have one; "
            "`aiosched providers install` adds a provider."
        )
    kind = hook_class(found)
    return kind(**{str(kind.conn_name_attr): conn_id}, **hook_params)


def hook_class(found: ConnectionType) -> Any:
    """The class of the hook; raises ConfigError naming the package when it cannot be imported."""
    module, _, name = found.hook.rpartition(".")
    try:
        kind = getattr(import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise ConfigError(
            f"The hook {found.hook} of {found.package} cannot be imported: {error}. Install the package again: "
            f"aiosched providers install {found.package}"
        ) from error
    if not inspect.isclass(kind) or not getattr(kind, "conn_name_attr", None):
        raise ConfigError(f"{found.hook} of {found.package} is not a hook with a connection (no conn_name_attr).")
    return kind
