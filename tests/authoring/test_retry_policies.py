"""Retry policies as objects. Source: the semantics reference, section 22.4."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from aiosched import (
    DAG,
    ExceptionRetryPolicy,
    PythonOperator,
    RetryAction,
    RetryDecision,
    RetryPolicy,
    RetryRule,
)
from aiosched.errors import DagError, FailTask
from aiosched.executors.attempt.retry_policies import Retry, ask
from aiosched.executors.dag_test import run_dag_test
from tests.authoring.authoring_builders import attempt_of

MINUTE = timedelta(minutes=1)


@pytest.mark.parametrize(
    ("rule", "error", "matches"),
    [
        (RetryRule(LookupError), KeyError(), True),
        (RetryRule(LookupError, match_subclasses=False), KeyError(), False),
        (RetryRule(KeyError, match_subclasses=False), KeyError(), True),
        (RetryRule([OSError, "json.JSONDecodeError"]), json.JSONDecodeError("", "", 0), True),
        (RetryRule("json.JSONDecodeError"), ValueError(), False),
        (RetryRule("json.NoSuchError"), ValueError(), False),
        (RetryRule("json.loads"), ValueError(), False),
    ],
)
def test_which_exceptions_a_rule_matches(rule: RetryRule, error: Exception, matches: bool) -> None:
    assert rule.matches(error) is matches


def test_the_first_rule_that_matches_decides() -> None:
    policy = ExceptionRetryPolicy(
        [
            RetryRule(KeyError, RetryAction.FAIL, reason="no such key"),
            RetryRule(LookupError, retry_delay=MINUTE),
        ],
        default=RetryAction.RETRY,
    )

    decisions = [policy.evaluate(error, 1, 3) for error in (KeyError(), IndexError(), ValueError())]

    assert decisions == [
        RetryDecision.fail("no such key"),
        RetryDecision.retry(MINUTE, "a rule for IndexError"),
        RetryDecision(RetryAction.RETRY),
    ]


class Own(RetryPolicy):
    """Returns what it was made with."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.asked: list[Any] = []

    def evaluate(self, exception: Any, try_number: Any, max_tries: Any, context: Any = None) -> Any:
        self.asked.append((exception, try_number, max_tries, context))
        return self.answer


@pytest.mark.parametrize(
    ("decision", "again"),
    [
        (RetryDecision.default(), Retry()),
        (RetryDecision.fail("bad"), Retry(allowed=False, reason="fail: bad")),
        (RetryDecision.retry(MINUTE, "soon"), Retry(seconds=60.0, reason="retry: soon")),
        (RetryDecision(retry_delay=MINUTE), Retry()),
    ],
)
def test_what_a_decision_means(decision: RetryDecision, again: Retry) -> None:
    error, context, policy = ValueError(), object(), Own(decision)

    assert ask(policy, error, context, attempt_of()) == again  # type: ignore[arg-type]
    assert policy.asked == [(error, 2, 3, context)]


@pytest.mark.parametrize("answer", [None, True, RetryDecision.retry(-MINUTE)])
def test_another_answer_is_an_error_of_the_policy(answer: Any) -> None:
    with pytest.raises(TypeError, match="The retry_policy returned"):
        ask(Own(answer), ValueError(), object(), attempt_of())  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("error", "tries"), [(KeyError(), 1), (IndexError(), 3), (FailTask(), 1)], ids=["fail", "retry", "not asked"]
)
async def test_a_policy_in_a_run(error: Exception, tries: int) -> None:
    def fails() -> None:
        raise error

    rules = [RetryRule(KeyError, RetryAction.FAIL), RetryRule(Exception, retry_delay=timedelta(days=1))]
    with DAG("d") as dag:
        PythonOperator(task_id="t", python_callable=fails, retries=2, retry_policy=ExceptionRetryPolicy(rules))

    run = await run_dag_test(dag)

    assert (run.task("t").state, run.task("t").try_number) == ("failed", tries)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: RetryRule("ValueError"), "exception='ValueError' is neither an exception class nor the path of one"),
        (lambda: RetryRule(dict), "is neither an exception class"),  # type: ignore[arg-type]
        (lambda: RetryRule(KeyError, "fail"), "action='fail' is not a RetryAction"),  # type: ignore[arg-type]
        (lambda: RetryRule(KeyError, retry_delay=-MINUTE), "below zero"),
        (
            lambda: PythonOperator(task_id="t", python_callable=print, retry_policy=Own),
            "give a function, or a RetryPolicy",
        ),
    ],
)
def test_what_cannot_work_is_refused_in_the_file(make: Any, message: str) -> None:
    with pytest.raises(DagError, match=message):
        make()
