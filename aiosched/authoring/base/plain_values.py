"""Values of DAG files as JSON: those that must be exact, and those for people."""

from __future__ import annotations

import functools
import hashlib
import math
from collections.abc import Mapping
from datetime import date, datetime, time, timedelta
from enum import Enum
from pathlib import PurePath
from typing import Any, Final
from uuid import UUID

from aiosched.authoring.base.params import DagParam
from aiosched.authoring.tasks.xcom_arg import Output

_SHOWN: Final = 20  # items of a long value


def strict_json(value: Any) -> Any:
    """`value` if JSON can hold it; raises TypeError naming what it cannot."""
    if isinstance(value, date | datetime):
        return value.isoformat()
    if isinstance(value, Mapping):
        return {str(key): strict_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [strict_json(item) for item in value]
    if _is_json(value):
        return value
    raise TypeError(f"{value!r} is a {type(value).__name__} that JSON cannot hold")


def _is_json(value: Any) -> bool:
    """Whether a value without parts is JSON: no infinite numbers, no halves of characters."""
    if isinstance(value, str):
        return value.isascii() or value.encode(errors="ignore").decode() == value
    return value is None or isinstance(value, int) or (isinstance(value, float) and math.isfinite(value))


def as_json(value: Any) -> Any:
    """`value` as JSON for people: what JSON cannot hold becomes a stable text without addresses."""
    if isinstance(value, Enum):
        return as_json(value.value)
    if value is None or isinstance(value, str | int | float):
        return value if _is_json(value) else ascii(value)
    if isinstance(value, Output | DagParam):
        return str(value)
    if isinstance(value, Mapping):
        return {str(key): as_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(item) for item in value]
    if isinstance(value, set | frozenset):
        return sorted((as_json(item) for item in value), key=repr)
    if isinstance(value, date | datetime | time):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, PurePath | UUID):
        return str(value)
    if isinstance(value, functools.partial):
        return f"partial({as_json(value.func)})"
    named = value if hasattr(value, "__qualname__") else type(value)
    return f"<{named.__qualname__}>"


def shortened(value: Any) -> Any:
    """`value` as JSON; of a long list or dict the first items, and a digest that differs when one of all does."""
    plain = as_json(value)
    if not isinstance(plain, list | dict) or len(plain) <= _SHOWN:
        return plain
    items = list(plain.items()) if isinstance(plain, dict) else plain
    digest = hashlib.sha256(repr(items).encode()).hexdigest()[:12]
    return [*items[:_SHOWN], f"… {len(items) - _SHOWN} more, {digest} in all"]
