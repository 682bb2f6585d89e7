"""Values of DAG files that are stored exactly, as JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import date, datetime
from typing import Any

from aiosched.core.values.json_bounds import find_problem
from aiosched.core.values.texts import a_type


def strict_json(value: Any) -> Any:
    """`value` if JSON can hold it; raises TypeError naming what it cannot."""
    try:
        plain = _plain(value)
    except RecursionError:
        raise TypeError("the value is nested too deeply, or contains itself") from None
    if (problem := find_problem(plain, "the value")) is not None:
        raise TypeError(str(problem))
    return plain


def _plain(value: Any) -> Any:
    if isinstance(value, date | datetime):
        return value.isoformat()
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if is_json(value):
        return value
    raise TypeError(f"{value!r} is {a_type(value)} that JSON cannot hold")


def is_json(value: Any) -> bool:
    """Whether a value without parts is JSON: no infinite numbers, no halves of characters, no NUL."""
    if isinstance(value, str):
        return "\0" not in value and (value.isascii() or value.encode(errors="ignore").decode() == value)
    return value is None or isinstance(value, int) or (isinstance(value, float) and math.isfinite(value))
