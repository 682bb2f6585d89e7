"""Which answers a question of a task accepts."""

from __future__ import annotations

import pytest

from aiosched.core.graph.human_input import InputAnswer, InputRequest, check_answer
from aiosched.core.graph.spec import ParamSpec
from aiosched.errors import Refused

ASKED = InputRequest(
    subject="Ship it?",
    options=("yes", "no", "later"),
    params={
        "percent": ParamSpec(value=10, json_schema={"type": "integer", "minimum": 0, "maximum": 100}),
        "reason": ParamSpec(required=True, json_schema={"type": "string"}),
    },
)
MANY = InputRequest(subject="Which?", options=("a", "b", "c"), multiple=True)
HERS = InputRequest(subject="Pay?", options=("yes",), respondents=("ada", "bob"))


def test_params_that_are_left_out_have_their_defaults() -> None:
    answer = check_answer(ASKED, ["yes"], {"reason": "tested"}, by="api:ada")

    assert answer == InputAnswer(options=("yes",), params={"percent": 10, "reason": "tested"})


def test_several_options_are_in_the_order_of_the_question_and_count_once() -> None:
    assert check_answer(MANY, ["c", "a", "c"], {}, by="cli:ada").options == ("a", "c")


@pytest.mark.parametrize("by", ["api:ada", "cli:bob@host", "ada"])
def test_those_who_are_named_may_answer(by: str) -> None:
    assert check_answer(HERS, ["yes"], {}, by=by).options == ("yes",)


@pytest.mark.parametrize(
    ("options", "params", "problem"),
    [
        (["maybe"], {"reason": ""}, "'maybe' is not an option of 'Ship it\\?': choose 'yes', 'no', 'later'"),
        ([], {"reason": ""}, "Choose an option"),
        (["yes", "no"], {"reason": ""}, "Choose one option of 'Ship it\\?', not 2"),
        (["yes"], {}, "Param 'reason' has no default: give it a value"),
        (["yes"], {"reason": 3}, "Param 'reason': .*string"),
        (["yes"], {"reason": "", "percent": 101}, "Param 'percent': .*100"),
        (["yes"], {"reason": "", "why": 1}, "no param 'why'; known are percent, reason"),
        (["yes"], {"reason": "", "percent": 2**64}, "params"),
        (["yes"], {"reason": "a\0b"}, "params"),
    ],
)
def test_a_wrong_answer_is_refused_with_what_is_wrong(
    options: list[str], params: dict[str, object], problem: str
) -> None:
    with pytest.raises(Refused, match=problem) as refused:
        check_answer(ASKED, options, params, by="api:ada")
    assert refused.value.exit_code == 2


def test_nobody_else_may_answer() -> None:
    with pytest.raises(Refused, match="Only ada, bob may answer 'Pay\\?', not eve"):
        check_answer(HERS, ["yes"], {}, by="api:eve")
