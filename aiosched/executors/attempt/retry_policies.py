"""Evaluates a task's own `retry_policy` for a failure.

Source: the semantics reference, section 22.4.
"""

from __future__ import annotations

import math
from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from aiosched.authoring.runtime.context import Context
    from aiosched.authoring.tasks.operator import RetryPolicy


class Again(NamedTuple):
    """Whether a failed try can be retried, and after how many seconds (None: the task's retry delay)."""

    allowed: bool = True
    seconds: float | None = None


def ask(policy: RetryPolicy, error: BaseException, context: Context) -> Again:
    """The decision of a policy; raises its errors, and TypeError for an invalid decision."""
    answer = policy(error, context)
    if answer is None or isinstance(answer, bool):
        return Again(answer is not False)
    seconds = answer.total_seconds() if isinstance(answer, timedelta) else answer
    if not isinstance(seconds, int | float) or not math.isfinite(seconds) or seconds < 0:
        raise TypeError(
            f"The retry_policy returned {answer!r}: return False (do not retry), a timedelta not below zero (retry "
            "after it), or None (as the task's options say)."
        )
    return Again(seconds=float(seconds))
