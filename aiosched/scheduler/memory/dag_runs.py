"""The unfinished runs of one DAG, and the queued ones in the order in which they may start.

A backfill may queue ten thousand of them, and each run that ends lets the next one start. So each group of runs
that shares a limit (those of no backfill, and those of each backfill) is kept sorted: reading the first few
costs the same however many wait. Does not live here: which of them start (core/creation/run_creation.py). Source: the
semantics reference, sections 14.1 to 14.3.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator, KeysView
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from aiosched.core.run.board import Board, Run
from aiosched.core.values.states import RunState
from aiosched.db.statements.backfills import Backfill

MOST_KEY: Final = 2**63 - 1  # of a run

_Turn = tuple[int, datetime, int]  # order number in the backfill, run_after, key (which makes it unique)


class QueuedRuns:
    """Queued runs by their group: the id of their backfill, None for runs of no backfill."""

    def __init__(self) -> None:
        self._groups: dict[int | None, list[tuple[_Turn, Run]]] = {}
        self._places: dict[int, tuple[int | None, _Turn]] = {}  # by the run's key
        self._expiring: list[tuple[datetime, int]] = []  # until when these may start, and their keys; sorted

    def __len__(self) -> int:
        return len(self._places)

    def __iter__(self) -> Iterator[Run]:
        return (run for group in self._groups.values() for _, run in group)

    def find(self, key: int) -> Run | None:
        """The run with this key; None if it is not queued."""
        if (place := self._places.get(key)) is None:
            return None
        group, turn = place
        runs = self._groups[group]
        return runs[bisect.bisect_left(runs, (turn,))][1]

    def groups(self) -> KeysView[int | None]:
        """The groups that have a run."""
        return self._groups.keys()

    def count(self, group: int | None) -> int:
        """How many runs of a group are queued."""
        return len(self._groups.get(group, ()))

    def append(self, run: Run) -> None:
        """Add a run that is not queued yet."""
        turn = (run.backfill_order or 0, run.run_after, run.key)
        self._places[run.key] = (run.backfill_id, turn)
        bisect.insort(self._groups.setdefault(run.backfill_id, []), (turn, run))
        if run.expires_at is not None and not run.clear_number:  # a run that people let run again no longer expires
            bisect.insort(self._expiring, (run.expires_at, run.key))

    def remove(self, run: Run) -> None:
        """Remove a run. Raises KeyError if it is not queued."""
        group, turn = self._places.pop(run.key)
        runs = self._groups[group]
        del runs[bisect.bisect_left(runs, (turn,))]  # a shorter tuple sorts first, so this is its position
        if not runs:
            del self._groups[group]
        if run.expires_at is not None:
            place = bisect.bisect_left(self._expiring, (run.expires_at, run.key))
            if self._expiring[place : place + 1] == [(run.expires_at, run.key)]:
                del self._expiring[place]

    def move(self, run: Run, run_after: datetime, conf: dict[str, Any], expires_at: datetime | None) -> None:
        """Let a run start at another instant, with another conf. Raises KeyError if it is not queued."""
        self.remove(run)
        run.run_after, run.conf, run.expires_at = run_after, conf, expires_at
        self.append(run)

    def expired(self, now: datetime) -> list[Run]:
        """The runs that must not start any more, those that expired first in front."""
        over = self._expiring[: bisect.bisect_right(self._expiring, (now, MOST_KEY))]
        return [run for _, key in over if (run := self.find(key)) is not None]

    def next_expiry(self, now: datetime) -> datetime | None:
        """When the next one expires after `now`."""
        rest = bisect.bisect_right(self._expiring, (now, MOST_KEY))
        return self._expiring[rest][0] if rest < len(self._expiring) else None

    def first(self, group: int | None, most: int, now: datetime) -> list[Run]:
        """The first runs of a group: at most `most` that may start by `now`, and the earliest later one among them."""
        found: list[Run] = []
        later: Run | None = None
        for _, run in self._groups.get(group, ()):
            if len(found) == most:
                break
            if run.run_after <= now:
                found.append(run)
                continue
            if later is None or run.run_after < later.run_after:
                later = run
            if group is None:
                break  # these are sorted by run_after
        return found if later is None else [*found, later]


@dataclass(slots=True, eq=False)
class DagRuns:
    """What one DAG has not ended yet, by the key of the run or the id of the backfill."""

    queued: QueuedRuns = field(default_factory=QueuedRuns)  # runs that wait to start
    starting: set[int] = field(default_factory=set)  # runs whose rows are being read to start them
    running: dict[int, Board] = field(default_factory=dict)
    ending: dict[int, Board] = field(default_factory=dict)  # finished in memory, but not yet in the database
    unread: list[Run] = field(default_factory=list)  # unfinished, of versions that cannot be read: left alone
    backfills: dict[int, Backfill] = field(default_factory=dict)  # those that are not completed

    def under_way(self) -> list[Run]:
        """The runs that are running as far as the database knows."""
        held = [board.run for board in (*self.running.values(), *self.ending.values())]
        return held + [run for run in self.unread if run.state is RunState.RUNNING]

    def active(self) -> int:
        """Queued and running runs that count for `max_active_runs` (14.3): backfills do not."""
        return sum(run.backfill_id is None for run in self.under_way()) + self.queued.count(None)

    def finished_backfills(self) -> list[Backfill]:
        """The backfills none of whose runs is queued, starting or running."""
        if self.starting:
            return []
        active = self.queued.groups() | {run.backfill_id for run in (*self.under_way(), *self.unread)}
        return [backfill for backfill in self.backfills.values() if backfill.id not in active]
