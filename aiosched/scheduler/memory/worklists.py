"""The worklists of the loops."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from aiosched.core.run.board import Board, Run
from aiosched.scheduler.concurrency.wakeup import Timers

_PART: Final = 500


class UpcomingRuns:
    """DAG ids by a run that is expected: each is handed out once, when the run is at most `ahead` away.

    Without `ahead` it stays empty.
    """

    def __init__(self) -> None:
        self.ahead: timedelta | None = None
        self._timers: Timers[str] = Timers()

    def add(self, at: datetime, dag_id: str) -> None:
        """A run of this DAG is expected at `at`."""
        if self.ahead is not None:
            self._timers.add(at, dag_id)

    def soon(self, now: datetime) -> list[str]:
        """Remove and return DAGs that are expected to run soon, in order; `_PART` at most, so call it again."""
        return [] if self.ahead is None else self._timers.due(now + self.ahead, _PART)

    @property
    def next_look(self) -> datetime | None:
        """When `soon` will find something."""
        earliest = self._timers.earliest
        return None if earliest is None or self.ahead is None else earliest - self.ahead


@dataclass(slots=True)
class Worklists:
    """The boards, DAGs and partitions that need attention; each loop empties its own list."""

    to_evaluate: dict[Board, None] = field(default_factory=dict)
    to_find_previous: dict[str, None] = field(default_factory=dict)  # DAGs with boards that lack their past
    to_start: dict[str, None] = field(default_factory=dict)  # DAGs whose queued runs or backfills are to be checked
    # queued runs that lack task instances, and those: (task, map index, max tries); None: not known yet
    incomplete: dict[Run, list[tuple[int, int, int]] | None] = field(default_factory=dict)
    to_complete: dict[Run, None] = field(default_factory=dict)  # those of them that could start
    backfilled: dict[str, None] = field(default_factory=dict)  # DAGs that may have uncompleted backfills
    assets: set[int] = field(default_factory=set)  # partitions with asset events that may trigger a run
    room_changed: bool = False  # something that waits for a slot might fit now
    # pools whose rate is used up while tasks wait -> when it allows another start, in seconds of the monotonic clock
    used_up: dict[str, float] = field(default_factory=dict)
    due_runs: Timers[str] = field(default_factory=Timers)  # DAG ids by their next run
    upcoming: UpcomingRuns = field(default_factory=UpcomingRuns)  # whose files are to be imported beforehand
