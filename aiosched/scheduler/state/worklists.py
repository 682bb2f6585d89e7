"""What the loops have to do next."""

from __future__ import annotations

from dataclasses import dataclass, field

from aiosched.core.run.board import Board
from aiosched.scheduler.state.wakeup import Timers


@dataclass(slots=True)
class Worklists:
    """Lists of boards, DAGs and partitions that something has happened to; each loop empties its own."""

    to_evaluate: dict[Board, None] = field(default_factory=dict)
    to_look_back: dict[str, None] = field(default_factory=dict)  # DAGs with boards that do not know the run before
    to_start: dict[str, None] = field(default_factory=dict)  # DAGs whose queued runs may start, or backfills be over
    backfilled: dict[str, None] = field(default_factory=dict)  # DAGs that have, or had, backfills not completed
    assets: set[int] = field(default_factory=set)  # partitions with events that may make a run
    room_changed: bool = False  # something that waits for a slot might fit now
    due_runs: Timers[str] = field(default_factory=Timers)  # DAG ids by their next run
