"""Converts returned and pushed values of a task to XComs: JSON text, validated and limited in size.

A task can return values that `msgspec.json` encodes: None, bool, int, float, str, lists, tuples and sets (come back as
lists), dicts (keys come back as strings), datetimes (ISO 8601 strings), UUIDs and Decimals (strings), bytes (base64),
enums (their value), dataclasses, attrs classes and msgspec Structs (dicts), and pydantic models (their
`model_dump(mode="json")`). So are values of their subclasses, such as the pendulum instants of a context, and NumPy's
numbers. Nothing is converted back, a reader gets plain JSON; only an `ObjectStoragePath` comes back as one. NaN and
infinity are refused, because JSON cannot represent them.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Final, NamedTuple

import msgspec

from aiosched.authoring.runtime.xcom_values import plain_path
from aiosched.core.values.json_bounds import find_problem, is_bounded
from aiosched.core.values.messages import XComValue
from aiosched.core.values.texts import a_type
from aiosched.errors import AioschedError

RETURN_VALUE: Final = "return_value"
_TOTAL_FACTOR: Final = 16  # the cap of all values of an attempt, as a multiple of the cap of one value
_LONGEST_KEY: Final = 512  # characters
_MOST_REMOTE: Final = "xcom.max_remote_bytes"


class XComLimits(NamedTuple):
    """The sizes that XComs may have, as JSON in bytes; `most_remote` 0: none goes to remote storage."""

    most: int
    remote_from: int = 0
    most_remote: int = 0

    def is_remote(self, text: str) -> bool:
        """Whether a value goes to remote storage."""
        return bool(self.most_remote) and len(text.encode()) >= min(self.remote_from, self.most + 1)


class UnusableResult(AioschedError):
    """A task's value cannot become an XCom; the message says which, why, and how to fix it."""


def _plain(value: Any) -> Any:
    """A value that `msgspec.json` does not know, as one that it does."""
    if hasattr(type(value), "model_dump"):
        return value.model_dump(mode="json")
    if (path := plain_path(value)) is not None:
        return path
    for kind, to_plain in _SUBCLASSED.items():
        if isinstance(value, kind):
            return to_plain(value)
    if type(value).__module__ == "numpy" and getattr(value, "ndim", None) == 0 and not _is_not_finite(value.item()):
        return value.item()
    raise NotImplementedError(f"{a_type(value)} cannot be JSON")


# `msgspec.json` only knows these classes themselves. A datetime is a date, so it comes first.
_SUBCLASSED: Final[Mapping[type, Callable[[Any], Any]]] = {
    str: str.__str__,
    int: int.__int__,
    float: float.__float__,
    datetime: lambda value: datetime.fromisoformat(datetime.isoformat(value)),
    date: lambda value: date(value.year, value.month, value.day),
    time: lambda value: time.fromisoformat(time.isoformat(value)),
    timedelta: lambda value: timedelta(seconds=value.total_seconds()),
    Decimal: Decimal,
}


_encode = msgspec.json.Encoder(enc_hook=_plain).encode


def collect_xcoms(
    result: Any,
    pushed: Iterable[tuple[str, Any]],
    *,
    push_result: bool,
    multiple_outputs: bool,
    limit: int | XComLimits,
) -> tuple[XComValue, ...]:
    """The XComs of a successful attempt: pushed values first, then the returned value.

    A returned None is not pushed. With `multiple_outputs` a returned dict is pushed as a whole and by key. A later
    value for a key replaces an earlier one. Raises UnusableResult. Source: the semantics reference, section 27.
    """
    limits = limit if isinstance(limit, XComLimits) else XComLimits(limit)
    values: dict[str, str] = {}
    for key, value in pushed:
        values[_checked_key(key)] = encode_xcom(key, value, limits)
    if push_result and result is not None:
        values[RETURN_VALUE] = encode_xcom(RETURN_VALUE, result, limits)
        if multiple_outputs:
            if not isinstance(result, Mapping) or not all(isinstance(key, str) for key in result):
                raise UnusableResult(
                    f"multiple_outputs needs a dict with string keys, but the task returned {a_type(result)}: "
                    "return such a dict, or leave multiple_outputs out."
                )
            for key, value in result.items():
                values[_checked_key(key)] = encode_xcom(key, value, limits)
    _check_total([text for text in values.values() if not limits.is_remote(text)], limits.most, "core.max_xcom_bytes")
    _check_total([text for text in values.values() if limits.is_remote(text)], limits.most_remote, _MOST_REMOTE)
    return tuple(XComValue(key, text) for key, text in values.items())


def _check_total(texts: Sequence[str], limit: int, setting: str) -> None:
    total = sum(map(len, texts))
    if total > _TOTAL_FACTOR * limit:
        raise UnusableResult(
            f"The XComs of this attempt have {total:,} bytes together, the limit is {_TOTAL_FACTOR * limit:,}. "
            f"Store the data elsewhere and push a reference, or raise {setting}."
        )


def encode_xcom(key: str, value: Any, limit: int | XComLimits) -> str:
    """`value` as JSON text within the limit; raises UnusableResult naming the place that it cannot hold."""
    try:
        encoded = _encode(value)
    except Exception as error:
        raise UnusableResult(_explain(key, value, error)) from None
    if b"null" in encoded and (place := _find(value, key, _is_not_finite)) is not None:
        path, number = place
        raise UnusableResult(f"{path} is {number}, which JSON cannot hold: use None or a string instead.")
    limits = limit if isinstance(limit, XComLimits) else XComLimits(limit)
    most = limits.most_remote or limits.most
    if len(encoded) > most:
        remedy = f"or raise {_MOST_REMOTE}" if limits.most_remote else "set xcom.remote, or raise core.max_xcom_bytes"
        raise UnusableResult(
            f"The XCom {key!r} has {len(encoded):,} bytes, the limit is {most:,}. "
            f"Store the data elsewhere and push a reference, {remedy}."
        )
    if not is_bounded(encoded):
        raise UnusableResult(f"{find_problem(msgspec.json.decode(encoded), key)}.")
    return encoded.decode()


def _checked_key(key: Any) -> str:
    if not isinstance(key, str) or not key or len(key) > _LONGEST_KEY or "\0" in key:
        raise UnusableResult(f"An XCom key is a string of 1 to {_LONGEST_KEY} characters, not {key!r:.80}.")
    try:
        key.encode()
    except UnicodeEncodeError:
        raise UnusableResult(f"The XCom key {key!r:.80} has characters that are not Unicode: use others.") from None
    return key


def _explain(key: str, value: Any, error: Exception) -> str:
    place = _find(value, key, _is_refused)
    if place is None:
        return f"The XCom {key!r} cannot be JSON: {type(error).__name__}: {error}"
    path, culprit = place
    if isinstance(culprit, str):
        return f"{path} is a string with characters that are not Unicode (lone surrogates): decode or replace them."
    if isinstance(culprit, _Key):
        return f"{path} is {a_type(culprit.key)}, and keys of JSON are strings: use str(key)."
    hint = "return plain data (numbers, strings, lists, dicts, dataclasses), or push nothing with do_xcom_push=False"
    return f"{path} is {a_type(culprit)}, which JSON cannot hold: {hint}."


def _find(value: Any, path: str, wanted: Any) -> tuple[str, Any] | None:
    """The first `wanted` value, depth first, and its path."""
    waiting = [(path, value)]
    seen: set[int] = set()
    while waiting:
        path, value = waiting.pop()
        inner = list(_children(value, path))
        if inner and id(value) in seen:
            continue
        seen.add(id(value))
        if wanted(value):
            return path, value
        waiting += reversed(inner)
    return None


def _children(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield f"{path}[{key!r}]", item
            if not isinstance(key, str):
                yield f"the key {key!r:.80} of {path}", _Key(key)
    elif isinstance(value, list | tuple | set | frozenset):
        yield from ((f"{path}[{number}]", item) for number, item in enumerate(value))
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        yield from ((f"{path}.{field.name}", getattr(value, field.name)) for field in dataclasses.fields(value))
    elif isinstance(value, msgspec.Struct):
        yield from ((f"{path}.{name}", getattr(value, name)) for name in value.__struct_fields__)


class _Key:
    """A key that is not a string: some values that JSON can hold are no keys of JSON."""

    def __init__(self, key: Any) -> None:
        self.key = key


def _is_not_finite(value: Any) -> bool:
    return isinstance(value, float) and not math.isfinite(value)


def _is_refused(value: Any) -> bool:
    if next(_children(value, ""), None) is not None:
        return False
    try:
        _encode({value.key: None} if isinstance(value, _Key) else value)
    except Exception:
        return True
    return False
