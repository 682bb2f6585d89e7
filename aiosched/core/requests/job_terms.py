"""What a request for a run says about other requests and about time: unique key, debounce, priority, expiry. Pure.

The owner of the DAG decides, request by request, so two at once are one after the other. Source: docs/jobs.md.
"""

from __future__ import annotations

import math
import re
from datetime import datetime
from enum import Enum, auto
from typing import Final

from aiosched.core.graph.weights import MAX_WEIGHT, MIN_WEIGHT
from aiosched.core.requests.requests import Trigger
from aiosched.core.values.instants import later, stamp
from aiosched.core.values.states import RUN_FINISHED, RunState
from aiosched.errors import Refused

MOST_KEY: Final = 250  # characters
_TRACEPARENT: Final = re.compile(r"00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")


class Fate(Enum):
    """What becomes of a request with a unique key."""

    CREATE = auto()
    KEEP = auto()  # the newest run with the key is the answer
    MOVE = auto()  # and it starts later, with the conf of this request


def fate_of(newest: RunState | None, *, is_queued: bool, debounced: bool) -> Fate:
    """What becomes of it; `newest` is the state of the newest run with its key, `is_queued` that it has not started.

    A debounced request is an event that wants a run that starts after it: one that has started already is no answer.
    """
    if newest is None or newest in RUN_FINISHED:
        return Fate.CREATE
    if not debounced:
        return Fate.KEEP
    return Fate.MOVE if is_queued else Fate.CREATE


def start_of(request: Trigger, now: datetime) -> datetime | None:
    """When the run of a request may start; None: at once. Raises Refused for terms that contradict each other."""
    if request.unique is not None and not 0 < len(request.unique) <= MOST_KEY:
        raise Refused(f"unique: a key has 1 to {MOST_KEY} characters, not {len(request.unique)}.")
    if not MIN_WEIGHT <= request.priority <= MAX_WEIGHT:
        raise Refused(f"priority: a number from {MIN_WEIGHT} to {MAX_WEIGHT} is needed, not {request.priority}.")
    if request.traceparent is not None and not _TRACEPARENT.fullmatch(request.traceparent):
        raise Refused(f"traceparent: {request.traceparent[:80]!r} is no trace context of W3C: 00-TRACE-SPAN-FLAGS.")
    start = request.run_after
    if request.debounce is not None:
        named = {
            "run_id": request.run_id, "logical_date": request.logical_date, "run_after": request.run_after,
            "partition_key": request.partition_key,
        }  # fmt: skip
        if request.unique is None or any(value is not None for value in named.values()):
            raise Refused(f"debounce needs a unique key, and goes with none of {', '.join(named)}.")
        if not (math.isfinite(request.debounce) and request.debounce >= 0):
            raise Refused(f"debounce: a number of seconds is needed, not {request.debounce}.")
        start = later(now, request.debounce)
    if request.expires is not None and request.expires.tzinfo is None:
        raise Refused(f"expires: {request.expires.isoformat()} has no time zone.")
    if request.expires is not None and request.expires <= max(now, start or now):
        when = "then" if start is not None and start > now else "now"
        raise Refused(
            f"The run would expire at {stamp(request.expires)}, and not start before: it may start from {when}."
        )
    return start
