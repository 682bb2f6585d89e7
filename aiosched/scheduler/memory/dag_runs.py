"""The unfinished runs of one DAG, and the queued ones in the order in which they may start.

A backfill may queue ten thousand of them, and each run that ends lets the next one start. So each group of runs
that shares a limit (those of no backfill, and those of each backfill) is kept sorted: reading the first few
costs the same however many wait, whatever their priorities and instants. Does not live here: which of them start
(core/creation/run_creation.py). Source: the semantics reference, sections 14.1 to 14.3.
"""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Iterator, KeysView
from dataclasses import dataclass, field
from datetime import datetime
from operator import itemgetter
from typing import Any, Final

from aiosched.core.creation.run_keys import KeyRoom
from aiosched.core.graph.instances import StartTerms
from aiosched.core.graph.spec import RunKeySpec
from aiosched.core.run.board import Board, Run
from aiosched.core.values.states import RunState
from aiosched.db.statements.backfills import Backfill

MOST_KEY: Final = 2**63 - 1  # of a run

_Turn = tuple[Any, ...]  # ends with the run's key, which makes it unique


def _turn(run: Run) -> _Turn:
    """Where a run goes among those of its group that may start."""
    return run.backfill_order or 0, -run.priority, run.run_after, run.key


def _instant(run: Run) -> _Turn:
    """Where it goes among those that may not start yet."""
    return run.run_after, run.key


_Line = list[tuple[_Turn, Run]]  # sorted


class _Group:
    """The runs that share a limit: those that were found to be due, and the others by their instant.

    Due runs whose key had no room when they were looked at stand in `held`, so nobody looks at them again before it
    has (core/creation/run_keys.py).
    """

    def __init__(self) -> None:
        self.due: _Line = []
        self.later: _Line = []
        self.held: dict[str, _Line] = {}
        self.held_by: RunKeySpec | None = None

    def __iter__(self) -> Iterator[Run]:
        return (run for _, run in itertools.chain(self.due, self.later, *self.held.values()))

    def __len__(self) -> int:
        return len(self.due) + len(self.later) + sum(map(len, self.held.values()))


class QueuedRuns:
    """Queued runs by their group: the id of their backfill, None for runs of no backfill."""

    def __init__(self) -> None:
        self._groups: dict[int | None, _Group] = {}
        self._places: dict[int, tuple[Run, _Turn, _Line]] = {}  # by the run's key
        self._expiring: list[tuple[datetime, int]] = []  # until when these may start, and their keys; sorted

    def __len__(self) -> int:
        return len(self._places)

    def __iter__(self) -> Iterator[Run]:
        return (run for group in self._groups.values() for run in group)

    def find(self, key: int) -> Run | None:
        """The run with this key; None if it is not queued."""
        place = self._places.get(key)
        return None if place is None else place[0]

    def groups(self) -> KeysView[int | None]:
        """The groups that have a run."""
        return self._groups.keys()

    def count(self, group: int | None) -> int:
        """How many runs of a group are queued."""
        return len(self._groups.get(group, ()))

    def append(self, run: Run) -> None:
        """Add a run that is not queued yet."""
        self._put(run, _instant(run), self._groups.setdefault(run.backfill_id, _Group()).later)
        if run.expires_at is not None and not run.clear_number:  # a run that people let run again no longer expires
            bisect.insort(self._expiring, (run.expires_at, run.key))

    def _put(self, run: Run, turn: _Turn, line: _Line) -> None:
        bisect.insort(line, (turn, run))
        self._places[run.key] = run, turn, line

    def remove(self, run: Run) -> None:
        """Remove a run. Raises KeyError if it is not queued."""
        _, turn, line = self._places.pop(run.key)
        del line[bisect.bisect_left(line, (turn,))]  # a shorter tuple sorts first, so this is its position
        if not self._groups[run.backfill_id]:
            del self._groups[run.backfill_id]
        if run.expires_at is not None:
            place = bisect.bisect_left(self._expiring, (run.expires_at, run.key))
            if self._expiring[place : place + 1] == [(run.expires_at, run.key)]:
                del self._expiring[place]

    def move(self, run: Run, terms: StartTerms) -> None:
        """Let a run start on other terms. Raises KeyError if it is not queued."""
        self.remove(run)
        run.run_after, run.conf, run.priority, run.expires_at = terms
        self.append(run)

    def expired(self, now: datetime) -> list[Run]:
        """The runs that must not start any more, those that expired first in front."""
        over = self._expiring[: bisect.bisect_right(self._expiring, (now, MOST_KEY))]
        return [run for _, key in over if (run := self.find(key)) is not None]

    def next_expiry(self, now: datetime) -> datetime | None:
        """When the next one expires after `now`."""
        rest = bisect.bisect_right(self._expiring, (now, MOST_KEY))
        return self._expiring[rest][0] if rest < len(self._expiring) else None

    def first(self, group: int | None, most: int, now: datetime, keys: KeyRoom | None = None) -> list[Run]:
        """The first runs of a group: at most `most` that may start by `now`, and the earliest later one with them.

        Of those with a key no more than its room.
        """
        found = self._groups.get(group)
        if found is None or most <= 0:
            return []
        due = bisect.bisect_right(found.later, (now, MOST_KEY), key=itemgetter(0))
        for _, run in found.later[:due]:
            self._put(run, _turn(run), found.due)
        del found.later[:due]
        if keys is None and not found.held:
            return [run for _, run in (*found.due[:most], *found.later[:1])]
        self._let_go(found, keys)
        chosen = found.due[:most] if keys is None else self._with_room(found, most, keys.copy())
        return [run for _, run in (*chosen, *found.later[:1])]

    def _with_room(self, group: _Group, most: int, keys: KeyRoom) -> _Line:
        """The first due runs whose keys have room. Those before them that have none are held."""
        chosen, seen = _Line(), 0
        for turn, run in group.due:
            if len(chosen) == most:
                break
            seen += 1
            if (key := keys.held(run.conf)) is None:
                keys.take(run.conf)
                chosen.append((turn, run))
            else:
                self._put(run, turn, group.held.setdefault(key, []))
        group.due[:seen] = chosen
        return chosen

    def _let_go(self, group: _Group, keys: KeyRoom | None) -> None:
        """Let as many held runs be looked at again as there is room for; all of them under another limit."""
        spec = None if keys is None else keys.spec
        for key, line in list(group.held.items()):
            room = keys.left(key) if keys is not None and spec == group.held_by else len(line)
            for turn, run in line[: max(room, 0)]:
                self._put(run, turn, group.due)
            del line[: max(room, 0)]
            if not line:
                del group.held[key]
        group.held_by = spec


@dataclass(slots=True, eq=False)
class DagRuns:
    """What one DAG has not ended yet, by the key of the run or the id of the backfill."""

    queued: QueuedRuns = field(default_factory=QueuedRuns)  # runs that wait to start
    starting: set[int] = field(default_factory=set)  # runs whose rows are being read to start them
    running: dict[int, Board] = field(default_factory=dict)
    has_backfilled: bool = False  # whether a run of a backfill has been among them
    ending: dict[int, Board] = field(default_factory=dict)  # finished in memory, but not yet in the database
    unread: list[Run] = field(default_factory=list)  # unfinished, of versions that cannot be read: left alone
    backfills: dict[int, Backfill] = field(default_factory=dict)  # those that are not completed

    def run(self, board: Board) -> None:
        """Hold a running run."""
        self.running[board.run.key] = board
        self.has_backfilled |= board.run.backfill_id is not None

    def under_way(self) -> list[Run]:
        """The runs that are running as far as the database knows."""
        held = [board.run for board in (*self.running.values(), *self.ending.values())]
        return held + [run for run in self.unread if run.state is RunState.RUNNING]

    def active(self) -> int:
        """Queued and running runs that count for `max_active_runs` (14.3): backfills do not."""
        if self.has_backfilled or self.unread:
            return sum(run.backfill_id is None for run in self.under_way()) + self.queued.count(None)
        return len(self.running) + len(self.ending) + self.queued.count(None)

    def finished_backfills(self) -> list[Backfill]:
        """The backfills none of whose runs is queued, starting or running."""
        if self.starting:
            return []
        active = self.queued.groups() | {run.backfill_id for run in (*self.under_way(), *self.unread)}
        return [backfill for backfill in self.backfills.values() if backfill.id not in active]
