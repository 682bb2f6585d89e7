"""Backends that were written for Airflow, by the path of their class, such as those of provider packages.

They `import airflow`, which aiosched answers as the setting `core.airflow` says.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from aiosched.airflow.finder import install
from aiosched.backends.backend import Kind
from aiosched.errors import ConfigError
from aiosched.signatures import signature_of


class AirflowBackend:
    """Asks an object with `get_conn_value` (or `get_conn_uri`) and `get_variable`."""

    def __init__(self, backend: Any) -> None:
        self._backend = backend

    def get(self, kind: Kind, name: str) -> str | None:
        """See SecretBackend."""
        found = self._variable(name) if kind == "variable" else self._connection(name)
        return None if found is None else str(found)

    def _variable(self, name: str) -> Any:
        return self._backend.get_variable(name)

    def _connection(self, name: str) -> Any:
        for method in ("get_conn_value", "get_conn_uri"):
            if callable(read := getattr(self._backend, method, None)):
                try:
                    return read(name)
                except NotImplementedError:
                    continue
        found = self._backend.get_connection(name)
        return None if found is None else found.get_uri()


def open_airflow_backend(path: str, options: dict[str, Any], *, mode: str) -> AirflowBackend:
    """The backend of a class, with keywords for it. Raises ConfigError if it cannot be imported or does not take them.

    `mode` is the setting `core.airflow`.
    """
    install(mode)
    module, _, name = path.rpartition(".")
    try:
        found = getattr(import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise ConfigError(
            f"secrets.backends: {path} cannot be imported ({error}). Install the package that has it."
        ) from error
    try:
        signature_of(found).bind(**options)
    except TypeError as error:
        raise ConfigError(f"secrets.backends: {path}: {error}.") from None
    return AirflowBackend(found(**options))
