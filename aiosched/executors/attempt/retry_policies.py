"""Evaluates a task's own `retry_policy` for a failure.

Source: the semantics reference, section 22.4.
"""

from __future__ import annotations

import math
from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

from aiosched.authoring.tasks.retry_policies import RetryAction, RetryDecision, RetryPolicy

if TYPE_CHECKING:
    from aiosched.authoring.runtime.context import Context
    from aiosched.authoring.tasks.operator import RetryFunction
    from aiosched.core.values.messages import Attempt


class Retry(NamedTuple):
    """Whether a failed try can be retried, and after how many seconds (None: the task's retry delay)."""

    allowed: bool = True
    seconds: float | None = None
    reason: str | None = None  # to log


def ask(policy: RetryPolicy | RetryFunction, error: BaseException, context: Context, attempt: Attempt) -> Retry:
    """The decision of a policy; raises its errors, and TypeError for an invalid decision."""
    if isinstance(policy, RetryPolicy):
        return _decided(policy.evaluate(error, attempt.key.try_number, attempt.max_tries, context))
    answer = policy(error, context)
    if answer is None or isinstance(answer, bool):
        return Retry(answer is not False)
    seconds = answer.total_seconds() if isinstance(answer, timedelta) else answer
    if not isinstance(seconds, int | float) or not math.isfinite(seconds) or seconds < 0:
        raise TypeError(
            f"The retry_policy returned {answer!r}: return False (do not retry), a timedelta not below zero (retry "
            "after it), or None (as the task's options say)."
        )
    return Retry(seconds=float(seconds))


def _decided(decision: object) -> Retry:
    if not isinstance(decision, RetryDecision):
        raise TypeError(f"The retry_policy returned {decision!r}: return a RetryDecision.")
    delay = decision.retry_delay if decision.action is RetryAction.RETRY else None
    if delay is not None and delay < timedelta(0):
        raise TypeError(f"The retry_policy returned retry_delay={delay!r}: give a timedelta not below zero.")
    seconds = None if delay is None else delay.total_seconds()
    allowed = decision.action is not RetryAction.FAIL
    return Retry(allowed, seconds, f"{decision.action.value}: {decision.reason}" if decision.reason else None)
