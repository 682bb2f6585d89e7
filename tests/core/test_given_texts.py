"""What is typed for a param means what the param is."""

from __future__ import annotations

from typing import Any

import pytest

from aiosched.core.graph.given_texts import TypedConf, fitted, read_text
from aiosched.core.graph.spec import ParamSpec

TEXT = ParamSpec(value="1.0")
STRING = ParamSpec(required=True, json_schema={"type": "string"})
BOTH = ParamSpec(value=1, json_schema={"type": ["integer", "string"]})
OPTIONAL = ParamSpec(value=None, json_schema={"type": ["null", "string"]})
NUMBER = ParamSpec(value=1.5, json_schema={"type": "number"})
CHOICE = ParamSpec(value="1", json_schema={"enum": ["1", "2", 3, True]})
ANY = ParamSpec(value=None)
DECIMAL = ParamSpec(value="1.50", typed={"$aiosched": "decimal", "value": "1.50"})
DAY = ParamSpec(value="2026-01-02", typed={"$aiosched": "date", "value": "2026-01-02"})
HOUR = ParamSpec(value=3600.0, typed={"$aiosched": "timedelta", "value": 3600.0})


@pytest.mark.parametrize(
    ("typed", "param", "given"),
    [
        ("1.10", TEXT, "1.10"),
        ("true", TEXT, "true"),
        ("007", TEXT, "007"),
        ("null", TEXT, None),
        ('"1.10"', TEXT, "1.10"),
        ("1e3", STRING, "1e3"),
        ("null", STRING, "null"),
        ('{"a": 1}', STRING, '{"a": 1}'),
        ("12345678901234567890.123", STRING, "12345678901234567890.123"),
        ("5", BOTH, 5),
        ("5.5", BOTH, "5.5"),
        ("null", OPTIONAL, None),
        ("12", OPTIONAL, "12"),
        ("2", NUMBER, 2),
        ("2.50", NUMBER, 2.5),
        ("1", CHOICE, "1"),
        ("3", CHOICE, 3),
        ("true", CHOICE, True),
        ("1.10", ANY, 1.1),
        ("2.50", DECIMAL, "2.50"),
        ("12345678901234567.89", DECIMAL, "12345678901234567.89"),
        ("20260506", DAY, "20260506"),
        ("null", DAY, None),
        ("60", HOUR, 60),
        ("1.10", None, 1.1),
    ],
)
def test_a_text_is_what_its_param_is(typed: str, param: ParamSpec | None, given: Any) -> None:
    conf = TypedConf({"p": read_text(typed), "other": 1.0}, {"p": typed})
    found = fitted(conf, {} if param is None else {"p": param})
    assert (found["p"], type(found["p"])) == (given, type(given))
    assert found["other"] == 1.0


def test_what_was_given_as_json_stays() -> None:
    assert fitted({"p": 1.1}, {"p": TEXT}) == {"p": 1.1}


@pytest.mark.parametrize("text", ["[" * 100_000, "9" * 5_000, "", "nope", "{'a': 1}"], ids=range(5))
def test_what_is_no_json_is_text(text: str) -> None:
    assert read_text(text) == text
