"""Secret values inside a run's conf: how they are marked wherever the conf is stored or sent. Pure.

A secret is an object with the one key `$secret`, so each reader knows it for one, whatever became of the DAG's file:

    {"$secret": {"sealed": "gAAAA…"}}       a token: the JSON of the value, encrypted
    {"$secret": {"json": "hunter2"}}        the value itself: there is no key, or it is on its way to a task
    {"$secret": {"unreadable": "why"}}      on its way to a task, if no key decrypts it

Elsewhere: which params are secrets (core/graph/secret_params.py), encrypting (db/crypto/secret_confs.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import NoneType
from typing import Any, Final

import msgspec

from aiosched.core.values.masking import MASK, secrets
from aiosched.errors import AioschedError

MARK: Final = "$secret"
_SCALARS: Final = frozenset({NoneType, bool, int, float, str})  # what most values are, and no secret


def marked(value: Any) -> dict[str, Any]:
    """`value` as a secret; None and what is a secret already as they are."""
    return value if value is None or is_marked(value) else {MARK: {"json": value}}


def is_marked(value: Any) -> bool:
    """Whether this is a secret."""
    if type(value) in _SCALARS:
        return False
    return isinstance(value, Mapping) and len(value) == 1 and isinstance(value.get(MARK), Mapping)


def has_sealed(value: Any) -> bool:
    """Whether there is a secret in it whose value cannot be seen here."""
    if type(value) in _SCALARS:
        return False
    if is_marked(value):
        return "json" not in value[MARK]
    parts = value.values() if isinstance(value, Mapping) else value if isinstance(value, list | tuple) else ()
    return any(map(has_sealed, parts))


def hidden(value: Any) -> Any:
    """A copy for people: `***` in place of secrets."""
    return _replaced(value, lambda _: MASK)


def sealed(value: Any, encrypt: Callable[[str], str]) -> Any:
    """A copy whose secrets are encrypted."""

    def one(secret: Mapping[str, Any]) -> Any:
        if "json" not in secret:
            return {MARK: secret}
        return {MARK: {"sealed": encrypt(msgspec.json.encode(secret["json"]).decode())}}

    return _replaced(value, one)


def unsealed(value: Any, decrypt: Callable[[str], str]) -> Any:
    """A copy whose secrets are decrypted, and still marked. Raises what `decrypt` does."""

    def one(secret: Mapping[str, Any]) -> Any:
        return {MARK: {"json": msgspec.json.decode(decrypt(secret["sealed"]))} if "sealed" in secret else secret}

    return _replaced(value, one)


def unreadable(value: Any, why: str) -> Any:
    """A copy whose encrypted secrets say why they cannot be read."""
    return _replaced(value, lambda secret: {MARK: {"unreadable": why} if "sealed" in secret else secret})


def plain(value: Any) -> Any:
    """A copy with the values of secrets in their places; those that cannot be seen stay marked."""
    return _replaced(value, lambda secret: secret.get("json", {MARK: secret}))


def revealed(value: Any) -> Any:
    """As `plain`, in the process of a task: its logs show `***` for them. Raises AioschedError for one that cannot be
    seen."""

    def one(secret: Mapping[str, Any]) -> Any:
        if "json" not in secret:
            raise AioschedError(f"A secret value of this run's conf cannot be read: {secret.get('unreadable')}")
        secrets.register(secret["json"])
        return secret["json"]

    return _replaced(value, one)


def has_secrets(value: Any) -> bool:
    """Whether there is a secret in it."""
    if type(value) in _SCALARS:
        return False
    if isinstance(value, Mapping):
        return is_marked(value) or any(map(has_secrets, value.values()))
    return isinstance(value, list | tuple) and any(map(has_secrets, value))


def _replaced(value: Any, replace: Callable[[Mapping[str, Any]], Any]) -> Any:
    if type(value) in _SCALARS:
        return value
    if is_marked(value):
        return replace(value[MARK])
    if isinstance(value, Mapping):
        return {key: _replaced(inner, replace) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_replaced(inner, replace) for inner in value]
    return value
