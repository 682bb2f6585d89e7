"""Small functions of `airflow.utils.helpers`, `hashlib_wrapper` and `platform`."""

from __future__ import annotations

import getpass
import hashlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar

from aiosched.authoring.base.checks import valid_key
from aiosched.errors import DagError

T = TypeVar("T")

ID_LEN: Final = 250  # characters


def validate_key(k: str, max_length: int = ID_LEN) -> None:
    """Raise DagError, an AirflowException, for a text that cannot be the id of a DAG or task; TypeError for no text."""
    if not isinstance(k, str):
        raise TypeError(f"{k!r} is of the class {type(k).__name__}: a key is a text.")
    if len(valid_key("key", k)) > max_length:
        raise DagError(f"{k!r} has {len(k)} characters; allowed are {max_length}.")


def validate_group_key(k: str, max_length: int = 200) -> None:
    """Raise DagError for a text that cannot be the id of a group; TypeError for no text."""
    validate_key(k, max_length)
    if "." in k:
        raise DagError(f"{k!r} has a dot: dots separate nested groups.")


def as_tuple(obj: Any) -> tuple[Any, ...]:
    """The items of a container that is no text; anything else as the only item."""
    is_container = hasattr(obj, "__iter__") and not isinstance(obj, str)
    return tuple(obj) if is_container else (obj,)


def prune_dict(val: Any, mode: str = "strict") -> Any:
    """`val` without what is None, inside dicts and lists. In the mode `truthy` also without what is false or empty."""

    def is_kept(value: Any) -> bool:
        return bool(value) if mode == "truthy" else value is not None

    if mode not in {"strict", "truthy"}:
        raise ValueError(f"mode={mode!r} does not exist: use 'strict' or 'truthy'.")
    if isinstance(val, dict):
        pruned = {key: prune_dict(item, mode) if isinstance(item, dict | list) else item for key, item in val.items()}
        return {key: item for key, item in pruned.items() if is_kept(item)}
    if isinstance(val, list):
        return [
            item
            for item in (prune_dict(one, mode) if isinstance(one, dict | list) else one for one in val)
            if is_kept(item)
        ]
    return val


def exactly_one(*args: Any) -> bool:
    """Whether just one of the values is true."""
    return sum(map(bool, args)) == 1


def at_most_one(*args: Any) -> bool:
    """Whether none or one of the values is true."""
    return sum(map(bool, args)) <= 1


def merge_dicts(dict1: Mapping[str, Any], dict2: Mapping[str, Any]) -> dict[str, Any]:
    """Both together, dicts inside them too; the second wins."""
    merged = dict(dict1)
    for key, value in dict2.items():
        both = isinstance(value, Mapping) and isinstance(merged.get(key), Mapping)
        merged[key] = merge_dicts(merged[key], value) if both else value
    return merged


def chunks(items: Sequence[T], chunk_size: int) -> Iterator[Sequence[T]]:
    """`items` in pieces of `chunk_size`, the last one perhaps shorter."""
    if chunk_size <= 0:
        raise ValueError("chunk_size must be a positive whole number.")
    for start in range(0, len(items), chunk_size):
        yield items[start : start + chunk_size]


def convert_camel_to_snake(camel_str: str) -> str:
    """`tableId` is `table_id`."""
    return re.sub(r"(?<!^)(?<!_)([A-Z])", r"_\1", camel_str).lower()


def as_flattened_list(iterable: Any) -> list[Any]:
    """The items of lists inside lists."""
    found: list[Any] = []
    for item in iterable:
        found += as_flattened_list(item) if isinstance(item, list | tuple) else [item]
    return found


def partition(pred: Callable[[T], bool], iterable: Sequence[T]) -> tuple[list[T], list[T]]:
    """The items for which `pred` is false, and those for which it is true."""
    items = list(iterable)
    return [item for item in items if not pred(item)], [item for item in items if pred(item)]


def is_container(obj: Any) -> bool:
    """Whether it can be iterated and is no text."""
    return hasattr(obj, "__iter__") and not isinstance(obj, str)


def md5(string: bytes | bytearray = b"", /, **_: Any) -> Any:
    """An MD5 hash that is not for security."""
    return hashlib.md5(string, usedforsecurity=False)


def getuser() -> str:
    """The name of the user who runs this process."""
    return getpass.getuser()
