"""`mask_secret` and `redact`: texts that logs show as `***`; and the base class of other places for secrets."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from aiosched.core.values.masking import secrets
from aiosched.exceptions import AirflowException


def mask_secret(secret: Any, name: str | None = None) -> None:
    """Show a text, or the texts in a dict or list, as `***` in this process's logs.

    With a `name` of a secret, or none, all texts are hidden; in a dict those with names of secrets.
    """
    if isinstance(secret, str) and name is None:
        secrets.register(secret)
    elif isinstance(secret, Iterable) and not isinstance(secret, str | bytes | dict):
        for one in secret:
            mask_secret(one, name)
    else:
        secrets.register_named(name or "", secret)


def redact(value: Any, name: str | None = None, max_depth: int | None = None, replacement: str = "***") -> Any:
    """`value` with secrets shown as `***`."""
    if isinstance(value, str) and name is None:
        return secrets.redact(value)
    return secrets.redact_value(value, name or "")


class BaseSecretsBackend:
    """Base of Airflow's other places for secrets. Those in `secrets.backends` are asked."""

    @staticmethod
    def build_path(path_prefix: str, secret_id: str, sep: str = "/") -> str:
        """The path of a secret below a prefix."""
        return f"{path_prefix}{sep}{secret_id}"

    def get_conn_value(self, conn_id: str, team_name: str | None = None) -> str | None:
        """A connection as URI or JSON; None if there is none."""
        raise NotImplementedError(f"{type(self).__name__} has no get_conn_value(self, conn_id): implement it.")

    def get_variable(self, key: str, team_name: str | None = None) -> str | None:
        """A variable; None if there is none."""
        raise NotImplementedError(f"{type(self).__name__} has no get_variable(self, key): implement it.")

    def get_config(self, key: str) -> str | None:
        """A setting; None if there is none."""
        return None


class LocalFilesystemBackend(BaseSecretsBackend):
    """Can be named, as helpers of tests do, and not be made."""

    def __init__(self, *_: object, **__: object) -> None:
        raise AirflowException(
            "aiosched does not use this backend. `variables import` and `connections import` read such files; a test "
            "gives AIOSCHED_VAR_… and AIOSCHED_CONN_… in the environment."
        )
