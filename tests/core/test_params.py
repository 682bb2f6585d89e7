"""Which values a run's params get, and which are refused. Source: the semantics reference, section 27."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from typing import Any

import pytest

from aiosched.core.graph.json_schema import StepBudget, find_problem, find_schema_problem
from aiosched.core.graph.params import resolve_params
from aiosched.core.graph.spec import ParamSpec
from aiosched.core.values.typed_json import marked_text
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
        ({"enum": [1, "a", None]}, [1, 1.0, "a", None], [2, "b", True]),
        ({"enum": [[1, True], {"a": [1.0]}]}, [[1.0, True], {"a": [1]}], [[True, 1], {"a": [True]}, {"a": 1}]),
        ({"const": {"a": 1, "b": 2}}, [{"b": 2.0, "a": 1}], [{"a": 1}, '{"a": 1, "b": 2}']),
        ({"multipleOf": 3}, [9, 10**400 * 3, -3], [10, 10**400, 1.5]),
        ({"multipleOf": 0.5}, [1.5, 2], [1.25, 10**400]),
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
        (
            {"uniqueItems": True},
            [[1, 2], [1, True], [1, "1"], [[1], "[1]"], [None, "null"]],
            [[1, 1], [1, 1.0], [{"a": 1, "b": 2}, {"b": 2, "a": 1}], [[1], [1.0]]],
        ),
        ({"properties": {"a": {"type": "integer"}}, "required": ["a"]}, [{"a": 1, "b": 2}, 5], [{}, {"a": "x"}]),
        ({"properties": {"a": {}}, "additionalProperties": False}, [{"a": 1}, {}], [{"b": 1}]),
        ({"additionalProperties": {"type": "integer"}}, [{"b": 1}], [{"b": "x"}]),
        ({"minProperties": 1, "maxProperties": 1}, [{"a": 1}], [{}, {"a": 1, "b": 2}]),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, [1, None], ["x"]),
        ({"oneOf": [{"minimum": 1}, {"maximum": 3}]}, [0, 4], [2]),
        ({"allOf": [{"minimum": 1}, {"maximum": 3}]}, [2], [0, 4]),
        ({"not": {"type": "string"}}, [1], ["x"]),
        ({"format": "ipv4"}, ["192.0.2.1"], ["192.0.2", "x"]),
        ({"format": "uuid"}, ["12345678-1234-5678-1234-567812345678"], ["1234"]),
        ({"properties": {"a": True, "b": False}}, [{"a": 1}, {}], [{"b": 1}]),
        ({"prefixItems": [{"type": "string"}, {}], "items": False}, [["a"], ["a", 1], []], [[1], ["a", 1, 2]]),
        ({"contains": {"type": "integer"}}, [[1], ["a", 1], "a"], [[], ["a"]]),
        ({"contains": {"minimum": 5}, "minContains": 2, "maxContains": 3}, [[5, 6], [1, 5, 5, 5]], [[5], [5] * 4]),
        ({"contains": {"type": "integer"}, "minContains": 0}, [[], ["a"]], []),
        ({"patternProperties": {"^n_": {"type": "integer"}}}, [{"n_a": 1, "b": "x"}, 5], [{"n_a": "x"}]),
        ({"patternProperties": {"^n": {}}, "additionalProperties": False}, [{"n": 1}], [{"b": 1}]),
        ({"propertyNames": {"maxLength": 2}}, [{"ab": 1}], [{"abc": 1}]),
        ({"dependentRequired": {"a": ["b"]}}, [{"b": 1}, {"a": 1, "b": 1}, {}], [{"a": 1}]),
        ({"dependentSchemas": {"a": {"required": ["b"]}}}, [{}, {"a": 1, "b": 1}], [{"a": 1}]),
        (
            {"if": {"required": ["a"]}, "then": {"required": ["b"]}, "else": {"required": ["c"]}},
            [{"a": 1, "b": 1}, {"c": 1}],
            [{"a": 1}, {}],
        ),
        ({"$ref": "#/$defs/a~1b", "$defs": {"a/b": {"type": "integer"}}}, [1], ["x"]),
        ({"$ref": "#n", "$defs": {"x": {"$anchor": "n", "type": "integer"}}, "maximum": 5}, [1], ["x", 9]),
        (
            {
                "$id": "https://x.org/s",
                "properties": {"a": {"$ref": "https://x.org/s#/$defs/n"}},
                "$defs": {"n": False},
            },
            [{}],
            [{"a": 1}],
        ),
        (
            {
                "type": "object",
                "properties": {"children": {"type": "array", "items": {"$ref": "#"}}},
                "additionalProperties": False,
            },
            [{}, {"children": [{}, {"children": [{}]}]}],
            [{"children": [{}, {"children": [1]}]}, {"child": 1}],
        ),
        (
            {
                "allOf": [{"properties": {"a": {}}}, {"$ref": "#/$defs/b"}],
                "unevaluatedProperties": False,
                "$defs": {"b": {"patternProperties": {"^b": {}}}},
            },
            [{"a": 1, "b1": 2}],
            [{"c": 1}],
        ),
        ({"anyOf": [{"prefixItems": [{}, {}]}], "unevaluatedItems": {"type": "null"}}, [[1, 2, None]], [[1, 2, 3]]),
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


@pytest.mark.parametrize("kind", [["dict"], {"a": 1}, None, 5, "none"])
def test_what_looks_like_a_mark_and_is_none_is_kept(kind: Any) -> None:
    given = {"$aiosched": kind, "value": [[1, 2]]}
    day = ParamSpec(value="2026-07-01", typed={"$aiosched": "date", "value": "2026-07-01"})

    assert resolve_params({"x": ParamSpec(json_schema={"type": "array"}), "day": day}, {"x": given, "day": given}) == {
        "x": given,
        "day": given,
    }


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
        ({"$ref": "#/x"}, "its schema has nothing at '#/x': refer to '#/$defs/…' of the same schema"),
        ({"$ref": "https://example.org/s"}, "its schema has nothing at 'https://example.org/s'"),
        ({"allOf": [{"$dynamicRef": "#gone"}]}, "its schema has nothing at '#gone'"),
        ({"$ref": "#/title", "title": "t"}, "its schema has nothing at '#/title'"),
        ({"$ref": "#/x/y", "x": {"y": {"type": "int"}}}, "there is no type 'int'"),
        ({"$ref": 7}, "the schema cannot be used: $ref: 7 is not of type string"),
        ({"properties": {"a": {"$id": "https://example.org/s"}}}, "only the whole schema can have an '$id'"),
        ({"additionalItems": False}, "'additionalItems' is of an older draft of JSON Schema. Use 'prefixItems'"),
        ({"patternProperties": {"(?=x)": {}}}, "lookaround cannot be matched in linear time"),
        ({"patternProperties": {"x": 1}}, "patternProperties: x: 1 is not of type object or boolean"),
        ({"if": 1}, "the schema cannot be used: if: 1 is not of type object or boolean"),
        ({"contains": []}, "the schema cannot be used: contains: [] is not of type object or boolean"),
        ({"dependentRequired": {"a": "b"}}, "dependentRequired: a: 'b' is not of type array"),
        ({"then": {"pattern": ".{1000}" * 5}}, "it is too large: its repetitions count as often as they repeat"),
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
        ({"oneOf": [1]}, "the schema cannot be used: oneOf: item 0: 1 is not of type object or boolean"),
        ({"allOf": "abc"}, "the schema cannot be used: allOf: 'abc' is not of type array"),
        ({"not": 1}, "the schema cannot be used: not: 1 is not of type object or boolean"),
    ],
)
def test_a_schema_that_cannot_be_used_is_refused(schema: dict[str, Any], problem: str) -> None:
    assert problem in (find_schema_problem(schema) or "")


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "string", "format": "date-time"}, datetime(2026, 1, 1, tzinfo=UTC)),
        ({"type": "array", "items": {"type": "integer"}, "maxItems": 2}, (1, 2)),
        ({"type": "array"}, {1}),
        ({"type": "integer"}, 2**70),
        ({"type": "object", "properties": {"d": {"format": "date"}}}, {"d": date(2026, 1, 1)}),
    ],
)
def test_a_value_of_another_type_is_checked_as_the_json_that_it_would_be(schema: dict[str, Any], value: Any) -> None:
    parts = json.loads(marked_text(value))

    assert resolve_params({"p": ParamSpec(json_schema=schema)}, {"p": parts}) == {"p": parts}
    with pytest.raises(ParamError, match="'p'"):
        resolve_params({"p": ParamSpec(json_schema={"type": "boolean"})}, {"p": parts})


SAME_AGAIN = {"$defs": {"a0": {}} | {f"a{n}": {"allOf": 2 * [{"$ref": f"#/$defs/a{n - 1}"}]} for n in range(1, 60)}}
NESTED: dict[str, Any] = {"unevaluatedProperties": False}
for _ in range(30):
    NESTED = {"anyOf": [NESTED, NESTED], "unevaluatedProperties": False}


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({**SAME_AGAIN, "$ref": "#/$defs/a59"}, "x"),
        ({"allOf": [{"$ref": "#"}]}, 1),
        ({"$dynamicRef": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}, 1),
        ({"anyOf": [{"type": "string"}] * 9_000}, [["x" * 1_000] * 1_000]),
        (NESTED, {"a": 1}),
        ({"pattern": ".*[a-m].{400}1"}, "q" * 100_000),
        ({"patternProperties": {f"^k.*{n}$": {} for n in range(600)}}, {f"k{n}": n for n in range(600)}),
        ({"items": {"not": {"enum": [1]}}}, [[[n] for n in range(1_000)]] * 300),
        ({"items": {"format": "regex"}}, [f"(a{{0,30}}){{0,30}}{n}" for n in range(1_000)]),
    ],
    ids=["references", "itself", "circle", "messages", "unevaluated", "pattern", "names", "enum", "regex"],
)
def test_what_takes_too_many_steps_is_refused_with_what_to_do(schema: dict[str, Any], value: Any) -> None:
    assert find_schema_problem(schema) is None
    with pytest.raises(ParamError, match=r"Param 'p': to check the value takes too many steps: give a smaller one, or"):
        resolve_params({"p": ParamSpec(json_schema=schema)}, {"p": value})


def test_the_params_of_a_run_share_the_steps() -> None:
    """Not a second for each of a thousand params."""
    params = {f"p{n}": ParamSpec(json_schema={"items": {"type": "integer"}}) for n in range(100)}
    conf = dict.fromkeys(params, [1] * 10)

    assert resolve_params(params, conf, StepBudget(2_300)) == conf
    with pytest.raises(ParamError, match=r"Param 'p50': to check the value takes too many steps"):
        resolve_params(params, conf, StepBudget(1_100))


def test_a_large_value_is_cut_in_messages() -> None:
    for value in (["x"] * 100_000, {"k" * 1_000: 1}, "x" * 100_000, 10**5_000, [[[10**5_000]]]):
        with pytest.raises(ParamError) as caught:
            resolve_params({"p": ParamSpec(json_schema={"type": "null"})}, {"p": value})
        assert len(str(caught.value)) < 600


class Compared(str):
    """A text that counts how often it is compared."""

    __slots__ = ()
    times = 0

    def __eq__(self, other: object) -> bool:
        Compared.times += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


@pytest.mark.parametrize(
    "schema",
    [
        {"uniqueItems": True},
        {"items": {"enum": [f"allowed {n}" for n in range(2_000)] + [f"{n}" for n in range(4_000)]}},
        {"anyOf": [{"uniqueItems": True}, {"items": {"type": "integer"}}]},
    ],
    ids=["unique", "enum", "alternatives"],
)
def test_a_long_value_takes_work_in_proportion_to_its_length(schema: dict[str, Any]) -> None:
    """Not a comparison with each other item: 60 kB froze a scheduler for 18 s."""
    Compared.times = 0

    assert find_problem([Compared(n) for n in range(4_000)], schema) is None

    assert Compared.times <= 4_000
