"""Which boards depend on which previous run, so that they are notified of its changes.

Does not live here: finding the previous run (partitions/previous_run.py), how a board uses it
(core/graph/previous_run.py).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

from aiosched.core.graph.previous_run import EarlierRuns
from aiosched.core.run.board import Board
from aiosched.core.values.states import FINISHED


@dataclass(slots=True)
class PreviousRunIndex:
    """The boards of a scheduler that depend on their previous run, by its key."""

    _of: dict[int, dict[Board, None]] = field(default_factory=dict)
    _before: dict[Board, int] = field(default_factory=dict)

    def add(self, board: Board, past: EarlierRuns, before: int | None) -> None:
        """Give `board` its past. `before` is the key of its previous run, None if there is none."""
        self.forget(board)
        board.set_past(past)
        if before is not None:
            self._before[board] = before
            self._of.setdefault(before, {})[board] = None

    def before(self, board: Board) -> int | None:
        """The key of the previous run of `board`; None if there is none, or it is not known (yet)."""
        return self._before.get(board)

    def forget(self, board: Board) -> None:
        """Remove a board and its past: it is no longer held, or its past is outdated."""
        board.set_past(None)
        before = self._before.pop(board, None)
        if before is not None:
            followers = self._of[before]
            del followers[board]
            if not followers:
                del self._of[before]

    def overtaken(self, boards: Iterable[Board], logical_date: datetime) -> bool:
        """A run with `logical_date` is new: forget the past of boards right after it. Returns whether any had one."""
        found = [
            board
            for board in boards
            if board.past is not None
            and board.run.logical_date is not None
            and board.run.logical_date > logical_date
            and (board.past.at is None or board.past.at < logical_date)
        ]
        return self._forget_all(found)

    def invalidate(self, run: int) -> bool:
        """The rows of a run that is not held have changed: forget its followers' past. Returns whether it has any."""
        return self._forget_all(list(self._of.get(run, ())))

    def _forget_all(self, boards: list[Board]) -> bool:
        for board in boards:
            self.forget(board)
        return bool(boards)

    def notify_followers(self, board: Board) -> list[Board]:
        """Notify the followers of `board` of its changes that are not collected yet; returns those to evaluate."""
        followers = self._of.get(board.run.key)
        if not followers:
            return []
        task_ids = board.graph.task_ids
        changed = {
            task_ids[i.task] for i in board.effects.rows.changed if i.state in FINISHED or i.stored_state in FINISHED
        }
        notified = []
        for follower in followers:
            past = follower.past
            if past is not None and past.previous is not board:
                follower.set_past(dataclasses.replace(past, previous=board))
            elif changed:
                follower.past_changed(changed)
            else:
                continue
            notified.append(follower)
        return notified
