"""The runs that are due when a DAG is seen for the first time. Pure.

If nothing tells of which Airflow a file is, its catchup is a guess. Then more than a handful of runs are not created
before somebody says so: the DAG begins paused, and unpausing it is the yes.
Source: docs/airflow.md, "Runs that a guess would catch up".
"""

from __future__ import annotations

from datetime import datetime
from itertools import takewhile
from typing import Final

from aiosched.core.creation.run_creation import restriction_of
from aiosched.core.graph.spec import DagSpec
from aiosched.core.timetables import upcoming
from aiosched.errors import TimetableError

HANDFUL: Final = 5  # runs that are created all the same


def due_at_first_sight(spec: DagSpec, now: datetime, *, most: int) -> int:
    """The number of scheduled runs that are due at `now` if the DAG has none yet; at most `most`."""
    try:
        coming = upcoming(spec.timetable, restriction=restriction_of(spec), now=now, n=most)
        return sum(1 for _ in takewhile(lambda one: one.run.run_after <= now, coming))
    except TimetableError:
        return 0


def is_held_back(spec: DagSpec, now: datetime) -> bool:
    """Whether a DAG that is new begins paused, since only a guess says that so many runs are to be caught up."""
    return spec.catchup_is_guess and due_at_first_sight(spec, now, most=HANDFUL + 1) > HANDFUL
