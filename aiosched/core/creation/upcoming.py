"""Which DAG files an executor should have imported before the next runs are due: the soonest, each once, not too many.

Pure. Does not live here: when it is asked (scheduler/runs/announcing.py), and what an executor makes of it.
Source: decision 55.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from aiosched.core.graph.spec import DagSpec
from aiosched.core.values.messages import RunInfo, Upcoming

MOST_ANNOUNCED: Final = 256  # imports at a time; those beyond happen with the first attempt
NO_RUN: Final = -(2**63)  # the key of a run that does not exist yet


class Expected(NamedTuple):
    """A DAG that is expected to run: its tasks, and the code that they will run."""

    spec: DagSpec
    run: RunInfo


def choose_upcoming(expected: Iterable[Expected], most: int = MOST_ANNOUNCED) -> list[Upcoming]:
    """What to import: each file once for each executor and kind of worker that needs it.

    `expected` has the soonest first, and so has the result, which leaves out what is more than `most`.
    """
    found: dict[tuple[object, ...], Upcoming] = {}
    for each in expected:
        run = each.run
        if run.file is None:  # registered in the scheduler's process: there is nothing to import
            continue
        for executor, is_async in _workers_of(each.spec):
            if len(found) == most:
                return list(found.values())
            place = (executor, is_async, run.code, run.file, run.source_hash)
            found.setdefault(place, Upcoming(run=run, is_async=is_async, executor=executor))
    return list(found.values())


def _workers_of(spec: DagSpec) -> dict[tuple[str | None, bool], None]:
    """The executors and kinds of workers that its tasks need. Those that run as another user share no worker."""
    tasks = (task for task in spec.tasks if task.run_as_user is None and not task.is_empty)
    return {(task.executor, task.is_async): None for task in tasks}
