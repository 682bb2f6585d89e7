"""Which params of a DAG are secrets. Pure.

Those whose JSON schema says `format: password`, also inside objects and lists.

Source: docs/secrets.md, "Secret params".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from aiosched.core.graph.json_schema import has_format
from aiosched.core.graph.spec import DagSpec, ParamSpec
from aiosched.core.values.masking import MASK
from aiosched.core.values.secret_values import hidden, is_marked, marked

_SECRET: Final = "password"
_ALTERNATIVES: Final = ("anyOf", "oneOf", "allOf")
_WALKED: Final = frozenset({"properties", "additionalProperties", "items", *_ALTERNATIVES, "$defs", "definitions"})


def holds_secrets(schema: Mapping[str, Any]) -> bool:
    """Whether a value of this schema can be, or hold, a secret."""
    return has_format(_SECRET, schema, schema)


def mark_secrets(params: Mapping[str, ParamSpec], conf: Mapping[str, Any]) -> dict[str, Any]:
    """`conf` with its secrets marked. `***`, which people are shown, is no value: the param keeps its default."""
    found: dict[str, Any] = {}
    for name, value in conf.items():
        schema = params[name].json_schema if name in params else {}
        if schema.get("format") == "password" and value == MASK:
            continue
        found[name] = mark(value, schema) if holds_secrets(schema) else value
    return found


def mark(value: Any, schema: Mapping[str, Any]) -> Any:
    """The value with its secrets marked, as its schema says.

    Where keywords decide that depend on the value or refer to another schema (`$ref`, `if`, `patternProperties` …), and
    a schema that can be meant holds a secret, the whole value there is one.
    """
    return _mark(value, schema, schema)


def _mark(value: Any, schema: Any, whole: Mapping[str, Any]) -> Any:
    if is_marked(value) or not isinstance(schema, Mapping):
        return value
    others = {keyword: inner for keyword, inner in schema.items() if keyword not in _WALKED}
    if others and has_format(_SECRET, others, whole):
        return marked(value)
    for alternative in (one for keyword in _ALTERNATIVES for one in schema.get(keyword) or ()):
        value = _mark(value, alternative, whole)
    if isinstance(value, Mapping) and not is_marked(value):
        schemas = schema.get("properties") or {}
        rest = schema.get("additionalProperties")
        return {key: _mark(inner, schemas.get(key, rest), whole) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_mark(inner, schema.get("items"), whole) for inner in value]
    return value


def hide_defaults(spec: DagSpec) -> DagSpec:
    """The DAG as people see it: `***` for defaults that are secrets."""
    if not any(holds_secrets(param.json_schema) for param in spec.params.values()):
        return spec
    return msgspec.structs.replace(spec, params={name: _hide_default(param) for name, param in spec.params.items()})


def hide_values(params: Mapping[str, ParamSpec], values: Mapping[str, Any]) -> dict[str, Any]:
    """Values of params as people see them: `***` for those that are secrets."""
    return {name: hidden(mark(value, params[name].json_schema)) for name, value in values.items() if name in params}


def _hide_default(param: ParamSpec) -> ParamSpec:
    schema, typed = dict(param.json_schema), param.typed
    if holds_secrets(schema):
        typed = None
        for keyword in ("default", "examples", "const", "enum"):
            schema.pop(keyword, None)
    return msgspec.structs.replace(param, value=hidden(mark(param.value, schema)), typed=typed, json_schema=schema)
