"""The backends of the settings. Their libraries are imported when they are first asked, in a thread."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, Final

from aiosched.backends.asking import AskedBackend, Backends
from aiosched.backends.backend import SecretBackend
from aiosched.config import BackendSettings, Settings
from aiosched.config.secret_backends import BACKEND_PLUGINS
from aiosched.core.values.masking import secrets
from aiosched.errors import ConfigError
from aiosched.signatures import signature_of

_CLASSES: Final = {
    "files": "aiosched.backends.files:FilesBackend",
    "vault": "aiosched.backends.vault:VaultBackend",
    "aws-secrets": "aiosched.backends.aws:SecretsManagerBackend",
    "aws-parameters": "aiosched.backends.aws:ParameterStoreBackend",
    "gcp": "aiosched.backends.gcp:GoogleBackend",
}


def backends_of(settings: Settings) -> Backends:
    """The backends of the settings, none of them opened yet. Their logins are masked in this process from now on."""
    chosen, found = settings.secrets, []
    numbers = Counter[str]()
    for one in chosen.backends:
        secrets.register_named("", one.options)
        numbers[one.kind] += 1
        number = f" {numbers[one.kind]}" if numbers[one.kind] > 1 else ""
        found.append(
            AskedBackend(
                f"{one.kind.rpartition('.')[2]}{number}",
                partial(open_backend, one, mode=settings.core.airflow, timeout=chosen.timeout),
                team_names=one.team_names,
                timeout=chosen.timeout,
                cache_seconds=chosen.cache_seconds,
            )
        )
    return Backends(found)


def open_backend(settings: BackendSettings, *, mode: str, timeout: float) -> SecretBackend:
    """Open one backend: imports its library. Raises ConfigError for options that it does not take."""
    kind, options = settings.kind, settings.options
    if kind in _CLASSES:
        module, _, name = _CLASSES[kind].partition(":")
        make: Callable[..., SecretBackend] = getattr(import_module(module), name)
        if "timeout" in signature_of(make).parameters:
            options.setdefault("timeout", timeout)
        return _made(make, kind, options)
    if plugins := entry_points(group=BACKEND_PLUGINS, name=kind):
        return _made(next(iter(plugins)).load(), kind, options)
    from aiosched.backends.airflow import open_airflow_backend

    return open_airflow_backend(kind, options, mode=mode)


def _made(make: Callable[..., SecretBackend], kind: str, options: dict[str, Any]) -> SecretBackend:
    parameters = signature_of(make).parameters
    try:
        signature_of(make).bind(**options)
    except TypeError as error:
        known = ", ".join(name for name in parameters if name not in ("clock", "client"))
        raise ConfigError(f"secrets.backends: {kind}: {error}. Its options are {known}.") from None
    return make(**options)
