"""Which values a run's params get, and which are refused. Source: the semantics reference, section 27."""

from __future__ import annotations

from typing import Any

import pytest

from aiosched.core.graph.params import find_problem, find_schema_problem, resolve_params
from aiosched.core.graph.spec import ParamSpec
from aiosched.errors import ParamError


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        ({"type": "integer"}, [1, 0, -5, 2.0], ["1", 1.5, True, None, [1]]),
        ({"type": "number"}, [1, 1.5], ["1", True, None]),
        ({"type": "string"}, ["", "x"], [1, None, ["x"]]),
        ({"type": "boolean"}, [True, False], [1, 0, "true", None]),
        ({"type": "null"}, [None], [0, "", False]),
        ({"type": "array"}, [[], [1]], [{}, "x", None]),
        ({"type": "object"}, [{}, {"a": 1}], [[], "x", None]),
        ({"type": ["null", "string"]}, [None, "x"], [1, []]),
        ({"enum": [1, "a", None]}, [1, "a", None], [2, "b", True]),
        ({"const": 5}, [5], [4, "5"]),
        ({"const": True}, [True], [1]),
        ({"minimum": 1, "maximum": 3}, [1, 2, 3, "text"], [0, 4, 0.99]),
        ({"exclusiveMinimum": 1, "exclusiveMaximum": 3}, [2, 1.01], [1, 3]),
        ({"multipleOf": 0.1}, [0.3, 1, 0], [0.35]),
        ({"minLength": 2, "maxLength": 3}, ["ab", "abc", 5], ["a", "abcd"]),
        ({"pattern": "^a+$"}, ["a", "aa", 5], ["b", "ab"]),
        ({"format": "date-time"}, ["2026-01-31T06:00:00+00:00", "2026-01-31T06:00:00Z", 5], ["2026-01-31", "x"]),
        ({"format": "date"}, ["2026-01-31"], ["2026-02-31", "2026-01-31T06:00:00Z", "x"]),
        ({"format": "time"}, ["06:00:00"], ["25:00", "x"]),
        ({"format": "email"}, ["a@b.org"], ["a", "a b@c"]),
        ({"format": "uri"}, ["https://example.org", "s3://b/k"], ["x", "a b"]),
        ({"format": "regex"}, ["a+"], ["("]),
        ({"format": "multiline"}, ["anything"], []),
        ({"items": {"type": "integer"}}, [[], [1, 2], "text"], [[1, "x"]]),
        ({"minItems": 1, "maxItems": 2}, [[1], [1, 2]], [[], [1, 2, 3]]),
        ({"uniqueItems": True}, [[1, 2], [1, True]], [[1, 1], [{"a": 1}, {"a": 1}]]),
        ({"properties": {"a": {"type": "integer"}}, "required": ["a"]}, [{"a": 1, "b": 2}, 5], [{}, {"a": "x"}]),
        ({"properties": {"a": {}}, "additionalProperties": False}, [{"a": 1}, {}], [{"b": 1}]),
        ({"additionalProperties": {"type": "integer"}}, [{"b": 1}], [{"b": "x"}]),
        ({"minProperties": 1, "maxProperties": 1}, [{"a": 1}], [{}, {"a": 1, "b": 2}]),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, [1, None], ["x"]),
        ({"oneOf": [{"minimum": 1}, {"maximum": 3}]}, [0, 4], [2]),
        ({"allOf": [{"minimum": 1}, {"maximum": 3}]}, [2], [0, 4]),
        ({"not": {"type": "string"}}, [1], ["x"]),
        ({"title": "t", "description": "d", "examples": [1], "section": "s"}, [1, "x", None], []),
    ],
)
def test_which_values_a_schema_allows(schema: dict[str, Any], good: list[Any], bad: list[Any]) -> None:
    assert find_schema_problem(schema) is None
    assert [value for value in good if find_problem(value, schema) is not None] == []
    assert [value for value in bad if find_problem(value, schema) is None] == []


@pytest.mark.parametrize(
    ("value", "schema", "message"),
    [
        ("x", {"type": "integer"}, "Param 'n': 'x' is not of type integer"),
        (1, {"type": ["null", "string"]}, "Param 'n': 1 is not of type null or string"),
        (9, {"maximum": 5}, "Param 'n': 9 is above the maximum 5"),
        ("b", {"enum": ["a"]}, "Param 'n': 'b' is not one of ['a']"),
        ("x", {"format": "date"}, "Param 'n': 'x' is not a valid date, such as 2026-01-31"),
        (
            {"a": [1, "x"]},
            {"properties": {"a": {"items": {"type": "integer"}}}},
            "Param 'n': a: item 1: 'x' is not of type integer",
        ),
    ],
)
def test_an_error_names_the_param_the_place_and_the_value(value: Any, schema: dict[str, Any], message: str) -> None:
    with pytest.raises(ParamError) as caught:
        resolve_params({"n": ParamSpec(json_schema=schema)}, {"n": value})

    assert str(caught.value) == message


def test_a_runs_conf_goes_over_the_defaults_and_keeps_what_is_no_param() -> None:
    params = {"a": ParamSpec(value=1), "b": ParamSpec(value=2, json_schema={"type": "integer"})}

    assert resolve_params(params, {"b": 3, "extra": "x"}) == {"a": 1, "b": 3, "extra": "x"}
    assert resolve_params(params, None) == {"a": 1, "b": 2}
    assert resolve_params({}, {"x": 1}) == {"x": 1}


def test_a_required_param_needs_a_value() -> None:
    params = {"a": ParamSpec(required=True, json_schema={"type": ["null", "integer"]})}

    with pytest.raises(ParamError, match=r"Param 'a' has no value and no default. Give one: -p a="):
        resolve_params(params, {})
    assert resolve_params(params, {"a": None}) == {"a": None}


def test_a_default_that_breaks_its_schema_is_refused_when_the_run_is_created() -> None:
    with pytest.raises(ParamError, match="None is not of type string"):
        resolve_params({"a": ParamSpec(value=None, json_schema={"type": "string"})}, {})


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        ({"$ref": "#/x"}, "the schema keyword '$ref' is not supported"),
        ({"type": "int"}, "there is no type 'int'"),
        ({"type": ["null", "text"]}, "there is no type 'text'"),
        ({"pattern": "("}, "cannot be used: missing"),
        ({"properties": {"a": {"anyOf": [{"pattern": "(?=x)"}]}}}, "lookaround cannot be matched in linear time"),
        ({"type": 7}, "the schema cannot be used: type: 7 is not of type string"),
        ({"type": [7]}, "the schema cannot be used: type: item 0: 7 is not of type string"),
        ({"enum": "abc"}, "the schema cannot be used: enum: 'abc' is not of type array"),
        ({"enum": None}, "the schema cannot be used: enum: None is not of type array"),
        ({"examples": "abc"}, "the schema cannot be used: examples: 'abc' is not of type array"),
        ({"examples": {"a": 1}}, "the schema cannot be used: examples: {'a': 1} is not of type array"),
        ({"values_display": ["one"]}, "the schema cannot be used: values_display: ['one'] is not of type object"),
        ({"title": 7}, "the schema cannot be used: title: 7 is not of type string"),
        ({"description": ["a"]}, "the schema cannot be used: description: ['a'] is not of type string"),
        ({"format": 7}, "the schema cannot be used: format: 7 is not of type string"),
        ({"pattern": 7}, "the schema cannot be used: pattern: 7 is not of type string"),
        ({"minimum": "1"}, "the schema cannot be used: minimum: '1' is not of type number"),
        ({"maximum": True}, "the schema cannot be used: maximum: True is not of type number"),
        ({"exclusiveMinimum": True}, "the schema cannot be used: exclusiveMinimum: True is not of type number"),
        ({"exclusiveMaximum": None}, "the schema cannot be used: exclusiveMaximum: None is not of type number"),
        ({"multipleOf": 0}, "the schema cannot be used: multipleOf: 0 is not above 0"),
        ({"minLength": "1"}, "the schema cannot be used: minLength: '1' is not of type integer"),
        ({"maxLength": 1.5}, "the schema cannot be used: maxLength: 1.5 is not of type integer"),
        ({"minItems": "1"}, "the schema cannot be used: minItems: '1' is not of type integer"),
        ({"maxItems": "1"}, "the schema cannot be used: maxItems: '1' is not of type integer"),
        ({"minProperties": "1"}, "the schema cannot be used: minProperties: '1' is not of type integer"),
        ({"maxProperties": "1"}, "the schema cannot be used: maxProperties: '1' is not of type integer"),
        ({"uniqueItems": "yes"}, "the schema cannot be used: uniqueItems: 'yes' is not of type boolean"),
        ({"items": "string"}, "the schema cannot be used: items: 'string' is not of type object or boolean"),
        ({"items": [{}]}, "the schema cannot be used: items: [{}] is not of type object or boolean"),
        ({"items": {"enum": "abc"}}, "the schema cannot be used: enum: 'abc' is not of type array"),
        ({"properties": ["a"]}, "the schema cannot be used: properties: ['a'] is not of type object"),
        ({"properties": {"a": 1}}, "the schema cannot be used: properties: a: 1 is not of type object or boolean"),
        ({"required": True}, "the schema cannot be used: required: True is not of type array"),
        ({"required": [1]}, "the schema cannot be used: required: item 0: 1 is not of type string"),
        ({"additionalProperties": "no"}, "the schema cannot be used: additionalProperties: 'no' is not of type object"),
        ({"anyOf": {}}, "the schema cannot be used: anyOf: {} is not of type array"),
        ({"oneOf": [True]}, "the schema cannot be used: oneOf: item 0: True is not of type object"),
        ({"allOf": "abc"}, "the schema cannot be used: allOf: 'abc' is not of type array"),
        ({"not": True}, "the schema cannot be used: not: True is not of type object"),
    ],
)
def test_a_schema_that_cannot_be_used_is_refused(schema: dict[str, Any], problem: str) -> None:
    assert problem in (find_schema_problem(schema) or "")
