"""What somebody types for a param (`-p version=1.10`) gets the type of the param: text stays text, no digit is lost.

If there is no such param, it is read as JSON if it is JSON, else it is text. Pure.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from aiosched.core.graph.spec import ParamSpec
from aiosched.core.values.typed_json import MARK

_WRITTEN: Final = frozenset({"decimal", "fraction", "datetime", "pendulum.DateTime", "date", "time", "uuid", "bytes"})


class TypedConf(dict[str, Any]):
    """A run's conf of a command line, with the texts that were typed for some of its keys."""

    def __init__(self, values: Mapping[str, Any], texts: Mapping[str, str]) -> None:
        super().__init__(values)
        self.texts: dict[str, str] = dict(texts)


def read_text(text: str) -> Any:
    """The JSON that a text is, else the text."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def fitted(conf: Mapping[str, Any], params: Mapping[str, ParamSpec]) -> dict[str, Any]:
    """`conf` with those values as text that were typed for params which are text, or are written as text."""
    texts = conf.texts if isinstance(conf, TypedConf) else {}
    meant = {name: text for name, text in texts.items() if name in params and _is_text(conf[name], text, params[name])}
    return {**conf, **meant}


def _is_text(value: Any, text: str, param: ParamSpec) -> bool:
    """Whether a param takes what was typed as text, although it is JSON."""
    if isinstance(value, str):  # what was typed is no JSON, or a text in quotes
        return False
    typed, schema = param.typed, param.json_schema
    if isinstance(typed, dict) and MARK in typed:
        return typed[MARK] in _WRITTEN and not isinstance(value, dict | list | None)
    if (choices := schema.get("enum")) is not None and isinstance(choices, list):
        return text in choices and not any(type(one) is type(value) and one == value for one in choices)
    types = schema.get("type")
    if types is not None:
        named = types if isinstance(types, list) else [types]
        return "string" in named and not set(_json_types(value)).intersection(named)
    return isinstance(param.value, str) and value is not None


def _json_types(value: Any) -> tuple[str, ...]:
    match value:
        case None:
            return ("null",)
        case bool():
            return ("boolean",)
        case int():
            return ("integer", "number")
        case float():
            return ("number", "integer") if value.is_integer() else ("number",)
        case dict():
            return ("object",)
        case _:
            return ("array",)
