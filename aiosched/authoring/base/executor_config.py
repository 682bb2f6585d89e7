"""The `executor_config` of a task as JSON, also if it has objects of Kubernetes' Python clients."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime
from typing import Any

from aiosched.authoring.base.checks import fail
from aiosched.authoring.base.location import Location
from aiosched.authoring.base.plain_values import is_json
from aiosched.core.values.texts import a_type
from aiosched.sizes import size_of


def executor_config_as_json(config: object, where: Location | None) -> dict[str, Any]:
    """`config` as a JSON object; None: an empty one. A `memory_limit` becomes bytes. Raises DagError."""
    if config is None:
        return {}
    if not isinstance(config, Mapping):
        raise fail(f"executor_config is a dict such as {{'pod_override': …}}, not {type(config).__name__}.", where)
    found: dict[str, Any] = _plain(config, "executor_config", where)
    if "memory_limit" in found:
        try:
            found["memory_limit"] = size_of(found["memory_limit"])
        except ValueError as error:
            raise fail(f"executor_config['memory_limit']: {error}.", where) from None
    return found


def _plain(value: object, path: str, where: Location | None) -> Any:
    if isinstance(names := getattr(value, "attribute_map", None), Mapping):  # a model such as kubernetes.client.V1Pod
        given = {key: getattr(value, name) for name, key in names.items()}
        return {key: _plain(one, f"{path}.{key}", where) for key, one in given.items() if one is not None}
    if isinstance(value, Mapping):
        if strange := [key for key in value if not isinstance(key, str)]:
            raise fail(f"{path} has the key {strange[0]!r}: keys of JSON are text.", where)
        return {key: _plain(one, f"{path}.{key}", where) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one, f"{path}[{index}]", where) for index, one in enumerate(value)]
    if isinstance(value, date | datetime):
        return value.isoformat()
    if callable(as_dict := getattr(value, "to_dict", None)):
        return _plain(as_dict(), path, where)
    if is_json(value):
        return value
    raise fail(f"{path} is {a_type(value)}, which JSON cannot hold: give text, numbers, lists, dicts.", where)
