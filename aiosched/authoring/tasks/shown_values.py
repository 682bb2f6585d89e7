"""Values to display: those of DAG files as JSON, and the rendered template fields of an attempt, masked and cut."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Mapping
from datetime import date, datetime, time, timedelta
from enum import Enum
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

import msgspec

from aiosched.authoring.base.params import DagParam
from aiosched.authoring.base.plain_values import is_json
from aiosched.authoring.tasks.xcom_arg import Output, XComArg
from aiosched.core.values.masking import secrets

if TYPE_CHECKING:
    from aiosched.authoring.tasks.operator import BaseOperator

_SHOWN: Final = 20  # items of a long value


def as_json(value: Any) -> Any:
    """`value` as JSON to display: what JSON cannot hold becomes a stable text, without memory addresses."""
    if isinstance(value, Enum):
        return as_json(value.value)
    if value is None or isinstance(value, str | int | float):
        return value if is_json(value) else ascii(value)
    if isinstance(value, XComArg | DagParam):
        return value._template()
    if isinstance(value, Output):
        return repr(value)
    if isinstance(value, Mapping):
        return {as_json(str(key)): as_json(item) for key, item in value.items()}
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


def shown_fields(operator: BaseOperator, most: int) -> dict[str, Any]:
    """The fields of a rendered task by name; what is longer than `most` characters is cut, and says so."""
    return {name: _shown(name, getattr(operator, name, None), most) for name in operator.template_fields}


def shown_fields_json(operator: BaseOperator, most: int) -> str:
    """The same as a JSON object."""
    return msgspec.json.encode(shown_fields(operator, most)).decode()


def _shown(name: str, value: Any, most: int) -> Any:
    try:
        plain = msgspec.to_builtins(value, enc_hook=repr, builtin_types=(), str_keys=True)
        hidden = secrets.redact_value(plain, name)
        text = hidden if isinstance(hidden, str) else msgspec.json.encode(hidden).decode()
        text.encode()
    except UnicodeEncodeError:  # lone surrogates
        hidden = text = secrets.redact(ascii(value))
    except Exception as error:  # whatever an author's object does when it is looked at
        return f"(it cannot be shown: {type(error).__name__})"
    if len(text) > most:
        return f"{text[:most]}… ({len(text):,} characters; core.max_templated_field_length says how many are kept)"
    return hidden
