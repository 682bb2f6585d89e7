"""The template fields of a task as they were rendered, for people: masked, and cut to a length.

Objects that are not plain data appear as their `repr`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from aiosched.core.values.masking import secrets

if TYPE_CHECKING:
    from aiosched.authoring.tasks.operator import BaseOperator


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
