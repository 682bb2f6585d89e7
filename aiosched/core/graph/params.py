"""Params of a DAG: the values for a run, validated against their JSON schema.

Lives here: the part of JSON Schema that params use, as a pure function, and the merging of
defaults with a run's `conf`. Source: the semantics reference, section 27.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date, datetime, time
from types import MappingProxyType
from typing import Any, Final

from aiosched.core.graph.secret_params import holds_secrets
from aiosched.core.graph.spec import ParamSpec
from aiosched.core.values.patterns import PatternError, searcher
from aiosched.core.values.secret_values import has_sealed, plain
from aiosched.errors import ParamError

Check = Callable[[Any, Any, Mapping[str, Any]], str | None]  # value, keyword's argument, schema -> what is wrong

UNSUPPORTED: Final = frozenset(
    {
        "$ref", "$dynamicRef", "if", "then", "else", "contains", "prefixItems", "patternProperties", "propertyNames",
        "dependentSchemas", "dependentRequired", "dependencies", "unevaluatedItems", "unevaluatedProperties",
    }
)  # fmt: skip


def resolve_params(spec_params: Mapping[str, ParamSpec], conf: Mapping[str, Any] | None) -> dict[str, Any]:
    """The params of a run: the defaults with `conf` over them; keys of `conf` that are not params are kept.

    Raises ParamError naming the first param without a value or with an invalid one.
    """
    given = plain(dict(conf or {}))
    resolved: dict[str, Any] = {}
    for name, spec in spec_params.items():
        if name not in given and spec.required:
            raise ParamError(f"Param {name!r} has no value and no default. Give one: -p {name}=…")
        resolved[name] = given.pop(name, spec.value)
        if not has_sealed(resolved[name]):  # else its value was checked before it was sealed
            check_value(name, resolved[name], spec.json_schema)
    return {**resolved, **given}


def check_value(name: str, value: Any, schema: Mapping[str, Any]) -> None:
    """Raise ParamError naming the param `name` if `value` violates `schema`."""
    problem = find_problem(value, schema)
    if problem is not None and holds_secrets(schema):
        problem = "the value does not fit its schema; it is a secret, so it is not shown"
    if problem is not None:
        raise ParamError(f"Param {name!r}: {problem}")


def find_problem(value: Any, schema: Mapping[str, Any]) -> str | None:
    """The problem with `value`, as a phrase with the path inside the value; None if it is valid."""
    for keyword, check in _CHECKS.items():
        if keyword in schema:
            problem = check(value, schema[keyword], schema)
            if problem is not None:
                return problem
    return None


def find_schema_problem(schema: Mapping[str, Any]) -> str | None:
    """The problem with a schema that `find_problem` could not use, or a form not show; None if there is none."""
    if unknown := sorted(UNSUPPORTED & schema.keys()):
        return f"the schema keyword {unknown[0]!r} is not supported. Check it in a task."
    if (problem := find_problem(schema, _SCHEMA_OF_SCHEMAS)) is not None:
        return f"the schema cannot be used: {problem}."
    kinds = schema.get("type", ())
    for kind in [kinds] if isinstance(kinds, str) else kinds:
        if kind not in _TYPES:
            return f"there is no type {kind!r}. Use one of: {', '.join(sorted(_TYPES))}."
    if "pattern" in schema:
        try:
            searcher(schema["pattern"])
        except PatternError as error:
            return f"the pattern {schema['pattern']!r:.200} cannot be used: {error}."
    return next((problem for inner in _inner_schemas(schema) if (problem := find_schema_problem(inner))), None)


def _inner_schemas(schema: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The schemas of parts of the value, and alternatives for it."""
    found = [*schema.get("properties", {}).values()]
    found += [schema.get(keyword) for keyword in ("items", "additionalProperties", "not")]
    for keyword in ("anyOf", "allOf", "oneOf"):
        found += schema.get(keyword, ())
    yield from (inner for inner in found if isinstance(inner, Mapping))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_integer(value: Any) -> bool:
    return _is_number(value) and (isinstance(value, int) or value.is_integer())


def _is_list(value: Any) -> bool:
    return isinstance(value, list | tuple)


_TYPES: Final[Mapping[str, Callable[[Any], bool]]] = MappingProxyType(
    {
        "null": lambda value: value is None,
        "boolean": lambda value: isinstance(value, bool),
        "integer": _is_integer,
        "number": _is_number,
        "string": lambda value: isinstance(value, str),
        "array": _is_list,
        "object": lambda value: isinstance(value, Mapping),
    }
)


def _same(one: Any, other: Any) -> bool:
    """Equality of JSON: true is not 1."""
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)


def _type(value: Any, wanted: str | Sequence[str], schema: Mapping[str, Any]) -> str | None:
    kinds = [wanted] if isinstance(wanted, str) else list(wanted)
    if any(kind in _TYPES and _TYPES[kind](value) for kind in kinds):
        return None
    return f"{value!r} is not of type {' or '.join(kinds)}"


def _enum(value: Any, allowed: Sequence[Any], schema: Mapping[str, Any]) -> str | None:
    return None if any(_same(value, one) for one in allowed) else f"{value!r} is not one of {list(allowed)!r}"


def _const(value: Any, wanted: Any, schema: Mapping[str, Any]) -> str | None:
    return None if _same(value, wanted) else f"{value!r} is not {wanted!r}"


def _bound(applies: Callable[[Any], bool], good: Callable[[Any, Any], bool], phrase: str) -> Check:
    def check(value: Any, limit: Any, schema: Mapping[str, Any]) -> str | None:
        return f"{value!r} {phrase} {limit}" if applies(value) and not good(value, limit) else None

    return check


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_object(value: Any) -> bool:
    return isinstance(value, Mapping)


def _is_multiple(value: Any, of: Any) -> bool:
    quotient = value / of
    return math.isclose(quotient, round(quotient), rel_tol=0, abs_tol=1e-9)


def _unique(value: Any, wanted: Any, schema: Mapping[str, Any]) -> str | None:
    if wanted and _is_list(value):
        for index, item in enumerate(value):
            if any(_same(item, earlier) for earlier in value[:index]):
                return f"{item!r} occurs twice"
    return None


def _parses(parse: Callable[[str], Any]) -> Callable[[str], bool]:
    def good(value: str) -> bool:
        try:
            parse(value)
        except ValueError:
            return False
        return True

    return good


def _instant(value: str) -> datetime:
    """RFC 3339: date, time and offset."""
    moment = datetime.fromisoformat(value)
    if moment.tzinfo is None or not re.match(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d", value):
        raise ValueError(value)
    return moment


_FORMATS: Final[Mapping[str, tuple[Callable[[str], bool], str]]] = MappingProxyType(
    {
        "date-time": (_parses(_instant), "2026-01-31T06:00:00+00:00"),
        "date": (_parses(date.fromisoformat), "2026-01-31"),
        "time": (_parses(time.fromisoformat), "06:00:00"),
        "email": (lambda value: bool(re.fullmatch(r"[^@\s]+@[^@\s]+", value)), "someone@example.org"),
        "uri": (lambda value: bool(re.match(r"[A-Za-z][A-Za-z0-9+.-]*:\S+$", value)), "https://example.org"),
        "regex": (_parses(searcher), "a regular expression"),
    }
)


def _format(value: Any, name: str, schema: Mapping[str, Any]) -> str | None:
    if not isinstance(value, str) or name not in _FORMATS:
        return None
    good, example = _FORMATS[name]
    return None if good(value) else f"{value!r} is not a valid {name}, such as {example}"


def _items(value: Any, item_schema: Any, schema: Mapping[str, Any]) -> str | None:
    if _is_list(value) and isinstance(item_schema, Mapping):
        for index, item in enumerate(value):
            problem = find_problem(item, item_schema)
            if problem is not None:
                return f"item {index}: {problem}"
    return None


def _properties(value: Any, schemas: Mapping[str, Any], schema: Mapping[str, Any]) -> str | None:
    if isinstance(value, Mapping):
        for key, inner in schemas.items():
            problem = find_problem(value[key], inner) if key in value and isinstance(inner, Mapping) else None
            if problem is not None:
                return f"{key}: {problem}"
    return None


def _required(value: Any, keys: Sequence[str], schema: Mapping[str, Any]) -> str | None:
    if isinstance(value, Mapping):
        missing = [key for key in keys if key not in value]
        return f"the key {missing[0]!r} is missing" if missing else None
    return None


def _additional(value: Any, rule: Any, schema: Mapping[str, Any]) -> str | None:
    if isinstance(value, Mapping):
        for key in value.keys() - schema.get("properties", {}).keys():
            if rule is False:
                return f"the key {key!r} is not allowed"
            if isinstance(rule, Mapping) and (problem := find_problem(value[key], rule)):
                return f"{key}: {problem}"
    return None


def _any_of(value: Any, schemas: Sequence[Mapping[str, Any]], schema: Mapping[str, Any]) -> str | None:
    problems = [find_problem(value, one) for one in schemas]
    return None if None in problems else " and ".join(str(problem) for problem in problems)


def _one_of(value: Any, schemas: Sequence[Mapping[str, Any]], schema: Mapping[str, Any]) -> str | None:
    fitting = sum(find_problem(value, one) is None for one in schemas)
    return None if fitting == 1 else f"{value!r} fits {fitting} of the alternatives instead of exactly one"


def _all_of(value: Any, schemas: Sequence[Mapping[str, Any]], schema: Mapping[str, Any]) -> str | None:
    return next((problem for one in schemas if (problem := find_problem(value, one))), None)


def _not(value: Any, forbidden: Mapping[str, Any], schema: Mapping[str, Any]) -> str | None:
    return f"{value!r} is excluded" if find_problem(value, forbidden) is None else None


_CHECKS: Final[Mapping[str, Check]] = MappingProxyType(
    {
        "type": _type,
        "enum": _enum,
        "const": _const,
        "minimum": _bound(_is_number, lambda value, limit: value >= limit, "is below the minimum"),
        "maximum": _bound(_is_number, lambda value, limit: value <= limit, "is above the maximum"),
        "exclusiveMinimum": _bound(_is_number, lambda value, limit: value > limit, "is not above"),
        "exclusiveMaximum": _bound(_is_number, lambda value, limit: value < limit, "is not below"),
        "multipleOf": _bound(_is_number, _is_multiple, "is not a multiple of"),
        "minLength": _bound(_is_text, lambda value, limit: len(value) >= limit, "is shorter than"),
        "maxLength": _bound(_is_text, lambda value, limit: len(value) <= limit, "is longer than"),
        "pattern": _bound(_is_text, lambda value, pattern: searcher(pattern)(value), "does not match"),
        "format": _format,
        "minItems": _bound(_is_list, lambda value, limit: len(value) >= limit, "has fewer items than"),
        "maxItems": _bound(_is_list, lambda value, limit: len(value) <= limit, "has more items than"),
        "uniqueItems": _unique,
        "items": _items,
        "minProperties": _bound(_is_object, lambda value, limit: len(value) >= limit, "has fewer keys than"),
        "maxProperties": _bound(_is_object, lambda value, limit: len(value) <= limit, "has more keys than"),
        "properties": _properties,
        "required": _required,
        "additionalProperties": _additional,
        "anyOf": _any_of,
        "oneOf": _one_of,
        "allOf": _all_of,
        "not": _not,
    }
)

_TEXT: Final = {"type": "string"}
_LIST: Final = {"type": "array"}
_OBJECT: Final = {"type": "object"}
_NUMBER: Final = {"type": "number"}
_COUNT: Final = {"type": "integer"}
_SCHEMA_OR_NOT: Final = {"type": ["object", "boolean"]}
_SCHEMAS: Final = {"type": "array", "items": _OBJECT}
_SCHEMA_OF_SCHEMAS: Final[Mapping[str, Any]] = MappingProxyType(
    {
        "properties": {
            "type": {"type": ["string", "array"], "items": _TEXT},
            **dict.fromkeys(("title", "description", "format", "pattern"), _TEXT),
            **dict.fromkeys(("enum", "examples"), _LIST),
            **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), _NUMBER),
            "multipleOf": {**_NUMBER, "exclusiveMinimum": 0},
            **dict.fromkeys(("minLength", "minItems", "minProperties"), _COUNT),
            **dict.fromkeys(("maxLength", "maxItems", "maxProperties"), _COUNT),
            "uniqueItems": {"type": "boolean"},
            "required": {"type": "array", "items": _TEXT},
            "properties": {"type": "object", "additionalProperties": _SCHEMA_OR_NOT},
            **dict.fromkeys(("items", "additionalProperties"), _SCHEMA_OR_NOT),
            **dict.fromkeys(("anyOf", "oneOf", "allOf"), _SCHEMAS),
            **dict.fromkeys(("not", "values_display"), _OBJECT),
        }
    }
)
