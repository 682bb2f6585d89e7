"""Any schema and value: the same verdict as another implementation of JSON Schema gives."""

from __future__ import annotations

from typing import Any

import jsonschema_rs
from hypothesis import given
from hypothesis import strategies as st

from aiosched.core.graph.json_schema import TooManySteps, find_problem, find_schema_problem

KEYS = st.sampled_from(["a", "b", "n1", "n2"])
PATTERNS = st.sampled_from(["^n", "1$", "a|b", "x"])
COUNTS = st.integers(0, 3)
SCALARS = st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from([0.5, 1.0, -2.0, "", "a", "n1", "xyz"])
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=3), max_leaves=8
)
TYPES = st.sampled_from(["null", "boolean", "integer", "number", "string", "array", "object"])
REFERENCES = st.sampled_from(["#/$defs/a", "#/$defs/b", "#named"])


def keywords(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Schemas of any keywords with `inner` schemas."""
    several = st.lists(inner, min_size=1, max_size=3)
    named = st.dictionaries(KEYS, inner, max_size=2)
    arguments: dict[str, st.SearchStrategy[Any]] = {
        "type": TYPES | st.lists(TYPES, min_size=1, max_size=3, unique=True),
        "enum": st.lists(VALUES, min_size=1, max_size=4),
        "const": VALUES,
        **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), st.integers(-2, 2)),
        "multipleOf": st.sampled_from([1, 2, 0.5]),
        **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"), COUNTS),
        "pattern": PATTERNS,
        "uniqueItems": st.booleans(),
        "prefixItems": several,
        **dict.fromkeys(("items", "contains", "unevaluatedItems", "not", "if", "then", "else"), inner),
        **dict.fromkeys(("additionalProperties", "unevaluatedProperties", "propertyNames"), inner),
        "minContains": COUNTS,
        "maxContains": COUNTS,
        "properties": named,
        "dependentSchemas": named,
        "patternProperties": st.dictionaries(PATTERNS, inner, max_size=2),
        "required": st.lists(KEYS, max_size=2, unique=True),
        "dependentRequired": st.dictionaries(KEYS, st.lists(KEYS, max_size=2, unique=True), max_size=2),
        **dict.fromkeys(("anyOf", "oneOf", "allOf"), several),
        **dict.fromkeys(("$ref", "$dynamicRef"), REFERENCES),
    }
    one = st.sampled_from(sorted(arguments)).flatmap(lambda key: st.tuples(st.just(key), arguments[key]))
    return st.lists(one, max_size=4).map(dict)


SCHEMAS = st.recursive(st.booleans() | st.just({}), keywords, max_leaves=10)


@given(keywords(SCHEMAS), SCHEMAS, keywords(SCHEMAS), st.lists(VALUES, min_size=1, max_size=5))
def test_the_verdict_is_that_of_another_implementation(
    schema: dict[str, Any], first: Any, second: dict[str, Any], values: list[Any]
) -> None:
    whole = {**schema, "$defs": {"a": first, "b": second, "c": {"$anchor": "named", "type": ["integer", "array"]}}}
    if "$ref" in str(first) or "$ref" in str(second) or "Ref" in str(first) or "Ref" in str(second):
        whole["$defs"] |= {"a": {"maxItems": 2}, "b": {"properties": {"a": {"type": "string"}}}}  # no circles

    assert find_schema_problem(whole) is None
    oracle = jsonschema_rs.Draft202012Validator(whole)
    for value in values:
        try:
            problem = find_problem(value, whole)
        except TooManySteps:
            continue
        assert (problem is None) == oracle.is_valid(value), (whole, value, problem)
