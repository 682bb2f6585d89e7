"""JSON Schema (2020-12) for values of params: whether a value fits, and the problem in words. Pure; every check ends.

Every step of a check is counted, so neither a schema nor a value can hold up who checks it: what takes more than
`MOST_STEPS` is refused. Patterns are matched in linear time (`core/values/patterns.py`). Not supported: other documents
and other `$id`s than the schema's own as targets of a `$ref`, and what older drafts write in another way.
"""

from __future__ import annotations

import ipaddress
import json
import math
import re
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime, time
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import unquote

from aiosched.core.values.patterns import PatternError, searcher
from aiosched.core.values.texts import cut_repr

MOST_STEPS: Final = 500_000  # about half a second
OLDER: Final[Mapping[str, str]] = MappingProxyType(
    {
        "additionalItems": "'prefixItems' with 'items'",
        "dependencies": "'dependentRequired' or 'dependentSchemas'",
        "$recursiveRef": "'$dynamicRef'",
    }
)
"""Keywords of older drafts, which newer ones ignore, and what to write instead."""

Keyword = Callable[["_Check", Any, Any, Mapping[str, Any]], str | None]
"""The check, a value, the keyword's argument and its schema -> what is wrong."""


class StepBudget:
    """What checks may still do, counted in steps that take about as long; several checks can share it."""

    __slots__ = ("left",)

    def __init__(self, most: int = MOST_STEPS) -> None:
        self.left: int = most

    def spend(self, steps: int) -> None:
        """Count steps. Raises TooManySteps."""
        self.left -= steps
        if self.left < 0:
            raise TooManySteps


class TooManySteps(Exception):
    """A value, a schema, or the two together, that take too long to check."""

    def __str__(self) -> str:
        return (
            "to check the value takes too many steps: give a smaller one, or the param a schema with fewer "
            "alternatives and references"
        )


class _NoTarget(Exception):
    """A reference to what is not in the schema."""

    def __init__(self, reference: str) -> None:
        super().__init__(f"its schema has nothing at {cut_repr(reference)}: refer to '#/$defs/…' of the same schema")


def find_problem(value: Any, schema: Any, steps: StepBudget | None = None) -> str | None:
    """The problem with a JSON value, as a phrase with the path inside the value; None if it is valid.

    Raises TooManySteps if the check takes more than the `steps` that are left.
    """
    try:
        return _Check(schema, steps or StepBudget()).problem(value, schema)
    except _NoTarget as error:
        return str(error)
    except PatternError as error:
        return f"a pattern of its schema cannot be used: {error}"
    except RecursionError:
        raise TooManySteps from None


def find_schema_problem(schema: Mapping[str, Any]) -> str | None:
    """The problem with a schema that `find_problem` could not use, or a form not show; None if there is none."""
    check = _Check(schema, StepBudget())
    try:
        for inner in check.reachable(schema):
            if (problem := _problem_of_schema(inner)) is not None:
                return problem
            if inner is not schema and "$id" in inner:
                return "only the whole schema can have an '$id', not a part of it: use '$defs' or '$anchor'."
    except _NoTarget as error:
        return f"{error}."
    except (TooManySteps, RecursionError):
        return "the schema is too large, or nested too deeply. Check the value in a task."
    return None


def has_format(name: str, schema: Mapping[str, Any], whole: Mapping[str, Any]) -> bool:
    """Whether a schema that is part of a `whole` one, or one inside it or to which it refers, has a format."""
    try:
        return any(one.get("format") == name for one in _Check(whole, StepBudget()).reachable(schema))
    except (_NoTarget, TooManySteps):
        return True  # nobody knows


def _problem_of_schema(schema: Mapping[str, Any]) -> str | None:
    if older := sorted(OLDER.keys() & schema.keys()):
        return f"the schema keyword {older[0]!r} is of an older draft of JSON Schema. Use {OLDER[older[0]]}."
    if (problem := find_problem(schema, _SCHEMA_OF_SCHEMAS)) is not None:
        return f"the schema cannot be used: {problem}."
    kinds = schema.get("type", ())
    for kind in [kinds] if isinstance(kinds, str) else kinds:
        if kind not in _TYPES:
            return f"there is no type {kind!r}. Use one of: {', '.join(sorted(_TYPES))}."
    for pattern in [*schema.get("patternProperties", ()), *([schema["pattern"]] if "pattern" in schema else ())]:
        try:
            searcher(pattern)
        except PatternError as error:
            return f"the pattern {cut_repr(pattern)} cannot be used: {error}."
    return None


def inner_schemas(schema: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The schemas directly in a schema: of parts of the value, alternatives for it, and definitions."""
    for keyword in schema.keys() & _ONE:
        yield from _only_schemas([schema[keyword]])
    for keyword in schema.keys() & _SEVERAL:
        yield from _only_schemas(schema[keyword] if isinstance(schema[keyword], list | tuple) else ())
    for keyword in schema.keys() & _NAMED:
        yield from _only_schemas(schema[keyword].values() if isinstance(schema[keyword], Mapping) else ())


def _only_schemas(found: Iterable[Any]) -> Iterator[Mapping[str, Any]]:
    return (one for one in found if isinstance(one, Mapping))


_ONE: Final = frozenset(
    {
        "items", "contains", "unevaluatedItems", "additionalProperties", "propertyNames", "unevaluatedProperties",
        "not", "if", "then", "else",
    }
)  # fmt: skip
_SEVERAL: Final = frozenset({"anyOf", "allOf", "oneOf", "prefixItems"})
_NAMED: Final = frozenset({"properties", "patternProperties", "dependentSchemas", "$defs", "definitions"})
REFERENCES: Final = frozenset({"$ref", "$dynamicRef"})  # the same in one document without other `$id`s
_ANCHORS: Final = ("$anchor", "$dynamicAnchor")


class _Check:
    """One check by one whole schema, to which its references refer."""

    def __init__(self, whole: Any, steps: StepBudget) -> None:
        self._whole = whole
        self.spend = steps.spend
        self._plans: dict[int, list[tuple[Keyword, Any]]] = {}  # by the identity of a schema
        self._targets: dict[str, Any] = {}

    def problem(self, value: Any, schema: Any) -> str | None:
        """The problem of a value or of a part of it with a schema in the whole one."""
        if not isinstance(schema, Mapping):
            return None if schema is not False else f"{cut_repr(value)} is not allowed"
        plan = self._plans.get(id(schema))
        if plan is None:
            keywords = sorted(schema.keys() & _CHECKS.keys(), key=_ORDER.__getitem__)
            plan = [(_CHECKS[keyword], schema[keyword]) for keyword in keywords]
            self._plans[id(schema)] = plan
        self.spend(1 + len(plan))
        for check, argument in plan:
            if (problem := check(self, value, argument, schema)) is not None:
                self.spend(len(problem) // 8)
                return problem
        return None

    def fits(self, value: Any, schema: Any) -> bool:
        """Whether there is no problem."""
        return self.problem(value, schema) is None

    def matches(self, pattern: str, text: str) -> bool:
        """Whether a text contains a match."""
        search = searcher(pattern)
        self.spend(search.steps(len(text)))
        return search(text)

    def key(self, value: Any) -> str:
        """Canonical JSON: the same text for equal values, and one whose hash nobody can foresee."""
        key = _key(value)
        self.spend(4 + len(key) // 4)
        return key

    def target(self, reference: Any) -> Any:
        """What a `$ref` refers to. Raises _NoTarget."""
        if reference not in self._targets:
            self._targets[reference] = self._find(reference)
        return self._targets[reference]

    def _find(self, reference: str) -> Any:
        own = self._whole.get("$id")
        place = reference.removeprefix(own.partition("#")[0]) if isinstance(own, str) else reference
        fragment = unquote(place[1:])
        if place not in {"", "#"} and not place.startswith("#"):
            raise _NoTarget(reference)
        if fragment and not fragment.startswith("/"):
            for schema in self._walk(self._whole):
                self.spend(1)
                if any(schema.get(anchor) == fragment for anchor in _ANCHORS):
                    return schema
            raise _NoTarget(reference)
        found = self._whole
        for part in fragment.split("/")[1:]:
            self.spend(1)
            key = part.replace("~1", "/").replace("~0", "~")
            if isinstance(found, Mapping) and key in found:
                found = found[key]
            elif isinstance(found, list) and key.isascii() and key.isdigit() and int(key[:9]) < len(found):
                found = found[int(key[:9])]
            else:
                raise _NoTarget(reference)
        if not isinstance(found, Mapping | bool):
            raise _NoTarget(reference)
        return found

    def reachable(self, start: Any) -> Iterator[Mapping[str, Any]]:
        """A schema, all inside it, and all that these refer to, each once. Raises _NoTarget."""
        for schema in self._walk(start, lambda one: [self.target(one[keyword]) for keyword in REFERENCES & one.keys()]):
            self.spend(1 + len(schema))
            yield schema

    @staticmethod
    def _walk(
        start: Any, referred: Callable[[Mapping[str, Any]], Iterable[Any]] = lambda _: ()
    ) -> Iterator[Mapping[str, Any]]:
        waiting, seen = [start], set[int]()
        for schema in waiting:
            if isinstance(schema, Mapping) and id(schema) not in seen:
                seen.add(id(schema))
                yield schema
                waiting += inner_schemas(schema)
                waiting += referred(schema)

    def evaluated(self, value: Any, schema: Any, *, inside: bool = False) -> Collection[Any]:
        """The keys of an object, or indexes of a list, that a schema which it fits has looked at, as do the schemas
        `inside` it that are about the same value."""
        if not isinstance(schema, Mapping):
            return ()
        self.spend(1 + len(schema) + len(value))
        found = set[Any]()
        if isinstance(value, Mapping):
            found.update(key for key in value if not self.is_additional(key, schema))
            whole = {"additionalProperties", "unevaluatedProperties"} if inside else {"additionalProperties"}
            found.update(value if whole & schema.keys() else ())
        else:
            all_items, first = range(len(value)), len(schema.get("prefixItems", ()))
            whole = {"items", "unevaluatedItems"} if inside else {"items"}
            found.update(all_items if whole & schema.keys() else all_items[:first])
            if "contains" in schema:
                found.update(index for index in all_items if self.fits(value[index], schema["contains"]))
        for one in self._about_the_same(value, schema):
            if self.fits(value, one):
                found.update(self.evaluated(value, one, inside=True))
        return found

    def is_additional(self, key: str, schema: Mapping[str, Any]) -> bool:
        """Whether neither `properties` nor `patternProperties` says what the value of a key is."""
        patterns = schema.get("patternProperties", ())
        return key not in schema.get("properties", ()) and not any(self.matches(one, key) for one in patterns)

    def _about_the_same(self, value: Any, schema: Mapping[str, Any]) -> Iterator[Any]:
        for keyword in REFERENCES & schema.keys():
            yield self.target(schema[keyword])
        for keyword in ("allOf", "anyOf", "oneOf"):
            yield from schema.get(keyword, ())
        if "if" in schema:
            yield schema["if"]
            yield schema.get("then" if self.fits(value, schema["if"]) else "else")
        if isinstance(value, Mapping):
            yield from (one for key, one in schema.get("dependentSchemas", {}).items() if key in value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_integer(value: Any) -> bool:
    return _is_number(value) and (isinstance(value, int) or value.is_integer())


def _is_list(value: Any) -> bool:
    return isinstance(value, list | tuple)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_object(value: Any) -> bool:
    return isinstance(value, Mapping)


_TYPES: Final[Mapping[str, Callable[[Any], bool]]] = MappingProxyType(
    {
        "null": lambda value: value is None,
        "boolean": lambda value: isinstance(value, bool),
        "integer": _is_integer,
        "number": _is_number,
        "string": _is_text,
        "array": _is_list,
        "object": _is_object,
    }
)


_canonical: Final = json.JSONEncoder(sort_keys=True, default=repr).encode


def _key(value: Any) -> str:
    return _canonical(_normal(value))


def _normal(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if _is_list(value):
        return [_normal(inner) for inner in value]
    if isinstance(value, Mapping):
        return {name: _normal(inner) for name, inner in value.items()}
    return hex(value) if isinstance(value, int) and value.bit_length() > 64 else value  # text of 4,300 digits at most


class _Identity:
    """A list of a schema, as a key: schemas do not change."""

    __slots__ = ("items",)

    def __init__(self, items: Sequence[Any]) -> None:
        self.items = items

    def __hash__(self) -> int:
        return id(self.items)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Identity) and other.items is self.items


@lru_cache(256)
def _members(of: _Identity) -> frozenset[str]:
    """The values of an `enum` or a `const`, looked up for each of many items."""
    return frozenset(map(_key, of.items))


def _type(run: _Check, value: Any, wanted: str | Sequence[str], schema: Mapping[str, Any]) -> str | None:
    if isinstance(wanted, str):
        wanted = (wanted,)
    if any(_TYPES[kind](value) for kind in wanted if kind in _TYPES):
        return None
    return f"{cut_repr(value)} is not of type {' or '.join(wanted)}"


def _enum(run: _Check, value: Any, allowed: Sequence[Any], schema: Mapping[str, Any]) -> str | None:
    if run.key(value) in _members(_Identity(allowed)):
        return None
    return f"{cut_repr(value)} is not one of {cut_repr(list(allowed))}"


def _const(run: _Check, value: Any, wanted: Any, schema: Mapping[str, Any]) -> str | None:
    return None if run.key(value) == run.key(wanted) else f"{cut_repr(value)} is not {cut_repr(wanted)}"


def _bound(applies: Callable[[Any], bool], good: Callable[[Any, Any], bool], phrase: str) -> Keyword:
    def check(run: _Check, value: Any, limit: Any, schema: Mapping[str, Any]) -> str | None:
        return f"{cut_repr(value)} {phrase} {limit}" if applies(value) and not good(value, limit) else None

    return check


def _is_multiple(value: Any, of: Any) -> bool:
    if isinstance(value, int) and isinstance(of, int):
        return value % of == 0
    try:
        quotient = value / of
    except OverflowError:  # an integer beyond all floats
        return False
    return math.isfinite(quotient) and math.isclose(quotient, round(quotient), rel_tol=0, abs_tol=1e-9)


def _pattern(run: _Check, value: Any, pattern: str, schema: Mapping[str, Any]) -> str | None:
    if not _is_text(value) or run.matches(pattern, value):
        return None
    return f"{cut_repr(value)} does not match {pattern}"


def _unique(run: _Check, value: Any, wanted: Any, schema: Mapping[str, Any]) -> str | None:
    if wanted and _is_list(value):
        seen = set[str]()
        for item in value:
            if (key := run.key(item)) in seen:
                return f"{cut_repr(item)} occurs twice"
            seen.add(key)
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
        "ipv4": (_parses(ipaddress.IPv4Address), "192.0.2.1"),
        "ipv6": (_parses(ipaddress.IPv6Address), "2001:db8::1"),
        "uuid": (_parses(uuid.UUID), "12345678-1234-5678-1234-567812345678"),
        "regex": (_parses(searcher), "a regular expression"),
    }
)


def _format(run: _Check, value: Any, name: str, schema: Mapping[str, Any]) -> str | None:
    if not isinstance(value, str) or name not in _FORMATS:
        return None
    run.spend(1_000 + 100 * len(value) if name == "regex" else len(value) // 32)
    good, example = _FORMATS[name]
    return None if good(value) else f"{cut_repr(value)} is not a valid {name}, such as {example}"


def _in_items(run: _Check, items: Sequence[Any], schema: Any, first: int) -> str | None:
    if schema is True or not items:
        return None
    for index, item in enumerate(items, first):
        if (problem := run.problem(item, schema)) is not None:
            return f"item {index}: {problem}"
    return None


def _items(run: _Check, value: Any, item_schema: Any, schema: Mapping[str, Any]) -> str | None:
    first = len(schema.get("prefixItems", ()))
    return _in_items(run, value[first:] if first else value, item_schema, first) if _is_list(value) else None


def _prefix(run: _Check, value: Any, schemas: Sequence[Any], schema: Mapping[str, Any]) -> str | None:
    for index, (item, one) in enumerate(zip(value, schemas, strict=False) if _is_list(value) else ()):
        if (problem := run.problem(item, one)) is not None:
            return f"item {index}: {problem}"
    return None


def _contains(run: _Check, value: Any, wanted: Any, schema: Mapping[str, Any]) -> str | None:
    if not _is_list(value):
        return None
    least, most = schema.get("minContains", 1), schema.get("maxContains", math.inf)
    run.spend(len(value))
    found = sum(run.fits(item, wanted) for item in value)
    if found < least:
        return f"{cut_repr(value)} has {found} items of those of which at least {least} are needed"
    return f"{cut_repr(value)} has {found} items of those of which at most {most} are allowed" if found > most else None


def _other_items(run: _Check, value: Any, rule: Any, schema: Mapping[str, Any]) -> str | None:
    if _is_list(value):
        seen = run.evaluated(value, schema)
        for index, item in enumerate(value):
            if index not in seen and (problem := run.problem(item, rule)) is not None:
                return f"item {index}: {problem}"
    return None


def _in_key(run: _Check, key: str, value: Any, schema: Any) -> str | None:
    problem = run.problem(value, schema)
    return None if problem is None else f"{key:.200}: {problem}"


def _properties(run: _Check, value: Any, schemas: Mapping[str, Any], schema: Mapping[str, Any]) -> str | None:
    if isinstance(value, Mapping):
        run.spend(len(schemas))
        for key, inner in schemas.items():
            if key in value and (problem := _in_key(run, key, value[key], inner)) is not None:
                return problem
    return None


def _pattern_properties(run: _Check, value: Any, schemas: Mapping[str, Any], schema: Mapping[str, Any]) -> str | None:
    for pattern, inner in schemas.items() if isinstance(value, Mapping) else ():
        for key, item in value.items():
            if run.matches(pattern, key) and (problem := _in_key(run, key, item, inner)) is not None:
                return problem
    return None


def _rest(run: _Check, value: Mapping[str, Any], keys: Iterable[str], rule: Any) -> str | None:
    """The problem of keys about which nothing else says anything."""
    for key in keys:
        if rule is False:
            return f"the key {cut_repr(key)} is not allowed"
        if (problem := _in_key(run, key, value[key], rule)) is not None:
            return problem
    return None


def _additional(run: _Check, value: Any, rule: Any, schema: Mapping[str, Any]) -> str | None:
    if not isinstance(value, Mapping) or rule is True:
        return None
    run.spend(len(value))
    return _rest(run, value, (key for key in value if run.is_additional(key, schema)), rule)


def _other_properties(run: _Check, value: Any, rule: Any, schema: Mapping[str, Any]) -> str | None:
    if not isinstance(value, Mapping):
        return None
    seen = run.evaluated(value, schema)
    return _rest(run, value, (key for key in value if key not in seen), rule)


def _names(run: _Check, value: Any, rule: Any, schema: Mapping[str, Any]) -> str | None:
    for key in value if isinstance(value, Mapping) else ():
        if (problem := run.problem(key, rule)) is not None:
            return f"the key {cut_repr(key)}: {problem}"
    return None


def _required(run: _Check, value: Any, keys: Sequence[str], schema: Mapping[str, Any]) -> str | None:
    if isinstance(value, Mapping):
        run.spend(len(keys))
        return next((f"the key {key!r:.200} is missing" for key in keys if key not in value), None)
    return None


def _required_with(run: _Check, value: Any, wanted: Mapping[str, Any], schema: Mapping[str, Any]) -> str | None:
    for key, keys in wanted.items() if isinstance(value, Mapping) else ():
        if key in value and (problem := _required(run, value, keys, schema)) is not None:
            return f"{problem}, which {key!r:.200} needs"
    return None


def _schemas_with(run: _Check, value: Any, schemas: Mapping[str, Any], schema: Mapping[str, Any]) -> str | None:
    found = (one for key, one in schemas.items() if key in value) if isinstance(value, Mapping) else ()
    return _all_of(run, value, found, schema)


def _any_of(run: _Check, value: Any, schemas: Sequence[Any], schema: Mapping[str, Any]) -> str | None:
    problems: list[str] = []
    for one in schemas:
        if (problem := run.problem(value, one)) is None:
            return None
        problems.append(problem)
    return " and ".join(problems[:_MOST_ALTERNATIVES])[:_MOST_SHOWN]


def _one_of(run: _Check, value: Any, schemas: Sequence[Any], schema: Mapping[str, Any]) -> str | None:
    fitting = sum(run.fits(value, one) for one in schemas)
    return None if fitting == 1 else f"{cut_repr(value)} fits {fitting} of the alternatives instead of exactly one"


def _all_of(run: _Check, value: Any, schemas: Iterable[Any], schema: Mapping[str, Any]) -> str | None:
    return next((problem for one in schemas if (problem := run.problem(value, one)) is not None), None)


def _not(run: _Check, value: Any, forbidden: Any, schema: Mapping[str, Any]) -> str | None:
    return f"{cut_repr(value)} is excluded" if run.fits(value, forbidden) else None


def _if(run: _Check, value: Any, condition: Any, schema: Mapping[str, Any]) -> str | None:
    return run.problem(value, schema.get("then" if run.fits(value, condition) else "else"))


def _ref(run: _Check, value: Any, reference: str, schema: Mapping[str, Any]) -> str | None:
    return run.problem(value, run.target(reference))


_MOST_ALTERNATIVES: Final = 20
_MOST_SHOWN: Final = 2_000  # characters of a message about alternatives

_CHECKS: Final[Mapping[str, Keyword]] = MappingProxyType(
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
        "pattern": _pattern,
        "format": _format,
        "minItems": _bound(_is_list, lambda value, limit: len(value) >= limit, "has fewer items than"),
        "maxItems": _bound(_is_list, lambda value, limit: len(value) <= limit, "has more items than"),
        "uniqueItems": _unique,
        "prefixItems": _prefix,
        "items": _items,
        "contains": _contains,
        "minProperties": _bound(_is_object, lambda value, limit: len(value) >= limit, "has fewer keys than"),
        "maxProperties": _bound(_is_object, lambda value, limit: len(value) <= limit, "has more keys than"),
        "propertyNames": _names,
        "properties": _properties,
        "patternProperties": _pattern_properties,
        "required": _required,
        "additionalProperties": _additional,
        "dependentRequired": _required_with,
        "dependentSchemas": _schemas_with,
        **dict.fromkeys(sorted(REFERENCES), _ref),
        "anyOf": _any_of,
        "oneOf": _one_of,
        "allOf": _all_of,
        "not": _not,
        "if": _if,
        "unevaluatedItems": _other_items,
        "unevaluatedProperties": _other_properties,
    }
)
_ORDER: Final = MappingProxyType({keyword: number for number, keyword in enumerate(_CHECKS)})  # of problems

_TEXT: Final = {"type": "string"}
_TEXTS: Final = {"type": "array", "items": _TEXT}
_LIST: Final = {"type": "array"}
_OBJECT: Final = {"type": "object"}
_NUMBER: Final = {"type": "number"}
_COUNT: Final = {"type": "integer"}
_SCHEMA: Final = {"type": ["object", "boolean"]}
_SCHEMA_OF_SCHEMAS: Final[Mapping[str, Any]] = MappingProxyType(
    {
        "properties": {
            "type": {"type": ["string", "array"], "items": _TEXT},
            **dict.fromkeys(("title", "description", "format", "pattern", "$id", *_ANCHORS, *REFERENCES), _TEXT),
            **dict.fromkeys(("enum", "examples"), _LIST),
            **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), _NUMBER),
            "multipleOf": {**_NUMBER, "exclusiveMinimum": 0},
            **dict.fromkeys(("minLength", "minItems", "minProperties", "minContains"), _COUNT),
            **dict.fromkeys(("maxLength", "maxItems", "maxProperties", "maxContains"), _COUNT),
            "uniqueItems": {"type": "boolean"},
            "required": _TEXTS,
            "dependentRequired": {"type": "object", "additionalProperties": _TEXTS},
            **{keyword: {"type": "object", "additionalProperties": _SCHEMA} for keyword in _NAMED},
            **dict.fromkeys(_ONE, _SCHEMA),
            **{keyword: {"type": "array", "items": _SCHEMA} for keyword in _SEVERAL},
            "values_display": _OBJECT,
        }
    }
)
