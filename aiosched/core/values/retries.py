"""Whether a failed try can be retried, and after which delay.

Source: the semantics reference, sections 2.5 and 22.
"""

from __future__ import annotations

import hashlib
import math
from typing import Final

MOST_TRIES: Final = 32_000  # of one task instance, however often it is cleared: its row has 16 bits for the number
MAX_TASK_RETRY_DELAY: Final = 86_400.0  # seconds: default of the setting core.max_task_retry_delay


def may_retry(try_number: int, max_tries: int) -> bool:
    """Whether a task instance can be retried after its try `try_number` (1 for the first) failed.

    `max_tries` is the number of retries allowed so far: 2 allows the tries 1, 2 and 3.
    """
    return max_tries > 0 and try_number <= max_tries


def retry_delay(
    base: float,
    *,
    failed_try: int,
    multiplier: float = 0.0,
    seed: str = "",
    maximum: float | None = None,
) -> float:
    """The seconds that a task waits after its try number `failed_try` (1 for the first) failed.

    With a `multiplier` of 0 or 1 exactly `base`. Otherwise whole seconds: base x multiplier ** (failed_try - 1),
    rounded up, at least one, plus a jitter below that value; at most `maximum` (the task's max_retry_delay), or a day
    if it has none. Equal arguments give an equal delay in every scheduler: the jitter comes from `seed`, which names
    the task instance, and from `failed_try`. The task can run once the clock is strictly later than the end of that try
    plus this delay.

    Source: the semantics reference, section 22.1.
    """
    if multiplier <= 0 or multiplier == 1:
        return base
    ceiling = MAX_TASK_RETRY_DELAY if maximum is None else maximum
    try:
        grown = base * multiplier ** (failed_try - 1) if base > 0 else 0.0
    except OverflowError:
        return ceiling
    if grown >= ceiling:
        return ceiling
    least = max(1, math.ceil(grown))
    digest = hashlib.sha1(f"{seed}#{failed_try}".encode(), usedforsecurity=False).digest()
    return min(float(least + int.from_bytes(digest, "big") % least), ceiling)


def retry_seed(dag_id: str, task_id: str, run: str, map_index: int = -1) -> str:
    """The seed of a task instance's jitter; `run` is the run's id."""
    return f"{dag_id}#{task_id}#{run}" + (f"#{map_index}" if map_index >= 0 else "")
