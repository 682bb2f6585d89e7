"""Values of DAG files to display: as JSON, with a stable text for anything else."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Mapping
from datetime import date, datetime, time, timedelta
from enum import Enum
from pathlib import PurePath
from typing import Any, Final
from uuid import UUID

from aiosched.authoring.base.params import DagParam
from aiosched.authoring.base.plain_values import is_json
from aiosched.authoring.tasks.xcom_arg import Output

_SHOWN: Final = 20  # items of a long value


def as_json(value: Any) -> Any:
    """`value` as JSON to display: what JSON cannot hold becomes a stable text, without memory addresses."""
    if isinstance(value, Enum):
        return as_json(value.value)
    if value is None or isinstance(value, str | int | float):
        return value if is_json(value) else ascii(value)
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
    """`value` as JSON to display; of a long list or dict the first items, and a digest of all."""
    plain = as_json(value)
    if not isinstance(plain, list | dict) or len(plain) <= _SHOWN:
        return plain
    items = list(plain.items()) if isinstance(plain, dict) else plain
    digest = hashlib.sha256(repr(items).encode()).hexdigest()[:12]
    return [*items[:_SHOWN], f"… {len(items) - _SHOWN} more, {digest} in all"]
